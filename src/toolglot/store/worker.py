"""A thread that runs calls in order, for callers in event loops.

The thread never waits for another process that holds the file: the caller does, concurrently with others, and the
thread continues with what can be done. If the file is held for longer than a call may wait, later calls do not wait for
a while.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf
from threading import Lock
from typing import Any, TypeVar

from msgspec import Struct

from toolglot.store import StoreError
from toolglot.store.failures import run_as_store_call

MAX_QUEUED = 4096
"""Maximum queued calls. A disk that hangs must not fill the memory with pending writes."""

NO_RETRY_SECONDS = 5.0
"""Seconds during which calls are tried only once, after a call has timed out waiting for the file."""

_FIRST_PAUSE, _MAX_PAUSE = 0.002, 0.05
"""Between two attempts, in seconds."""

T = TypeVar("T")


class _QueuedCall(Struct):
    """Work for the thread, and the future for its result."""

    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    over: asyncio.Future[Any]
    until: float
    """Deadline for retries while another process holds the file."""
    writes: bool
    pause: float = _FIRST_PAUSE


class StoreWorker:
    """Thread that runs the store's operations. `patience`: seconds that a call waits for another process to finish
    writing."""

    def __init__(self, name: str, patience: float) -> None:
        self._patience = patience
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._lock = Lock()
        self._waiting = 0
        self._closed = False
        self._impatient = -inf
        self._calls: set[asyncio.Future[Any]] = set()

    def call(self, work: Callable[[], T], *, writes: bool) -> asyncio.Future[T]:
        """Queue the work and return its future result. Raises `StoreError`, at once or when it is awaited."""
        asked, loop = time.monotonic(), asyncio.get_running_loop()
        until = asked + (self._patience if asked >= self._impatient else 0.0)
        call = _QueuedCall(work, loop, loop.create_future(), until, writes)
        with self._lock:
            if self._closed:
                raise StoreError("closed", "the store is closed")
            self._submit(call)
        self._calls.add(call.over)
        call.over.add_done_callback(self._calls.discard)
        # The waiting task may be canceled (its client left); the work is done anyway.
        return asyncio.shield(call.over)

    def later(self, work: Callable[[], object]) -> bool:
        """Queue work without waiting for it. Returns False if the worker is closed."""
        with self._lock:
            if not self._closed:
                self._thread.submit(work)
            return not self._closed

    async def close(self, last: Callable[[], object]) -> None:
        """Finish the queued work, then run `last`. A second call does nothing."""
        with self._lock:
            closing, self._closed = not self._closed, True
        if closing:
            try:
                # No other loop is waiting; its calls are in the thread's queue, before the last.
                loop = asyncio.get_running_loop()
                waiting = [call for call in self._calls if not call.done() and call.get_loop() is loop]
                await asyncio.gather(*waiting, return_exceptions=True)
                # Not subject to the queue limit: it is the last, regardless of how many wait before it.
                await asyncio.shield(asyncio.wrap_future(self._thread.submit(run_as_store_call, last)))
            finally:
                self._thread.shutdown(wait=False)

    def _submit(self, call: _QueuedCall) -> None:
        if self._waiting >= MAX_QUEUED:
            raise StoreError("busy", f"{self._waiting} calls wait for the store already")
        self._waiting += 1
        self._thread.submit(self._work, call)

    def _work(self, call: _QueuedCall) -> None:
        """Runs in the thread: do the work, and report the result to the loop."""
        result = failure = None
        try:
            result = run_as_store_call(call.work)
        except BaseException as error:  # any exception belongs to the caller
            failure = error
        with self._lock:
            self._waiting -= 1
        with suppress(RuntimeError):  # the loop is closed: no task is waiting
            call.loop.call_soon_threadsafe(self._settle, call, result, failure)

    def _settle(self, call: _QueuedCall, result: Any, failure: BaseException | None) -> None:
        """Runs in the loop: report to the caller; or retry while another process holds the file."""
        if call.over.done():  # the caller that closes the store has stopped waiting
            return
        if failure is None:
            if call.writes:  # reads may continue all the while
                self._impatient = -inf
            call.over.set_result(result)
            return
        if isinstance(failure, StoreError) and failure.failure == "locked":
            if time.monotonic() < call.until:
                call.loop.call_later(call.pause, self._try_again, call)
                return
            self._impatient = time.monotonic() + NO_RETRY_SECONDS
        call.over.set_exception(failure)

    def _try_again(self, call: _QueuedCall) -> None:
        if call.over.done():
            return
        call.pause = min(call.pause * 2, _MAX_PAUSE)
        try:
            with self._lock:
                self._submit(call)
        except StoreError as error:
            call.over.set_exception(error)
