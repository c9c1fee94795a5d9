"""Caches the decoded settings of recent requests, keyed by the bytes around the conversation.

An agent sends its system prompt, tools and settings with each request in the same bytes; only the conversation is new.
So the decoded settings are cached with the bytes around the conversation. If the same bytes arrive again, only the
conversation is decoded. The document is the same: equal bytes up to the value of one member, a whole value, and equal
bytes after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from threading import Lock
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from toolglot.wire.known_history import HistoryCache

FINGERPRINT_BYTES = 64
"""Bytes at the end of a request that select the candidates; bytes at its beginning if the conversation comes last."""
MAX_PER_FINGERPRINT = 4
"""Maximum entries with the same fingerprint."""
MAX_FINGERPRINTS = 256
MAX_BYTES = 4 * 1024 * 1024
"""Maximum bytes of all entries. Memory use is about twice that: the bytes, and the decoded settings."""
MAX_ENTRY_BYTES = 512 * 1024
"""Maximum bytes around one conversation."""
MAX_REQUEST_BYTES = 1024 * 1024
"""Larger requests are not cached: finding the conversation is one call of the parser."""
MAX_MISSES = 16
"""After this many misses in a row, only one request in as many is cached."""
MAX_CANDIDATES = 16
"""Maximum occurrences of the member's name that are tried as the conversation."""

T = TypeVar("T")
E = TypeVar("E")


class _CachedSettings(Struct, Generic[T], frozen=True, gc=False):
    """The bytes before and after the conversation of a request, and the decoded settings."""

    before: bytes
    after: bytes
    start: int
    """Offset where the conversation begins."""
    end: int
    """Offset where it ends, counted from the end of the request (negative)."""
    size: int
    settings: T


class SettingsCache(Generic[T, E]):
    """Settings of one dialect's requests, and the elements of their conversations. `history` is the member that holds
    the conversation. It is thread-safe."""

    def __init__(self, history: str) -> None:
        name = history.encode()
        outline: Any = msgspec.defstruct("_Outline", [("history", Raw)], rename={"history": history})
        self._outline = msgspec.json.Decoder(outline).decode
        self._member = re.compile(rb'"%b"\s*:\s*' % re.escape(name))
        self._entries: dict[bytes, tuple[_CachedSettings[T], ...]] = {}
        self._lock = Lock()
        self._misses = 0
        self.size = 0
        self.history = HistoryCache[E]()

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def find(self, data: bytes) -> tuple[T, bytes] | None:
        """Return the settings of a request with these bytes, and the bytes of its conversation; None on a miss."""
        for fingerprint in (data[-FINGERPRINT_BYTES:], data[:FINGERPRINT_BYTES]):
            for entry in self._entries.get(fingerprint, ()):
                if data.endswith(entry.after, entry.start) and data.startswith(entry.before):
                    self._misses = 0
                    return entry.settings, data[entry.start : entry.end]
        return None

    def add(self, data: bytes, settings: Callable[[], T]) -> None:
        """Cache the settings of a request that was decoded whole and is valid."""
        self._misses += 1
        if len(data) > MAX_REQUEST_BYTES or (self._misses > MAX_MISSES and self._misses % MAX_MISSES):
            return
        try:
            conversation = bytes(self._outline(data).history)
        except msgspec.MsgspecError:
            return
        ends = [found.end() for found in islice(self._member.finditer(data), MAX_CANDIDATES)]
        start = next((end for end in ends if data.startswith(conversation, end)), len(data))
        before, after = data[:start], data[start + len(conversation) :]
        fingerprint = after[-FINGERPRINT_BYTES:] if len(after) >= FINGERPRINT_BYTES else before[:FINGERPRINT_BYTES]
        size = len(before) + len(after)
        if len(fingerprint) == FINGERPRINT_BYTES and size <= MAX_ENTRY_BYTES and self._encloses_history(before, after):
            entry = _CachedSettings(before, after, len(before), -len(after), size, settings())
            self._insert(fingerprint, entry)

    def _encloses_history(self, before: bytes, after: bytes) -> bool:
        """Return whether the conversation is between these bytes. The same bytes may also occur elsewhere."""
        try:
            return bytes(self._outline(b"%b[0]%b" % (before, after)).history) == b"[0]"
        except msgspec.MsgspecError:
            return False

    def _insert(self, fingerprint: bytes, entry: _CachedSettings[T]) -> None:
        with self._lock:
            known = self._entries.pop(fingerprint, ())
            self.size += entry.size - sum(one.size for one in known[MAX_PER_FINGERPRINT - 1 :])
            self._entries[fingerprint] = (entry, *known[: MAX_PER_FINGERPRINT - 1])
            while self.size > MAX_BYTES or len(self._entries) > MAX_FINGERPRINTS:
                oldest = self._entries.pop(next(iter(self._entries)))
                self.size -= sum(one.size for one in oldest)
