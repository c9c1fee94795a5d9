"""What a large document costs: little, whatever is wrong with it. The bounds are many times what is needed."""

from __future__ import annotations

import json as standard
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.errors import DecodeError
from toolglot.wire import incremental_json, json

SECONDS = 1.0
MANY = 400_000
QUOTES = 300_000

# name: bytes, where, what. Each took seconds or minutes where the search for the place was not bounded.
LARGE: dict[str, tuple[bytes, str, str]] = {
    "a bad end": (b'{"a":[' + b"{},0,0," * MANY + b"!", "$", f"(byte {7 * MANY + 6})"),
    "a duplicate at the end": (b'{"a": [' + b'{"a":1},' * MANY + b'{"a":1,"a":2}]}', "$", "repeated"),
    "a colon that is written differently": (
        b'["\\u003a",' + b'{"a":1},' * MANY + b'{"a":1,"a":2}]',
        "$",
        "repeated",
    ),
    "bad UTF-8 at the end": (b"[" + b'"","",' * MANY + b'"\xff"]', "$", f"byte {6 * MANY + 2}"),
    "a surrogate at the end": (b"[" + b'"","",' * MANY + b'"\\ud800"]', "$", f"byte {6 * MANY + 2}"),
    "backslashes without an end": (b'["' + b"\\\\" * MANY, "$[0]", "truncated"),
    "a number at the end": (b"[" + b"1,2,3," * MANY + b"1e999]", "$", "out of range"),
    "too many arrays": (b"[" + b'{"a":[]},' * (MANY // 4 * 3) + b"1]", "$", "more than 500000 objects and arrays"),
    "a million members": (
        b"{" + b",".join(b'"k%d":1' % number for number in range(1_000_000)) + b"}",
        "$",
        "more than 500000 members",
    ),
    "members in many objects": (
        b"[" + b'{"a":1,"b":2,"c":3,"d":4},' * 130_000 + b"1]",
        "$",
        "more than 500000 members",
    ),
    "six million numbers": (b"[" + b"1," * 6_000_000 + b"1]", "$", "more than 2000000 values"),
    "brackets and a text without an end": (b"[" * MANY * 2 + b'"' + b'\\"' * QUOTES, "$", "nested too deeply"),
    "brackets in a text without an end": (b'["' + b"[" * MANY * 2 + b'\\"' * QUOTES, "$[0]", "truncated"),
}


@pytest.mark.parametrize("case", LARGE)
def test_an_error_in_a_large_document_is_found_without_much_work(case: str) -> None:
    raw, where, what = LARGE[case]
    before = process_time()
    with pytest.raises(DecodeError) as refused:
        json.decode(raw)
    spent = process_time() - before
    assert refused.value.where == where
    assert what in refused.value.what
    assert spent < SECONDS


@pytest.mark.parametrize(
    ("tail", "what"),
    [
        (b'"b":[1,NaN]}', "invalid character"),
        (b'"b":[1,"\xff"]}', "invalid UTF-8"),
        (b'"b":[1,1e999]}', "out of range"),
        (b'"b":[1,{"c":1,"c":2}]}', "repeated"),
    ],
)
def test_bytes_alone_do_not_hide_a_place(tail: bytes, what: str) -> None:
    with pytest.raises(DecodeError, match=what) as refused:
        json.decode(b'{"image":"' + b"A" * 10_000_000 + b'",' + tail)
    assert refused.value.where.startswith("$.b[1]")


def test_marks_in_texts_are_no_values() -> None:
    text = '{"[\\:,' * 700_000
    assert json.decode(standard.dumps([text]).encode()) == [text]


@pytest.mark.parametrize("cut", range(6))
def test_values_are_counted_in_slices_cut_anywhere(cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Escapes and quotes stand on both sides of a cut."""
    monkeypatch.setattr(incremental_json, "SLICE", 1000)
    text = standard.dumps(["a" * cut, *['{[:,"\\' * (number % 7) for number in range(2000)]])
    bare = b"".join(json._without_strings(text.encode()))
    assert bare == b"[" + b", " * 2000 + b"]"


def test_an_answer_may_have_more_values_than_a_request() -> None:
    """Log probabilities are many: 4,000 tokens with 20 alternatives each."""
    raw = standard.dumps([{"top": [{"token": "a", "logprob": -1.5, "bytes": [97]}] * 21}] * 8_000).encode()
    with pytest.raises(DecodeError, match="more than 500000 members"):
        json.decode(raw)
    assert len(json.decode_answer(raw)) == 8_000


def _written(draw: st.DrawFn, text: str) -> str:
    """A string literal, some of its characters as escapes."""
    escaped = [draw(st.booleans()) or character in '"\\' for character in text]
    form = draw(st.sampled_from(["\\u{:04x}", "\\u{:04X}"]))
    short = {"\\": "\\\\", '"': '\\"'} if draw(st.booleans()) else {}
    pairs = zip(text, escaped, strict=True)
    return '"' + "".join(short.get(one, form.format(ord(one))) if late else one for one, late in pairs) + '"'


@st.composite
def documents(draw: st.DrawFn, depth: int = 2) -> str:
    texts = st.text(alphabet=':\\"u03aA{', max_size=3)
    members = [
        f"{_written(draw, draw(texts))}: "
        + (draw(documents(depth - 1)) if depth and draw(st.booleans()) else _written(draw, draw(texts)))
        for _ in range(draw(st.integers(0, 3)))
    ]
    return "{" + ", ".join(members) + "}"


class _TwiceError(Exception):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise _TwiceError
    return dict(pairs)


@given(documents())
def test_a_repeated_key_is_found_in_any_spelling(document: str) -> None:
    try:
        expected = standard.loads(document, object_pairs_hook=_once)
    except _TwiceError:
        with pytest.raises(DecodeError, match="this key is repeated"):
            json.decode(document)
    else:
        assert json.decode(document) == expected
