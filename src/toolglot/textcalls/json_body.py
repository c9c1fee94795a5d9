"""A body of kind `json`: the header has named the tool, and the body is its arguments."""

from __future__ import annotations

import json
from typing import Any

from toolglot.textcalls.arguments import (
    CallArguments,
    has_no_parameters,
    holds_another_call,
    is_balanced,
    string_end_marks,
)
from toolglot.textcalls.body import BodyState, OpenedCall
from toolglot.textcalls.marks import TextUntil, mark_set

SPACE = " \t\r\n"


class JsonBody:
    """Reads the arguments as they arrive. Missing arguments are an empty object."""

    __slots__ = ("_arguments", "_index", "_marks", "_opened", "_rest", "state")

    def __init__(self, opened: OpenedCall) -> None:
        self.state: BodyState = "open"
        self._opened = opened
        self._marks = mark_set((*opened.call.closers, *opened.call.stops, *opened.followers))
        self._index = -1
        self._arguments: CallArguments | None = None
        self._rest: TextUntil | None = None

    def read(self, text: str, at: int) -> int:
        if self._rest is not None:
            return self._read_rest(text, at, self._rest)
        if self._arguments is None:
            at = self._begin(text, at)
            if self._arguments is None:
                return at if self._rest is None else self.read(text, at)
        at = self._arguments.read(text, at)
        if self._arguments.done:
            self._arguments.end()
            self.state = "done"
        elif self._arguments.broken:
            self._rest = TextUntil(self._marks)
            return self._read_rest(text, at, self._rest)
        return at

    def finish(self, text: str, at: int, *, cut: bool) -> int:
        at = self.read(text, at)
        if self.state != "open":
            return at
        self.state = "done"
        if self._rest is not None:
            self._repair_or_cut(self._rest.text + text[at:], cut=cut, at_end=True)
        elif self._arguments is not None:
            self._arguments.cut("the text ended inside the arguments", text[at:])
        elif cut or text[at:].strip() or not has_no_parameters(self._opened.tools.get(self._opened.name)):
            self._opened.sink.cut(self._start(), "the text ended before the arguments", text[at:].strip())
        else:
            self._empty()
        return len(text)

    def _start(self) -> int:
        self._index = self._opened.sink.start(self._opened.name, self._opened.id)
        return self._index

    def _begin(self, text: str, at: int) -> int:
        """Determine how the arguments begin, if there are any."""
        while at < len(text) and text[at] in SPACE:
            at += 1
        if at == len(text) or self._marks.begins(text, at):
            return at
        if text[at] == "{":
            self._arguments = CallArguments(self._opened, string_end_marks(self._opened.call))
            self._arguments.begin(self._start(), self._opened.tools.get(self._opened.name))
        elif self._marks.match(text, at):
            self._empty()
            self.state = "done"
            return at
        else:
            self._start()
            self._rest = TextUntil(self._marks)
        return at

    def _empty(self) -> None:
        index = self._start()
        self._opened.sink.arguments(index, "{}")
        self._opened.sink.end(index)

    def _read_rest(self, text: str, at: int, rest: TextUntil) -> int:
        at, mark = rest.read(text, at)
        if mark:
            self.state = "done"
            self._repair_or_cut(rest.text, cut=False, at_end=False)
        return at

    def _repair_or_cut(self, rest: str, *, cut: bool, at_end: bool) -> None:
        """End a body that is not a strict JSON object."""
        sink, schema = self._opened.sink, self._opened.tools.get(self._opened.name)
        if self._arguments is not None:
            if at_end and (cut or not is_balanced(self._arguments.raw + rest)):
                self._arguments.cut("the text ended inside the arguments", rest)
            else:
                self._arguments.repair(rest, at_end=at_end)
            return
        key = only_string_parameter(schema) if self._opened.call.bare_string else None
        if key is not None and not cut and not holds_another_call(self._opened, rest):
            sink.arguments(self._index, json.dumps({key: rest.strip()}, ensure_ascii=False))
            sink.repaired(self._index, rest, f"plain text taken as `{key}`, the tool's one string")
            sink.end(self._index)
            return
        arguments = CallArguments(self._opened)
        arguments.begin(self._index, schema)
        if at_end and (cut or not is_balanced(rest)):
            arguments.cut("the text ended inside the arguments", rest)
        else:
            arguments.repair(rest, at_end=at_end)


def only_string_parameter(schema: Any) -> str | None:
    """Return the key of a tool's only parameter, or of its only required parameter, if that is a string."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return None
    required = schema.get("required")
    keys = list(properties) if len(properties) == 1 else required if isinstance(required, list) else []
    if len(keys) != 1 or not isinstance(declared := properties.get(keys[0]), dict):
        return None
    return str(keys[0]) if declared.get("type") == "string" else None
