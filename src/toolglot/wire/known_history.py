"""Caches the decoded elements of recent conversations, by their bytes.

An agent sends the whole conversation with each request, and a few more messages at its end. The elements up to there
are the same bytes as before, so only the new ones are decoded. Requests share the decoded elements, which are never
changed in place.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw

KEY_BYTES = 64
"""Bytes at the beginning of a conversation that select the candidates."""
MAX_PER_KEY = 8
"""Conversations with the same key."""
MAX_BYTES = 4 * 1024 * 1024
"""Bytes of all conversations. Their decoded elements take about as much again."""
MAX_HISTORY_BYTES = 512 * 1024
"""Bytes of one conversation."""
MAX_CHANGED = 4
"""Elements at the end of a conversation that may have changed: clients move cache breakpoints with every turn."""
PROBE_BYTES = 32
"""Bytes at the end of an element that are compared before everything up to there is."""

_SPACE = b" \t\r\n"
_split = msgspec.json.Decoder(list[Raw]).decode

T = TypeVar("T")


class _KnownHistory(Generic[T]):
    """A conversation: its bytes, its elements, and where they end. The last ends are found when they are needed."""

    __slots__ = ("data", "elements", "ends")

    def __init__(self, data: bytes, elements: tuple[T, ...], ends: tuple[int, ...]) -> None:
        self.data = data
        self.elements = elements
        self.ends = ends

    def count_common(self, data: bytes) -> int:
        """Count the elements with which another conversation begins, too; 0 if more than the last few differ."""
        own = self.data
        ends = self._find_ends()
        for number in range(len(ends) - 1, max(len(ends) - 1 - MAX_CHANGED, -1), -1):
            end = ends[number]
            probe = own[end - PROBE_BYTES : end] if end > PROBE_BYTES else own[:end]
            if data.endswith(probe, 0, end) and data[end : end + 1] in _AFTER and data.startswith(own[:end]):
                return number + 1
        return 0

    def _find_ends(self) -> tuple[int, ...]:
        ends, data = self.ends, self.data
        if len(ends) < len(self.elements):
            place = ends[-1] if ends else 0
            found = [*ends]
            for raw in _split(b"[" + data[data.index(b"," if ends else b"[", place) + 1 :]):
                place = data.index(raw, place) + len(raw)
                found.append(place)
            self.ends = ends = tuple(found)
        return ends


_AFTER = frozenset({b",", b"]", b" ", b"\t", b"\r", b"\n"})
"""What may follow an element."""


class HistoryCache(Generic[T]):
    """Elements of one dialect's conversations. It is thread-safe."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[_KnownHistory[T], ...]] = {}
        self._lock = Lock()
        self.size = 0

    def read(self, data: bytes, decode: Callable[[bytes], list[T] | None]) -> list[T] | None:
        """The elements of the conversation in these bytes. `decode` reads those that are not known, from an array of
        them, and returns None if only the whole request can be read. Raises the same as `decode`."""
        if not KEY_BYTES < len(data) <= MAX_HISTORY_BYTES:
            return decode(data)
        key = data[:KEY_BYTES]
        for known in self._known.get(key, ()):
            if (count := known.count_common(data)) and (elements := _extend(known, count, data, decode)) is not None:
                self._insert(key, _KnownHistory(data, tuple(elements), known.ends[:count]), known)
                return elements
        elements = decode(data)
        if elements:
            self._insert(key, _KnownHistory(data, tuple(elements), ()), None)
        return elements

    def _insert(self, key: bytes, history: _KnownHistory[T], earlier: _KnownHistory[T] | None) -> None:
        """Put a conversation before the others with its key, in place of an earlier turn of it."""
        with self._lock:
            known = self._known.pop(key, ())
            kept = tuple([one for one in known if one is not earlier][: MAX_PER_KEY - 1])
            self._known[key] = (history, *kept)
            self.size += len(history.data) + _count_bytes(kept) - _count_bytes(known)
            while self.size > MAX_BYTES:
                self.size -= _count_bytes(self._known.pop(next(iter(self._known))))


def _extend(
    known: _KnownHistory[T], count: int, data: bytes, decode: Callable[[bytes], list[T] | None]
) -> list[T] | None:
    """The first elements of a known conversation and those that follow them in these bytes; None if something else
    follows."""
    rest = data[known.ends[count - 1] :].lstrip(_SPACE)
    if rest == b"]":
        return [*known.elements[:count]]
    more = decode(b"[" + rest[1:]) if rest.startswith(b",") else None
    return [*known.elements[:count], *more] if more else None


def _count_bytes(histories: tuple[_KnownHistory[Any], ...]) -> int:
    return sum([len(history.data) for history in histories])
