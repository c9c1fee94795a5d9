"""Group messages into units that are sent together or not at all.

The assistant's messages of one turn form a unit, with their calls and reasoning and the results of these calls. A
result is matched to its call by id. If an id is used again, the nearest preceding call counts. A result without an id
answers the preceding turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from toolglot.ir import Block, Message, Text, ToolCall, ToolResult
from toolglot.passes.blocks import INSTRUCTION_ROLES, has_results, leading

NO_RESULTS = Text(text="[results no longer sent]")
"""Placeholder for dropped results that had text beside them. It shows the model the origin of the text. If the
conversation is cut again, it shows that the text is not a question of the user."""


def is_beside_results(message: Message) -> bool:
    """Return whether the text of this message is, or was, beside results. Agents write their own reminders there."""
    return has_results(message) or [_text(block) for block in message.content[:1]] == [NO_RESULTS.text]


class SeparatedMessages(NamedTuple):
    """A conversation, and the user messages around it that toolglot inserted. The user did not write them, so they do
    not protect other content. They are recognized by text and position, because no wire format carries a mark for them.
    """

    begin: tuple[Message, ...]
    conversation: tuple[Message, ...]
    asking: tuple[Message, ...]

    @property
    def whole(self) -> tuple[Message, ...]:
        place = leading(self.conversation)
        return (*self.conversation[:place], *self.begin, *self.conversation[place:], *self.asking)


def separate_inserted(messages: tuple[Message, ...], begin: str, asking: str) -> SeparatedMessages:
    """Separate the inserted messages. `begin`: the text inserted before a leading assistant turn; `asking`: the text
    appended after results at the end, if any."""
    first = leading(messages)
    begins = _is_user_text(messages[first : first + 1], begin)
    asks = len(messages) - 1 > first and has_results(messages[-2]) and _is_user_text(messages[-1:], asking)
    end = len(messages) - asks
    return SeparatedMessages(
        messages[first : first + begins],
        (*messages[:first], *messages[first + begins : end]) if begins or asks else messages,
        messages[end:],
    )


def _is_user_text(message: tuple[Message, ...], words: str) -> bool:
    """Return whether this is one user message with exactly this text."""
    if not message or not words or message[0].role != "user":
        return False
    return [_text(block) for block in message[0].content] == [words]


def _text(block: Block) -> str | None:
    """Return the text without `native` fields, citations and breakpoints; None if the block is not a text."""
    return block.text if isinstance(block, Text) else None


class Batch(NamedTuple):
    """The calls of one turn and their results, as (message, block)."""

    start: int
    blocks: list[tuple[int, int]]
    last: int
    """The message with the last of its results."""


class MessageUnits(NamedTuple):
    units: list[list[int]]
    """Indices of messages that stay or go together, the oldest unit first. System messages are in no unit."""
    unit_of: dict[int, int]
    batches: list[Batch]
    """Batches that have results, the oldest first."""


def group_units(messages: Sequence[Message]) -> MessageUnits:
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
    return MessageUnits(units, unit_of, batches)


def _find(leader: list[int], number: int) -> int:
    while leader[number] != number:
        leader[number] = leader[leader[number]]
        number = leader[number]
    return number


def _join(leader: list[int], one: int, other: int) -> None:
    low, high = sorted((_find(leader, one), _find(leader, other)))
    leader[high] = low
