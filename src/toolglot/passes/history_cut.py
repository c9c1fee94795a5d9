"""Decide what to drop from a conversation that exceeds a limit. The conversation is replayed turn by turn, so that
content dropped in an earlier turn is also dropped in all later ones.

Each message is examined once. Candidates wait in heaps and queues, the oldest first. Candidates that must stay for now,
because they belong to the current question, are put back.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Sequence

from toolglot.ir import Message, Request, Thinking, ToolResult
from toolglot.passes.blocks import INSTRUCTION_ROLES, has_results
from toolglot.passes.history_size import Limit, Scale, Size, is_image, minus, plus, without_image
from toolglot.passes.history_units import NO_RESULTS, Batch, group_units, is_beside_results

_BY_IMAGES, _BY_RESULTS = "max_images", "max_tool_results"


class HistoryCutter:
    """A conversation that is replayed turn by turn, and the content dropped so far."""

    def __init__(self, request: Request, scale: Scale, limits: Sequence[Limit]) -> None:
        self._messages = messages = request.messages
        self._scale = scale
        self._limits = limits
        self._bare = [scale.bare(message) for message in messages]
        self._blocks = [[scale.block(block, message.role) for block in message.content] for message in messages]
        self._fixed = scale.fixed(request)
        # Remaining blocks and results of each message.
        self._left = [len(message.content) for message in messages]
        self._results = [sum(isinstance(block, ToolResult) for block in message.content) for message in messages]
        self.gone: dict[int, Limit | None] = {}
        """Dropped messages, with the limit that caused it; None if all blocks of the message were dropped with their
        calls."""
        self.gone_blocks: set[tuple[int, int]] = set()
        """Dropped calls, their results, and the reasoning that led to them, as (message, block)."""
        self.thinned: set[tuple[int, int, int]] = set()
        """Dropped images, as (message, block, index inside a result or -1)."""
        self._total = self._fixed
        for number in range(len(messages)):
            self._total = plus(self._total, self.size(number))

    @property
    def exceeded_limits(self) -> list[Limit]:
        """Limits that the conversation exceeds."""
        return [limit for limit in self._limits if self._total[limit.measure] > limit.most]

    def amount(self, limit: Limit) -> int:
        """Return the current amount of the measure that this limit bounds."""
        return self._total[limit.measure]

    def size(self, number: int) -> Size:
        """Return the size of a message without its dropped blocks."""
        total = self._bare[number]
        for index, size in enumerate(self._blocks[number]):
            if (number, index) not in self.gone_blocks:
                total = plus(total, size)
        return total

    def replay_turns(self, *, keep_first: bool, starts_with_user: bool) -> None:
        """Replay the conversation turn by turn, and repeat the cuts of earlier turns."""
        self._begin()
        messages, replayed = self._messages, _ReplayedConversation(self._messages, keep_first)
        # A cut exactly to the limit is made anew in every turn, so there are no earlier cuts to repeat.
        in_steps = any(limit.share < 1 for limit in self._limits)
        count = 0
        for end in _turns(messages) if in_steps else [len(messages)]:
            for number in range(count, end):
                self._add_message(number)
                replayed.add_message(number)
            count = end
            if self.exceeded_limits:
                self._cut(replayed.now, replayed.protected, starts_with_user)

    def _begin(self) -> None:
        """Reset to an empty conversation, without candidates."""
        self._total = self._fixed
        self._head = 0
        self._images: deque[tuple[int, list[tuple[int, int]]]] = deque()
        self._candidates = _DropCandidates(self._messages, self.gone)

    def _add_message(self, number: int) -> None:
        message, size = self._messages[number], self.size(number)
        self._total = plus(self._total, size)
        if message.role in INSTRUCTION_ROLES:
            self._fixed = plus(self._fixed, size)
        elif images := _images_of(message):
            self._images.append((number, images))

    def _cut(self, now: int, protected: set[int], starts_with_user: bool) -> None:
        """Cut the conversation to its limits. Candidates end before message `now`, where the current question begins,
        and are not in `protected`."""
        self._candidates.release_before(now)
        for limit in self.exceeded_limits:
            if limit.name == _BY_IMAGES:
                self._drop_images_above(limit, now, protected)
            elif limit.name == _BY_RESULTS:
                self._drop_batches(limit)
        exceeded_limits = [limit for limit in self.exceeded_limits if limit.name not in (_BY_IMAGES, _BY_RESULTS)]
        if exceeded_limits:
            kept_units = self._candidates.find_units(protected)
            self._drop_units(exceeded_limits, kept_units)
            if starts_with_user:
                self._drop_head(exceeded_limits[0], kept_units)

    def _is_above(self, limit: Limit) -> bool:
        """Return whether more remains than a cut should leave."""
        return self._total[limit.measure] > limit.mark(self._fixed[limit.measure])

    # Images

    def _drop_images_above(self, limit: Limit, now: int, protected: set[int]) -> None:
        put_back: list[tuple[int, list[tuple[int, int]]]] = []
        while self._images and self._images[0][0] < now and self._is_above(limit):
            number, places = self._images.popleft()
            left = places if number in protected else self._drop_images_of_message(limit, number, places)
            if left:
                put_back.append((number, left))
        self._images.extendleft(reversed(put_back))

    def _drop_images_of_message(
        self, limit: Limit, number: int, places: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """Drop images of one message. Returns the images that remain candidates."""
        for done, (index, inner) in enumerate(places):
            if not self._is_above(limit):
                return places[done:]
            if number not in self.gone and (number, index) not in self.gone_blocks:
                self._drop_image(number, index, inner)
        return []

    def _drop_image(self, number: int, index: int, inner: int) -> None:
        message = self._messages[number]
        block = message.content[index]
        image = block.content[inner] if isinstance(block, ToolResult) else block
        before, after = (self._scale.block(each, message.role) for each in (image, without_image(image)))
        saved = minus(before, after)
        self.thinned.add((number, index, inner))
        self._blocks[number][index] = minus(self._blocks[number][index], saved)
        self._total = minus(self._total, saved)

    # Calls and their results

    def _drop_batches(self, limit: Limit) -> None:
        while self._is_above(limit) and (batch := self._candidates.take_batch()) is not None:
            if batch.start not in self.gone:
                self._drop_batch(batch)

    def _drop_batch(self, batch: Batch) -> None:
        dropped = (*batch.blocks, *self._reasoning_for(batch))
        for number, index in dropped:
            if number in self.gone or (number, index) in self.gone_blocks:
                continue
            self.gone_blocks.add((number, index))
            self._total = minus(self._total, self._blocks[number][index])
            self._results[number] -= isinstance(self._messages[number].content[index], ToolResult)
            self._left[number] -= 1
        for number in dict.fromkeys(number for number, _ in dropped):
            if number in self.gone:
                continue
            if not self._left[number]:
                self.gone[number] = None
                self._total = minus(self._total, self._bare[number])
            elif self._has_lost_results(number):
                placeholder = self._scale.block(NO_RESULTS, self._messages[number].role)
                self._bare[number] = plus(self._bare[number], placeholder)
                self._total = plus(self._total, placeholder)
        self._split_unit(batch)

    def _has_lost_results(self, number: int) -> bool:
        """Return whether all results of this message were dropped."""
        return has_results(self._messages[number]) and not self._results[number]

    def _split_unit(self, batch: Batch) -> None:
        """Split the unit of a dropped batch: its turn and the text beside its results no longer depend on each
        other."""
        answers = sorted({number for number, _ in batch.blocks if self._messages[number].role != "assistant"})
        turn = range(batch.start, self._turn_end(batch.start))
        for numbers in (turn, *((number,) for number in answers if not self._results[number])):
            self._candidates.add_unit(numbers)

    def _turn_end(self, number: int) -> int:
        while number < len(self._messages) and self._messages[number].role == "assistant":
            number += 1
        return number

    def _reasoning_for(self, batch: Batch) -> list[tuple[int, int]]:
        """Return the reasoning that led only to these calls: directly before one of them, or at the end of a turn
        without other content."""
        dropped = set(batch.blocks)
        reasons: list[tuple[int, int]] = []
        waiting: list[tuple[int, int]] = []
        stays = False
        for number in range(batch.start, self._turn_end(batch.start)):
            for index, block in enumerate(self._messages[number].content):
                if isinstance(block, Thinking):
                    waiting.append((number, index))
                    continue
                if (number, index) in dropped:
                    reasons += waiting
                else:
                    stays = True
                waiting = []
        return reasons if stays else [*reasons, *waiting]

    # Messages

    def _drop_units(self, exceeded_limits: list[Limit], protected: set[int]) -> None:
        put_back: list[int] = []
        while (limit := next(filter(self._is_above, exceeded_limits), None)) is not None:
            unit = self._candidates.take_unit()
            if unit is None:
                break
            if unit in protected:
                put_back.append(unit)
            else:
                self._drop_unit(unit, limit)
        self._candidates.put_back(put_back)

    def _drop_unit(self, unit: int, limit: Limit) -> None:
        for number in self._candidates.members(unit):
            self._total = minus(self._total, self.size(number))
            self.gone[number] = limit

    def _drop_head(self, limit: Limit, protected: set[int]) -> None:
        """Drop a leading assistant turn if possible, so that the conversation begins with the user again."""
        put_back: list[int] = []
        while self._first_role() == "assistant" and (unit := self._candidates.take_unit()) is not None:
            if self._candidates.find_units({self._head}) == {unit} and unit not in protected:
                self._drop_unit(unit, limit)
            else:
                put_back.append(unit)
                if self._candidates.members(unit)[0] > self._head:
                    break
        self._candidates.put_back(put_back)

    def _first_role(self) -> str:
        """Return the role of the first remaining message, ignoring system messages; empty if there is none."""
        messages = self._messages
        while self._head < len(messages) and (
            self._head in self.gone or messages[self._head].role in INSTRUCTION_ROLES
        ):
            self._head += 1
        return messages[self._head].role if self._head < len(messages) else ""


class _DropCandidates:
    """Candidates to drop next, oldest first: units of messages, and batches of calls with their results."""

    def __init__(self, messages: Sequence[Message], gone: Collection[int]) -> None:
        units, self._unit_of, self._batches = group_units(messages)
        self._gone = gone
        self._units = [deque(unit) for unit in units]
        self._ready_units: list[tuple[int, int]] = []
        """Heap of (first message, unit)."""
        self._ready_batches: list[int] = []
        self._waiting_units = deque(sorted(range(len(units)), key=lambda number: units[number][-1]))
        self._waiting_batches = deque(sorted(range(len(self._batches)), key=lambda number: self._batches[number].last))

    def release_before(self, now: int) -> None:
        """Make candidates of what ends before this message."""
        while self._waiting_units and self._units[self._waiting_units[0]][-1] < now:
            self.put_back((self._waiting_units.popleft(),))
        while self._waiting_batches and self._batches[self._waiting_batches[0]].last < now:
            heapq.heappush(self._ready_batches, self._waiting_batches.popleft())

    def find_units(self, numbers: Iterable[int]) -> set[int]:
        """Group these messages into units."""
        return {self._unit_of[number] for number in numbers if number in self._unit_of}

    def members(self, unit: int) -> list[int]:
        """Return the remaining messages of a unit."""
        return [number for number in self._units[unit] if self._is_member(number, unit)]

    def add_unit(self, numbers: Iterable[int]) -> None:
        """Make a unit of those of these messages that remain."""
        unit, left = len(self._units), deque(number for number in numbers if number not in self._gone)
        self._unit_of.update(dict.fromkeys(left, unit))
        self._units.append(left)
        self.put_back((unit,))

    def take_batch(self) -> Batch | None:
        return self._batches[heapq.heappop(self._ready_batches)] if self._ready_batches else None

    def take_unit(self) -> int | None:
        """Remove the oldest unit, and return it."""
        while self._ready_units:
            first, unit = heapq.heappop(self._ready_units)
            members = self._units[unit]
            while members and not self._is_member(members[0], unit):
                members.popleft()
            if members and members[0] == first:
                return unit
            self.put_back((unit,))  # its first messages were dropped: it begins later now
        return None

    def put_back(self, units: Iterable[int]) -> None:
        for unit in units:
            if self._units[unit]:
                heapq.heappush(self._ready_units, (self._units[unit][0], unit))

    def _is_member(self, number: int, unit: int) -> bool:
        return number not in self._gone and self._unit_of[number] == unit


class _ReplayedConversation:
    """Tracks the conversation during the replay, and the messages that must stay."""

    def __init__(self, messages: Sequence[Message], keep_first: bool) -> None:
        self._messages = messages
        self._keep_first = keep_first
        self._count = 0
        self.now = 0
        """Index of the first message after the assistant's last turn: the current question."""
        self._first: int | None = None
        self._last: int | None = None
        self._last_alone: int | None = None
        """The last user text that is not beside results. Agents write their own reminders beside results."""
        self._last_user: int | None = None
        """The last message of the user, even without text."""
        self._led: int | None = None
        """The user message that led to the assistant's last turn."""
        self._answered = False
        """Whether the request has results of the assistant's last turn."""

    def add_message(self, number: int) -> None:
        message, self._count = self._messages[number], number + 1
        if message.role == "assistant":
            if self.now != number:
                self._led = self._last_user if self._last_alone is None else self._last_alone
            self.now, self._answered = number + 1, False
            return
        self._answered = self._answered or has_results(message)
        if message.role != "user":
            return
        self._last_user = number
        if any(not isinstance(block, ToolResult) for block in message.content):
            self._first = number if self._first is None else self._first
            self._last = number
            self._last_alone = self._last_alone if is_beside_results(message) else number

    @property
    def protected(self) -> set[int]:
        """Messages that must stay: the user's last texts and the very last message. If the current question is a turn
        with its results, the user message that led to it also stays; otherwise the conversation would begin with the
        assistant."""
        protected = (
            self._last,
            self._last_alone,
            self._count - 1,
            self._led if self._answered else None,
            self._first if self._keep_first else None,
        )
        return {number for number in protected if number is not None}


def _turns(messages: Sequence[Message]) -> list[int]:
    """Return the number of messages in each past request: those before each turn of the assistant, and all of them for
    the current one."""
    past = [
        number
        for number in range(1, len(messages))
        if messages[number].role == "assistant" and messages[number - 1].role != "assistant"
    ]
    return [*past, len(messages)]


def _images_of(message: Message) -> list[tuple[int, int]]:
    """Return the images of a message, each as (block, index inside a result or -1)."""
    places: list[tuple[int, int]] = []
    for index, block in enumerate(message.content):
        if isinstance(block, ToolResult):
            places += [(index, inner) for inner, part in enumerate(block.content) if is_image(part)]
        elif is_image(block):
            places.append((index, -1))
    return places
