"""Arguments between braces, with unquoted keys and strings between marks of their own, as Gemma writes them:

    {city:<|"|>San Francisco<|"|>,days:3,tags:[<|"|>a<|"|>],where:{lang:<|"|>de<|"|>}}

What stands between two marks is a string as it is: there are no escapes. Strings of JSON are read too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from toolglot.textcalls.body import BodyState, Opened
from toolglot.textcalls.broken import closing_marks, skip_to
from toolglot.textcalls.marks import Marks, marks_of
from toolglot.textcalls.python_values import CONSTANTS, json_number, shown
from toolglot.textcalls.quoted import (
    JSON_ESCAPES,
    MAX_DEPTH,
    MAX_WORD,
    LiteralError,
    Marked,
    Quoted,
    StringReader,
    escaped,
)
from toolglot.textcalls.raw import Raw

_SPACE = re.compile(r"\s*")
_KEY_END = re.compile(r"[:,{}\[\]\"]")
_WORD_END = re.compile(r"[,}\]]")
_PLAIN = re.compile(r"[^\n<>|{\[\"'`]+")
"""What may be a string without marks. Anything that looks like markup is more likely the end of a broken call."""

_CLOSERS = {"{": "}", "[": "]"}
_WAIT = -1


class _Frame:
    """A container that is being read, and what the schema says of it. `entry` is the schema of its current entry."""

    __slots__ = ("closer", "count", "entry", "keys", "opener", "schema")

    def __init__(self, opener: str, schema: Any) -> None:
        self.opener = opener
        self.closer = _CLOSERS[opener]
        self.schema = schema
        self.entry: Any = _part(schema, "items") if opener == "[" else None
        self.keys: set[str] = set()
        self.count = 0


class BracesBody:
    """Reads one call's arguments from the opening brace to its counterpart."""

    __slots__ = (
        "_index",
        "_key",
        "_marks",
        "_mode",
        "_opened",
        "_parts",
        "_raw",
        "_rest",
        "_stack",
        "_string",
        "_why",
        "state",
    )

    def __init__(self, opened: Opened) -> None:
        self.state: BodyState = "open"
        self._opened = opened
        self._marks = marks_of((*opened.call.quotes, '"'))
        self._index = -1
        self._parts: list[str] = []
        self._raw = Raw()
        self._why = ""
        self._rest: Marks | None = None  # what a broken call's end looks like
        self._stack: list[_Frame] = []
        self._string: StringReader | None = None
        self._key: list[str] | None = None
        self._mode: Callable[[str, int], int] = self._begin

    def read(self, text: str, at: int) -> int:
        start = at
        if self._rest is None:
            try:
                at = self._advance(text, at)
                self._flush()
                self._raw.add(text, start, at)
                return at
            except LiteralError as error:
                at = error.at
                self._why = error.why
                self._rest = closing_marks(self._opened)
        at, over = skip_to(self._rest, text, at)
        self._raw.add(text, start, at)
        if over:
            self._cut(self._why)
            self.state = "done"
        return at

    def finish(self, text: str, at: int, *, cut: bool) -> int:
        at = self.read(text, at)
        if self.state != "open":
            return at
        if self._index < 0:
            self.state = "refused"
            return at
        self._raw.add(text, at, len(text))
        self._cut(self._why or "the text ends inside the call")
        self.state = "done"
        return len(text)

    def _advance(self, text: str, at: int) -> int:
        while self.state == "open":
            if self._string is not None:
                at = self._string.read(text, at, self._take)
                if not self._string.closed:
                    break
                self._string = None
                self._end_string(at)
            space = _SPACE.match(text, at)
            at = space.end() if space else at
            if at == len(text):
                break
            after = self._mode(text, at)
            if after == _WAIT:
                break
            if not self._opened.sink.work.take_value():
                raise LiteralError("there are too many values in one answer", at)
            at = after
        return at

    def _flush(self) -> None:
        if self._parts:
            self._opened.sink.arguments(self._index, "".join(self._parts))
            self._parts.clear()

    def _cut(self, why: str) -> None:
        self._flush()
        self._opened.sink.cut(self._index, f"{self._opened.name}: {why}", self._raw.text.strip())

    def _take(self, piece: str) -> None:
        if self._key is None:
            self._parts.append(escaped(piece)[1:-1])
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
        self._stack.append(_Frame(opener, schema))
        self._parts.append(opener)
        self._mode = self._item
        return at + 1

    def _item(self, text: str, at: int) -> int:
        """The next entry of a container, or its end."""
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
        """A key, which ends at a colon, or a string that is one."""
        mark = self._marks.match(text, at)
        if mark:
            self._key = []
            return self._open_string(mark, at)
        if self._marks.begins(text, at):
            return _WAIT
        end = _KEY_END.search(text, at, at + MAX_WORD + 1)
        if end is None:
            _limit(text, at)
            return _WAIT
        key = text[at : end.start()].rstrip()
        if not key or end[0] != ":":
            raise LiteralError(f"{shown(end[0])} stands where a key and a colon are missing", end.start())
        if self._marks.search(key, 0):
            raise LiteralError(f"{shown(key)} is no key", at)
        self._name_entry(key, at)
        return end.start()

    def _name_entry(self, key: str, at: int) -> None:
        frame = self._stack[-1]
        if key in frame.keys:
            raise LiteralError(f"the key {shown(key)} occurs twice", at)
        frame.keys.add(key)
        frame.entry = _part(_part(frame.schema, "properties"), key)
        self._parts.append(f"{', ' if frame.count else ''}{escaped(key)}: ")
        frame.count += 1
        self._key = None
        self._mode = self._colon

    def _colon(self, text: str, at: int) -> int:
        if text[at] != ":":
            raise LiteralError(f"{shown(text[at])} stands where a colon is missing", at)
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
            return _WAIT
        end = _WORD_END.search(text, at, at + MAX_WORD + 1)
        if end is None:
            _limit(text, at)
            return _WAIT
        self._parts.append(self._word(text[at : end.start()].rstrip(), at))
        self._mode = self._after
        return end.start()

    def _word(self, word: str, at: int) -> str:
        """A value without marks: a number, a constant, or a string for which the marks were forgotten."""
        json = CONSTANTS.get(word)
        if json is not None:
            return json
        if json_number(word):
            return word
        if _PLAIN.fullmatch(word) and _is_string(self._stack[-1].entry):
            return escaped(word)
        raise LiteralError(f"{shown(word)} is no value", at)

    def _open_string(self, mark: str, at: int) -> int:
        self._string = Quoted(mark, JSON_ESCAPES) if mark == '"' else Marked(mark)
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
            raise LiteralError(f"{shown(text[at])} stands where a comma or {frame.closer} is missing", at)
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


def _limit(text: str, at: int) -> None:
    if len(text) - at > MAX_WORD:
        raise LiteralError(f"a key or a value without marks has more than {MAX_WORD} characters", at)


def _part(schema: Any, key: str) -> Any:
    return schema.get(key) if isinstance(schema, Mapping) else None


def _is_string(schema: Any) -> bool:
    kind = _part(schema, "type")
    return kind == "string" or (isinstance(kind, (list, tuple)) and "string" in kind)
