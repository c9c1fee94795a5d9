"""Markdown on a terminal, however it arrives."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.measure import seconds
from toolglot.chat.render import CODES, RESET, MarkdownRenderer

CODE = re.compile(r"\x1b\[([0-9;]*)m")
NAMES = {code: name for name, code in CODES.items()}


def tagged(text: str) -> str:
    """The terminal's text with its styles as tags, which can be read."""
    opened: list[str] = []

    def tag(match: re.Match[str]) -> str:
        if match[0] == RESET:
            return f"</{opened.pop()}>"
        opened.append("+".join(NAMES[code] for code in match[1].split(";")))
        return f"<{opened[-1]}>"

    return CODE.sub(tag, text)


def rendered(text: str, *, width: int | None = None, colour: bool = True) -> str:
    renderer = MarkdownRenderer(width=width, colour=colour)
    return tagged(renderer.feed(text) + renderer.close())


CASES = {
    "plain": ("Hello, you.", "Hello, you.\n"),
    "bold": ("a **b c** d", "a <bold>b</bold> <bold>c</bold> d\n"),
    "italic": ("a *b* _c_", "a <italic>b</italic> <italic>c</italic>\n"),
    "both": ("***b***", "<bold+italic>b</bold+italic>\n"),
    "struck": ("~~no~~", "<strike>no</strike>\n"),
    "inside of each other": ("**a `b` c**", "<bold>a</bold> <bold+code>b</bold+code> <bold>c</bold>\n"),
    "code": ("use `x = *a*` now", "use <code>x = *a*</code> now\n"),
    "code with ticks": ("`` a`b ``", "<code>a`b</code>\n"),
    "names with underscores": ("snake_case_name __init__", "snake_case_name <bold>init</bold>\n"),
    "stars that mean themselves": ("2 * 3 ** 4 *args", "2 * 3 ** 4 *args\n"),
    "an open mark": ("**a and no end", "**a and no end\n"),
    "escaped": (r"\*a\* \n", "*a* \\n\n"),
    "a link": ("see [docs](https://x.y/z)", "see <link>docs</link><faint> (https://x.y/z)</faint>\n"),
    "brackets": ("a[0] [x] [y](", "a[0] [x] [y](\n"),
    "a heading": ("## Title *x*", "<bold+heading>Title</bold+heading> <bold+heading+italic>x</bold+heading+italic>\n"),
    "a number sign": ("#tag", "#tag\n"),
    "items": ("- a\n* b\n+ c\n  - d", "• a\n• b\n• c\n  • d\n"),
    "numbers": ("1. a\n10) b\n3.5 c", "1. a\n10) b\n3.5 c\n"),
    "a quote": ("> said **so**", "<faint>│ </faint><faint>said</faint> <faint+bold>so</faint+bold>\n"),
    "a rule": ("---", f"<faint>{'─' * 40}</faint>\n"),
    "empty lines": ("a\n\n\nb\n", "a\n\n\nb\n"),
    "a fence": ("```py\nx = **1**\n\n```\nafter", "<faint>  py</faint>\n  <code>x = **1**</code>\n  \nafter\n"),
    "a fence inside of a longer one": ("````\n```\n````", "  <code>```</code>\n"),
    "a fence without an end": ("~~~\na", "  <code>a</code>\n"),
    "a table": (
        "| a | **b** |\n|---|:-:|\n| long cell | c |\nend",
        "<bold>a</bold>          <bold>b</bold>\n<faint>─────────  ─</faint>\nlong cell  c\nend\n",
    ),
    "a lone row": ("| a | b |", "a  b\n"),
    "indented text": ("   text", "   text\n"),
}


@pytest.mark.parametrize(("text", "shown"), CASES.values(), ids=CASES)
def test_how_markdown_looks(text: str, shown: str) -> None:
    assert rendered(text) == shown


@pytest.mark.parametrize(("text", "shown"), CASES.values(), ids=CASES)
def test_letter_by_letter_it_looks_the_same(text: str, shown: str) -> None:
    renderer = MarkdownRenderer()
    assert tagged("".join(map(renderer.feed, text)) + renderer.close()) == shown


marked = st.text(alphabet=st.sampled_from("ab \n*_`~#->|[](). \\1"), max_size=60)


@given(marked, st.data())
def test_however_it_is_cut_it_looks_the_same(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    for colour, width in ((True, None), (True, 20), (False, 20), (False, None)):
        whole, pieces = MarkdownRenderer(width=width, colour=colour), MarkdownRenderer(width=width, colour=colour)
        expected = whole.feed(text) + whole.close()
        parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert "".join(map(pieces.feed, parts)) + pieces.close() == expected


@given(st.text(max_size=80))
def test_without_colour_and_width_the_text_is_as_it_stands(text: str) -> None:
    shown = rendered(text, colour=False)
    assert "\x1b" not in shown
    if text.isprintable() and text:
        assert "".join(shown.split()) == "".join(c for c in text if not c.isspace()) or not text.isascii()


def test_what_is_certain_is_shown_at_once() -> None:
    renderer = MarkdownRenderer()
    assert renderer.feed("Some words ") == "Some words"
    assert renderer.feed("and **bo") == " and"
    assert renderer.feed("ld** ") == f" \x1b[1mbold{RESET}"
    assert renderer.feed("x\n") == " x\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one two three four five six seven", "one two three four\nfive six seven\n"),
        ("- one two three four five six", "• one two three four\n  five six\n"),
        ("a 日本語日本語日本語 b", "a 日本語日本語日本語\nb\n"),
        ("x" * 50 + " y", "x" * 50 + "\ny\n"),
    ],
)
def test_lines_are_broken_between_words(text: str, shown: str) -> None:
    assert rendered(text, width=20) == shown


def test_a_text_of_others_cannot_repaint_the_screen() -> None:
    shown = rendered("safe\x1b[2J\x1b[Hhere `\x1b]0;x\x07code`")
    assert shown == "safehere <code>code</code>\n"


@pytest.mark.parametrize(
    "text", ["*a ", "`a", "[", "[a", "a*", "**a**", "_a_", "| a ", "- - ", "\\", "\\*", "> ", "a", "\x90", "\x1b]"]
)
def test_long_lines_take_linear_time_letter_by_letter(text: str) -> None:
    def render() -> None:
        renderer = MarkdownRenderer(width=80)
        for letter in text * (40_000 // len(text)):
            renderer.feed(letter)
        renderer.close()

    assert seconds(render) < 3


def test_a_long_word_is_shown_while_it_grows() -> None:
    renderer = MarkdownRenderer()
    shown = "".join(renderer.feed("x") for _ in range(200))
    assert len(shown) >= 80
    assert shown + renderer.close() == "x" * 200 + "\n"
