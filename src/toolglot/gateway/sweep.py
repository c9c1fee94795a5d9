"""One timer for all drivers of a server and for the work they leave behind: each is checked about once a second."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from toolglot.errors import ApiError

if TYPE_CHECKING:
    from toolglot.gateway.callback_driver import CallbackDriver
    from toolglot.gateway.reply_drain import ReplyDrain

log = logging.getLogger("toolglot.server")

INTERVAL = 1.0
CLEARING = 0.004
"""Seconds per run spent on disconnected clients: a thousand may disconnect at once, and others are waiting."""


class DriverSweep:
    """`keepalive` is the number of seconds of silence after which a client gets a keep-alive."""

    def __init__(self, keepalive: Callable[[], float]) -> None:
        self._keepalive = keepalive
        self._open: set[CallbackDriver | ReplyDrain] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._left: deque[CallbackDriver] = deque()
        self._clearing: asyncio.Handle | None = None

    def __iter__(self) -> Iterator[CallbackDriver | ReplyDrain]:
        return iter(self._open)

    def add(self, driver: CallbackDriver | ReplyDrain) -> None:
        self._open.add(driver)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval(), self._tick)

    def discard(self, driver: CallbackDriver | ReplyDrain) -> None:
        self._open.discard(driver)

    def leave(self, driver: CallbackDriver) -> None:
        """Note that the client has disconnected. The sweep cleans up later."""
        self._open.discard(driver)
        self._left.append(driver)
        if self._clearing is None:
            self._clearing = asyncio.get_running_loop().call_soon(self._clear)

    def _clear(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + CLEARING
        while self._left and loop.time() < until:
            _done(self._left.popleft().clear_up)
        if self._left:
            self._clearing = loop.call_later(CLEARING / 4, self._clear)
        else:
            self._clearing = None

    def _interval(self) -> float:
        return min(INTERVAL, self._keepalive() / 4)

    def _tick(self) -> None:
        self._timer = None
        loop, keepalive = asyncio.get_running_loop(), self._keepalive()
        now = loop.time()
        for driver in list(self._open):
            _done(partial(driver.tick, now, keepalive))
        if self._open:
            self._timer = loop.call_later(self._interval(), self._tick)

    def stop(self, error: ApiError) -> None:
        """Stop all drivers: the server shuts down and no longer waits."""
        for driver in list(self._open):
            _done(partial(driver.stop, error))


def _done(work: Callable[[], None]) -> None:
    """Run one of many jobs: an exception in it must not stop the others."""
    try:
        work()
    except Exception:
        log.exception("an internal error while an answer was checked")
