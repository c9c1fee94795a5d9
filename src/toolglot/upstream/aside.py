"""Long work beside the loop, so that other requests go on meanwhile.

The workers are few and have nothing else to do: the loop has to share the interpreter with each of them, and the
default executor is where names are looked up. What keeps the loop waiting for longer than the interpreter takes to
change threads is one call that is not interrupted: the work goes in slices (`wire/large.py`), and the garbage collector
does not go through everything there is while a large document is in memory as hundreds of thousands of objects.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import ParamSpec, TypeVar

LARGE = 256 * 1024
"""Bytes of a request that are read and translated within some tens of milliseconds, in the worst case."""
WORKERS = 4

P = ParamSpec("P")
T = TypeVar("T")

_NEVER = 2**31 - 1


class _NoFullCollections:
    """Keeps the collector to young objects while any work is under way. They are few, and looked at once or twice."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._under_way = 0
        self._usual = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._under_way += 1
            if self._under_way == 1:
                self._usual = gc.get_threshold()
                gc.set_threshold(*self._usual[:2], _NEVER)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._under_way -= 1
            if self._under_way == 0:
                gc.set_threshold(*self._usual)


_no_full_collections = _NoFullCollections()
_workers = ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="toolglot-large")


PATIENCE = 1.0
"""Seconds after which whoever has worked on something large has let go of it."""
_AT_ONCE = 200


def let_go(size: int, *held: Iterable[object]) -> None:
    """Soon nobody will need the values in these that come of so many bytes any more. The end of the last one who has
    them would be the end of all at once, which holds up everybody: they are held on to here, and let go a few at a
    time."""
    if size > LARGE:
        parts = [list(values) for values in held]
        asyncio.get_running_loop().call_later(PATIENCE, _workers.submit, _drop, parts)


def _drop(parts: list[list[object]]) -> None:
    for part in parts:
        while part:
            del part[-_AT_ONCE:]


async def aside(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of work on so many bytes: done at once if they are few, else in a thread."""
    if size <= LARGE:
        return work(*args, **kwargs)

    def slowly() -> T:
        with _no_full_collections:
            return work(*args, **kwargs)

    return await asyncio.get_running_loop().run_in_executor(_workers, slowly)
