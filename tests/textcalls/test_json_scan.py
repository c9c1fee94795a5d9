"""Tokens of a JSON value that are read in bulk."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from toolglot.textcalls.json_scan import JsonScan

PIECES = st.sampled_from(["[", "]", "{", "}", ",", '"', "1", '"a"', '"a":', "[]", '["b"]', '{"k":1}', '"x","y",'])


def read_whole(text: str) -> tuple[bool, bool, str]:
    scan = JsonScan()
    scan.read(text, 0)
    return scan.done, scan.bad, scan.take()


def read_by_character(text: str) -> tuple[bool, bool, str]:
    """The same with pieces that are too short for bulk."""
    scan, rest = JsonScan(), ""
    for character in text:
        rest += character
        rest = rest[scan.read(rest, 0) :]
        if scan.done or scan.bad:
            break
    return scan.done, scan.bad, scan.take()


@given(st.lists(PIECES, max_size=60).map("".join))
@example('{"a":"b","c"')
@example('[[[[[[[[[["a"]]]]]]]]]]')
def test_what_reads_in_bulk_is_what_reads_character_by_character(text: str) -> None:
    text = f"[{json.dumps('x' * 100)},{text}]"
    assert read_whole(text) == read_by_character(text)


@given(
    st.recursive(st.integers() | st.text(max_size=3), lambda each: st.lists(each) | st.dictionaries(st.text(), each))
)
def test_every_json_value_reads_in_bulk(value: object) -> None:
    text = json.dumps([value, "x" * 100, value])
    done, bad, out = read_whole(text)
    assert (done, bad) == (True, False)
    assert json.loads(out) == json.loads(text)
