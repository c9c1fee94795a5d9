"""One thread that works through calls in their order, and the event loops in which somebody waits for them.

The thread never waits for another process that holds the file: whoever asked does, beside the others, and the thread
goes on with what can be done. Once the file was held for longer than anybody is to wait, nobody waits for a while.
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
from toolglot.store.failures import told

MAX_WAITING = 4096
"""Calls that may wait for the thread. A disk that hangs must not fill the memory with what is to be written."""

IMPATIENT_SECONDS = 5.0
"""How long a call is tried only once, after the file was not free in time for another one."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05
"""Between two tries, in seconds."""

T = TypeVar("T")


class _Call(Struct):
    """Something that the thread is to do, and who is told what it came to."""

    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    over: asyncio.Future[Any]
    until: float
    """When it is tried no more, should another process hold the file."""
    writes: bool
    pause: float = _FIRST_PAUSE


class Worker:
    """`patience`: seconds that a call waits while another process writes."""

    def __init__(self, name: str, patience: float) -> None:
        self._patience = patience
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._lock = Lock()
        self._waiting = 0
        self._closed = False
        self._impatient = -inf
        self._calls: set[asyncio.Future[Any]] = set()

    def call(self, work: Callable[[], T], *, writes: bool) -> asyncio.Future[T]:
        """What the work comes to, as soon as its turn has come. Raises `StoreError`, at once or when it is awaited."""
        asked, loop = time.monotonic(), asyncio.get_running_loop()
        until = asked + (self._patience if asked >= self._impatient else 0.0)
        call = _Call(work, loop, loop.create_future(), until, writes)
        with self._lock:
            if self._closed:
                raise StoreError("closed", "the store is closed")
            self._submit(call)
        self._calls.add(call.over)
        call.over.add_done_callback(self._calls.discard)
        # Whoever waits may be cancelled (its client left); what it has asked for is done all the same.
        return asyncio.shield(call.over)

    def later(self, work: Callable[[], object]) -> bool:
        """Have something done for which nobody waits; False if it is too late for that."""
        with self._lock:
            if not self._closed:
                self._thread.submit(work)
            return not self._closed

    async def close(self, last: Callable[[], object]) -> None:
        """Finish what waits, then this. A second call does nothing."""
        with self._lock:
            closing, self._closed = not self._closed, True
        if closing:
            try:
                # Of another loop nobody waits any more; what was asked for there is in the thread, before the last.
                loop = asyncio.get_running_loop()
                waiting = [call for call in self._calls if not call.done() and call.get_loop() is loop]
                await asyncio.gather(*waiting, return_exceptions=True)
                # Not one of the calls that may be refused: it is the last, however many wait before it.
                await asyncio.shield(asyncio.wrap_future(self._thread.submit(told, last)))
            finally:
                self._thread.shutdown(wait=False)

    def _submit(self, call: _Call) -> None:
        if self._waiting >= MAX_WAITING:
            raise StoreError("busy", f"{self._waiting} calls wait for the store already")
        self._waiting += 1
        self._thread.submit(self._work, call)

    def _work(self, call: _Call) -> None:
        """In the thread: do it, and tell the loop what it came to."""
        result = failure = None
        try:
            result = told(call.work)
        except BaseException as error:  # whatever it is, it is for whoever asked
            failure = error
        with self._lock:
            self._waiting -= 1
        with suppress(RuntimeError):  # a loop that is closed: nobody waits any more
            call.loop.call_soon_threadsafe(self._settle, call, result, failure)

    def _settle(self, call: _Call, result: Any, failure: BaseException | None) -> None:
        """In the loop: tell whoever asked; or try again, while another process holds the file."""
        if call.over.done():  # whoever was to close the store has given up
            return
        if failure is None:
            if call.writes:  # reading may go on all the while
                self._impatient = -inf
            call.over.set_result(result)
            return
        if isinstance(failure, StoreError) and failure.failure == "locked":
            if time.monotonic() < call.until:
                call.loop.call_later(call.pause, self._try_again, call)
                return
            self._impatient = time.monotonic() + IMPATIENT_SECONDS
        call.over.set_exception(failure)

    def _try_again(self, call: _Call) -> None:
        if call.over.done():
            return
        call.pause = min(call.pause * 2, _LONGEST_PAUSE)
        try:
            with self._lock:
                self._submit(call)
        except StoreError as error:
            call.over.set_exception(error)
