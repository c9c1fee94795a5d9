"""The work for one answer is bounded by its length; what is above that is passed on as text, and told."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import pytest
from bench.hostile_text import TOOLS, Case, cases
from hypothesis import given
from hypothesis import strategies as st

from toolglot.textcalls import AUTO, Engine, find_format
from toolglot.textcalls import events as call_events
from toolglot.textcalls.events import CHARACTERS_PER_STEP, FREE_STEPS, MAX_VALUES, PAUSE_CHARS, CallEvent
from toolglot.textcalls.json_scan import MAX_PARTS, MIN_BULK, JsonScan
from toolglot.textcalls.marks import MarkSet, mark_set

SCHEMAS: dict[str, Any] = {tool.name: tool.parameters for tool in TOOLS}
CALL = '<tool_call>{"name": "write_file", "arguments": {"content": "x"}}</tool_call>'
FLOOD = "<tool_call>{\n"
"""A mark that opens no call."""
FLOODS = FREE_STEPS

SCALE = 2
"""The budget is so many times smaller where lines are counted, which takes long."""
SIZE = 60_000 // SCALE
"""Characters: the free steps and values are used up within them."""
MOST_LINES = 16
"""Lines of Python that are run for one character more; 0.3 microseconds are about 20 of them."""
MOST_AT_ONCE = 20 * 2 * SIZE


def read(name: str, text: str, size: int = sys.maxsize) -> list[CallEvent]:
    engine = Engine(find_format(name), SCHEMAS)
    pieces = [text[at : at + size] for at in range(0, len(text), min(size, len(text)))]
    events = [event for piece in pieces for event in engine.feed(piece)]
    return [*events, *engine.finish()]


def lines_run(case: Case, size: int) -> int:
    """The lines of Python that reading a text of this size takes: the same on each machine, however busy it is."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return note

    text, before = case.text(size), sys.gettrace()
    sys.settrace(note)
    try:
        read(case.format, text)
    finally:
        sys.settrace(before)
    return count


COSTLY = frozenset(
    (
        *("{", "[\n", "\n[", "`", "```{", "<tool_call>{", "\n<tool_use>", "\n</s>", "</response>", "\n<invoke", "<"),
        *(
            "1,",
            '"x\n",',
            "[[]],",
            "(1),",
            '"a"b",',
            "\n",
            '""',
            '\\"',
            '"",',
            "[[[[[[1]]]]]],",
            '{"a":{"b":{"c":{"d":1}}}},',
        ),
        *("\\0", "\\N{LF}", "\\x41"),
    )
)
"""What took the most time before there was a bound, of each kind."""


def costly() -> Iterator[Case]:
    for name in (AUTO, "generic_json", "hermes_json", "pythonic", "glm45", "gemma4", "mistral"):
        chosen = [case for case in cases(name) if case.unit in COSTLY]
        yield from {(case.unit, case.head): case for case in chosen}.values()


