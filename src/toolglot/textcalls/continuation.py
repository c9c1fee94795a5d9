"""Complete arguments that were already sent in part.

Arguments are streamed while they are being written. If the text turns out to be broken, the value is repaired, but sent
text cannot be withdrawn: only text that completes it to the repaired value may follow.
"""

from __future__ import annotations

import json
import re
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*+")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(?!))*+')
_SCALAR = re.compile(r"[-+.0-9a-zA-Z]++")
_ESCAPE_PART = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_HIGH = re.compile("[\ud800-\udbff]")


class _NoContinuationError(Exception):
    """No continuation of the text already sent leads to the value."""


def complete_json(emitted: str, value: Any) -> str | None:
    """Return the text that completes `emitted`, the beginning of a JSON text, to JSON that equals `value`. None if
    there is no such text, because the sent text is not part of the value.
    """
    try:
        rest = _JsonWalk(emitted, value).rest()
        whole = json.loads(emitted + rest, parse_constant=_refuse)
    except (_NoContinuationError, ValueError, RecursionError):
        return None
    return rest if is_same_json(whole, value) else None


def _refuse(name: str) -> Any:
    raise ValueError(name)


def is_same_json(one: Any, other: Any) -> bool:
    """Compare as JSON: true is not 1, while 1.0 is 1."""
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


class _JsonWalk:
    """Walks through `emitted` and the value in parallel. `open` has the containers whose end was not sent yet."""

    def __init__(self, emitted: str, value: Any) -> None:
        self.text = emitted
        self.value = value
        # Each open container with its unsent part: the keys of an object, the index in an array.
        self.open: list[tuple[Any, dict[str, None] | int]] = []

    def rest(self) -> str:
        at = self._skip(0)
        return self._value(self.value, at)

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def _value(self, value: Any, at: int) -> str:
        """Compare a value at `at` and the rest. Returns the remaining text to send."""
        pending: Any = value
        while True:
            at = self._skip(at)
            if at >= len(self.text):
                return _dump(pending) + self._tail()
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
                    raise _NoContinuationError
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
            raise _NoContinuationError
        return at + 1

    def _string(self, value: Any, at: int) -> int | str:
        """Return the end of the string, or the text that completes it."""
        match = _STRING.match(self.text, at)
        if match is None or not isinstance(value, str):
            raise _NoContinuationError
        end = match.end()
        if self.text[end : end + 1] == '"':
            return end + 1
        rest = _string_rest(json.loads(self.text[at:end] + '"'), self.text[end:], value)
        if rest is None:
            raise _NoContinuationError
        return rest

    def _next(self, at: int) -> str | tuple[Any, int]:
        """Continue after a value or an opening bracket. Returns the remaining text to send, or the next value and its
        start.
        """
        while True:
            at = self._skip(at)
            if not self.open:
                if at < len(self.text):
                    raise _NoContinuationError
                return ""
            if at >= len(self.text):
                return self._tail()
            container, left = self.open[-1]
            character = self.text[at]
            if character == ("}" if isinstance(container, dict) else "]"):
                self.open.pop()
                at += 1
                continue
            if not _is_untouched(container, left):
                if character != ",":
                    raise _NoContinuationError
                at = self._skip(at + 1)
            return self._member(at)

    def _member(self, at: int) -> str | tuple[Any, int]:
        container, left = self.open[-1]
        if isinstance(left, int):
            if left >= len(container):
                raise _NoContinuationError
            self.open[-1] = (container, left + 1)
            return container[left], at
        if at >= len(self.text):
            return self._tail(comma=False)
        match = _STRING.match(self.text, at)
        if match is None:
            raise _NoContinuationError
        if self.text[match.end() : match.end() + 1] != '"':
            return self._key_rest(at, match.end(), container, left)
        key = json.loads(self.text[at : match.end() + 1])
        if key not in container:
            raise _NoContinuationError
        left.pop(key, None)
        colon = self._skip(match.end() + 1)
        if colon >= len(self.text):
            return ": " + _dump(container[key]) + self._tail()
        if self.text[colon] != ":":
            raise _NoContinuationError
        return container[key], colon + 1

    def _key_rest(self, at: int, end: int, container: Any, left: dict[str, None]) -> str:
        known, part = json.loads(self.text[at:end] + '"'), self.text[end:]
        for key in left:
            rest = _string_rest(known, part, key)
            if rest is not None:
                del left[key]
                return f"{rest}: {_dump(container[key])}{self._tail()}"
        raise _NoContinuationError

    def _tail(self, *, comma: bool = True) -> str:
        """Return the rest of the open containers, from the innermost outwards."""
        pieces: list[str] = []
        for container, left in reversed(self.open):
            if isinstance(left, int):
                members = [_dump(item) for item in container[left:]]
            else:
                members = [f"{_dump(key)}: {_dump(container[key])}" for key in left]
            separate = comma and not _is_untouched(container, left)
            pieces.append((", " if separate and members else "") + ", ".join(members))
            pieces.append("}" if isinstance(container, dict) else "]")
            comma = True
        return "".join(pieces)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_untouched(container: Any, left: dict[str, None] | int) -> bool:
    """Return whether only the bracket of the container was sent."""
    return left == 0 if isinstance(left, int) else len(left) == len(container)


def _scalar_rest(sent: str, value: Any) -> str:
    text = _dump(value)
    if isinstance(value, (str, dict, list)):
        raise _NoContinuationError
    if text.startswith(sent):
        return text[len(sent) :]
    # The number may have a different spelling; then it is already complete.
    if isinstance(value, bool) or value is None or not is_same_json(json.loads(sent), value):
        raise _NoContinuationError
    return ""


def _string_rest(known: str, part: str, value: str) -> str | None:
    """Complete a string if `known` was sent, and `part` of one more escape."""
    if part and not _ESCAPE_PART.match(part):
        return None
    if known and _HIGH.match(known[-1]) and not value.startswith(known):
        return _low_rest(known, part, value)
    if not value.startswith(known):
        return None
    rest = value[len(known) :]
    if not part:
        return _dump(rest)[1:]
    escape = _escape_rest(part, rest[0]) if rest else None
    return None if escape is None else escape + _dump(rest[1:])[1:]


def _low_rest(known: str, part: str, value: str) -> str | None:
    """Same, if the high surrogate of a pair was sent last."""
    character = value[len(known) - 1 : len(known)]
    units = _units(character)
    if not value.startswith(known[:-1]) or len(units) != 12 or chr(int(units[2:6], 16)) != known[-1]:
        return None
    low = units[6:]
    if not low.startswith(part.lower()):
        return None
    return low[len(part) :] + _dump(value[len(known) :])[1:]


def _escape_rest(part: str, character: str) -> str | None:
    short = json.dumps(character)[1:-1]
    if part == "\\" and len(short) == 2:
        return short[1:]
    units = _units(character)
    return units[len(part) :] if units.startswith(part.lower()) else None


def _units(character: str) -> str:
    """Return the character as JSON escapes."""
    coded = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{coded[i]:02x}{coded[i + 1]:02x}" for i in range(0, len(coded), 2))
