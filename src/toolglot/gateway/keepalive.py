"""What runs beside an answer: the timer for its silence, and the watch for a client that goes away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from toolglot.gateway import flow
from toolglot.gateway.driver import ClientCommand, FlowDriver
from toolglot.server.asgi_request import AsgiRequest, ClientLeftError

log = logging.getLogger("toolglot.server")


@contextmanager
def cancelled_with_client(incoming: AsgiRequest) -> Iterator[None]:
    """Cancel the work inside at once when the client goes away, whatever it is waiting for."""
    worker = asyncio.current_task()
    assert worker is not None

    async def wait() -> None:
        while (await incoming.receive())["type"] != "http.disconnect":
            pass
        if not incoming.finished:
            incoming.record.cancelled = True
            worker.cancel()

    watch = asyncio.create_task(wait())
    watch.add_done_callback(log_failure)
    try:
        yield
    finally:
        watch.cancel()  # it does nothing more, and nobody has to wait for its end


class SilenceTimer:
    """Tells a flow when nothing has happened for a while, and writes what it says. Other writers `settle` first."""

    def __init__(
        self,
        incoming: AsgiRequest,
        driver: FlowDriver,
        keepalive_seconds: float,
        write: Callable[[ClientCommand], Awaitable[None]],
    ) -> None:
        self._incoming = incoming
        self._driver = driver
        self._keepalive_seconds = keepalive_seconds
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> SilenceTimer:
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])

    async def settle(self) -> None:
        """Wait until what was said into the silence is written."""
        if self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing])

    def _start(self) -> None:
        now, since, seconds = self._loop.time(), self._driver.waiting_since, self._keepalive_seconds
        trailing = flow.TRAILING_SECONDS - (0.0 if since is None else now - since)
        # One that is overdue could not be written just now.
        keepalive = max(seconds - (now - self._incoming.written_at), seconds / 10)
        due = min(keepalive, trailing) if trailing > 0 else keepalive
        self._timer = self._loop.call_later(due, self._tick)

    def _tick(self) -> None:
        incoming = self._incoming
        if incoming.finished:
            return
        if not incoming.writing and (self._writing is None or self._writing.done()):
            commands = self._driver.break_silence(incoming.written_at)
            if commands:
                self._writing = asyncio.create_task(self._write_all(commands))
                self._writing.add_done_callback(log_failure)
        self._start()

    async def _write_all(self, commands: Sequence[ClientCommand]) -> None:
        for command in commands:
            await self._write(command)


def log_failure(task: asyncio.Task[None]) -> None:
    failure = None if task.cancelled() else task.exception()
    # That a client is gone is known to whoever writes its answer as well.
    if failure is not None and not isinstance(failure, ClientLeftError):
        log.error("what runs beside an answer failed", exc_info=failure)