@pytest.mark.parametrize("case", [*costly()], ids=lambda case: f"{case.format} {case.head!r} {case.unit!r}")
def test_reading_a_character_costs_little_whatever_the_text(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FREE_STEPS", "MAX_VALUES", "PAUSE_CHARS"):
        monkeypatch.setattr(call_events, name, getattr(call_events, name) // SCALE)
    half, whole = lines_run(case, SIZE), lines_run(case, 2 * SIZE)
    assert whole - half < MOST_LINES * SIZE
    assert whole < MOST_AT_ONCE


@pytest.mark.parametrize("unit", ["1,", "[],", '"",', '{"a":1},', "12 , "])
def test_values_that_come_in_small_pieces_are_kept_in_few_parts(unit: str) -> None:
    """What is kept back until more is known grows with the text: it is not copied for each piece of it."""

    def kept(size: int) -> int:
        scan, rest = JsonScan(), ""
        text = ("[" + unit * size)[:size]
        for start in range(0, size, 16):
            rest += text[start : start + 16]
            rest = rest[scan.read(rest, 0) :]
            scan.take()
        assert not scan.bad
        return len(scan._kept)

    assert kept(200_000) <= MAX_PARTS + 200_000 // MAX_PARTS + 1


def text_of(events: Sequence[CallEvent]) -> str:
    return "".join(event[1] for event in events if event[0] == "text")


def test_marks_above_the_budget_are_text_and_told_once() -> None:
    flood = FLOOD * FLOODS
    events = read("hermes_json", flood + CALL)
    assert [event for event in events if event[0] == "unread"] == [("unread", "hermes_json")]
    assert text_of(events) == flood + CALL


def test_calls_are_read_again_once_enough_text_has_passed() -> None:
    flood = FLOOD * FLOODS
    prose = "All is well. " * (FLOODS * 8 * CHARACTERS_PER_STEP // 13)
    events = read("hermes_json", flood + prose + CALL)
    assert text_of(events) == flood + prose
    assert [event for event in events if event[0] in ("start", "end")] == [("start", 0, "write_file"), ("end", 0)]


def test_an_answer_may_hold_hundreds_of_calls() -> None:
    events = read("hermes_json", CALL * 500)
    assert sum(event[0] == "end" for event in events) == 500
    assert not any(event[0] == "unread" for event in events)


@pytest.mark.parametrize("name", ["hermes_json", "generic_json", AUTO])
@pytest.mark.parametrize("unit", [FLOOD, "{\n", "[\n", "```\n", f"<think>{FLOOD}", f"<think>{CALL} x </think>\n", CALL])
@pytest.mark.parametrize("size", [PAUSE_CHARS - 1, 10_007])
def test_where_a_pause_begins_and_ends_does_not_depend_on_the_pieces(name: str, unit: str, size: int) -> None:
    text = unit * (2 * FREE_STEPS) + CALL
    whole, cut = read(name, text), read(name, text, size)
    assert text_of(whole) == text_of(cut)
    assert [event[0] for event in whole if event[0] in ("start", "end", "unread")] == [
        event[0] for event in cut if event[0] in ("start", "end", "unread")
    ]


@pytest.mark.parametrize(
    ("name", "head", "tail", "why"),
    [
        ("pythonic", "[set_items(items=[", "])]", "there are too many values in one answer"),
        ("gemma4", "<|tool_call>call:set_items{items:[", "]}<tool_call|>", "there are too many values in one answer"),
        (
            "hermes_json",
            '<tool_call>{"name": "set_items", "arguments": {"items": [',
            ",]}}</tool_call>",
            "there is too much to repair in one answer",
        ),
    ],
)
def test_a_call_with_more_values_than_the_budget_is_cut_and_never_whole(
    name: str, head: str, tail: str, why: str
) -> None:
    events = read(name, head + "1," * MAX_VALUES + "1" + tail)
    (cut,) = (event for event in events if event[0] == "cut")
    assert why in cut[2]
    assert not any(event[0] == "end" for event in events)


def test_valid_json_of_any_length_is_whole() -> None:
    items = "[" + "1," * (4 * MAX_VALUES) + "1]"
    events = read("hermes_json", f'<tool_call>{{"name": "set_items", "arguments": {{"items": {items}}}}}</tool_call>')
    assert "".join(event[2] for event in events if event[0] == "args") == f'{{"items": {items}}}'
    assert events[-1] == ("end", 0)


# ── tokens in bulk ───────────────────────────────────────────────────────────────────────────────────────────────────

ITEMS = (
    "1",
    "-2.5e1",
    "true",
    "null",
    '"s"',
    '"x\ny"',
    "[]",
    "{}",
    '{"a": [1, {"b": "c"}]}',
    "[[1],\n  [2]]",
    '"</t>"',
)
ODD = ("[", "]", "{", "}", ",", ":", '"', "\\", "\n", "01", "1e3[", "tru", " " * 70, '"\\u0041"', '"\\q"', "</t>\n")


def scanned(text: str, size: int, closers: MarkSet | None) -> tuple[str, bool, bool, bool, int]:
    """What a scan passes on of a text in pieces of this size, and how it ends."""
    scan = JsonScan(closers)
    passed, rest, at = "", "", 0
    for start in range(0, len(text), size):
        rest += text[start : start + size]
        end = scan.read(rest, 0)
        passed, rest, at = passed + scan.take(), rest[end:], at + end
        if scan.bad or scan.done:
            break
    return passed, scan.bad, scan.done, scan.escaped, at


@given(
    st.lists(st.one_of(st.sampled_from(ITEMS), st.sampled_from(ITEMS), st.sampled_from(ODD)), min_size=20, max_size=80),
    st.lists(st.sampled_from(["", " ", "\n  "]), min_size=80, max_size=80),
    st.booleans(),
    st.integers(2, 300),
)
def test_tokens_in_bulk_read_as_they_do_one_by_one(
    items: list[str], spaces: list[str], closed: bool, size: int
) -> None:
    text = "[" + ",".join(item + space for item, space in zip(items, spaces, strict=False)) + "]"
    closers = mark_set(("</t>",)) if closed else None
    one_by_one = scanned(text, 1, closers)
    assert len(text) < MIN_BULK or scanned(text, len(text), closers) == one_by_one
    assert scanned(text, size, closers) == one_by_one
