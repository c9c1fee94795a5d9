"""Events of the text call parser, in the order of the text.

`toolglot.textcalls.parser` yields records: `TextPart`, `ReasoningTextPart`, `CallStart`, `ArgumentsPart`, `CallEnd` and
`CallCut`. Each is a named tuple that begins with its kind, so it equals the plain tuple that `Engine` yields:

    ("text", text)                 part of the answer
    ("reasoning", text)            part of the reasoning
    ("start", index, name)         a call begins; indices count up from 0
    ("args", index, fragment)      more of its arguments, as JSON text
    ("end", index)                 the call is complete: its fragments add up to one JSON object
    ("cut", index, why, raw)       instead of "end": the text ended, or broke, inside the call; it must not be run.
                                   `raw` is what the model wrote of its arguments, as far as known

and further ones, which only `Engine` yields:

    ("id", index, id)              the model gave the call this id; comes before "start"
    ("repaired", index, raw, how)  the arguments were not JSON and were repaired; comes before "end"
    ("refused", mark)              the following text begins with this mark, a sure sign of a call that is none
    ("over", mark)                 a mark that ends the answer; what follows it is dropped
    ("unread", format)             the answer has too many marks: the following text was not searched for calls

A call that is cut has no end. Nothing is ever withdrawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias

from toolglot.textcalls.work_budget import WorkBudget

TextEvent: TypeAlias = tuple[Literal["text", "reasoning"], str]
StartEvent: TypeAlias = tuple[Literal["start"], int, str]
ArgumentsEvent: TypeAlias = tuple[Literal["args"], int, str]
EndEvent: TypeAlias = tuple[Literal["end"], int]
IdEvent: TypeAlias = tuple[Literal["id"], int, str]
RepairedEvent: TypeAlias = tuple[Literal["repaired"], int, str, str]
CutEvent: TypeAlias = tuple[Literal["cut"], int, str, str]
MarkEvent: TypeAlias = tuple[Literal["refused", "over", "unread"], str]

CallEvent: TypeAlias = (
    TextEvent | StartEvent | ArgumentsEvent | EndEvent | CutEvent | IdEvent | RepairedEvent | MarkEvent
)


class TextPart(NamedTuple):
    """Part of the answer's text."""

    kind: Literal["text"]
    text: str


class ReasoningTextPart(NamedTuple):
    """Part of the model's reasoning."""

    kind: Literal["reasoning"]
    text: str


class CallStart(NamedTuple):
    """A call begins. `call` is its number in the answer, from 0."""

    kind: Literal["start"]
    call: int
    name: str


class ArgumentsPart(NamedTuple):
    """More of a call's arguments, as JSON text."""

    kind: Literal["args"]
    call: int
    fragment: str


class CallEnd(NamedTuple):
    """The call is complete: its fragments add up to one JSON object."""

    kind: Literal["end"]
    call: int


class CallCut(NamedTuple):
    """The text ended, or broke, inside the call: it must not be run. `raw` is what the model wrote of its arguments, as
    far as known."""

    kind: Literal["cut"]
    call: int
    why: str
    raw: str


ParsedEvent: TypeAlias = TextPart | ReasoningTextPart | CallStart | ArgumentsPart | CallEnd | CallCut
"""What `toolglot.textcalls.parser` yields."""


def merge_events(events: Sequence[CallEvent]) -> Sequence[CallEvent]:
    """Merge adjacent fragments of one text or of one call's arguments."""
    if len(events) < 2:
        return events
    out: list[CallEvent] = []
    for (kind, index), group in groupby(events, _merge_key):
        if index < 0:
            out += group
        elif kind == "args":
            out.append(("args", index, "".join(str(event[2]) for event in group if event[0] == "args")))
        else:
            out.append((kind, "".join(str(event[1]) for event in group)))
    return out


def _merge_key(event: CallEvent) -> tuple[Any, int]:
    """Return what adjacent events must share to be merged; -1 for those that must not be."""
    if event[0] == "args":
        return "args", event[1]
    return event[0], 0 if event[0] in ("text", "reasoning") else -1


class EventSink:
    """Collects the events of a stretch of text and numbers the calls. `work` limits the cost of the answer."""

    __slots__ = ("calls", "events", "work")

    def __init__(self, calls: int = 0, work: WorkBudget | None = None) -> None:
        self.events: list[CallEvent] = []
        self.calls = calls
        self.work = WorkBudget() if work is None else work

    def take(self) -> list[CallEvent]:
        """Return the events since the last time."""
        events, self.events = self.events, []
        return events

    def text(self, text: str) -> None:
        if text:
            self.events.append(("text", text))

    def reasoning(self, text: str) -> None:
        if text:
            self.events.append(("reasoning", text))

    def start(self, name: str, call_id: str = "") -> int:
        """Begin a call and return its index."""
        index = self.calls
        self.calls += 1
        if call_id:
            self.events.append(("id", index, call_id))
        self.events.append(("start", index, name))
        return index

    def arguments(self, index: int, fragment: str) -> None:
        if fragment:
            self.events.append(("args", index, fragment))

    def repaired(self, index: int, raw: str, how: str) -> None:
        self.events.append(("repaired", index, raw, how))

    def end(self, index: int) -> None:
        self.events.append(("end", index))

    def cut(self, index: int, why: str, raw: str) -> None:
        self.events.append(("cut", index, why, raw))

    def refused(self, mark: str) -> None:
        self.events.append(("refused", mark))

    def over(self, mark: str) -> None:
        self.events.append(("over", mark))

    def unread(self, mark: str) -> None:
        self.events.append(("unread", mark))
