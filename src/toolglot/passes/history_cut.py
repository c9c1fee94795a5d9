"""What goes of a conversation that has passed a limit: gone through turn by turn as it grew, so that what was cut in an
earlier turn is cut in all later ones.

Everything is looked at once. What may go waits in heaps and queues, the oldest first; what cannot go yet, because it is
asked now, is put back.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence

from toolglot.ir import Message, Request, Thinking, ToolResult
from toolglot.passes.blocks import INSTRUCTION_ROLES, has_results
from toolglot.passes.history_size import Limit, Scale, Size, is_image, minus, plus, without_image
from toolglot.passes.history_units import NO_RESULTS, Batch, is_beside_results, together

_BY_IMAGES, _BY_RESULTS = "max_images", "max_tool_results"


class Cutting:
    """A conversation as it grows, and what has gone of it so far."""

    def __init__(self, request: Request, scale: Scale, limits: Sequence[Limit]) -> None:
        self._messages = messages = request.messages
        self._scale = scale
        self._limits = limits
        self._bare = [scale.bare(message) for message in messages]
        self._blocks = [[scale.block(block, message.role) for block in message.content] for message in messages]
        self._fixed = scale.fixed(request)
        # Blocks and results that are left of each message.
        self._left = [len(message.content) for message in messages]
        self._results = [sum(isinstance(block, ToolResult) for block in message.content) for message in messages]
        self.gone: dict[int, Limit | None] = {}
        """Messages; with the limit for which they went, or None where their calls went and nothing else was there."""
        self.gone_blocks: set[tuple[int, int]] = set()
        """Calls and their results, and the reasoning that led to them."""
        self.thinned: set[tuple[int, int, int]] = set()
        """Images, by their message, block and place in a result."""
        self._total = self._fixed
        for number in range(len(messages)):
            self._total = plus(self._total, self.size(number))

    @property
    def passed(self) -> list[Limit]:
        """The limits that the conversation is beyond."""
        return [limit for limit in self._limits if self._total[limit.measure] > limit.most]

    def amount(self, limit: Limit) -> int:
        """How much there is of what this limit bounds."""
        return self._total[limit.measure]

    def size(self, number: int) -> Size:
        """What is left of a message."""
        total = self._bare[number]
        for index, size in enumerate(self._blocks[number]):
            if (number, index) not in self.gone_blocks:
                total = plus(total, size)
        return total

    def go_through(self, *, keep_first: bool, starts_with_user: bool) -> None:
        """Let the conversation grow from turn to turn, and cut it as it was cut then."""
        self._begin()
        messages, talk = self._messages, _Talk(self._messages, keep_first)
        # What is cut to the brim is cut anew in every turn.
        in_steps = any(limit.share < 1 for limit in self._limits)
        count = 0
        for end in _turns(messages) if in_steps else [len(messages)]:
            for number in range(count, end):
                self._say(number)
                talk.say(number)
            count = end
            if self.passed:
                self._cut(talk.now, talk.kept, starts_with_user)

    def _begin(self) -> None:
        """Nothing has been said yet, and nothing may go."""
        self._total = self._fixed
        self._head = 0
        self._images: deque[tuple[int, list[tuple[int, int]]]] = deque()
        units, self._unit_of, self._batches = together(self._messages)
        self._units = [deque(unit) for unit in units]
        self._ready_units: list[tuple[int, int]] = []
        """By the first message of each."""
        self._ready_batches: list[int] = []
        self._waiting_units = deque(sorted(range(len(units)), key=lambda number: units[number][-1]))
        self._waiting_batches = deque(sorted(range(len(self._batches)), key=lambda number: self._batches[number].last))

    def _say(self, number: int) -> None:
        message, size = self._messages[number], self.size(number)
        self._total = plus(self._total, size)
        if message.role in INSTRUCTION_ROLES:
            self._fixed = plus(self._fixed, size)
        elif images := _images_of(message):
            self._images.append((number, images))

    def _cut(self, now: int, kept: set[int], starts_with_user: bool) -> None:
        """Cut what is beyond a limit. What stands wholly before what is asked `now` may go, but not what is `kept`."""
        while self._waiting_units and self._units[self._waiting_units[0]][-1] < now:
            self._put_back((self._waiting_units.popleft(),))
        while self._waiting_batches and self._batches[self._waiting_batches[0]].last < now:
            heapq.heappush(self._ready_batches, self._waiting_batches.popleft())
        for limit in self.passed:
            if limit.name == _BY_IMAGES:
                self._thin(limit, now, kept)
            elif limit.name == _BY_RESULTS:
                self._drop_batches(limit)
        passed = [limit for limit in self.passed if limit.name not in (_BY_IMAGES, _BY_RESULTS)]
        if passed:
            kept_units = {self._unit_of[number] for number in kept if number in self._unit_of}
            self._drop_units(passed, kept_units)
            if starts_with_user:
                self._drop_head(passed[0], kept_units)

    def _above(self, limit: Limit) -> bool:
        """Is there more than is to be left?"""
        return self._total[limit.measure] > limit.mark(self._fixed[limit.measure])

    # Images

    def _thin(self, limit: Limit, now: int, kept: set[int]) -> None:
        put_back: list[tuple[int, list[tuple[int, int]]]] = []
        while self._images and self._images[0][0] < now and self._above(limit):
            number, places = self._images.popleft()
            left = places if number in kept else self._thin_message(limit, number, places)
            if left:
                put_back.append((number, left))
        self._images.extendleft(reversed(put_back))

    def _thin_message(self, limit: Limit, number: int, places: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Images of one message; those that are left."""
        for done, (index, inner) in enumerate(places):
            if not self._above(limit):
                return places[done:]
            if number not in self.gone and (number, index) not in self.gone_blocks:
                self._thin_one(number, index, inner)
        return []

    def _thin_one(self, number: int, index: int, inner: int) -> None:
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
        while self._ready_batches and self._above(limit):
            batch = self._batches[heapq.heappop(self._ready_batches)]
            if batch.start not in self.gone:
                self._drop_batch(batch)

    def _drop_batch(self, batch: Batch) -> None:
        going = (*batch.blocks, *self._reasons(batch))
        for number, index in going:
            if number in self.gone or (number, index) in self.gone_blocks:
                continue
            self.gone_blocks.add((number, index))
            self._total = minus(self._total, self._blocks[number][index])
            self._results[number] -= isinstance(self._messages[number].content[index], ToolResult)
            self._left[number] -= 1
        for number in dict.fromkeys(number for number, _ in going):
            if number in self.gone:
                continue
            if not self._left[number]:
                self.gone[number] = None
                self._total = minus(self._total, self._bare[number])
            elif self._is_bereft(number):
                told = self._scale.block(NO_RESULTS, self._messages[number].role)
                self._bare[number] = plus(self._bare[number], told)
                self._total = plus(self._total, told)
        self._part(batch)

    def _is_bereft(self, number: int) -> bool:
        """Had this message results, and are there none left beside its words?"""
        return has_results(self._messages[number]) and not self._results[number]

    def _part(self, batch: Batch) -> None:
        """Where a batch has gone nothing holds its turn and the words beside its results together any more."""
        answers = sorted({number for number, _ in batch.blocks if self._messages[number].role != "assistant"})
        turn = range(batch.start, self._turn_end(batch.start))
        for numbers in (turn, *((number,) for number in answers if not self._results[number])):
            left = deque(number for number in numbers if number not in self.gone)
            self._unit_of.update(dict.fromkeys(left, len(self._units)))
            self._units.append(left)
            self._put_back((len(self._units) - 1,))

    def _turn_end(self, number: int) -> int:
        while number < len(self._messages) and self._messages[number].role == "assistant":
            number += 1
        return number

    def _reasons(self, batch: Batch) -> list[tuple[int, int]]:
        """The reasoning that led to these calls and to nothing else: it stands right before one of them, or alone."""
        going = set(batch.blocks)
        reasons: list[tuple[int, int]] = []
        waiting: list[tuple[int, int]] = []
        stays = False
        for number in range(batch.start, self._turn_end(batch.start)):
            for index, block in enumerate(self._messages[number].content):
                if isinstance(block, Thinking):
                    waiting.append((number, index))
                    continue
                if (number, index) in going:
                    reasons += waiting
                else:
                    stays = True
                waiting = []
        return reasons if stays else [*reasons, *waiting]

    # Messages

    def _drop_units(self, passed: list[Limit], kept: set[int]) -> None:
        put_back: list[int] = []
        while (limit := next(filter(self._above, passed), None)) is not None:
            unit = self._oldest()
            if unit is None:
                break
            if unit in kept:
                put_back.append(unit)
            else:
                self._drop_unit(unit, limit)
        self._put_back(put_back)

    def _oldest(self) -> int | None:
        """Takes the oldest unit off that may go."""
        while self._ready_units:
            first, unit = heapq.heappop(self._ready_units)
            members = self._units[unit]
            while members and (members[0] in self.gone or self._unit_of[members[0]] != unit):
                members.popleft()
            if members and members[0] == first:
                return unit
            self._put_back((unit,))  # it begins later by now
        return None

    def _put_back(self, units: Iterable[int]) -> None:
        for unit in units:
            if self._units[unit]:
                heapq.heappush(self._ready_units, (self._units[unit][0], unit))

    def _drop_unit(self, unit: int, limit: Limit) -> None:
        for number in self._units[unit]:
            if number not in self.gone and self._unit_of[number] == unit:
                self._total = minus(self._total, self.size(number))
                self.gone[number] = limit

    def _drop_head(self, limit: Limit, kept: set[int]) -> None:
        """Let the conversation begin with the user again, where the assistant's turn at its head can go."""
        put_back: list[int] = []
        while self._speaker() == "assistant" and (unit := self._oldest()) is not None:
            if unit == self._unit_of[self._head] and unit not in kept:
                self._drop_unit(unit, limit)
            else:
                put_back.append(unit)
                if self._units[unit][0] > self._head:
                    break
        self._put_back(put_back)

    def _speaker(self) -> str:
        """Who says the first thing that is left."""
        messages = self._messages
        while self._head < len(messages) and (
            self._head in self.gone or messages[self._head].role in INSTRUCTION_ROLES
        ):
            self._head += 1
        return messages[self._head].role if self._head < len(messages) else ""


