"""Arguments in braces, with unquoted keys and special marks around strings, as Gemma writes them:

    {city:<|"|>San Francisco<|"|>,days:3,tags:[<|"|>a<|"|>],where:{lang:<|"|>de<|"|>}}

Text between two marks is a string without escapes. JSON strings are accepted as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolglot.textcalls.body import WAIT, LiteralBody, OpenedCall
from toolglot.textcalls.marks import mark_set
from toolglot.textcalls.python_values import CONSTANTS, format_unexpected, is_json_number
from toolglot.textcalls.string_readers import (
    JSON_ESCAPES,
    MAX_DEPTH,
    MAX_WORD,
    LiteralError,
    MarkedString,
    QuotedString,
    StringReader,
    escape_json,
)

_KEY_END = re.compile(r"[:,{}\[\]\"]")
_WORD_END = re.compile(r"[,}\]]")
_UNQUOTED = re.compile(r"[^\n<>|{\[\"'`]+")
"""A possible string without marks. Anything that looks like markup is more likely the end of a broken call."""

_CLOSERS = {"{": "}", "[": "]"}


class _BracesFrame:
    """A container that is being read, and its schema. `entry` is the schema of its current entry."""

    __slots__ = ("closer", "count", "entry", "keys", "opener", "schema")

    def __init__(self, opener: str, schema: Any) -> None:
        self.opener = opener
        self.closer = _CLOSERS[opener]
        self.schema = schema
        self.entry: Any = _property_schema(schema, "items") if opener == "[" else None
        self.keys: set[str] = set()
        self.count = 0


class BracesBody(LiteralBody):
    """Reads one call's arguments from the opening brace to the closing one."""

    __slots__ = ("_key", "_marks", "_stack", "_string")

    def __init__(self, opened: OpenedCall) -> None:
        super().__init__(opened, self._begin)
        self._marks = mark_set((*opened.call.quotes, '"'))
        self._stack: list[_BracesFrame] = []
        self._string: StringReader | None = None
        self._key: list[str] | None = None

    def finish(self, text: str, at: int, *, cut: bool) -> int:
        at = self.read(text, at)
        if self.state != "open":
            return at
        if self._index < 0:
            self.state = "refused"
            return at
        self.state = "done"
        return self._cut_at_end(text, at)

    def _continue_value(self, text: str, at: int) -> tuple[int, bool]:
        if self._string is None:
            return at, False
        at = self._string.read(text, at, self._take)
        if not self._string.closed:
            return at, True
        self._string = None
        self._end_string(at)
        return at, False

    def _take(self, piece: str) -> None:
        if self._key is None:
            self._parts.append(escape_json(piece)[1:-1])
        else:
            self._key.append(piece)

    def _begin(self, text: str, at: int) -> int:
        name = self._opened.name
        declared = name in self._opened.tools
        if text[at] != "{" or not name or (self._opened.call.weak and not declared):
            self.state = "refused"
            return at
        self._index = self._opened.sink.start(name, self._opened.id)
        return self._open("{", self._opened.tools.get(name), at)

    def _open(self, opener: str, schema: Any, at: int) -> int:
        if len(self._stack) > MAX_DEPTH:
            raise LiteralError(f"the arguments are nested more than {MAX_DEPTH} levels deep", at)
        self._stack.append(_BracesFrame(opener, schema))
        self._parts.append(opener)
        self._mode = self._item
        return at + 1

    def _item(self, text: str, at: int) -> int:
        """Read the next entry of a container, or its end."""
        frame = self._stack[-1]
        if text[at] == frame.closer:
            return self._close(at)
        if frame.opener == "{":
            return self._entry(text, at)
        if frame.count:
            self._parts.append(", ")
        frame.count += 1
        self._mode = self._value
        return at

    def _entry(self, text: str, at: int) -> int:
        """Read a key, which ends at a colon, or a quoted key."""
        mark = self._marks.match(text, at)
        if mark:
            self._key = []
            return self._open_string(mark, at)
        if self._marks.begins(text, at):
            return WAIT
        end = _KEY_END.search(text, at, at + MAX_WORD + 1)
        if end is None:
            _check_limit(text, at)
            return WAIT
        key = text[at : end.start()].rstrip()
        if not key or end[0] != ":":
            raise LiteralError(f"{format_unexpected(end[0])} is where a key and a colon should be", end.start())
        if self._marks.search(key, 0):
            raise LiteralError(f"{format_unexpected(key)} is not a key", at)
        self._name_entry(key, at)
        return end.start()

    def _name_entry(self, key: str, at: int) -> None:
        frame = self._stack[-1]
        if key in frame.keys:
            raise LiteralError(f"the key {format_unexpected(key)} occurs twice", at)
        frame.keys.add(key)
        frame.entry = _property_schema(_property_schema(frame.schema, "properties"), key)
        self._parts.append(f"{', ' if frame.count else ''}{escape_json(key)}: ")
        frame.count += 1
        self._key = None
        self._mode = self._colon

    def _colon(self, text: str, at: int) -> int:
        if text[at] != ":":
            raise LiteralError(f"{format_unexpected(text[at])} is where a colon should be", at)
        self._mode = self._value
        return at + 1

    def _value(self, text: str, at: int) -> int:
        if text[at] in _CLOSERS:
            return self._open(text[at], self._stack[-1].entry, at)
        mark = self._marks.match(text, at)
        if mark:
            self._parts.append('"')
            return self._open_string(mark, at)
        if self._marks.begins(text, at):
            return WAIT
        end = _WORD_END.search(text, at, at + MAX_WORD + 1)
        if end is None:
            _check_limit(text, at)
            return WAIT
        self._parts.append(self._word(text[at : end.start()].rstrip(), at))
        self._mode = self._after
        return end.start()

    def _word(self, word: str, at: int) -> str:
        """Read a value without marks: a number, a constant, or a string whose marks are missing."""
        json = CONSTANTS.get(word)
        if json is not None:
            return json
        if is_json_number(word):
            return word
        if _UNQUOTED.fullmatch(word) and _is_string(self._stack[-1].entry):
            return escape_json(word)
        raise LiteralError(f"{format_unexpected(word)} is not a value", at)

    def _open_string(self, mark: str, at: int) -> int:
        self._string = QuotedString(mark, JSON_ESCAPES) if mark == '"' else MarkedString(mark)
        return at + len(mark)

    def _end_string(self, at: int) -> None:
        if self._key is not None:
            self._name_entry("".join(self._key), at)
        else:
            self._parts.append('"')
            self._mode = self._after

    def _after(self, text: str, at: int) -> int:
        frame = self._stack[-1]
        if text[at] == frame.closer:
            return self._close(at)
        if text[at] != ",":
            raise LiteralError(f"{format_unexpected(text[at])} is where a comma or {frame.closer} should be", at)
        self._mode = self._item
        return at + 1

    def _close(self, at: int) -> int:
        self._parts.append(self._stack.pop().closer)
        self._mode = self._after
        if not self._stack:
            self._flush()
            self._opened.sink.end(self._index)
            self.state = "done"
        return at + 1


def _check_limit(text: str, at: int) -> None:
    if len(text) - at > MAX_WORD:
        raise LiteralError(f"a key or a value without marks has more than {MAX_WORD} characters", at)


def _property_schema(schema: Any, key: str) -> Any:
    return schema.get(key) if isinstance(schema, Mapping) else None


def _is_string(schema: Any) -> bool:
    kind = _property_schema(schema, "type")
    return kind == "string" or (isinstance(kind, (list, tuple)) and "string" in kind)
