"""All streams that are crossing, looked at once a second: one timer for all of them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from toolglot.errors import ApiError

if TYPE_CHECKING:
    from toolglot.server.express.crossing import Crossing

log = logging.getLogger("toolglot.server")

INTERVAL = 1.0
CLEARING = 0.004
"""Seconds at a time that are spent on clients that have gone: a thousand may go at once, and others are waiting."""


class Crossings:
    """`silence` tells after how many seconds a client is to hear something."""

    def __init__(self, silence: Callable[[], float]) -> None:
        self._silence = silence
        self._open: set[Crossing] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._left: deque[Crossing] = deque()
        self._clearing: asyncio.Handle | None = None

    def __iter__(self) -> Iterator[Crossing]:
        return iter(self._open)

    def add(self, crossing: Crossing) -> None:
        self._open.add(crossing)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval(), self._tick)

    def discard(self, crossing: Crossing) -> None:
        self._open.discard(crossing)

    def leave(self, crossing: Crossing) -> None:
        """Its client has gone: clear up behind it, as soon as there is time for it."""
        self._open.discard(crossing)
        self._left.append(crossing)
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
        return min(INTERVAL, self._silence() / 4)

    def _tick(self) -> None:
        self._timer = None
        loop, silence = asyncio.get_running_loop(), self._silence()
        now = loop.time()
        for crossing in list(self._open):
            _done(partial(crossing.tick, now, silence))
        if self._open:
            self._timer = loop.call_later(self._interval(), self._tick)

    def end(self, error: ApiError) -> None:
        """The time to drain is over."""
        for crossing in list(self._open):
            _done(partial(crossing.fail, error))


def _done(work: Callable[[], None]) -> None:
    """What is done for one of many: a fault in it must not cost the others their turn."""
    try:
        work()
    except Exception:
        log.exception("the express lane failed in looking after a request")
