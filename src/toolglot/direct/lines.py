"""The receipt of a plain request: lines that are the same for all requests of one kind, and lines for single turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from toolglot.direct.plain import Turn
from toolglot.receipt import Loss


class Slot(NamedTuple):
    """Turns that the receipt may speak of, and the path by which it does."""

    has: Callable[[Turn], bool]
    path: Callable[[Turn], str]


def _message(turn: Turn) -> str:
    return f"messages[{turn.number}]"


def _block(turn: Turn) -> str:
    return f"messages[{turn.number}].content[{turn.block}]"


SLOTS = (
    Slot(lambda turn: turn.thought is not None, _message),
    Slot(lambda turn: turn.thought is not None, _block),
    Slot(lambda turn: bool(turn.calls) and turn.thought is None, _message),
    Slot(lambda turn: turn.failed, _block),
    Slot(lambda turn: turn.cached, lambda turn: f"{_block(turn)}.cache"),
    Slot(lambda turn: turn.moved, _message),
    Slot(lambda turn: turn.configured, lambda turn: f"{_message(turn)}.output_config"),
)


class Line(NamedTuple):
    """A line of a receipt; `slot`: one for every turn that has it."""

    line: Loss
    slot: Slot | None = None


def learnt(lines: Iterable[Loss], turns: Sequence[Turn]) -> tuple[Line, ...] | None:
    """What the receipt of these turns says of any; None if it says something of a turn that is not known to be so for
    all turns of its kind."""
    found: list[Line] = []
    for line in lines:
        slot = None
        if line.where.startswith("messages"):
            fits = (slot for slot in SLOTS for turn in turns if slot.has(turn) and slot.path(turn) == line.where)
            slot = next(fits, None)
            if slot is None:
                return None
            if any(entry.slot is slot and _same(entry.line, line) for entry in found):
                continue  # it is told of another turn
        found.append(Line(line, slot))
    return tuple(found)


def _same(one: Loss, other: Loss) -> bool:
    return (one.what, one.why, one.severity) == (other.what, other.why, other.severity)


def told(lines: Sequence[Line], turns: Sequence[Turn]) -> Iterator[Loss]:
    """The receipt of these turns."""
    for slot, group in groupby(lines, key=lambda entry: entry.slot):
        if slot is None:
            yield from [entry.line for entry in group]
            continue
        same = [entry.line for entry in group]
        for turn in turns:
            if slot.has(turn):
                yield from [Loss(slot.path(turn), line.what, line.why, line.severity) for line in same]
