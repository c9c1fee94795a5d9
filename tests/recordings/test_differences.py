"""What differs between then and now, and where."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.recordings.differences import (
    MAX_DIFFERENCES,
    MISSING,
    Difference,
    compare_documents,
    compare_receipts,
    compare_streams,
    compare_values,
    format_value,
    frames,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"a": 1}, {"a": 2}, ["~ a: 1 -> 2"]),
        ({"a": 1}, {}, ["- a: 1"]),
        ({}, {"a": {"b": 1}}, ['+ a: {"b":1}']),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, ["~ a[0].b: 1 -> 2"]),
        ({"a": 1}, {"a": True}, ["~ a: 1 -> true"]),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": None}, {}, ["- a: null"]),
        ({"a b": 1}, {"a b": 2}, ['~ ["a b"]: 1 -> 2']),
        ({"a": [1]}, {"a": {"b": 1}}, ['~ a: [1] -> {"b":1}']),
        (1, 2, ["~ $: 1 -> 2"]),
    ],
)
def test_each_difference_has_its_path(then: Any, now: Any, expected: list[str]) -> None:
    assert [str(each) for each in compare_values(then, now)] == expected


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        ([1, 2, 3], [1, 9, 2, 3], ["+ [1]: 9"]),
        ([1, 2, 3], [1, 3], ["- [1]: 2"]),
        ([1, 2, 3], [1, 8, 3], ["~ [1]: 2 -> 8"]),
        ([1, 1], [1, 1, 1], ["+ [2]: 1"]),
        ([{"a": 1, "b": 2}, 5], [{"b": 2, "a": 1}, 6], ["~ [1]: 5 -> 6"]),
    ],
)
def test_one_element_more_is_one_difference(then: Any, now: Any, expected: list[str]) -> None:
    assert [str(each) for each in compare_values(then, now)] == expected


@given(VALUES, VALUES)
def test_nothing_differs_from_itself_and_whatever_differs_is_told(one: Any, other: Any) -> None:
    assert compare_values(one, one) == []
    there, back = compare_values(one, other), compare_values(other, one)
    assert bool(there) == bool(back)
    assert len(there) == len(back)


def test_of_long_texts_the_part_that_differs_is_told() -> None:
    (difference,) = compare_values("a" * 5000 + "X" + "b" * 5000, "a" * 5000 + "Y" + "b" * 5000)
    assert difference.then == "a" * 20 + "X" + "b" * 20
    assert difference.now == "a" * 20 + "Y" + "b" * 20
    assert difference.why == "character 5001"


def test_no_more_is_told_than_anybody_reads() -> None:
    assert len(compare_values([1] * 5000, [2] * 5000)) == MAX_DIFFERENCES
    assert len(format_value("x" * 5000)) == 101


def test_what_could_move_a_terminal_is_escaped() -> None:
    assert "\x1b" not in str(Difference("a\x1b[2J", "\x1b[2J", MISSING))


def test_what_is_no_json_is_compared_as_text() -> None:
    assert [str(each) for each in compare_documents(b"<a>", b"<b>")] == ['~ $: "<a>" -> "<b>"']
    assert compare_documents(b'{"a": 1}', b'{"a":1}') == []


def frame(text: str, event: str = "") -> bytes:
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        ([frame("1"), frame("2")], [frame("1"), frame("2")], []),
        ([frame('{"a":1}')], [frame('{"a":2}')], ["~ event 1.a: 1 -> 2"]),
        ([frame("1"), frame("2"), frame("3")], [frame("1"), frame("3")], ["- event 2: 2"]),
        ([frame("1", "x")], [frame("1", "y")], ['~ event 1 event: "x" -> "y"']),
        ([frame("[DONE]")], [frame("[OVER]")], ['~ event 1: "[DONE]" -> "[OVER]"']),
        ([frame("1"), b": alive\n\n", frame("2")], [frame("1"), frame("2")], []),
    ],
)
def test_streams_are_compared_event_by_event(then: list[bytes], now: list[bytes], expected: list[str]) -> None:
    found = compare_streams(b"".join(then), b"".join(now), b": alive\n\n")
    assert [str(each) for each in found] == expected


def test_other_bytes_for_the_same_values_are_told_too() -> None:
    (difference,) = compare_streams(frame('{"a": 1}'), frame('{"a":1}'))
    assert difference.why == "the same values, written differently"


def test_of_a_stream_that_was_cut_only_the_beginning_is_compared() -> None:
    whole = frame("1") + frame("2") + frame("3")
    assert compare_streams(whole[:-5], whole, begun=True) == []
    assert compare_streams(frame("1"), whole, begun=True) == []
    assert compare_streams(frame("1"), whole) != []


def test_blank_lines_are_no_events() -> None:
    assert frames(b"\n\n" + frame("1") + b"\n\n") == [frame("1")]


def test_of_receipts_the_lines_are_told_that_the_other_does_not_have() -> None:
    one = {"severity": "note", "where": "a", "what": "b", "why": "c"}
    other = {**one, "where": "z"}
    assert compare_receipts([one, other], [other, one]) == []
    assert [each.kind for each in compare_receipts([one], [other])] == ["removed", "added"]
    hidden = {**one, "where": "[redacted]", "what": "b [redacted]"}
    assert compare_receipts([hidden, one], [{**one, "where": "y", "what": "b c"}, one]) == []
    assert [each.kind for each in compare_receipts([hidden], [other])] == ["removed", "added"]


def test_a_difference_is_told_as_json() -> None:
    assert Difference("a", MISSING, 1).to_json() == {"path": "a", "kind": "added", "now": 1}
    changed = {"path": "a", "kind": "changed", "then": 1, "now": None, "why": "so"}
    assert Difference("a", 1, None, "so").to_json() == changed
