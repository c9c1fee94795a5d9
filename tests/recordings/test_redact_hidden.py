"""Secrets that somebody has hidden in a text, and patterns that match over more than one value of a document."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from textwrap import wrap
from time import process_time
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from toolglot.recordings.linear_regex import LinearPattern
from toolglot.recordings.redact import MAX_HELD_LINE, REDACTED, Redactor

KEY = "sk-proj-A1b2C3d4E5f6G7h8"


def _unicode(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


def _percent(text: str) -> str:
    return "".join(f"%{ord(character):02X}" for character in text)


HIDDEN: dict[str, str] = {
    "each character as JSON escapes it": _unicode(KEY),
    "in capital digits": _unicode(KEY).replace("a", "A").replace("d", "D"),
    "one digit": KEY.replace("3", "\\u0033"),
    "one letter": KEY.replace("p", "%70", 1),
    "each character as addresses escape it": _percent(KEY),
    "and once more": quote(_percent(KEY)),
    "in JSON in JSON": json.dumps(_unicode(KEY))[1:-1],
    "what escapes begin with, escaped": _unicode(KEY).replace("\\u0070", "\\u005cu0070"),
    "percent signs, escaped": _percent(KEY).replace("%", "\\u0025"),
    "its base64": _unicode(b64encode(KEY.encode()).decode()),
}


@pytest.mark.parametrize("form", HIDDEN)
def test_a_secret_is_redacted_whatever_of_it_is_escaped(form: str) -> None:
    redacted = json.loads(Redactor([KEY]).body(f'{{"x":"{HIDDEN[form]}"}}'.encode()))
    assert redacted in ({"x": REDACTED}, {"x": b64encode(b"[redacted]**************").decode()})


@pytest.mark.parametrize("before", range(0, 120, 7))
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n  "])
def test_a_secret_in_base64_of_several_lines_is_redacted(before: int, end: str) -> None:
    plain = b"x" * before + KEY.encode() + b"yyyy"
    text = end.join(wrap(b64encode(plain).decode(), 76))
    redacted = json.loads(Redactor([KEY]).body(json.dumps({"x": text}).encode()))["x"]
    decoded = b64decode("".join(redacted.split()))
    assert KEY.encode() not in decoded
    assert (len(decoded), decoded[:before], decoded[-4:]) == (len(plain), b"x" * before, b"yyyy")


def test_lines_of_words_are_no_base64() -> None:
    text = "internationalization\nand-a-word-of-some-length\nwrapped\n"
    assert Redactor([KEY]).text(text) == text


def test_a_text_in_which_nothing_is_hidden_costs_no_view(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_views(text: str) -> Any:
        raise AssertionError(text)

    monkeypatch.setattr("toolglot.recordings.redact.all_views", no_views)
    body = json.dumps({"x": 'a line of "code", 50% of it\n\\ and é <b>' * 10}).replace("<", "\\u003c")
    assert Redactor([KEY, "other-key-1"]).body(body.encode()).decode() == body


def test_time_grows_with_the_text_where_everything_is_escaped() -> None:
    redactor = Redactor([KEY, *(f"sk-{number:02}-abcdefgh" for number in range(10))])

    def taken(size: int) -> float:
        body = (_unicode("sk-") + "%25%41" + "QUJDQUJDQUJDQUJDQUJD\\n").encode() * size
        began = process_time()
        redactor.body(body)
        return process_time() - began

    taken(10)
    assert taken(8_000) < 12 * max(taken(2_000), 0.02)


OVER_VALUES: list[tuple[str, Any, Any]] = [
    (
        r"-?[0-9]+\.[0-9]+, ?-?[0-9]+\.[0-9]+",
        {"at": [48.8566, -2.35], "say": "at 48.8566, 2.3522"},
        {"at": [99.9999, -9.99], "say": "at 99.9999, 9.9999"},
    ),
    (r"[0-9]+\}", {"a": {"b": 12}}, {"a": {"b": 99}}),
    (r"b.*c", ["a b", True, 1.5e300, "c d"], ["a [redacted]", True, 9.9e0, "[redacted] d"]),
    (r"[^x]+", {"a": [False, None, -1]}, {REDACTED: [False, None, -9]}),
    (r"1\W+t\w", [1, True], [9, True]),
]


@pytest.mark.parametrize(("pattern", "document", "told"), OVER_VALUES)
@pytest.mark.parametrize("form", ["alone", "in lines", "as an event", "as a part of an event"])
def test_what_a_pattern_matches_over_several_values_leaves_a_document_one(
    pattern: str, document: Any, told: Any, form: str
) -> None:
    written = json.dumps(document, indent=1 if form == "in lines" else None)
    begins = {"as an event": "event: y\ndata: ", "as a part of an event": ': "\n\ndata:'}.get(form, "")
    redacted = Redactor(finders=[LinearPattern(pattern).find]).body(f"{begins}{written}\n".encode()).decode()
    _, data, payload = redacted.rpartition("data:")
    assert bool(data) == bool(begins)
    read = json.loads(payload if data else redacted)
    assert read == told or form == "in lines"


@pytest.mark.parametrize("before", [MAX_HELD_LINE - 20, MAX_HELD_LINE + 3, 2 * MAX_HELD_LINE])
@pytest.mark.parametrize("make", [lambda text: [text, 48.5, 2.25], lambda text: [text + '\\"', 48.5, 2.25]])
def test_a_document_stays_one_where_its_line_is_too_long_to_be_held(before: int, make: Callable[[str], Any]) -> None:
    written = json.dumps([make("é" * before), make("x, 1.5, 2.5"), make("y" * MAX_HELD_LINE)]).encode()
    redactor = Redactor(finders=[LinearPattern(r"[0-9.]+, [0-9.]+").find])
    redacted = json.loads(redactor.body(written))
    assert [each[1:] for each in redacted] == [[99.9, 9.99]] * 3
    assert redacted[1][0].startswith("x, 9.9, 9.9")


WIDE = [LinearPattern(text) for text in (r"[\s\S]{5}", r"\w+:\w*", r"[^a]+", r"\[.*?\]", r".{3,9}1", r"[0-9]\W+[a-z]")]


@given(
    document=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.dictionaries(st.text(), inner) | st.lists(inner),
    ),
    pattern=st.sampled_from(WIDE),
    start=st.integers(0, 200),
)
@examples(3)
def test_no_pattern_and_no_secret_break_a_document(document: Any, pattern: LinearPattern, start: int) -> None:
    text = json.dumps([document, {"k": 12.5, "l": [True, None]}])
    json.loads(Redactor([text[start : start + 9]], [pattern.find]).body(text.encode()))
