"""The arguments of one call on their way to the client: strict JSON at once, broken JSON repaired at its end."""

from __future__ import annotations

import re
from collections.abc import Container
from functools import lru_cache
from typing import Any, Final

from toolglot.textcalls.body import Opened
from toolglot.textcalls.continuation import continuation
from toolglot.textcalls.events import Sink
from toolglot.textcalls.grammar import Call
from toolglot.textcalls.json_scan import JsonScan
from toolglot.textcalls.marks import Marks, marks_of
from toolglot.textcalls.repair import RepairError, repair_described

MAX_SIZE: Final = 16 * 1024 * 1024
"""More characters than this are no arguments: the call is cut, so that memory stays bounded."""
JOINING: Final = frozenset({"unescaped quotes", "missing commas"})
"""The repairs that may make one object of two: quotes become a part of the string that they may have ended, and members
follow where an object may have ended."""


class Arguments:
    """Reads the JSON text of a call's arguments. Until the call has begun (its name is known), they are kept.

    After `read`, `done` tells that the JSON is whole; `broken` that it is none, so that whoever reads must find its end
    by other means and hand what follows to `repair`.
    """

    __slots__ = ("_closers", "_index", "_opened", "_raw", "_scan", "_schema", "_sent", "_sink", "_size", "streamed")

    def __init__(self, opened: Opened, closers: Marks | None = None) -> None:
        self._opened = opened
        self._sink: Sink = opened.sink
        self._schema: Any = None
        self._closers = closers
        self._scan = JsonScan(closers)
        self.streamed = False  # the call had begun before its arguments did
        self._index = -1
        self._raw: list[str] = []
        self._sent: list[str] = []
        self._size = 0

    @property
    def done(self) -> bool:
        return self._scan.done

    @property
    def broken(self) -> bool:
        return self._scan.bad

    def begin(self, index: int, schema: Any) -> None:
        """The call has begun: what was kept may go."""
        self._index = index
        self._schema = schema
        self.streamed = not self._raw
        if self._sent:
            self._sink.arguments(index, "".join(self._sent))

    def read(self, text: str, at: int) -> int:
        end = self._scan.read(text, at)
        if end > at:
            self._raw.append(text[at:end])
            self._size += end - at
            if self._size > MAX_SIZE:
                self._scan.bad = True
        certain = self._scan.take()
        if certain:
            self._sent.append(certain)
            if self._index >= 0:
                self._sink.arguments(self._index, certain)
        return end

    def end(self) -> None:
        """The JSON is whole and so is the call."""
        if self._scan.escaped:
            self._sink.repaired(self._index, "".join(self._raw), "control characters inside strings were escaped")
        self._sink.end(self._index)

    def cut(self, why: str, rest: str = "") -> None:
        """The call is not whole; `rest` is what was not read of its arguments, and perhaps what closes the call."""
        if self._closers is not None and self._closers.match(rest, 0) == rest:
            rest = ""
        self._sink.cut(self._index, why, (self.raw + rest).rstrip())

    @property
    def raw(self) -> str:
        return "".join(self._raw)

    @property
    def is_empty(self) -> bool:
        return self.done and not "".join(self._sent).strip("{} \t\r\n")

    def take(self, text: str) -> None:
        """All of the arguments at once, and the end of the call."""
        end = self.read(text, 0) if text.startswith("{") else 0
        if self.done and end == len(text):
            self.end()
        else:
            self.repair(text[end:])

    def repair(self, rest: str, *, enveloped: bool = False, at_end: bool = False) -> None:
        """End a call whose arguments are broken: exactly repaired, or cut. `enveloped`: behind the arguments stand
        the brackets of what is around them. `at_end`: nothing follows them, so that what is missing was cut off."""
        if self.done:
            self._sink.repaired(self._index, self.raw, "the JSON around the arguments was broken")
            self._sink.end(self._index)
            return
        raw = self.raw + rest
        if self._size + len(rest) > MAX_SIZE:
            self.cut(f"the arguments have more than {MAX_SIZE} characters", rest)
            return
        try:
            value, how = repair_described(raw, self._schema, self._sink.work)
        except RepairError as error:
            self.cut(f"the arguments are no JSON and could not be repaired: {error}", rest)
            return
        if at_end and is_cut_off(how):
            self.cut("the text ended inside the arguments", rest)
            return
        if any(each in how for each in JOINING) and holds_another_call(self._opened, raw):
            self.cut("the arguments are no JSON, and another call stands in them, which may have ended before it", rest)
            return
        remainder = continuation("".join(self._sent), value)
        if remainder is None:
            self.cut("the arguments are no JSON, and what was already passed on does not fit their repair", rest)
            return
        if enveloped:
            how = ", ".join(damage for damage in how.split(", ") if damage != "stray brackets") or how
        self._sink.arguments(self._index, remainder)
        self._sink.repaired(self._index, raw, how)
        self._sink.end(self._index)


def string_enders(call: Call) -> Marks | None:
    """The call's closers that, at the beginning or the end of a line, show that a string before them was not closed.
    Code blocks are no such sign: text is full of them."""
    return _enders_of(call.closers)


@lru_cache(maxsize=256)
def _enders_of(closers: tuple[str, ...]) -> Marks | None:
    enders = tuple(closer for closer in closers if not closer.startswith("`"))
    return marks_of(enders) if enders else None


def holds_another_call(opened: Opened, text: str) -> bool:
    """Whether marks of calls stand in a text, or the head of another envelope. A string of broken JSON that holds them
    may have lost its end: what follows would be a call of its own."""
    return _heads_of(opened.call, opened.followers, tuple(opened.tools)).search(text) is not None


@lru_cache(maxsize=64)
def _heads_of(call: Call, followers: tuple[str, ...], tools: tuple[str, ...]) -> re.Pattern[str]:
    marks = [re.escape(mark) for mark in (*call.closers, *followers) if not mark.startswith("`")]
    names, keys, openers = ("|".join(map(re.escape, words)) for words in (tools, call.name_keys, call.header.openers))
    if tools:
        marks.append(rf'"(?:{keys})"\s*:\s*"(?:{names})"|\{{\s*"(?:{names})"\s*:\s*\{{')
    if tools and openers:
        marks.append(rf"(?:{openers})\s*(?:{names})")
    return re.compile("|".join(marks) or "(?!)")


def is_balanced(text: str) -> bool:
    """As many brackets close as open: a text that was not cut, as far as broken JSON can tell."""
    return text.count("{") == text.count("}") and text.count("[") == text.count("]")


def is_cut_off(how: str) -> bool:
    """The repair of a text added what may never have been written: nobody knows what else is missing."""
    return any(damage in how for damage in ("missing end quote", "missing brackets"))


def takes_nothing(schema: Any) -> bool:
    """A tool that declares no parameters, so that a call of it is whole without any."""
    return isinstance(schema, dict) and not schema.get("properties") and not schema.get("required")


def lacks_required(schema: Any, given: Container[str]) -> bool:
    """Some of the parameters that the tool requires are not among those given."""
    required = schema.get("required") if isinstance(schema, dict) else None
    return isinstance(required, list) and any(key not in given for key in required)
