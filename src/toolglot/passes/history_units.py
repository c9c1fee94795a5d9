"""What of a conversation belongs together, so that it is sent together or not at all.

The assistant's messages of one turn are one thing, with all their calls and reasoning, and so are the results of these
calls. A call and its result are known by their id; where ids are used again the nearest call before counts, and a
result without an id answers the turn before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from toolglot.ir import OURS, Message, ToolCall, ToolResult, native_of, with_native
from toolglot.passes.blocks import INSTRUCTION_ROLES, has_results


def made_up(message: Message) -> Message:
    """The message, marked as one that the user has never said: nothing has to be kept for its sake."""
    return with_native(message, OURS, **{"$made_up": True})


def is_made_up(message: Message) -> bool:
    return "$made_up" in native_of(message, OURS)


def left_alone(message: Message) -> Message:
    """The message, marked as words that stood beside results which have gone: they are still not what was asked."""
    return with_native(message, OURS, **{"$beside_results": True})


def is_beside_results(message: Message) -> bool:
    """Are these words that stand beside results, or did, where agents write reminders of their own?"""
    return has_results(message) or "$beside_results" in native_of(message, OURS)


class Batch(NamedTuple):
    """The calls of one turn and their results, as (message, block)."""

    start: int
    blocks: list[tuple[int, int]]
    last: int
    """The message in which the last of its results stands."""


class Together(NamedTuple):
    units: list[list[int]]
    """Messages that stay or go together, by their numbers; the oldest first. System messages are in none."""
    unit_of: dict[int, int]
    batches: list[Batch]
    """Those that have results; the oldest first."""


def together(messages: Sequence[Message]) -> Together:
    leader = list(range(len(messages)))
    calls: dict[int, list[tuple[int, int]]] = defaultdict(list)
    results: dict[int, list[tuple[int, int]]] = defaultdict(list)
    turns: dict[str, int] = {}
    turn: int | None = None
    for number, message in enumerate(messages):
        if message.role == "assistant":
            if turn is None or messages[number - 1].role != "assistant":
                turn = number
            _join(leader, turn, number)
        for index, block in enumerate(message.content):
            if isinstance(block, ToolCall) and turn is not None and message.role == "assistant":
                calls[turn].append((number, index))
                turns[block.id] = turn
            elif isinstance(block, ToolResult):
                owner = turns.get(block.call_id) if block.call_id else turn
                if owner is not None:
                    results[owner].append((number, index))
                    _join(leader, owner, number)
    members: dict[int, list[int]] = defaultdict(list)
    for number, message in enumerate(messages):
        if message.role not in INSTRUCTION_ROLES:
            members[_find(leader, number)].append(number)
    units = list(members.values())
    unit_of = {member: number for number, unit in enumerate(units) for member in unit}
    batches = [Batch(start, [*calls[start], *found], found[-1][0]) for start, found in sorted(results.items())]
    return Together(units, unit_of, batches)


def _find(leader: list[int], number: int) -> int:
    while leader[number] != number:
        leader[number] = leader[leader[number]]
        number = leader[number]
    return number


def _join(leader: list[int], one: int, other: int) -> None:
    low, high = sorted((_find(leader, one), _find(leader, other)))
    leader[high] = low
