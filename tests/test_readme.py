"""The README's promise: first success in a minute, and every way it names to go on."""

from __future__ import annotations

from tests.docs.markdown import ROOT, blocks

README = ROOT / "README.md"


def test_the_first_command_is_make_demo() -> None:
    first = next(block for block in blocks(README) if block.language == "bash")
    assert first.commands[-1] == "make demo"


def test_it_shows_the_command_line_and_the_library() -> None:
    languages = [block.language for block in blocks(README) if not block.is_set_up]
    assert "bash" in languages
    assert "python" in languages


def test_it_names_every_page_of_the_documentation() -> None:
    text = README.read_text()
    for page in sorted((ROOT / "docs").glob("*.md")):
        assert f"(docs/{page.name})" in text


def test_it_is_short() -> None:
    assert len(README.read_text().splitlines()) < 150
