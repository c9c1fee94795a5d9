"""JSON, read strictly: every refusal says where."""

from __future__ import annotations

import itertools
import json as standard
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.dialects.openai_chat.call_matching import ObjectScanner
from toolglot.errors import DecodeError
from toolglot.wire import json

# bytes, where, what
REFUSED: list[tuple[bytes, str, str]] = [
    (b"", "$", "the input is empty"),
    (b'{"a":{"b":[1,2', "$.a.b[1]", "truncated"),
    (b'{"a":[{"b":NaN}]}', "$.a[0].b", "invalid character"),
    (b'{"a":Infinity}', "$.a", "invalid character"),
    (b'{"a":"\xff"}', "$.a", "invalid UTF-8"),
    (b'{"a":"\xed\xa0\x80"}', "$.a", "invalid UTF-8"),
    (b'{"a":["x","\\ud800"]}', "$.a[1]", "lone surrogate"),
    (b'{"a":"\\ud83d\\ude00","b":"\\udc00"}', "$.b", "lone surrogate"),
    (b'{"a":"\\udc00"}', "$.a", "lone surrogate at byte 6"),
    (b'["\\ud83d\\ude00\\ude00"]', "$[0]", "lone surrogate at byte 14"),
    (b'["\\ud83d\\ud83d\\ude00"]', "$[0]", "lone surrogate at byte 2"),
    (b'["\\\\ud800","\\\\\\ud800"]', "$[1]", "lone surrogate at byte 14"),
    (b'{"a":1e999}', "$", "out of range"),
    (b'{"a":1,"b":2,"a":3}', "$.a", "repeated"),
    (b'{"m":[{"x":1},{"y":{"k":1,"\\u006b":2}}]}', "$.m[1].y.k", "repeated"),
    (b"[" * 10_000 + b"]" * 10_000, "$", "nested too deeply"),
    (b'{"a":' * 10_000, "$", "nested too deeply"),
    (b'{"a": 1} x', "$", "trailing"),
    (b"\xef\xbb\xbf{}", "$", "invalid"),
]


@pytest.mark.parametrize(("data", "where", "what"), REFUSED, ids=[repr(case[0][:30]) for case in REFUSED])
def test_what_cannot_be_relied_on_is_refused_with_its_path(data: bytes, where: str, what: str) -> None:
    with pytest.raises(DecodeError) as refused:
        json.decode(data)
    assert what in refused.value.what
    if where != "$":
        assert refused.value.where == where


def test_a_document_past_the_limit_is_refused_unread() -> None:
    with pytest.raises(DecodeError, match="more than the limit"):
        json.decode(b'"' + b"x" * 100 + b'"', limit=50)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_every_legal_document_is_read_as_the_standard_library_reads_it(value: Any, ascii_: bool, indent: Any) -> None:
    data = standard.dumps(value, ensure_ascii=ascii_, indent=indent)
    try:
        raw = data.encode()
    except UnicodeEncodeError:  # a lone surrogate: not a legal document
        return
    try:
        read = json.decode(raw)
    except DecodeError as error:
        assert "surrogate" in error.what
        return
    assert read == standard.loads(data)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", b"{}"),
        (" \n", b"{}"),
        ('{"a":1.0,"b":1e5,"a":2}', b'{"a":1.0,"b":1e5,"a":2}'),
        ('{\n  "a": 1.50\n}', b'{"a":1.50}'),
        ('{"a"', None),
        ("[1]", None),
        ("5", None),
        ("{'a':1}", None),
    ],
)
def test_arguments_are_spliced_as_written_or_not_at_all(text: str, written: bytes | None) -> None:
    raw = json.object_of(text)
    assert (bytes(raw) if raw is not None else None) == written


def test_one_member_is_replaced_and_the_others_stay_as_written() -> None:
    assert json.replace_member(b'{"model":"a","x": [1.0,  2]}', "model", "b") == b'{"model":"b","x": [1.0,  2]}'


@pytest.mark.parametrize(
    ("raw", "replaced"),
    [
        (b' { "x" : {"model": "a"} ,\n"model" : "a" } ', b' { "x" : {"model": "a"} ,\n"model" : "bc" } '),
        (b'{"x":"\\"model\\":\\"a\\"","model":"a"}', b'{"x":"\\"model\\":\\"a\\"","model":"bc"}'),
        (b'{"y\\"model":"a","model":"a"}', b'{"y\\"model":"a","model":"bc"}'),
        (b'{"model":"\\u0061","x":1}', b'{"model":"bc","x":1}'),
        (b'{"mod\\u0065l":"a", "x":1}', b'{"model":"bc","x":1}'),
        (b'{"x":[%b],"model":"a"}' % b",".join([b'{"model":"a"}'] * 50), None),  # too many to look at each
        (b'{"x":1}', b'{"x":1,"model":"bc"}'),
        (b"{}", b'{"model":"bc"}'),
    ],
)
def test_the_member_that_is_replaced_is_the_objects_own(raw: bytes, replaced: bytes | None) -> None:
    if replaced is None:
        replaced = raw.removesuffix(b'"a"}') + b'"bc"}'
    assert json.replace_member(raw, "model", "bc") == replaced


def test_a_member_deeper_down_is_replaced_where_it_stands() -> None:
    raw = b'{ "type": "x",  "message": { "id":1, "model" : "a" }, "model": 7 }'
    assert json.replace_at(raw, ("message", "model"), "b") == raw.replace(b'"a"', b'"b"')
    assert json.replace_at(raw, ("response", "model"), "b") == raw
    assert json.replace_at(raw, ("type", "model"), "b") == raw


@given(st.dictionaries(st.text(), VALUES, max_size=4), st.lists(st.integers(0, 400), max_size=6))
def test_a_whole_object_is_known_exactly_when_its_last_brace_has_come(value: Any, cuts: list[int]) -> None:
    text = standard.dumps(value, ensure_ascii=False)
    edges = [0, *sorted({min(cut, len(text) - 1) for cut in cuts}), len(text) - 1]
    scanner = ObjectScanner()
    for start, end in itertools.pairwise(edges):
        scanner.feed(text[start:end])
        assert not scanner.whole
    scanner.feed(text[-1])
    assert scanner.whole


@pytest.mark.parametrize("text", ["", "  ", "5", '"{}"', "[{}]", "{", '{"a":"}"'])
def test_an_incomplete_object_is_not_whole(text: str) -> None:
    scanner = ObjectScanner()
    scanner.feed(text)
    assert not scanner.whole
