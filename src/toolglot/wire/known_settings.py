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

MARK = 64
"""Bytes at the end of a request that tell which others it may be like; or at its beginning, where the conversation
stands last."""
ALIKE = 4
"""Requests that are kept for one mark."""
MOST_MARKS = 256
ROOM = 4 * 1024 * 1024
"""Bytes around conversations that are kept, twice: as they came, and as what was read of them."""
LARGEST = 512 * 1024
"""Bytes around one conversation."""
LARGEST_REQUEST = 1024 * 1024
"""Bytes of a request in which its conversation is looked for: that is one call of the parser."""
CREDIT = 16
"""So often in a row is kept what does not come again; from then on, one in as many is."""
PLACES = 16
"""Places that are looked at in search of the conversation."""

T = TypeVar("T")


class _Around(Struct, Generic[T], frozen=True, gc=False):
    """What stands before and behind the conversation of a request, and what was read of it."""

    before: bytes
    behind: bytes
    start: int
    """Where the conversation begins."""
    end: int
    """Where it ends, from the end of the request."""
    size: int
    settings: T


class KnownSettings(Generic[T]):
    """Settings of one dialect's requests. `history` is the member that holds the conversation. Threads may use it at
    any time."""

    def __init__(self, history: str) -> None:
        name = history.encode()
        outline: Any = msgspec.defstruct("_Outline", [("history", Raw)], rename={"history": history})
        self._outline = msgspec.json.Decoder(outline).decode
        self._member = re.compile(rb'"%b"\s*:\s*' % re.escape(name))
        self._by_mark: dict[bytes, tuple[_Around[T], ...]] = {}
        self._lock = Lock()
        self._in_vain = 0
        self.size = 0

    def __len__(self) -> int:
        return sum(map(len, self._by_mark.values()))

    def find(self, data: bytes) -> tuple[T, bytes] | None:
        """The settings of a request with these bytes, and the bytes of its conversation."""
        for mark in (data[-MARK:], data[:MARK]):
            for around in self._by_mark.get(mark, ()):
                if data.endswith(around.behind, around.start) and data.startswith(around.before):
                    self._in_vain = 0
                    return around.settings, data[around.start : around.end]
        return None

    def keep(self, data: bytes, settings: Callable[[], T]) -> None:
        """Remember the settings of a request that was read whole and is sound."""
        self._in_vain += 1
        if len(data) > LARGEST_REQUEST or (self._in_vain > CREDIT and self._in_vain % CREDIT):
            return
        try:
            conversation = bytes(self._outline(data).history)
        except msgspec.MsgspecError:
            return
        ends = [found.end() for found in islice(self._member.finditer(data), PLACES)]
        start = next((end for end in ends if data.startswith(conversation, end)), len(data))
        before, behind = data[:start], data[start + len(conversation) :]
        mark = behind[-MARK:] if len(behind) >= MARK else before[:MARK]
        size = len(before) + len(behind)
        if len(mark) == MARK and size <= LARGEST and self._is_around(before, behind):
            around = _Around(before, behind, len(before), -len(behind), size, settings())
            self._add(mark, around)

    def _is_around(self, before: bytes, behind: bytes) -> bool:
        """Does the conversation stand between these? The same bytes may be in another place of the request too."""
        try:
            return bytes(self._outline(b"%b[0]%b" % (before, behind)).history) == b"[0]"
        except msgspec.MsgspecError:
            return False

    def _add(self, mark: bytes, around: _Around[T]) -> None:
        with self._lock:
            known = self._by_mark.pop(mark, ())
            self.size += around.size - sum(one.size for one in known[ALIKE - 1 :])
            self._by_mark[mark] = (around, *known[: ALIKE - 1])
            while self.size > ROOM or len(self._by_mark) > MOST_MARKS:
                oldest = self._by_mark.pop(next(iter(self._by_mark)))
                self.size -= sum(one.size for one in oldest)
