"""Long work beside the loop, so that other requests go on meanwhile.

There are two workers, which have nothing else to do: the loop has to share the interpreter with each, and more of them
would not be faster. One is for what may take seconds, so that nobody else waits for that. The default executor is for
looking up names. What keeps the loop waiting for longer than the interpreter takes to change threads is one call that
is not interrupted: the work goes in slices (`wire/large.py`), and the garbage collector does not go through everything
there is while a large document is in memory as hundreds of thousands of objects. A block of memory that grows must not
be copied either, nor cleared in one go: large ones are the system's, each by itself.
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

from toolglot.wire.large import share_interpreter

LARGE = 256 * 1024
"""Bytes of a request that are read and translated within some tens of milliseconds, in the worst case."""
HUGE = 4 * 1024 * 1024
"""Bytes of one that may take seconds."""

P = ParamSpec("P")
T = TypeVar("T")

_NEVER = 2**31 - 1
PATIENCE = 1.0
"""Seconds after which whoever has worked on something large has let go of it."""
LONGEST, LONGEST_AT_WORK = 60.0, 600.0
"""Seconds without a full collection of garbage where there is always something large; and where somebody is at work on
it all of the time."""


class _NoFullCollections:
    """Keeps the collector to young objects while any work is under way, and a little longer: what was made is there for
    a while. The young ones are few, and looked at once or twice."""

    def __init__(self) -> None:
        self._lock = RLock()  # the collector may begin in here
        self._under_way = 0
        self._usual: tuple[int, int, int] | None = None
        self._since = self._until = 0.0

    def __enter__(self) -> None:
        with self._lock:
            self._under_way += 1
            if self._usual is None:
                self._usual, self._since = gc.get_threshold(), monotonic()
                gc.set_threshold(*self._usual[:2], _NEVER)
                gc.callbacks.append(self._begins)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._under_way -= 1
            self._until = monotonic() + 2 * PATIENCE

    def _begins(self, phase: str, info: object) -> None:
        """The collector is about to look at young objects, or has done so."""
        with self._lock:
            now, longest = monotonic(), LONGEST if self._under_way == 0 else LONGEST_AT_WORK
            over = self._under_way == 0 and now >= self._until
            if self._usual is not None and (over or now >= self._since + longest):
                gc.set_threshold(*self._usual)
                gc.callbacks.remove(self._begins)
                self._usual = None


_no_full_collections = _NoFullCollections()

BLOCK = 4 * 1024 * 1024
"""Bytes of a block of memory that is the system's own."""
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1


@cache
def _own_large_blocks() -> None:
    """Have the C library take large blocks from the system and give them back, as it does at the beginning: a block
    that grows then keeps its pages, and one that is to be zero is not touched. glibc gives that up, and copies and
    clears tens of megabytes in one call, once it has seen how large the blocks are. Other libraries keep to it."""
    with suppress(ImportError, OSError, AttributeError, TypeError):
        from ctypes import CDLL

        mallopt = CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, BLOCK)
        mallopt(_TRIM_THRESHOLD, 2 * BLOCK)  # what is free at the end of the heap is kept, as without the line above


def _begin_thread() -> None:
    _own_large_blocks()
    share_interpreter()


_workers = [ThreadPoolExecutor(1, f"toolglot-{name}", initializer=_begin_thread) for name in ("large", "huge")]


_AT_ONCE = 200


def let_go(size: int, *held: tuple[object, ...]) -> None:
    """Soon nobody will need the values in these that come of so many bytes any more. The end of the last one who has
    them would be the end of all at once, which holds up everybody: they are held on to here, and let go a few at a
    time."""
    if size > LARGE:
        asyncio.get_running_loop().call_later(PATIENCE, _workers[size > HUGE].submit, _drop, list(held))


def _drop(held: list[tuple[object, ...]]) -> None:
    while held:
        values = list(held.pop())
        while values:
            del values[-_AT_ONCE:]


async def aside(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of work on so many bytes: done at once if they are few, else in a thread."""
    if size <= LARGE:
        return work(*args, **kwargs)

    def slowly() -> T:
        with _no_full_collections:
            return work(*args, **kwargs)

    return await asyncio.get_running_loop().run_in_executor(_workers[size > HUGE], slowly)
