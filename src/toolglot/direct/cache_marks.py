"""The cache breakpoints that `passes/cache_marks.py` sets, on plain turns."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolglot.direct.plain import Turn, Words
from toolglot.passes.cache_marks import MarkPlan, PromptSizes, text_size


class MarkPlaces(Struct, frozen=True, gc=False):
    """The turns that may get a breakpoint, -1 for none, and the characters up to each."""

    newest: int
    earlier: int
    sizes: PromptSizes
    goes_on: bool


def find_places(system: Sequence[Turn], turns: Sequence[Turn], tools: int) -> MarkPlaces:
    """`tools`: characters of the tools."""
    newest = earlier = -1
    answered = False
    for index in range(len(turns) - 1, -1, -1):
        role = turns[index].role
        if role == "assistant":
            answered = answered or newest >= 0
        elif role in ("user", "tool"):
            if newest < 0:
                newest = index
            elif answered:
                earlier = index
                break
    total = tools + sum(_words_size(turn.words) for turn in system)
    before = total if system else -1
    found = {-1: -1}
    for index, turn in enumerate(turns):
        total += _words_size(turn.words) + sum(len(call.name) + len(call.arguments) for call in turn.calls)
        if index in (newest, earlier):
            found[index] = total
    sizes = PromptSizes(tools if tools else -1, before, found[earlier], found[newest])
    return MarkPlaces(newest, earlier, sizes, answered or any(turn.role == "assistant" for turn in turns))


def _words_size(words: Words) -> int:
    return text_size(words) if isinstance(words, str) else sum(map(text_size, words))


def mark_turns(
    system: Sequence[Turn], turns: Sequence[Turn], places: MarkPlaces, plan: MarkPlan
) -> tuple[Sequence[Turn], Sequence[Turn]]:
    if plan.system:
        system = [*system[:-1], _marked(system[-1])]
    marked = list(turns)
    for is_planned, index in ((plan.earlier, places.earlier), (plan.newest, places.newest)):
        if is_planned:
            marked[index] = _marked(marked[index])
    return system, marked


def _marked(turn: Turn) -> Turn:
    if turn.role == "tool":
        return replace(turn, cached=True)
    return replace(turn, breakpoints={0 if isinstance(turn.words, str) else len(turn.words) - 1: None})
