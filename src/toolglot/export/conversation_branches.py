"""Find the conversations among recorded exchanges. Each turn of a conversation repeats the earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple


class ExchangeTrail(NamedTuple):
    """The position of an exchange in a conversation, as short hashes of its content."""

    number: int
    name: str
    asked: tuple[bytes, ...]
    """Hashes of the client's messages."""
    marks: tuple[bytes, ...]
    """Hashes of the client's messages and the answer."""
    system: bytes
    """Hash of the instructions. `marks` omit them because they may change between turns."""
    whole: bytes
    """Hash of everything."""


def last_exchanges(trails: Iterable[ExchangeTrail]) -> tuple[str, ...]:
    """Return the exchanges that no longer conversation continues, in chronological order. Of those with equal length
    and content, including reasoning and system text, the last one."""
    trails = sorted(trails, key=lambda trail: (len(trail.marks), trail.number), reverse=True)
    told = {(_hash_sequence(trail.asked), trail.system) for trail in trails}
    found: list[ExchangeTrail] = []
    beginnings: dict[bytes, dict[bytes, int]] = {}
    wholes: set[bytes] = set()
    for trail in trails:
        if trail.whole not in wholes and not _is_continued(trail, beginnings, told):
            found.append(trail)
            wholes.add(trail.whole)
            for beginning in _prefix_hashes(trail.marks):
                beginnings.setdefault(beginning, {}).setdefault(trail.system, len(trail.marks))
    return tuple(trail.name for trail in sorted(found))


def _is_continued(
    trail: ExchangeTrail, beginnings: dict[bytes, dict[bytes, int]], told: set[tuple[bytes, bytes]]
) -> bool:
    """Return whether a longer conversation contains this exchange as a turn. `beginnings` has, for each prefix, the
    lengths of the conversations with it, by their instructions. A conversation with other instructions counts only if
    it has the answer too and does not have its own exchange for this turn."""
    asked = _hash_sequence(trail.asked)
    if beginnings.get(asked, {}).get(trail.system, 0) > len(trail.marks):
        return True
    others = beginnings.get(_hash_sequence(trail.marks), {})
    return any(length > len(trail.marks) and (asked, system) not in told for system, length in others.items())


def _hash_sequence(marks: tuple[bytes, ...]) -> bytes:
    return blake2b(b"".join(marks)).digest()


def _prefix_hashes(marks: tuple[bytes, ...]) -> Iterator[bytes]:
    so_far = blake2b()
    yield so_far.digest()
    for mark in marks:
        so_far.update(mark)
        yield so_far.digest()