class _Talk:
    """Who has said what so far, and what of it stays in any case."""

    def __init__(self, messages: Sequence[Message], keep_first: bool) -> None:
        self._messages = messages
        self._keep_first = keep_first
        self._count = 0
        self.now = 0
        """Where that begins which follows the assistant's last turn."""
        self._first: int | None = None
        self._last: int | None = None
        self._last_alone: int | None = None
        """The last words that do not stand beside results, where agents write reminders of their own."""
        self._last_user: int | None = None
        """Where the user spoke last, if only without a word."""
        self._led: int | None = None
        """Those that led to the assistant's last turn."""
        self._answered = False
        """There are results of that turn."""

    def say(self, number: int) -> None:
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
    def kept(self) -> set[int]:
        """The user's last words and the very last message; and where a turn with its results is what is asked now, the
        words that led to it: else it would be the assistant who begins."""
        kept = (
            self._last,
            self._last_alone,
            self._count - 1,
            self._led if self._answered else None,
            self._first if self._keep_first else None,
        )
        return {number for number in kept if number is not None}


def _turns(messages: Sequence[Message]) -> list[int]:
    """Where the model was asked, as numbers of messages before it: ahead of each turn of the assistant, and now."""
    asked = [
        number
        for number in range(1, len(messages))
        if messages[number].role == "assistant" and messages[number - 1].role != "assistant"
    ]
    return [*asked, len(messages)]


def _images_of(message: Message) -> list[tuple[int, int]]:
    """The images of a message, by their block and their place in a result."""
    places: list[tuple[int, int]] = []
    for index, block in enumerate(message.content):
        if isinstance(block, ToolResult):
            places += [(index, inner) for inner, part in enumerate(block.content) if is_image(part)]
        elif is_image(block):
            places.append((index, -1))
    return places
