"""Match an entry of a chunk's `tool_calls` to the call that it continues.

The API gives each call an index and, once, an id. Imitating servers leave out one of them, give every call the same
index, or invent an id for every chunk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from toolglot.dialects.openai_chat.wire import CallDelta, FunctionDelta
from toolglot.ir import ToolKind

INVALID_INDEX = -1
"""The index is a text that is not a number."""


def parse_call_index(index: int | str | None) -> int | None:
    """Parse the index of a call, which may be written as a string. None for a negative one, which means nothing."""
    if isinstance(index, str):
        return int(index) if index.isascii() and index.isdecimal() and len(index) < 10 else INVALID_INDEX
    return index if index is not None and index >= 0 else None


def has_call_content(function: FunctionDelta | None) -> TypeGuard[FunctionDelta]:
    """Return whether the entry has a name or arguments. Some servers always send the object, even without a call."""
    return function is not None and bool(function.name or function.arguments or function.input)


def repeats_tool_call(legacy: FunctionDelta, calls: list[CallDelta] | None) -> bool:
    """Return whether `function_call` repeats an entry of `tool_calls` in the same delta."""
    said = (legacy.name, legacy.arguments)
    return any(
        call.function is not None and (call.function.name, call.function.arguments) == said for call in calls or ()
    )


def find_call(
    known: Mapping[int | str, ChatOpenCall],
    latest: ChatOpenCall | None,
    delta: CallDelta,
    number: int | None,
    function: FunctionDelta,
) -> ChatOpenCall | None:
    """Return the call that this entry continues, or None if it begins a new one. `known` has calls by number and by
    id."""
    if number is None:
        # Without an index the id identifies the call; without an id the entry belongs to the latest call.
        call = known.get(delta.id) if delta.id else latest
    else:
        call = known.get(number)
        if call is not None and delta.id and call.id and call.id != delta.id:
            # Another id at the same index is another call, but some servers make up an id for every chunk.
            is_made_up = not function.name and delta.id not in known and not call.is_whole()
            call = call if is_made_up else known.get(delta.id)
    return None if call is None or _starts_new_call(call, delta, function) else call


def _starts_new_call(call: ChatOpenCall, delta: CallDelta, function: FunctionDelta) -> bool:
    """Return whether a new call starts, for a vendor without ids that gives every call the same index: a name after
    complete arguments begins a new call. The same name alone may be a repetition."""
    if delta.id or call.id or not function.name or not call.name:
        return False
    return (bool(function.arguments) or function.name != call.name) and call.is_whole()


def names_another_call(call: ChatOpenCall, delta: CallDelta, number: int | None, function: FunctionDelta) -> bool:
    """Return whether a second entry of the same chunk names another call, although index and id do not show this."""
    if not function.name:
        return False
    follows = bool(function.arguments) and call.is_whole()
    if delta.id and delta.id == call.id:  # Mistral's calls may all have the id `null`
        return follows
    return follows or number is None or function.name != call.name


_MAX_UNSCANNED = 256
"""Pieces of arguments that are collected before they are scanned for completeness."""


class ChatOpenCall:
    """A call that is being received. Its block opens once the name and the id are known."""

    __slots__ = ("_scanner", "_unscanned", "closed", "extra", "held", "id", "index", "kind", "legacy", "name")

    def __init__(self, kind: ToolKind, legacy: bool) -> None:
        self.kind = kind
        self.legacy = legacy
        self.id = ""
        self.name = ""
        self.index = -1  # not opened yet
        self.held: list[str] = []  # arguments received before the block was opened
        self.extra: dict[str, Any] = {}  # members next to `function` that no event has carried yet
        self.closed = False
        self._scanner = ObjectScanner()
        self._unscanned: list[str] = []

    def add(self, arguments: str) -> None:
        if self.kind == "function":
            self._unscanned.append(arguments)
            if len(self._unscanned) > _MAX_UNSCANNED:
                self.is_whole()

    def is_whole(self) -> bool:
        """Return whether the arguments are a complete object. Scans only the pieces received since the last call."""
        if self._unscanned:
            self._scanner.feed("".join(self._unscanned))
            self._unscanned.clear()
        return self._scanner.whole


_OUTSIDE = re.compile(r'["{}\[\]]')
_INSIDE = re.compile(r'["\\]')


class ObjectScanner:
    """Tracks braces and strings through pieces of text.

    `whole` is True once the text began with `{` and that brace has been closed: nothing can continue it. The text may
    still be invalid JSON.
    """

    __slots__ = ("_depth", "_escaped", "_in_string", "_started", "whole")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._started = False
        self.whole = False

    def feed(self, text: str) -> None:
        position = 0
        if not self._started:
            head = text.lstrip()
            if not head:
                return
            self._started = True
            if not head.startswith("{"):
                self._depth = -1  # never whole
        while self._depth >= 0 and not self.whole:
            if self._escaped:
                self._escaped = False
                position += 1
            match = (_INSIDE if self._in_string else _OUTSIDE).search(text, position)
            if match is None:
                return
            position = match.end()
            self._step(match[0])
            if self._escaped and position >= len(text):
                return

    def _step(self, character: str) -> None:
        match character:
            case '"':
                self._in_string = not self._in_string
            case "\\":
                self._escaped = True
            case "{" | "[":
                self._depth += 1
            case _:
                self._depth -= 1
                self.whole = self._depth == 0
