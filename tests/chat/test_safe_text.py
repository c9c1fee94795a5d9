"""Text of others, without power over the terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.measure import seconds
from toolglot.chat.safe_text import SafeStream, make_safe, one_line
from toolglot.columns import width_of

CASES = {
    "plain text": ("Hello, you.", "Hello, you."),
    "lines stay lines": ("a\nb\r\nc", "a\nb\nc"),
    "a carriage return cannot overwrite a line": ("password: \rrm -rf", "password: rm -rf"),
    "colours": ("\x1b[31mred\x1b[0m", "red"),
    "movements of the cursor": ("\x1b[2J\x1b[1;1Hnew screen", "new screen"),
    "a title": ("\x1b]0;owned\x07text", "text"),
    "a link": ("\x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\", "text"),
    "the clipboard": ("\x1b]52;c;cm0gLXJm\x07x", "x"),
    "sequences in one character": ("\x9b31mred", "red"),
    "a terminal's answer is not asked for": ("\x1bPq#0\x1b\\x\x1b[c", "x"),
    "a string that begins inside of another ends it": ("\x90a\x9db\x9cc", "ac"),
    "a switch of the character set": ("\x1b(0lqqk\x1b(B", "lqqk"),
    "half a sequence": ("text\x1b", "text"),
    "bells and backspaces": ("a\x07\x08\x08b", "ab"),
    "overrides of direction": ("\u202etxt.exe\u202c \u2066a\u2069", "txt.exe a"),
    "marks that nobody sees": ("a\u200b\ufeffb\u00ad", "ab"),
    "other ends of lines": ("a\u2028b\u2029c\x0bd\x85e", "abcde"),
    "joined emoji": ("\U0001f469\u200d\U0001f4bb", "\U0001f469\u200d\U0001f4bb"),
    "tabs are spaces": ("a\tb", "a   b"),
    "halves of characters": ("a\ud800b", "ab"),
}


@pytest.mark.parametrize(("text", "shown"), CASES.values(), ids=CASES)
def test_what_is_left_of_a_text(text: str, shown: str) -> None:
    assert make_safe(text) == shown


def test_a_sequence_that_comes_in_pieces_goes_as_well() -> None:
    stream = SafeStream()
    assert [stream.feed(piece) for piece in ("a\x1b", "[3", "1", "mb\x1b]0;ti", "tle\x07c\r", "\nd")] == [
        "a",
        "",
        "",
        "b",
        "c",
        "\nd",
    ]
    assert stream.close() == ""


def test_a_sequence_without_an_end_is_not_waited_for_for_ever() -> None:
    stream = SafeStream()
    shown = stream.feed("\x1b]0;") + "".join(stream.feed("x" * 1000) for _ in range(10)) + stream.close()
    assert len(shown) >= 10_000
    assert "\x1b" not in shown


@given(st.text(alphabet=st.sampled_from("ab\x1b[]0;m\x07\\\r\n\x9b\x9d\x9c"), max_size=40), st.data())
def test_however_a_text_is_cut_nothing_that_acts_is_left(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    stream = SafeStream()
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    shown = "".join(map(stream.feed, pieces)) + stream.close()
    assert all(character == "\n" or unicodedata.category(character) != "Cc" for character in shown)


COSTLY = {
    "strings without an end": "\x90" * 40_000,
    "strings of all kinds": "\x1b]\x98\x9d\x9e\x9f" * 8_000,
    "one end for all": "\x90" * 40_000 + "\x1b",
    "movements without an end": "\x1b[0;" * 10_000,
    "movements in one character": "\x9b0 " * 13_000,
}


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY)
def test_sequences_without_an_end_take_linear_time(text: str) -> None:
    def stream() -> str:
        pieces = SafeStream()
        return "".join(pieces.feed(text[at : at + 4_000]) for at in range(0, len(text), 4_000)) + pieces.close()

    assert seconds(lambda: make_safe(text)) < 2
    assert seconds(stream) < 2


def test_one_line_is_short() -> None:
    assert one_line("a\n  b\tc") == "a b c"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


def test_wide_characters_take_two_columns_and_accents_none() -> None:
    assert (width_of("abc"), width_of("日本"), width_of("e\u0301")) == (3, 4, 1)
