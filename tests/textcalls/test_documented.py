"""The page on text calls lists every format as its record has it."""

from __future__ import annotations

from pathlib import Path

from toolglot.textcalls import FORMATS

PAGE = Path(__file__).parents[2] / "docs" / "text-calls.md"
ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "\\|", "`": "\\`", "[": "\\["}


def test_the_page_lists_the_formats_in_the_order_of_their_table() -> None:
    listed = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert listed == [
        f"| `{text_format.name}` | {''.join(ESCAPES.get(sign, sign) for sign in text_format.title)} |"
        for text_format in FORMATS.values()
    ]
