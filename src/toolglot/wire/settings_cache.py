"""Settings of recent requests, found by the bytes around the conversation.

An agent sends its system prompt, its tools and its settings with each request, in the same bytes; what is new stands in
the conversation. So what was read of everything else is kept with those bytes, and where they come again only the
conversation is read. It is the same document: equal bytes up to the value of one member, a whole value, and equal bytes
behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from threading import Lock
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

FINGERPRINT_BYTES = 64
"""Bytes at the end of a request that tell which others it may be like; or at its beginning, where the conversation
stands last."""
MAX_PER_FINGERPRINT = 4
"""Requests that are kept for one mark."""
MAX_FINGERPRINTS = 256
MAX_BYTES = 4 * 1024 * 1024
"""Bytes around conversations that are kept, twice: as they came, and as what was read of them."""
MAX_ENTRY_BYTES = 512 * 1024
"""Bytes around one conversation."""
MAX_REQUEST_BYTES = 1024 * 1024
"""Bytes of a request in which its conversation is looked for: that is one call of the parser."""
MAX_MISSES = 16
"""So often in a row is kept what does not come again; from then on, one in as many is."""
MAX_CANDIDATES = 16
"""Places that are looked at in search of the conversation."""

T = TypeVar("T")


class _CachedSettings(Struct, Generic[T], frozen=True, gc=False):
    """What stands before and behind the conversation of a request, and what was read of it."""

    before: bytes
    after: bytes
    start: int
    """Where the conversation begins."""
    end: int
    """Where it ends, from the end of the request."""
    size: int
    settings: T


class SettingsCache(Generic[T]):
    """Settings of one dialect's requests. `history` is the member that holds the conversation. Threads may use it at
    any time."""

    def __init__(self, history: str) -> None:
        name = history.encode()
        outline: Any = msgspec.defstruct("_Outline", [("history", Raw)], rename={"history": history})
        self._outline = msgspec.json.Decoder(outline).decode
        self._member = re.compile(rb'"%b"\s*:\s*' % re.escape(name))
        self._entries: dict[bytes, tuple[_CachedSettings[T], ...]] = {}
        self._lock = Lock()
        self._misses = 0
        self.size = 0

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def find(self, data: bytes) -> tuple[T, bytes] | None:
        """The settings of a request with these bytes, and the bytes of its conversation."""
        for mark in (data[-FINGERPRINT_BYTES:], data[:FINGERPRINT_BYTES]):
            for around in self._entries.get(mark, ()):
                if data.endswith(around.after, around.start) and data.startswith(around.before):
                    self._misses = 0
                    return around.settings, data[around.start : around.end]
        return None

    def add(self, data: bytes, settings: Callable[[], T]) -> None:
        """Remember the settings of a request that was read whole and is sound."""
        self._misses += 1
        if len(data) > MAX_REQUEST_BYTES or (self._misses > MAX_MISSES and self._misses % MAX_MISSES):
            return
        try:
            conversation = bytes(self._outline(data).history)
        except msgspec.MsgspecError:
            return
        ends = [found.end() for found in islice(self._member.finditer(data), MAX_CANDIDATES)]
        start = next((end for end in ends if data.startswith(conversation, end)), len(data))
        before, behind = data[:start], data[start + len(conversation) :]
        mark = behind[-FINGERPRINT_BYTES:] if len(behind) >= FINGERPRINT_BYTES else before[:FINGERPRINT_BYTES]
        size = len(before) + len(behind)
        if len(mark) == FINGERPRINT_BYTES and size <= MAX_ENTRY_BYTES and self._encloses_history(before, behind):
            around = _CachedSettings(before, behind, len(before), -len(behind), size, settings())
            self._insert(mark, around)

    def _encloses_history(self, before: bytes, behind: bytes) -> bool:
        """Does the conversation stand between these? The same bytes may be in another place of the request too."""
        try:
            return bytes(self._outline(b"%b[0]%b" % (before, behind)).history) == b"[0]"
        except msgspec.MsgspecError:
            return False

    def _insert(self, mark: bytes, around: _CachedSettings[T]) -> None:
        with self._lock:
            known = self._entries.pop(mark, ())
            self.size += around.size - sum(one.size for one in known[MAX_PER_FINGERPRINT - 1 :])
            self._entries[mark] = (around, *known[: MAX_PER_FINGERPRINT - 1])
            while self.size > MAX_BYTES or len(self._entries) > MAX_FINGERPRINTS:
                oldest = self._entries.pop(next(iter(self._entries)))
                self.size -= sum(one.size for one in oldest)
