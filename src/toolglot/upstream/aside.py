"""Long work beside the loop, so that other requests go on meanwhile.

The workers are few and have nothing else to do: the loop has to share the interpreter with each of them, and the
default executor is where names are looked up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

LARGE = 256 * 1024
"""Bytes of a request that are read and translated within some tens of milliseconds, in the worst case."""
WORKERS = 4

P = ParamSpec("P")
T = TypeVar("T")

_workers = ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="toolglot-large")


async def aside(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of work on so many bytes: done at once if they are few, else in a thread."""
    if size <= LARGE:
        return work(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_workers, lambda: work(*args, **kwargs))
