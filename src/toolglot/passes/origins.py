"""Map a path in the rewritten request back to the path in the client's request.

Passes cut, join, split and move messages, and each reports paths as it sees them. A receipt uses only the client's
paths. A path is therefore mapped back through all passes since, step by step. Most exchanges have nothing to report, so
a step is evaluated lazily.

A value that a pass left unchanged is the same object as before, and is found by identity. A rebuilt value is matched by
order: it follows its neighbor as before. An inserted value gets the position of its neighbor.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from functools import cached_property

from toolglot.ir import Block, Message, ToolResult
from toolglot.passes.blocks import Place

_PATH = re.compile(r"messages\[(\d{1,9})\](?:\.content\[(\d{1,9})\](?:\.content\[(\d{1,9})\])?)?")


class Origins:
    """The messages of a request after each pass that changed them, starting with the client's."""

    __slots__ = ("_messages", "_steps")

    def __init__(self, messages: tuple[Message, ...]) -> None:
        self._messages = messages
        self._steps: list[_MessageChange] = []

    def record_moves(self, messages: tuple[Message, ...], *, keeps_messages: bool = False) -> None:
        """Record the messages after a pass. `keeps_messages`: if their number is unchanged, so are their positions."""
        if messages is not self._messages:
            self._steps.append(_MessageChange(self._messages, messages, keeps_messages))
            self._messages = messages

    def record_replacement(self, messages: tuple[Message, ...]) -> None:
        """Record the messages after a pass that moved nothing."""
        self._messages = messages

    @property
    def stages(self) -> Iterator[tuple[Message, ...]]:
        """The messages after each change, up to the current ones."""
        yield from (step.before for step in self._steps)
        yield self._messages

    def path(self, where: str) -> str:
        """Map a current path to the path in the client's request."""
        if not self._steps or not where.startswith("messages") or (found := _PATH.match(where)) is None:
            return where
        place = Place(*(-1 if number is None else int(number) for number in found.groups()))
        for step in reversed(self._steps):
            place = step.map_back(place)
        return f"{place}{where[found.end() :]}"


class _MessageChange:
    """The messages before and after one pass."""

    def __init__(self, before: tuple[Message, ...], after: tuple[Message, ...], keeps_messages: bool) -> None:
        self.before = before
        self._after = after
        self._keeps_messages = keeps_messages and len(before) == len(after)

    def map_back(self, place: Place) -> Place:
        """Map a place after the pass to the place before it."""
        if self._keeps_messages and place.block < 0:
            return place
        if place.message >= len(self._after):  # after all of them
            return place._replace(message=len(self.before) + place.message - len(self._after))
        if (kept := self._kept.get(place.message)) is not None:
            return place._replace(message=kept)
        if (found := self._blocks.get(place)) is not None:
            return found
        if (around := self._blocks.get(place._replace(inner=-1))) is not None:
            now, before = _parts(self._after, place), _parts(self.before, around)
            return around._replace(inner=place.inner) if now == before else around
        return place._replace(message=self._messages[place.message][0])

    @cached_property
    def _kept(self) -> dict[int, int]:
        """Unchanged messages: current index -> previous index."""
        numbers: dict[int, list[int]] = defaultdict(list)
        for number, message in enumerate(self.before):
            numbers[id(message)].append(number)
        # From the end: if the same object occurred twice, the older occurrence was removed.
        after = reversed(list(enumerate(self._after)))
        return {number: same.pop() for number, message in after if (same := numbers.get(id(message)))}

    @cached_property
    def _same(self) -> dict[Place, Place]:
        """Unchanged blocks of changed messages: current place -> previous place."""
        places: dict[int, list[Place]] = defaultdict(list)
        for block, place in _blocks(self.before, set(self._kept.values())):
            places[id(block)].append(place)
        found: dict[Place, Place] = {}
        for block, place in reversed(list(_blocks(self._after, self._kept))):
            if same := places.get(id(block)):
                found[place] = same.pop()
                if place.inner >= 0:  # a changed result is recognized by its unchanged parts
                    found[place._replace(inner=-1)] = found[place]._replace(inner=-1)
        return found

    @cached_property
    def _messages(self) -> list[tuple[int, bool]]:
        """For each message, its previous index and whether it was inserted. An inserted message gets the index of the
        message before it."""
        known = dict(self._kept)
        for place, origin in sorted(self._same.items()):
            known.setdefault(place.message, origin.message)
        taken = set(known.values())
        numbers: list[tuple[int, bool]] = []
        before = -1
        for number in range(len(self._after)):
            follows = before + 1 < len(self.before) and before + 1 not in taken
            before = known.get(number, before + 1 if follows else max(before, 0))
            numbers.append((before, number not in known and not follows))
        return numbers

    @cached_property
    def _blocks(self) -> dict[Place, Place]:
        """For each block of a changed message, its previous place, or the place of its message."""
        places = dict(self._same)
        taken = set(places.values())
        for number, message in enumerate(self._after):
            if number in self._kept:
                continue
            origin, is_inserted = self._messages[number]
            last = Place(origin)
            for index in range(len(message.content)):
                place = Place(number, index)
                if place in places:
                    last = places[place]
                    continue
                follows = Place(last.message, last.block + 1)
                room = 0 if is_inserted else len(self.before[last.message].content)
                if follows.block < room and follows not in taken:
                    last = places[place] = follows
                else:
                    places[place] = Place(last.message)
        return places


def _parts(messages: Sequence[Message], place: Place) -> int:
    """Return the number of parts of the result at this place; 0 if it is not a result."""
    block = messages[place.message].content[place.block] if place.block >= 0 else None
    return len(block.content) if isinstance(block, ToolResult) else 0


def _blocks(messages: Sequence[Message], without: Container[int]) -> Iterator[tuple[Block, Place]]:
    for number, message in enumerate(messages):
        if number in without:
            continue
        for index, block in enumerate(message.content):
            yield block, Place(number, index)
            if isinstance(block, ToolResult):
                for inner, part in enumerate(block.content):
                    yield part, Place(number, index, inner)
