"""Which conversations there are among recorded exchanges: each turn of one repeats what went before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple


class Trail(NamedTuple):
    """Where an exchange stands in a conversation, in short marks of what was said."""

    number: int
    name: str
    asked: tuple[bytes, ...]
    """Of what the client sent."""
    marks: tuple[bytes, ...]
    """Of that and the answer."""
    system: bytes
    """Of the instructions, which `marks` leave out: they may change from turn to turn."""
    whole: bytes
    """Of everything."""


def last_of(trails: Iterable[Trail]) -> tuple[str, ...]:
    """The exchanges that no longer conversation begins with, in the order of time. Of those that are as long and tell
    the same, reasoning and system text included, it is the last one."""
    trails = sorted(trails, key=lambda trail: (len(trail.marks), trail.number), reverse=True)
    told = {(_digest(trail.asked), trail.system) for trail in trails}
    found: list[Trail] = []
    beginnings: dict[bytes, dict[bytes, int]] = {}
    wholes: set[bytes] = set()
    for trail in trails:
        if trail.whole not in wholes and not _goes_on(trail, beginnings, told):
            found.append(trail)
            wholes.add(trail.whole)
            for beginning in _beginnings(trail.marks):
                beginnings.setdefault(beginning, {}).setdefault(trail.system, len(trail.marks))
    return tuple(trail.name for trail in sorted(found))


def _goes_on(trail: Trail, beginnings: dict[bytes, dict[bytes, int]], told: set[tuple[bytes, bytes]]) -> bool:
    """Is there a longer conversation that this exchange is a turn of? `beginnings` tells for each how long those are
    that begin with it, by their instructions. With other instructions it is one if it has the answer too, and this
    turn of its own is not among the exchanges."""
    asked = _digest(trail.asked)
    if beginnings.get(asked, {}).get(trail.system, 0) > len(trail.marks):
        return True
    others = beginnings.get(_digest(trail.marks), {})
    return any(length > len(trail.marks) and (asked, system) not in told for system, length in others.items())


def _digest(marks: tuple[bytes, ...]) -> bytes:
    return blake2b(b"".join(marks)).digest()


def _beginnings(marks: tuple[bytes, ...]) -> Iterator[bytes]:
    so_far = blake2b()
    yield so_far.digest()
    for mark in marks:
        so_far.update(mark)
        yield so_far.digest()
