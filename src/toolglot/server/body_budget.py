"""A bound on the memory that request bodies take, all together.

A body is in memory in several forms until its answer is over: as it came, as text, as values, and as it is sent to the
upstream. What that takes is estimated as the body comes in, and charged to a budget that all requests of a process
share. Where there is no room a body is not read on until there is, for a bounded time; then it is refused, for its
client to try again. Small bodies are not counted: the limit of requests bounds those.

A body is let in when there is room for all that it announces, so that uploads do not wait for each other half way. Only
what has arrived is charged, and what is announced counts while an upload moves: a slow one takes no room for the rest.
Uploads may wait for each other all the same, if they did not announce their length or take more than it tells. Then the
youngest are refused until the oldest can go on; if it has nothing but itself to wait for, it goes on beyond the limit.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

SMALL_BODY = 64 * 1024
"""Bytes of a body that is not counted."""

ASCII, WIDE, WIDEST = 4, 5, 9
"""Bytes of memory for a byte of a body, by the widest character of its texts: Python keeps a text with one emoji in
four bytes a character. Measured with texts of 7 to 30 MB that were translated: 3.6, 4.3 and 8.6."""
MEMBER = 200
"""Bytes of memory for a member of an object, beside those of its text. Measured with 99,000 messages: 190."""
ACTIVE_SECONDS = 1.0
"""Seconds since its last piece in which an upload counts with all that it has announced."""
ELEMENT = 40
"""Bytes of memory for an element of an array of numbers."""
MAX_PER_BYTE = WIDEST + MEMBER // len('"":1,')
"""Bytes of memory for a byte of any body: one that is nothing but members without names."""

# To look for one byte, or for what begins with a rare one, takes few microseconds for 100 KB; other ways take hundreds.
_FOUR_BYTES = tuple(bytes([first]) for first in range(0xF0, 0xF5))
"""What characters begin with that take four bytes."""
_ESCAPE = re.compile(rb"\\u")
_SURROGATE = re.compile(rb"\\u[dD][89abAB]")


class BodyCost:
    """An estimate of what a body takes, from its pieces."""

    __slots__ = ("_factor", "_values", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        self._factor = ASCII
        self._values = 0

    def add(self, piece: bytes | bytearray) -> int:
        """One piece more; what all of them take."""
        self.bytes += len(piece)
        if self._factor < WIDEST:
            self._factor = max(self._factor, _factor_of(piece))
        commas = piece.count(b",")
        elements = commas if commas > len(piece) // 5 else 0
        self._values += _count_members(piece) * MEMBER + elements * ELEMENT
        return self.bytes * self._factor + self._values if self.bytes > SMALL_BODY else 0


def _factor_of(piece: bytes | bytearray) -> int:
    """The bytes of memory for a byte of this piece."""
    is_ascii = piece.isascii()
    if not is_ascii and any(first in piece for first in _FOUR_BYTES):
        return WIDEST
    if _ESCAPE.search(piece) is None:
        return ASCII if is_ascii else WIDE
    return WIDE if _SURROGATE.search(piece) is None else WIDEST


def _count_members(piece: bytes | bytearray) -> int:
    """The members of objects; where there are few colons at all, those in texts count as well."""
    colons = piece.count(b":")
    return colons if colons <= len(piece) // 64 else piece.count(b'":')


class NoRoomError(Exception):
    """There was no room for a body in time."""


class BodyHold:
    """What one request holds of the budget."""

    __slots__ = ("_budget", "_estimate", "_waited", "_wanted", "announced", "cost", "is_settled", "touched")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._estimate = BodyCost()
        self._waited = 0.0
        self._wanted = 0
        self.announced = 0
        """What the whole body will take, as far as its length tells."""
        self.touched = 0.0
        """When a piece has come last."""
        self.cost = 0
        self.is_settled = False
        """The whole body is there."""

    def try_add(self, piece: bytes) -> bool:
        """Charge a piece if there is room for it at once."""
        self._wanted = self._estimate.add(piece)
        return self._wanted <= self.cost or self._budget.try_charge(self, self._wanted - self.cost)

    async def enter(self, length: int, patience: float) -> None:
        """Wait until a body of this length may be read. Raises `NoRoomError`."""
        if length > SMALL_BODY and not self._budget.try_admit(self, length * ASCII):
            await self._wait(length * ASCII, patience, is_admission=True)

    async def add(self, piece: bytes, patience: float) -> None:
        """Charge a piece, as soon as there is room. Raises `NoRoomError`."""
        if not self.try_add(piece):
            await self._wait(self._wanted - self.cost, patience, is_admission=False)

    async def _wait(self, amount: int, patience: float, *, is_admission: bool) -> None:
        """All that one body waits is so many seconds together."""
        now = asyncio.get_running_loop().time
        began = now()
        await self._budget.wait(self, amount, patience - self._waited, is_admission=is_admission)
        self._waited += now() - began

    def settle(self) -> None:
        self._budget.settle(self)

    def release(self) -> None:
        self._budget.release(self)


class _Waiter(NamedTuple):
    hold: BodyHold
    amount: int
    is_admission: bool
    """It waits to be read, and not for room for a piece of it."""
    granted: asyncio.Future[None]


class BodyBudget:
    """The budget of one process; `limit` may change with its configuration."""

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
        """Charge a body that has arrived; None where there is no room for it now.

        While most of the budget is free, the body is charged with the most that its length can take: an estimate would
        cost more time than reading the body does.
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

    async def wait(self, hold: BodyHold, amount: int, patience: float, *, is_admission: bool) -> None:
        loop = asyncio.get_running_loop()
        waiter = _Waiter(hold, amount, is_admission, loop.create_future())
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(patience):
                while not waiter.granted.done():
                    # An upload that has become slow makes room, and nobody tells.
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
        """Refuse the last of the uploads that wait half way, but for the first."""
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
        """Give all of it back; what is released twice is released once."""
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
        """What other uploads have announced and not sent."""
        since = self._clock() - ACTIVE_SECONDS
        others = (each for each in self._uploading if each is not hold and each.touched >= since)
        return sum(max(each.announced - each.cost, 0) for each in others)

    def _is_oldest(self, hold: BodyHold) -> bool:
        """Whether no other upload has begun earlier."""
        return next(iter(self._uploading), None) is hold

    def _grant(self) -> None:
        """Give room to those who wait: to the oldest upload, then to all in their order."""
        for waiter in [*filter(lambda each: self._is_oldest(each.hold), self._waiting), *self._waiting]:
            is_next = self._is_oldest(waiter.hold) or (self._waiting and self._waiting[0] is waiter)
            if waiter in self._waiting and is_next and self._has_room(waiter.hold, waiter.amount):
                self._waiting.remove(waiter)
                if not waiter.granted.done():
                    (self._admit if waiter.is_admission else self._charge)(waiter.hold, waiter.amount)
                    waiter.granted.set_result(None)
