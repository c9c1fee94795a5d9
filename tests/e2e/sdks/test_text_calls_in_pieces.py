"""A long argument of a call that is written as text reaches the client in pieces, while the model is still at it."""

from __future__ import annotations

import json

import pytest

from tests.e2e.gateway import Gateways
from toolglot.textcalls.prompts.render import PROMPTS

from .pieces import PIECES, Tools
from .script import Wish
from .test_text_calls import KINDS

NOTE = "first the umbrella, and then the \\ boots: " + " ".join(f"{number} €" for number in range(100))
PROMPT = f'Store a note with the text "{NOTE}"'
TOOLS: Tools = [
    (
        "store_note",
        "Store a note.",
        {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    )
]
ENOUGH = 20
"""Pieces of the argument, at least: it has hundreds of characters."""
WHOLE_VALUES = {"continue_codeblock"}
"""Formats whose values are JSON or plain text, which only the end of a value tells."""


PAIRS = [
    *(("openai_chat", text_format) for text_format in PROMPTS),
    *((client, text_format) for client in ("openai_responses", "anthropic") for text_format in KINDS),
]


@pytest.mark.parametrize(("client", "text_format"), PAIRS)
def test_a_long_argument_comes_in_pieces(gateways: Gateways, client: str, text_format: str) -> None:
    wish = Wish(model=f"demo-text-{text_format}", prompt=PROMPT)
    pieces = PIECES[client](gateways.to("openai_chat").base_url, wish, TOOLS)
    assert json.loads("".join(pieces)) == {"text": NOTE}
    assert len(pieces) >= (2 if text_format in WHOLE_VALUES else ENOUGH)
