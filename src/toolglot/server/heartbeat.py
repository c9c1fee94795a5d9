"""What runs beside an answer: the keep-alives of a silent stream, and the watch for a client that goes away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from toolglot.server.incoming import ClientLeftError, Incoming

log = logging.getLogger("toolglot.server")


@contextmanager
def watching(incoming: Incoming) -> Iterator[None]:
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
    watch.add_done_callback(_tell_failure)
    try:
        yield
    finally:
        watch.cancel()  # it does nothing more, and nobody has to wait for its end


@asynccontextmanager
async def keeping_alive(
    incoming: Incoming,
    data: bytes,
    interval: float,
    headers: Callable[[], Mapping[str, str]],
    alive: Callable[[], bool],
) -> AsyncIterator[None]:
    """Send `data` after every `interval` seconds of silence, the head of the answer before it where none went out.

    The work inside ends when the upstream does, so no keep-alive ever outlives it; and while nobody is at work, because
    a retry is waited for, `alive` says so.
    """

    async def beat() -> None:
        loop = asyncio.get_running_loop()
        while not incoming.finished:
            silence = loop.time() - incoming.written_at
            if silence < interval or incoming.writing or not alive():
                await asyncio.sleep(max(interval - silence, interval / 10))
            elif not incoming.begun:
                await incoming.begin(headers())
            else:
                await incoming.write(data)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        _tell_failure(task)


def _tell_failure(task: asyncio.Task[None]) -> None:
    failure = None if task.cancelled() else task.exception()
    # Of a client that is gone whoever writes the answer learns as well, and says so.
    if failure is not None and not isinstance(failure, ClientLeftError):
        log.error("what runs beside an answer failed", exc_info=failure)
