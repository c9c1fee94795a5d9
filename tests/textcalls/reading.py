"""Reads texts with the engine, cut in several ways, and checks what every stream of events must keep to."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from toolglot.textcalls import Engine, find_format
from toolglot.textcalls.events import CallEvent
from toolglot.textcalls.grammar import Format


class Reading(msgspec.Struct, frozen=True):
    """What was read: whole calls, calls that were cut (their names, and what the model wrote), text and reasoning."""

    calls: list[tuple[str, Any]]
    cut: list[str]
    raw: list[str]
    refused: list[str]
    over: str
    text: str
    reasoning: str
    ids: dict[int, str]
    repaired: list[str]
    events: tuple[CallEvent, ...]

    @property
    def said(self) -> str:
        return self.text + self.reasoning


def engine_events(
    name: str | Format,
    tools: Mapping[str, Any],
    pieces: Iterable[str],
    *,
    cut: bool = False,
    starts_in_reasoning: bool = False,
    ends_at: tuple[str, ...] = (),
) -> Iterator[CallEvent]:
    text_format = find_format(name) if isinstance(name, str) else name
    engine = Engine(text_format, tools, starts_in_reasoning=starts_in_reasoning, ends_at=ends_at)
    for piece in pieces:
        yield from engine.feed(piece)
    yield from engine.finish(cut=cut)


def read(
    name: str | Format,
    tools: Mapping[str, Any],
    pieces: str | Iterable[str],
    *,
    cut: bool = False,
    starts_in_reasoning: bool = False,
    ends_at: tuple[str, ...] = (),
) -> Reading:
    parts = [pieces] if isinstance(pieces, str) else pieces
    return reading_of(
        engine_events(name, tools, parts, cut=cut, starts_in_reasoning=starts_in_reasoning, ends_at=ends_at)
    )


def read_every_way(
    name: str | Format,
    tools: Mapping[str, Any],
    text: str,
    *,
    cut: bool = False,
    starts_in_reasoning: bool = False,
    ends_at: tuple[str, ...] = (),
) -> Reading:
    """Read the text as a whole; cut in other ways it must read the same."""
    whole = read(name, tools, text, cut=cut, starts_in_reasoning=starts_in_reasoning, ends_at=ends_at)
    for pieces in chunkings(text):
        other = read(name, tools, pieces, cut=cut, starts_in_reasoning=starts_in_reasoning, ends_at=ends_at)
        assert other.events == whole.events, f"{name} reads {text!r} differently in {pieces[:40]!r}"
    return whole


def chunkings(text: str) -> Iterator[list[str]]:
    yield list(text)
    yield [text[at : at + 3] for at in range(0, len(text), 3)]
    choice = random.Random(text)
    for _ in range(3):
        pieces = []
        at = 0
        while at < len(text):
            size = choice.choice((1, 2, 3, 5, 8, 13, 40))
            pieces.append(text[at : at + size])
            at += size
        yield pieces


_JOINED = frozenset({"text", "reasoning", "args"})


def joined(events: Iterable[CallEvent]) -> tuple[CallEvent, ...]:
    """Events with neighbours of one kind, and of one call, as one: in linear time, as there may be very many."""
    out: list[Any] = []
    for kind, group in groupby(events, key=lambda event: event[:-1] if event[0] in _JOINED else None):
        neighbours: list[Any] = list(group)
        out += neighbours if kind is None else [(*kind, "".join([event[-1] for event in neighbours]))]
    return tuple(out)


def reading_of(events: Iterable[CallEvent]) -> Reading:
    """What the events say; it is an error if they break a rule."""
    whole = joined(events)
    check_rules(whole)
    names: list[str] = []
    arguments: dict[int, str] = {}
    reading = Reading([], [], [], [], "", "", "", {}, [], whole)
    over = ""
    text: list[str] = []
    reasoning: list[str] = []
    for event in whole:
        match event:
            case ("text", said):
                text.append(said)
            case ("reasoning", said):
                reasoning.append(said)
            case ("id", index, call_id):
                reading.ids[index] = call_id
            case ("start", _, name):
                names.append(name)
            case ("args", index, fragment):
                arguments[index] = arguments.get(index, "") + fragment
            case ("repaired", _, _, how):
                reading.repaired.append(how)
            case ("end", index):
                reading.calls.append((names[index], json.loads(arguments[index])))
            case ("cut", index, _, raw):
                reading.cut.append(names[index])
                reading.raw.append(raw)
            case ("refused", mark):
                reading.refused.append(mark)
            case ("over", mark):
                over = mark
    return msgspec.structs.replace(reading, text="".join(text), reasoning="".join(reasoning), over=over)


def check_rules(events: Sequence[CallEvent]) -> None:
    """Calls come one after the other, counted from 0, each with a name, arguments that are an object, and one end."""
    open_call: int | None = None
    over = False
    begun = 0
    arguments = ""
    for event in events:
        assert not over, f"something follows the end: {events}"
        match event:
            case ("refused" | "over" | "unread" as kind, mark):
                assert mark, f"no mark: {events}"
                assert open_call is None, f"a mark inside a call: {events}"
                assert begun or kind != "over", f"the end of an answer without calls: {events}"
                over = kind == "over"
            case ("text" | "reasoning", text):
                assert text, events
                assert open_call is None, f"text inside a call: {events}"
            case ("id", index, call_id):
                assert (open_call, index) == (None, begun), f"an id that is not before its call: {events}"
                assert call_id
            case ("start", index, name):
                assert open_call is None, f"a call inside another: {events}"
                assert index == begun, f"indices do not count up: {events}"
                assert name, f"a call without a name: {events}"
                open_call, arguments, begun = index, "", begun + 1
            case ("args", index, fragment):
                assert index == open_call, f"arguments outside their call: {events}"
                arguments += fragment
            case ("repaired", index, _, how):
                assert index == open_call, f"a repair outside its call: {events}"
                assert how, f"a repair that says nothing: {events}"
            case ("end", index):
                assert index == open_call, f"an end without its start: {events}"
                assert isinstance(json.loads(arguments, parse_constant=_no_constant), dict), events
                open_call = None
            case ("cut", index, why, _):
                assert index == open_call, f"a cut outside its call: {events}"
                assert why, f"a cut that says nothing: {events}"
                open_call = None
    assert open_call is None, f"a call has no end: {events}"


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")
