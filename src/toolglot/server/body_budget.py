"""A limit on the memory of all request bodies together.

A body is in memory in several forms until its answer has ended: as received, as text, as values, and as sent to the
upstream. The memory is estimated while the body arrives, and charged to a budget that all requests of a process share.
If there is no room, reading pauses for a bounded time; then the request is refused, and its client can try again. Small
bodies are not counted: the limit on concurrent requests bounds them.

A body is admitted when there is room for its announced length, so that uploads do not block each other midway. Only
received bytes are charged. The announced rest counts while an upload makes progress: a slow upload reserves nothing.
Uploads can still block each other if they announce no length or take more than it suggests. Then the youngest are
refused until the oldest can continue; if the oldest waits for no other upload, it continues beyond the limit.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

SMALL_BODY = 64 * 1024
"""Bodies up to this many bytes are not counted."""

ASCII, WIDE, WIDEST = 4, 5, 9
"""Bytes of memory per byte of a body, by the widest character of its texts: Python stores a text with one emoji in
four bytes per character. Measured with translated texts of 7 to 30 MB: 3.6, 4.3 and 8.6."""
MEMBER = 200
"""Bytes of memory per object member, in addition to its text. Measured with 99,000 messages: 190."""
ACTIVE_SECONDS = 1.0
"""Seconds after its last piece in which an upload counts with its announced length."""
ELEMENT = 40
"""Bytes of memory per element of an array of numbers."""
MAX_PER_BYTE = WIDEST + MEMBER // len('"":1,')
"""Bytes of memory per byte of the most expensive body: one of members with empty names only."""

# A search for one byte, or for a pattern that begins with a rare one, takes a few microseconds per 100 KB; other
# methods take hundreds.
_FOUR_BYTES = tuple(bytes([first]) for first in range(0xF0, 0xF5))
"""First bytes of characters that take four bytes in UTF-8."""
_ESCAPE = re.compile(rb"\\u")
_SURROGATE = re.compile(rb"\\u[dD][89abAB]")


class BodyCost:
    """Estimates the memory of a body from its pieces."""

    __slots__ = ("_factor", "_values", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        self._factor = ASCII
        self._values = 0

    def add(self, piece: bytes | bytearray) -> int:
        """Add a piece. Returns the memory of all pieces so far."""
        self.bytes += len(piece)
        if self._factor < WIDEST:
            self._factor = max(self._factor, _factor_of(piece))
        commas = piece.count(b",")
        elements = commas if commas > len(piece) // 5 else 0
        self._values += _count_members(piece) * MEMBER + elements * ELEMENT
        return self.bytes * self._factor + self._values if self.bytes > SMALL_BODY else 0


def _factor_of(piece: bytes | bytearray) -> int:
    """Return the number of bytes of memory per byte of this piece."""
    is_ascii = piece.isascii()
    if not is_ascii and any(first in piece for first in _FOUR_BYTES):
        return WIDEST
    if _ESCAPE.search(piece) is None:
        return ASCII if is_ascii else WIDE
    return WIDE if _SURROGATE.search(piece) is None else WIDEST


def _count_members(piece: bytes | bytearray) -> int:
    """Count the members of objects. If there are few colons, those in texts count, too: it is faster."""
    colons = piece.count(b":")
    return colons if colons <= len(piece) // 64 else piece.count(b'":')


class NoRoomError(Exception):
    """The budget had no room for a body in time."""


class BodyHold:
    """The share of the budget that one request holds."""

    __slots__ = ("_budget", "_estimate", "_waited", "_wanted", "announced", "cost", "is_settled", "touched")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._estimate = BodyCost()
        self._waited = 0.0
        self._wanted = 0
        self.announced = 0
        """Memory that the whole body will take, estimated from its length."""
        self.touched = 0.0
        """Time of the last piece."""
        self.cost = 0
        self.is_settled = False
        """True if the whole body has arrived."""

    def try_add(self, piece: bytes) -> bool:
        """Charge a piece if there is room now."""
        self._wanted = self._estimate.add(piece)
        return self._wanted <= self.cost or self._budget.try_charge(self, self._wanted - self.cost)

    async def enter(self, length: int, timeout: float) -> None:
        """Wait until a body of this length may be read. Raises `NoRoomError`."""
        if length > SMALL_BODY and not self._budget.try_admit(self, length * ASCII):
            await self._wait(length * ASCII, timeout, is_admission=True)

    async def add(self, piece: bytes, timeout: float) -> None:
        """Charge a piece; waits for room. Raises `NoRoomError`."""
        if not self.try_add(piece):
            await self._wait(self._wanted - self.cost, timeout, is_admission=False)

    async def _wait(self, amount: int, timeout: float, *, is_admission: bool) -> None:
        """Wait for room. `timeout` bounds all waits of one body together."""
        now = asyncio.get_running_loop().time
        began = now()
        await self._budget.wait(self, amount, timeout - self._waited, is_admission=is_admission)
        self._waited += now() - began

    def settle(self) -> None:
        self._budget.settle(self)

    def release(self) -> None:
        self._budget.release(self)


class _Waiter(NamedTuple):
    hold: BodyHold
    amount: int
    is_admission: bool
    """True if it waits for admission, not for room for a piece."""
    granted: asyncio.Future[None]


class BodyBudget:
    """The budget of one process. `limit` may change with a reload of the configuration."""

    def __init__(self, limit: Callable[[], int], clock: Callable[[], float] = monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._settled = 0
        self._uploading: dict[BodyHold, None] = {}
        self._waiting: deque[_Waiter] = deque()
        self.used = 0

    def hold(self) -> BodyHold:
        return BodyHold(self)

    def hold_whole(self, body: bytes) -> BodyHold | None:
        """Charge a body that has arrived; None if there is no room now.

        While most of the budget is free, the maximum for the length is charged: an estimate would take longer than
        reading the body.
        """
        hold, most = BodyHold(self), len(body) * MAX_PER_BYTE
        if not self._uploading and not self._waiting and self.used + most <= self._limit() // 4:
            hold.is_settled, hold.cost = True, most
            self.used += most
            self._settled += most
            return hold
        if not hold.try_add(body):
            hold.release()
            return None
        hold.settle()
        return hold

    def try_admit(self, hold: BodyHold, announced: int) -> bool:
        if self._waiting or not self._has_room(hold, announced):
            return False
        self._admit(hold, announced)
        return True

    def try_charge(self, hold: BodyHold, amount: int) -> bool:
        hold.touched = self._clock()
        if not hold.is_settled:
            self._uploading.setdefault(hold)
        is_reserved = hold.cost + amount <= hold.announced and self.used + amount <= self._limit()
        may_pass = not self._waiting or self._is_oldest(hold)
        if not is_reserved and not (may_pass and self._has_room(hold, amount)):
            return False
        self._charge(hold, amount)
        return True

    async def wait(self, hold: BodyHold, amount: int, timeout: float, *, is_admission: bool) -> None:
        loop = asyncio.get_running_loop()
        waiter = _Waiter(hold, amount, is_admission, loop.create_future())
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                while not waiter.granted.done():
                    # An upload that becomes slow frees room without a notification.
                    await asyncio.wait([waiter.granted], timeout=ACTIVE_SECONDS / 2)
                    self._grant()
                    if not waiter.granted.done() and not is_admission and self._is_oldest(hold):
                        self._refuse_youngest()
                await waiter.granted
        except TimeoutError:
            raise NoRoomError from None
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                self._grant()

    def _refuse_youngest(self) -> None:
        """Refuse the youngest upload that is waiting midway, unless it is also the oldest."""
        for waiter in reversed(self._waiting):
            if not waiter.is_admission and not self._is_oldest(waiter.hold) and not waiter.granted.done():
                waiter.granted.set_exception(NoRoomError())
                return

    def settle(self, hold: BodyHold) -> None:
        self._uploading.pop(hold, None)
        if hold.cost and not hold.is_settled:
            hold.is_settled = True
            self._settled += hold.cost
        self._grant()

    def release(self, hold: BodyHold) -> None:
        """Give everything back. A second release does nothing."""
        self._uploading.pop(hold, None)
        cost, hold.cost = hold.cost, 0
        self.used -= cost
        self._settled -= cost if hold.is_settled else 0
        self._grant()

    def _admit(self, hold: BodyHold, announced: int) -> None:
        hold.announced = announced
        hold.touched = self._clock()
        self._uploading.setdefault(hold)

    def _charge(self, hold: BodyHold, amount: int) -> None:
        hold.cost += amount
        self.used += amount
        if hold.is_settled:
            self._settled += amount

    def _has_room(self, hold: BodyHold, amount: int) -> bool:
        if self.used + self._to_come(hold) + amount <= self._limit():
            return True
        settled = self._settled - (hold.cost if hold.is_settled else 0)
        return settled == 0 and (self._is_oldest(hold) or not self._uploading)

    def _to_come(self, hold: BodyHold) -> int:
        """Return the memory that other active uploads have announced but not sent."""
        since = self._clock() - ACTIVE_SECONDS
        others = (each for each in self._uploading if each is not hold and each.touched >= since)
        return sum(max(each.announced - each.cost, 0) for each in others)

    def _is_oldest(self, hold: BodyHold) -> bool:
        """Return whether no other upload began earlier."""
        return next(iter(self._uploading), None) is hold

    def _grant(self) -> None:
        """Give room to waiters: to the oldest upload first, then in order."""
        for waiter in [*filter(lambda each: self._is_oldest(each.hold), self._waiting), *self._waiting]:
            is_next = self._is_oldest(waiter.hold) or (self._waiting and self._waiting[0] is waiter)
            if waiter in self._waiting and is_next and self._has_room(waiter.hold, waiter.amount):
                self._waiting.remove(waiter)
                if not waiter.granted.done():
                    (self._admit if waiter.is_admission else self._charge)(waiter.hold, waiter.amount)
                    waiter.granted.set_result(None)
