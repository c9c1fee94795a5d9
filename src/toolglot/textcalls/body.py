"""The interface of a body reader, which reads one or several calls after their header.

The engine passes the text from the position where the body stopped. The body reads as far as the text is unambiguous
and returns its position. The rest is passed again with more text, so it must be short: a body buffers text itself, in
pieces. It never reads before `at`.

`state` is `open` while the body needs more text, `done` when it has ended (even if a call was truncated), and `refused`
if this is not a call after all. That is possible only before its first `sink.start`: the engine then treats everything
since the opener as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from toolglot.textcalls.events import EventSink, RawText
from toolglot.textcalls.grammar import CallSyntax
from toolglot.textcalls.marks import MarkSet, mark_set
from toolglot.textcalls.string_readers import LiteralError

BodyState = Literal["open", "done", "refused"]


class CallBody(Protocol):
    state: BodyState

    def read(self, text: str, at: int) -> int:
        """Read from `at` and return where reading stopped."""
        ...

    def finish(self, text: str, at: int, *, cut: bool) -> int:
        """End the input after `text`. `cut`: the upstream stopped because of a limit, so anything without an end is
        incomplete. The state is `done` or `refused` afterwards.
        """
        ...


class OpenedCall(Struct, frozen=True):
    """The opener of a call, and the data that a body needs to read it.

    `tools` maps the declared tools' names to their schemas (None: any arguments). `followers` are marks that may follow
    the body: further openers and the ends of sections. `name` is empty if the body contains it.
    """

    call: CallSyntax
    sink: EventSink
    tools: Mapping[str, Any]
    name: str = ""
    id: str = ""
    followers: tuple[str, ...] = ()


def closing_marks(opened: OpenedCall) -> MarkSet:
    """Return the marks that end a broken call. After a weak opener there may be prose: the call ends at once."""
    return mark_set(opened.call.closers or (() if opened.call.weak else opened.followers))


def skip_to_mark(marks: MarkSet, text: str, at: int) -> tuple[int, bool]:
    """Return the start, or possible start, of the next mark, and whether it is certain."""
    if not marks.literals:
        return at, True
    found = marks.search(text, at)
    return (marks.hold(text, at), False) if found is None else (found.start(), True)


WAIT: Final = -1
"""Returned by a step of a `LiteralBody` that needs more text."""


class LiteralBody:
    """The common part of bodies with literals as arguments. `_mode` reads the next token and returns where it ends."""

    __slots__ = ("_index", "_mode", "_name", "_opened", "_parts", "_raw", "_raw_from", "_rest", "_why", "state")

    def __init__(self, opened: OpenedCall, mode: Callable[[str, int], int]) -> None:
        self.state: BodyState = "open"
        self._opened = opened
        self._name = opened.name
        self._index = -1
        self._parts: list[str] = []
        self._raw = RawText()  # what the model wrote of the call's arguments
        self._raw_from = 0
        self._rest: MarkSet | None = None  # marks that end a broken call
        self._why = ""
        self._mode = mode

    def read(self, text: str, at: int) -> int:
        self._raw_from = at
        if self._rest is None:
            try:
                at = self._advance(text, at)
                self._flush()
                self._raw.add(text, self._raw_from, at)
                return at
            except LiteralError as error:
                at = error.at
                self._why = error.why
                self._rest = closing_marks(self._opened)
        at, over = skip_to_mark(self._rest, text, at)
        self._raw.add(text, self._raw_from, at)
        if over:
            self._cut(self._why)
            self.state = "done"
        return at

    def _advance(self, text: str, at: int) -> int:
        while self.state == "open":
            at, is_open = self._continue_value(text, at)
            if is_open:
                break
            at = self._skip_space(text, at)
            if at == len(text):
                break
            after = self._mode(text, at)
            if after == WAIT:
                break
            if not self._opened.sink.work.take_value():
                raise LiteralError("there are too many values in one answer", at)
            at = after
        return at

    def _continue_value(self, text: str, at: int) -> tuple[int, bool]:
        """Continue inside a value. Returns the position, and whether the value needs more text."""
        raise NotImplementedError

    def _skip_space(self, text: str, at: int) -> int:
        return match_end(_SPACE, text, at)

    def _flush(self) -> None:
        if self._parts:
            self._opened.sink.arguments(self._index, "".join(self._parts))
            self._parts.clear()

    def _cut(self, why: str) -> None:
        self._flush()
        self._opened.sink.cut(self._index, f"{self._name}: {why}", self._raw.text.strip())
        self._index = -1

    def _cut_at_end(self, text: str, at: int) -> int:
        self._raw.add(text, at, len(text))
        self._cut(self._why or "the text ends inside the call")
        return len(text)


_SPACE = re.compile(r"\s*")


def match_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the end of the pattern's match at `at`; `at` if there is none."""
    found = pattern.match(text, at)
    return at if found is None else found.end()
