"""Caches the decoded elements of recent conversations, by their bytes.

An agent sends the whole conversation with each request, and a few more messages at its end. The elements up to there
are the same bytes as before, so only the new ones are decoded. Requests share the decoded elements, which are never
changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw

KEY_BYTES = 64
"""Bytes at the beginning of a conversation that select the candidates."""
MAX_PER_KEY = 8
"""Conversations with the same key."""
MAX_BYTES = 4 * 1024 * 1024
"""Bytes of all conversations. Their decoded elements take about as much again."""
MIN_HISTORY_BYTES = 2048
"""Bytes of one conversation. Shorter ones are decoded as fast as they are found."""
MAX_HISTORY_BYTES = 512 * 1024
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
        own, ends = self.data, self.ends
        if len(ends) < len(self.elements):
            ends = self._find_ends()
        count = len(ends)
        least = count - MAX_CHANGED if count > MAX_CHANGED else 0
        while count > least:
            end = ends[count - 1]
            start = end - PROBE_BYTES if end > PROBE_BYTES else 0
            if data[start:end] == own[start:end] and data[end : end + 1] in _AFTER and data.startswith(own[:end]):
                return count
            count -= 1
        return 0

    def _find_ends(self) -> tuple[int, ...]:
        data, found = self.data, [*self.ends]
        place = found[-1] if found else 0
        for raw in _split(b"[" + data[data.index(b"," if found else b"[", place) + 1 :]):
            place = data.index(raw, place) + len(raw)
            found.append(place)
        self.ends = ends = tuple(found)
        return ends


_AFTER = frozenset({b",", b"]", b" ", b"\t", b"\r", b"\n"})
"""What may follow an element."""


class HistoryCache(Generic[T]):
    """Elements of one dialect's conversations. It is thread-safe."""

    def __init__(self) -> None:
        self._known: dict[bytes, list[_KnownHistory[T]]] = {}
        self._lock = Lock()
        self.size = 0

    def read(self, data: bytes, decode: Callable[[bytes], list[T] | None]) -> Sequence[T] | None:
        """Return the elements of the conversation in these bytes. `decode` reads those that are not known, from an
        array of them, and returns None if only the whole request can be read. Raises the same as `decode`."""
        if not MIN_HISTORY_BYTES <= len(data) <= MAX_HISTORY_BYTES:
            return decode(data)
        key = data[:KEY_BYTES]
        for known in self._known.get(key, ()):
            if (count := known.count_common(data)) and (extended := _extend(known, count, data, decode)) is not None:
                self._insert(key, extended, known)
                return extended.elements
        elements = decode(data)
        if elements:
            self._insert(key, _KnownHistory(data, tuple(elements), ()), None)
        return elements

    def _insert(self, key: bytes, history: _KnownHistory[T], earlier: _KnownHistory[T] | None) -> None:
        """Put a conversation in the place of an earlier turn of it, or before the others with its key."""
        with self._lock:
            known = self._known.pop(key, None)
            if known is None:
                known = []
            if earlier is not None and earlier in known:  # by identity
                self.size -= len(earlier.data)
                known[known.index(earlier)] = history
            else:
                known.insert(0, history)
                if len(known) > MAX_PER_KEY:
                    self.size -= len(known.pop().data)
            self._known[key] = known
            self.size += len(history.data)
            while self.size > MAX_BYTES:
                self.size -= sum([len(one.data) for one in self._known.pop(next(iter(self._known)))])


def _extend(
    known: _KnownHistory[T], count: int, data: bytes, decode: Callable[[bytes], list[T] | None]
) -> _KnownHistory[T] | None:
    """Return the conversation in these bytes, which begins with the first elements of a known one; None if anything
    other than elements follows."""
    elements, ends = known.elements, known.ends
    if count < len(ends):
        elements, ends = elements[:count], ends[:count]
    rest = data[ends[-1] :].lstrip(_SPACE)
    if rest == b"]":
        return _KnownHistory(data, elements, ends)
    more = decode(b"[" + rest[1:]) if rest.startswith(b",") else None
    return _KnownHistory(data, (*elements, *more), ends) if more else None
