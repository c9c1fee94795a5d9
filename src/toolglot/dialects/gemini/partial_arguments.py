"""Streamed arguments: join pieces of values at JSON paths to JSON text.

Vertex streams the arguments of a call as `partialArgs`: `{"jsonPath": "$.items[0].name", "stringValue": "Par",
"willContinue": true}`. The model writes its JSON from front to back, so the pieces arrive in the order of the text, and
each is written at once: strings grow piece by piece, and an object or array closes when a path leaves it. A path back
into a closed object or array is an error.

A string ends with a piece without `willContinue`, often an empty one. A call ends with a part without it:
`"functionCall": {}`. A value that is still open after the last piece was cut, and stays open: closing it would turn a
partial command into a complete call.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import UNSET

from toolglot.dialects.gemini.wire import PartialArg
from toolglot.errors import DecodeError
from toolglot.wire import json
from toolglot.wire.structs import as_json

Step = str | int

MAX_OPEN_CALLS = 10_000
MAX_HELD_NAMES = 32 * 1024 * 1024
"""The limit, in approximate bytes, for the member names that all open calls remember."""
_COST_OF_A_NAME = 64

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]'"]+)|\[(?P<index>\d{1,9})\]|\[(?P<quote>['"])(?P<quoted>(?:(?!(?P=quote))[^\\]|\\.)*)(?P=quote)\]"""
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def parse_path(path: str, where: str) -> tuple[Step, ...]:
    """Parse a JSON path to steps: member names and item indices."""
    steps: list[Step] = []
    position = 1
    while match := _STEP.match(path, position):
        position = match.end()
        if match["index"] is not None:
            steps.append(int(match["index"]))
        else:
            steps.append(match["name"] if match["name"] is not None else _ESCAPE.sub(r"\1", match["quoted"]))
    if not path.startswith("$") or position != len(path) or not steps or isinstance(steps[0], int):
        raise DecodeError(where, f"not a path into the arguments: {path[:100]}")
    return tuple(steps)


class ArgumentWriter:
    """Writes the JSON text of one call's arguments, piece by piece."""

    __slots__ = ("_path", "_seen", "_sizes", "held", "in_string", "text_began")

    def __init__(self) -> None:
        self._path: tuple[Step, ...] = ()  # path of the last value written; its parents are open
        self._seen: list[set[str]] = []  # the names used in each open parent
        self._sizes: list[int] = []  # the approximate size of those names
        self.held = 0  # the sum of the sizes
        self.in_string = False
        self.text_began = False

    def add(self, piece: PartialArg, where: str) -> str:
        """Return the text that this piece adds. `where` is its path."""
        if piece.json_path is UNSET:
            raise DecodeError(f"{where}.jsonPath", "this string is required")
        path = parse_path(piece.json_path, f"{where}.jsonPath")
        fragment = piece.string_value
        if path == self._path and self.in_string:
            if fragment is UNSET:
                raise DecodeError(f"{where}.jsonPath", "a string continues as something else")
            text = _escape_fragment(fragment)
        else:
            text = self._move(path, f"{where}.jsonPath") + (
                _encode_scalar(piece, where) if fragment is UNSET else '"' + _escape_fragment(fragment)
            )
            self.in_string = fragment is not UNSET
        if self.in_string and piece.will_continue is not True:
            self.in_string = False
            text += '"'
        return text

    def end(self) -> str:
        """Return the text that closes all open objects and arrays. Must not be called while a string is open."""
        if not self.text_began:
            return ""
        text = "".join(_closer(step) for step in reversed(self._path))
        self._path = ()
        return text

    def _move(self, path: tuple[Step, ...], where: str) -> str:
        """Return the text between the last value and the next one: it closes, separates, opens."""
        pieces = ['"'] if self.in_string else []
        if not self.text_began:
            self.text_began = True
            return "".join(pieces) + self._open_path(path, 0, first=True)
        common = 0
        while common < min(len(path), len(self._path)) - 1 and path[common] == self._path[common]:
            common += 1
        pieces += [_closer(step) for step in reversed(self._path[common + 1 :])]
        self.held -= sum(self._sizes[common + 1 :])
        del self._seen[common + 1 :], self._sizes[common + 1 :]
        self._check_order(path[common], self._path[common], common, where)
        pieces.append(",")
        return "".join(pieces) + self._open_path(path, common, first=False)

    def _check_order(self, step: Step, last: Step, level: int, where: str) -> None:
        """Check that a member of an open object is new, or that an item of an open array has the next index."""
        if isinstance(step, int) != isinstance(last, int):
            raise DecodeError(where, "an array continues as an object")
        if step != last + 1 if isinstance(last, int) else step in self._seen[level]:
            raise DecodeError(where, "the pieces of the arguments are out of order")

    def _open_path(self, path: tuple[Step, ...], level: int, *, first: bool) -> str:
        """Open the objects and arrays from an open parent down to the value; `first`: also the outermost object."""
        pieces: list[str] = []
        for depth in range(level, len(path)):
            step = path[depth]
            if depth > level or first:
                if isinstance(step, int) and step != 0:
                    raise DecodeError("$", "the first items of an array are missing")
                pieces.append("[" if isinstance(step, int) else "{")
                self._seen.append(set())
                self._sizes.append(0)
            if isinstance(step, str):
                self._seen[depth].add(step)
                self._sizes[depth] += len(step) + _COST_OF_A_NAME
                self.held += len(step) + _COST_OF_A_NAME
                pieces.append(json.encode_text(step) + ":")
        self._path = path
        return "".join(pieces)


