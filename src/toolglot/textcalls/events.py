"""Events of the text call parser, in the order of the text.

`toolglot.textcalls.parser` yields records: `TextPart`, `ReasoningTextPart`, `CallStart`, `ArgumentsPart`, `CallEnd` and
`CallCut`. Each is a named tuple that begins with its kind, so it equals the plain tuple that `Engine` yields:

    ("text", text)                 part of the answer
    ("reasoning", text)            part of the reasoning
    ("start", index, name)         a call begins; indices count up from 0
    ("args", index, fragment)      more of its arguments, as JSON text
    ("end", index)                 the call is complete: its fragments add up to one JSON object
    ("cut", index, why, raw)       instead of "end": the text ended, or broke, inside the call; it must not be run.
                                   `raw` is the model's text of its arguments, as far as known and further ones, which
                                   only `Engine` yields:

    ("id", index, id)              the model gave the call this id; comes before "start"
    ("repaired", index, raw, how)  the arguments were not JSON and were repaired; comes before "end"
    ("refused", mark)              the following text begins with this mark, a sure sign of a call, but there is no call
    ("over", mark)                 a mark that ends the answer; what follows it is dropped
    ("unread", format)             the answer has too many marks: the following text was not searched for calls

A call that is cut has no end. Nothing is ever withdrawn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple, TypeAlias

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
    """The text ended, or broke, inside the call: it must not be run. `raw` is the model's text of its arguments, as far
    as known.
    """

    kind: Literal["cut"]
    call: int
    why: str
    raw: str


ParsedEvent: TypeAlias = TextPart | ReasoningTextPart | CallStart | ArgumentsPart | CallEnd | CallCut
"""Events that `toolglot.textcalls.parser` yields."""


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
    """Return the key that adjacent events must share to be merged; -1 for events that are never merged."""
    if event[0] == "args":
        return "args", event[1]
    return event[0], 0 if event[0] in ("text", "reasoning") else -1


# A lone surrogate, which models write as an escape, cannot be encoded. Repaired arguments hold it as a character.
_SURROGATE = re.compile("[\ud800-\udfff]")


def _escape_surrogates(text: str) -> str:
    """Escape the lone surrogates in JSON text."""
    return text if text.isascii() else _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _replace_surrogates(text: str) -> str:
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


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
            self.events.append(("id", index, _replace_surrogates(call_id)))
        self.events.append(("start", index, _replace_surrogates(name)))
        return index

    def arguments(self, index: int, fragment: str) -> None:
        if fragment:
            self.events.append(("args", index, _escape_surrogates(fragment)))

    def repaired(self, index: int, raw: str, how: str) -> None:
        self.events.append(("repaired", index, _replace_surrogates(raw), how))

    def end(self, index: int) -> None:
        self.events.append(("end", index))

    def cut(self, index: int, why: str, raw: str) -> None:
        self.events.append(("cut", index, _replace_surrogates(why), _replace_surrogates(raw)))

    def refused(self, mark: str) -> None:
        self.events.append(("refused", mark))

    def over(self, mark: str) -> None:
        self.events.append(("over", mark))

    def unread(self, mark: str) -> None:
        self.events.append(("unread", mark))


MAX_RAW: Final = 16 * 1024
"""Maximum characters to keep. Of longer text, only the beginning is kept."""
MAX_PIECES: Final = 64
"""Number of small pieces after which they are joined, because each takes more memory than its text."""


class RawText:
    """Collects text that arrives in pieces."""

    __slots__ = ("_parts", "_room")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._room = MAX_RAW

    def clear(self) -> None:
        self._parts.clear()
        self._room = MAX_RAW

    def add(self, text: str, at: int, end: int) -> None:
        """Keep the text from `at` to `end`, as far as there is room."""
        if self._room <= 0 or end <= at:
            return
        end = min(end, at + self._room)
        self._room -= end - at
        self._parts.append(text[at:end])
        if len(self._parts) > MAX_PIECES:
            self._parts = ["".join(self._parts)]

    @property
    def text(self) -> str:
        return "".join(self._parts)


FREE_STEPS: Final = 8192
CHARACTERS_PER_STEP: Final = 128
STEPS_PER_CALL: Final = 8
"""Steps that a call counts for in addition to its marks."""
PAUSE_CHARS: Final = 4096
"""Characters that are passed on unread once the steps are used up."""
MAX_VALUES: Final = 30_000


class WorkBudget:
    """The remaining budget of one answer. Offsets count from the beginning of the answer, so that the result does not
    depend on how its text is split."""

    __slots__ = ("steps", "values_left")

    def __init__(self) -> None:
        self.steps = 0
        self.values_left = MAX_VALUES

    def pause_at(self, offset: int) -> int:
        """Return the position to continue at if the steps up to `offset` are used up; 0 if they are not."""
        if self.steps <= FREE_STEPS + offset // CHARACTERS_PER_STEP:
            return 0
        return offset + PAUSE_CHARS

    def take_value(self) -> bool:
        """Count one value; False if there were too many."""
        self.values_left -= 1
        return self.values_left >= 0
