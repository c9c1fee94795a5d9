"""Calls written as Python: `[f(a='x', b=[1, 2]), g()]`, or one per line without the brackets.

Arguments are literals and reach the sink while they are read. Positional ones get the names of the declared schema's
properties, in order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolglot.textcalls.body import WAIT, LiteralBody, OpenedCall, match_end
from toolglot.textcalls.python_values import CONSTANTS, LiteralFrame, PythonValueReader, TokenGap, format_unexpected
from toolglot.textcalls.string_readers import LiteralError, escape_json

MAX_NAME = 300
"""Maximum characters of a tool's name with the white space around it that are held back where a call may begin."""

# Letters of many scripts need marks that \w does not include: any non-ASCII character may be part of a name.
_NAME = re.compile(r"[\w\u0080-\U0010ffff][\w.\-/:\u0080-\U0010ffff]*")
_KEY = re.compile(r"[\w$@\u0080-\U0010ffff][\w$@.\-/\u0080-\U0010ffff]*")
_INLINE_SPACE = re.compile(r"[ \t]*")
_SPACE = re.compile(r"\s*")


class PythonBody(LiteralBody):
    """Reads a list of Python calls."""

    __slots__ = ("_bracketed", "_frame", "_gap", "_keyed", "_positions", "_started", "_value")

    def __init__(self, opened: OpenedCall) -> None:
        super().__init__(opened, self._bracket)
        self._bracketed = False
        self._started = False
        self._gap = TokenGap()
        self._frame = LiteralFrame("splat", set())
        self._positions: list[str] = []
        self._keyed = False
        self._value: PythonValueReader | None = None

    def finish(self, text: str, at: int, *, cut: bool) -> int:
        """End the body. A call ends with its parenthesis, so finished calls are complete even if the list is not."""
        at = self.read(text, at)
        if self.state != "open":
            return at
        if self._index >= 0:
            at = self._cut_at_end(text, at)
        self.state = "done" if self._started else "refused"
        return len(text) if self._rest else at

    def _continue_value(self, text: str, at: int) -> tuple[int, bool]:
        if self._value is None:
            return at, False
        at = self._value.read(text, at)
        if not self._value.done:
            return at, True
        self._value = None
        return at, False

    def _skip_space(self, text: str, at: int) -> int:
        return self._gap.skip(text, at) if self._index >= 0 else super()._skip_space(text, at)

    def _bracket(self, text: str, at: int) -> int:
        self._mode = self._call
        if text[at] != "[":
            return at
        self._bracketed = True
        return at + 1

    def _between(self, text: str, at: int) -> int:
        if self._bracketed and text[at] == "]":
            self.state = "done"
            return at + 1
        return self._call(text, at)

    def _call(self, text: str, at: int) -> int:
        """Read the comma before a call, its name and parenthesis, and the next text if the opener is a weak sign. They
        stay unread until this is certainly a call.
        """
        comma = text[at] == "," and self._started
        begin = match_end(_SPACE, text, at + 1) if comma else at
        end = match_end(_NAME, text, begin)
        parenthesis = match_end(_INLINE_SPACE, text, end)
        if parenthesis - at > MAX_NAME:
            return self._no_call(at)
        if parenthesis == len(text):
            return WAIT
        if comma and self._bracketed and text[begin] == "]":
            return begin
        if end == begin or text[parenthesis] != "(":
            return self._no_call(at)
        name = text[begin:end]
        if self._opened.call.weak and not (self._started and self._bracketed):
            sure = name in self._opened.tools and _begins_arguments(text, parenthesis + 1)
            if sure is None:
                return WAIT
            if not sure:
                return self._no_call(at)
        self._start(name)
        self._raw.clear()
        self._raw_from = parenthesis + 1
        return parenthesis + 1

    def _no_call(self, at: int) -> int:
        self.state = "done" if self._started else "refused"
        return at

    def _start(self, name: str) -> None:
        self._index = self._opened.sink.start(name, "" if self._started else self._opened.id)
        self._started = True
        self._name = name
        self._parts.append("{")
        self._frame = LiteralFrame("splat", set())
        self._positions = _properties(self._opened.tools.get(name))
        self._keyed = False
        self._mode = self._argument

    def _argument(self, text: str, at: int) -> int:
        if text[at] == ")":
            return self._close(at)
        if text[at] == "*":
            if len(text) == at + 1:
                return WAIT
            if not text.startswith("**", at):
                raise LiteralError("* is not a literal", at)
            self._mode = self._unpacked_dict
            return at + 2
        end = match_end(_KEY, text, at)
        sign = match_end(_SPACE, text, end)
        if sign - at <= MAX_NAME:
            if sign == len(text):
                return WAIT
            if end > at and text.startswith("=", sign):
                self._keyed = True
                return self._begin(text[at:end], at, sign + 1)
        return self._begin(self._position(at), at, at)

    def _position(self, at: int) -> str:
        """Return the name of the next positional argument."""
        count = self._frame.count
        if self._keyed:
            raise LiteralError("a positional argument follows one with a name", at)
        if count >= len(self._positions):
            raise LiteralError(f"positional argument {count + 1} has no name in the tool's schema", at)
        return self._positions[count]

    def _begin(self, key: str, at: int, after: int) -> int:
        frame = self._frame
        if key in frame.keys:
            raise LiteralError(f"the argument {escape_json(key)} is given twice", at)
        frame.keys.add(key)
        self._parts.append(f"{', ' if frame.count else ''}{escape_json(key)}: ")
        frame.count += 1
        self._value = PythonValueReader(self._parts, self._gap, self._opened.sink.work)
        self._mode = self._after
        return after

    def _unpacked_dict(self, text: str, at: int) -> int:
        """Read `**{…}`: arguments whose names are not Python identifiers."""
        if text[at] != "{":
            raise LiteralError(f"** is followed by {format_unexpected(text[at])}, which is not a literal", at)
        self._keyed = True
        self._value = PythonValueReader(self._parts, self._gap, self._opened.sink.work, self._frame)
        self._mode = self._after
        return at + 1

    def _after(self, text: str, at: int) -> int:
        if text[at] == ")":
            return self._close(at)
        if text[at] != ",":
            raise LiteralError(f"{format_unexpected(text[at])} is where a comma or ) should be", at)
        self._mode = self._argument
        return at + 1

    def _close(self, at: int) -> int:
        self._parts.append("}")
        self._flush()
        self._opened.sink.end(self._index)
        self._index = -1
        self._mode = self._between
        return at + 1


def _properties(schema: object) -> list[str]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return [str(name) for name in properties] if isinstance(properties, Mapping) else []


def _begins_arguments(text: str, at: int) -> bool | None:
    """Return whether arguments begin here, as opposed to prose in parentheses; None if the text ends too soon."""
    begin = match_end(_SPACE, text, at)
    end = match_end(_KEY, text, begin)
    sign = match_end(_SPACE, text, end)
    if sign - at > MAX_NAME:
        return False
    if sign == len(text):
        return None
    if end == begin:
        return text[begin] in ")\"'[{(+-.*#"
    word = text[begin:end]
    return text[sign] == "=" or word in CONSTANTS or word[0].isdecimal() or text[end] in "\"'"