def _closer(step: Step) -> str:
    return "]" if isinstance(step, int) else "}"


def _escape_fragment(text: str) -> str:
    """Escape a part of a JSON string, without quotes."""
    return json.encode_text(text)[1:-1]


def _encode_scalar(piece: PartialArg, where: str) -> str:
    for value in (piece.number_value, piece.bool_value):
        if value is not UNSET:
            return json.encode_text(value)
    if piece.null_value is UNSET:
        raise DecodeError(where, "this piece of the arguments has no value")
    return "null"


class GeminiOpenCall:
    """A call whose arguments arrive in pieces."""

    __slots__ = ("id", "index", "name", "native", "writer")

    def __init__(self, index: int, call_id: str, name: str) -> None:
        self.index = index
        self.id = call_id
        self.name = name
        self.native: dict[str, Any] = {}  # members of later pieces
        self.writer = ArgumentWriter()


class GeminiOpenCalls:
    """The open calls, in the order of their starts."""

    __slots__ = ("_by_id", "_calls", "_held")

    def __init__(self) -> None:
        self._calls: dict[int, GeminiOpenCall] = {}  # by block index
        self._by_id: dict[str, GeminiOpenCall] = {}
        self._held = 0

    def all(self) -> list[GeminiOpenCall]:
        return list(self._calls.values())

    def last(self) -> GeminiOpenCall | None:
        return next(reversed(self._calls.values()), None)

    def add(self, call: GeminiOpenCall) -> None:
        if len(self._calls) >= MAX_OPEN_CALLS:
            raise DecodeError("$", f"more than {MAX_OPEN_CALLS} calls are open at once")
        self._calls[call.index] = call
        if call.id:
            self._by_id[call.id] = call

    def remove(self, call: GeminiOpenCall) -> None:
        del self._calls[call.index]
        self._by_id.pop(call.id, None)
        self._held -= call.writer.held

    def find_continued(self, call_id: str, name: str, *, whole: bool) -> GeminiOpenCall | None:
        """Find the open call that a piece belongs to: by id, otherwise the latest call. None if the piece begins a
        call."""
        if (known := self._by_id.get(call_id)) is not None:
            return known if name in ("", known.name) else None
        last = self.last()
        if last is None or (call_id and (name or last.id)):
            return None
        return last if not name or (name == last.name and not whole) else None

    def find_displaced(self, call_id: str) -> GeminiOpenCall | None:
        """Find the open call that no piece can continue after a new call with this id begins: the one with the same id,
        otherwise the latest call if it has no id."""
        last = self.last()
        return self._by_id.get(call_id) or (last if last is not None and not last.id else None)

    def write(self, call: GeminiOpenCall, pieces: list[PartialArg], where: str) -> str:
        """Return the text that these pieces add to a call. `where` is the path of their array."""
        before = call.writer.held
        text = "".join([call.writer.add(piece, f"{where}[{index}]") for index, piece in enumerate(pieces)])
        self._held += call.writer.held - before
        if self._held > MAX_HELD_NAMES:
            raise DecodeError("$", "the open calls have more members than can be remembered")
        return text


def join_pieces(pieces: Any) -> str:
    """Join the pieces of one part if no more will follow. Invalid pieces are returned as JSON text themselves."""
    if pieces is None:
        return ""
    if not isinstance(pieces, list) or not all(isinstance(piece, PartialArg) for piece in pieces):
        return json.encode_text(pieces)
    writer = ArgumentWriter()
    try:
        return "".join([writer.add(piece, "$") for piece in pieces])
    except DecodeError:
        return json.encode_text(as_json(pieces))
