"""Run long work in a thread, so that the event loop keeps serving other requests.

There are two worker threads. Each shares the interpreter with the loop, so more threads would not be faster. One of
them takes work that may take seconds, so that shorter work does not wait for it. The default executor stays free for
name lookups.

The loop stalls when a single call is not interrupted for longer than the interpreter's switch interval. Therefore the
work is done in slices (`wire/incremental_json.py`), and full garbage collections pause while a large document is in
memory as hundreds of thousands of objects. Growing a block of memory must not copy it, and freeing it must not clear it
all at once: large blocks are mapped from the system one by one.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from threading import RLock
from time import monotonic
from typing import ParamSpec, TypeVar

from toolglot.wire.incremental_json import share_interpreter

LARGE = 256 * 1024
"""Request size in bytes up to which reading and translating takes some tens of milliseconds at worst."""
HUGE = 4 * 1024 * 1024
"""Request size in bytes from which work may take seconds."""

P = ParamSpec("P")
T = TypeVar("T")

_NEVER = 2**31 - 1
RELEASE_DELAY = 1.0
"""Seconds after which the code that worked on a large value has released it."""
MAX_COLLECTION_PAUSE, MAX_COLLECTION_PAUSE_WORKING = 60.0, 600.0
"""Maximum seconds without a full garbage collection: when large values are always present, and when work on them never
stops."""


class _PausedFullCollections:
    """Limits the collector to young objects during offloaded work and a little longer, because the results live for a
    while. Young objects are few and are scanned once or twice."""

    def __init__(self) -> None:
        self._lock = RLock()  # reentrant: a collection may start in here
        self._under_way = 0
        self._usual: tuple[int, int, int] | None = None
        self._since = self._until = 0.0

    def __enter__(self) -> None:
        with self._lock:
            self._under_way += 1
            if self._usual is None:
                self._usual, self._since = gc.get_threshold(), monotonic()
                gc.set_threshold(*self._usual[:2], _NEVER)
                gc.callbacks.append(self._on_collection)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._under_way -= 1
            self._until = monotonic() + 2 * RELEASE_DELAY

    def _on_collection(self, phase: str, info: object) -> None:
        """Garbage collector callback, called before and after each collection."""
        with self._lock:
            now, longest = monotonic(), MAX_COLLECTION_PAUSE if self._under_way == 0 else MAX_COLLECTION_PAUSE_WORKING
            over = self._under_way == 0 and now >= self._until
            if self._usual is not None and (over or now >= self._since + longest):
                gc.set_threshold(*self._usual)
                gc.callbacks.remove(self._on_collection)
                self._usual = None


_paused_full_collections = _PausedFullCollections()

BLOCK = 4 * 1024 * 1024
"""Bytes from which a memory block is mapped from the system by itself."""
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1


@cache
def _use_mmap_for_large_blocks() -> None:
    """Make the C library map large blocks from the system and return them, which is its initial behavior. A growing
    block then keeps its pages, and a zeroed block is not touched. glibc raises its threshold once it has seen large
    blocks, and then copies and clears tens of megabytes in one call. Other C libraries ignore this setting."""
    with suppress(ImportError, OSError, AttributeError, TypeError):
        from ctypes import CDLL

        mallopt = CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, BLOCK)
        mallopt(_TRIM_THRESHOLD, 2 * BLOCK)  # keeps free memory at the end of the heap, as without the line above


def _initialize_thread() -> None:
    _use_mmap_for_large_blocks()
    share_interpreter()


_workers = [ThreadPoolExecutor(1, f"toolglot-{name}", initializer=_initialize_thread) for name in ("large", "huge")]


_RELEASED_AT_ONCE = 200


def release(size: int, *held: tuple[object, ...]) -> None:
    """Release values made from `size` bytes a few at a time. Dropping the last reference would free all of them at
    once, which would block the loop. So the references are held here and dropped in small steps in a thread."""
    if size > LARGE:
        asyncio.get_running_loop().call_later(RELEASE_DELAY, _workers[size > HUGE].submit, _drop, list(held))


def _drop(held: list[tuple[object, ...]]) -> None:
    while held:
        values = list(held.pop())
        while values:
            del values[-_RELEASED_AT_ONCE:]


async def offload(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of work on `size` bytes: run inline if they are few, otherwise in a thread."""
    if size <= LARGE:
        return work(*args, **kwargs)

    def slowly() -> T:
        with _paused_full_collections:
            return work(*args, **kwargs)

    return await asyncio.get_running_loop().run_in_executor(_workers[size > HUGE], slowly)
