"""What of a conversation belongs together, so that it is sent together or not at all.

The assistant's messages of one turn are one thing, with all their calls and reasoning, and so are the results of these
calls. A call and its result are known by their id; where ids are used again the nearest call before counts, and a
result without an id answers the turn before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from toolglot.ir import Block, Message, Text, ToolCall, ToolResult
from toolglot.passes.blocks import INSTRUCTION_ROLES, has_results, leading

NO_RESULTS = Text(text="[results no longer sent]")
"""What stands in the place of results that have gone, where there are words beside them. It tells the model what these
belong to, and whoever cuts the conversation again that nobody asked them."""


def is_beside_results(message: Message) -> bool:
    """Are these words that stand beside results, or did, where agents write reminders of their own?"""
    return has_results(message) or [_text(block) for block in message.content[:1]] == [NO_RESULTS.text]


class Framed(NamedTuple):
    """A conversation, and the words around it that were put there for the user, who has never said them: nothing has to
    be kept for their sake. They are known by what they say and where, as nothing else of them is on a wire."""

    begin: tuple[Message, ...]
    said: tuple[Message, ...]
    asking: tuple[Message, ...]

    @property
    def whole(self) -> tuple[Message, ...]:
        place = leading(self.said)
        return (*self.said[:place], *self.begin, *self.said[place:], *self.asking)


def framed(messages: tuple[Message, ...], begin: str, asking: str) -> Framed:
    """`begin`: what is said where the assistant would begin; `asking`: behind results, at the end, if anything."""
    first = leading(messages)
    begins = _says(messages[first : first + 1], begin)
    asks = len(messages) - 1 > first and has_results(messages[-2]) and _says(messages[-1:], asking)
    end = len(messages) - asks
    return Framed(
        messages[first : first + begins],
        (*messages[:first], *messages[first + begins : end]) if begins or asks else messages,
        messages[end:],
    )


def _says(message: tuple[Message, ...], words: str) -> bool:
    """Is this one message, of the user's, with these words and nothing else?"""
    if not message or not words or message[0].role != "user":
        return False
    return [_text(block) for block in message[0].content] == [words]


def _text(block: Block) -> str | None:
    """Apart from how it was written."""
    return block.text if isinstance(block, Text) else None


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
