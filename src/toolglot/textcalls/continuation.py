"""What completes arguments that were already sent in part.

A reader passes arguments on while they are being written. When the text turns out broken, the value is repaired, but
what was sent cannot be taken back: only text that leads from there to the repaired value may follow.
"""

from __future__ import annotations

import json
import re
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*+")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_SCALAR = re.compile(r"[-+.0-9a-zA-Z]++")
_ESCAPE_PART = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_HIGH = re.compile("[\ud800-\udbff]")


class _NoWayError(Exception):
    """What was sent does not lead to the value."""


def continuation(emitted: str, value: Any) -> str | None:
    """The text behind `emitted`, the beginning of some JSON text, that makes it JSON which equals `value`.

    None where there is no such text: something was sent that the value does not have.
    """
    try:
        rest = _Walk(emitted, value).rest()
        whole = json.loads(emitted + rest, parse_constant=_refuse)
    except (_NoWayError, ValueError, RecursionError):
        return None
    return rest if same(whole, value) else None


def _refuse(name: str) -> Any:
    raise ValueError(name)


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1, while 1.0 is 1."""
    waiting = [(one, other)]
    while waiting:
        left, right = waiting.pop()
        if isinstance(left, bool) or isinstance(right, bool):
            if left is not right:
                return False
        elif isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            waiting.extend((item, right[key]) for key, item in left.items())
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            waiting.extend(zip(left, right, strict=True))
        elif left != right:
            return False
    return True


class _Walk:
    """Walks through `emitted` and the value together; `open` are the containers whose end was not sent yet."""

    def __init__(self, emitted: str, value: Any) -> None:
        self.text = emitted
        self.value = value
        # Each open container with what of it has not been sent: the keys of an object, the index in an array.
        self.open: list[tuple[Any, dict[str, None] | int]] = []

    def rest(self) -> str:
        at = self._skip(0)
        return self._value(self.value, at)

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def _value(self, value: Any, at: int) -> str:
        """Compare a value that begins at `at`, then all that follows; what is left to send."""
        pending: Any = value
        while True:
            at = self._skip(at)
            if at >= len(self.text):
                return _dumped(pending) + self._tail()
            character = self.text[at]
            if character in "{[":
                at = self._enter(pending, character, at)
            elif character == '"':
                end = self._string(pending, at)
                if isinstance(end, str):
                    return end + self._tail()
                at = end
            else:
                match = _SCALAR.match(self.text, at)
                if match is None:
                    raise _NoWayError
                if match.end() >= len(self.text):
                    return _scalar_rest(match.group(), pending) + self._tail()
                at = match.end()
            step = self._next(at)
            if isinstance(step, str):
                return step
            pending, at = step

    def _enter(self, value: Any, bracket: str, at: int) -> int:
        if bracket == "{" and isinstance(value, dict):
            self.open.append((value, dict.fromkeys(value)))
        elif bracket == "[" and isinstance(value, list):
            self.open.append((value, 0))
        else:
            raise _NoWayError
        return at + 1

    def _string(self, value: Any, at: int) -> int | str:
        """Where the string ends; or, where it is not whole, what completes it."""
        match = _STRING.match(self.text, at)
        if match is None or not isinstance(value, str):
            raise _NoWayError
        end = match.end()
        if self.text[end : end + 1] == '"':
            return end + 1
        rest = _string_rest(json.loads(self.text[at:end] + '"'), self.text[end:], value)
        if rest is None:
            raise _NoWayError
        return rest

    def _next(self, at: int) -> str | tuple[Any, int]:
        """Behind a value or an opening bracket: what is left to send, or the next value and where it begins."""
        while True:
            at = self._skip(at)
            if not self.open:
                if at < len(self.text):
                    raise _NoWayError
                return ""
            if at >= len(self.text):
                return self._tail()
            container, left = self.open[-1]
            character = self.text[at]
            if character == ("}" if isinstance(container, dict) else "]"):
                self.open.pop()
                at += 1
                continue
            if not _fresh(container, left):
                if character != ",":
                    raise _NoWayError
                at = self._skip(at + 1)
            return self._member(at)

    def _member(self, at: int) -> str | tuple[Any, int]:
        container, left = self.open[-1]
        if isinstance(left, int):
            if left >= len(container):
                raise _NoWayError
            self.open[-1] = (container, left + 1)
            return container[left], at
        if at >= len(self.text):
            return self._tail(comma=False)
        match = _STRING.match(self.text, at)
        if match is None:
            raise _NoWayError
        if self.text[match.end() : match.end() + 1] != '"':
            return self._key_rest(at, match.end(), container, left)
        key = json.loads(self.text[at : match.end() + 1])
        if key not in container:
            raise _NoWayError
        left.pop(key, None)
        colon = self._skip(match.end() + 1)
        if colon >= len(self.text):
            return ": " + _dumped(container[key]) + self._tail()
        if self.text[colon] != ":":
            raise _NoWayError
        return container[key], colon + 1

    def _key_rest(self, at: int, end: int, container: Any, left: dict[str, None]) -> str:
        known, part = json.loads(self.text[at:end] + '"'), self.text[end:]
        for key in left:
            rest = _string_rest(known, part, key)
            if rest is not None:
                del left[key]
                return f"{rest}: {_dumped(container[key])}{self._tail()}"
        raise _NoWayError

    def _tail(self, *, comma: bool = True) -> str:
        """What is left of the open containers, from the innermost outwards."""
        pieces: list[str] = []
        for container, left in reversed(self.open):
            if isinstance(left, int):
                members = [_dumped(item) for item in container[left:]]
            else:
                members = [f"{_dumped(key)}: {_dumped(container[key])}" for key in left]
            separate = comma and not _fresh(container, left)
            pieces.append((", " if separate and members else "") + ", ".join(members))
            pieces.append("}" if isinstance(container, dict) else "]")
            comma = True
        return "".join(pieces)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _fresh(container: Any, left: dict[str, None] | int) -> bool:
    """Whether nothing of the container was sent but its bracket."""
    return left == 0 if isinstance(left, int) else len(left) == len(container)


def _scalar_rest(sent: str, value: Any) -> str:
    text = _dumped(value)
    if isinstance(value, (str, dict, list)):
        raise _NoWayError
    if text.startswith(sent):
        return text[len(sent) :]
    # A number may have been written otherwise: it is then complete as it is.
    if isinstance(value, bool) or value is None or not same(json.loads(sent), value):
        raise _NoWayError
    return ""


def _string_rest(known: str, part: str, value: str) -> str | None:
    """What completes a string of which `known` was sent, and `part` of one more escape."""
    if part and not _ESCAPE_PART.match(part):
        return None
    if known and _HIGH.match(known[-1]) and not value.startswith(known):
        return _low_rest(known, part, value)
    if not value.startswith(known):
        return None
    rest = value[len(known) :]
    if not part:
        return _dumped(rest)[1:]
    escape = _escape_rest(part, rest[0]) if rest else None
    return None if escape is None else escape + _dumped(rest[1:])[1:]


def _low_rest(known: str, part: str, value: str) -> str | None:
    """The same where the first half of a surrogate pair was sent last."""
    character = value[len(known) - 1 : len(known)]
    units = _units(character)
    if not value.startswith(known[:-1]) or len(units) != 12 or chr(int(units[2:6], 16)) != known[-1]:
        return None
    low = units[6:]
    if not low.startswith(part.lower()):
        return None
    return low[len(part) :] + _dumped(value[len(known) :])[1:]


def _escape_rest(part: str, character: str) -> str | None:
    short = json.dumps(character)[1:-1]
    if part == "\\" and len(short) == 2:
        return short[1:]
    units = _units(character)
    return units[len(part) :] if units.startswith(part.lower()) else None


def _units(character: str) -> str:
    """The character as \\u escapes."""
    coded = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{coded[i]:02x}{coded[i + 1]:02x}" for i in range(0, len(coded), 2))
