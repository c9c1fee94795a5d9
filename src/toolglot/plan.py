"""Select the passes that a request needs. A pass declares with `runs_on` the features that it acts on for a target.
`run_passes` surveys the request and runs the passes whose features it has. A pass may add features: `adds` names them,
or it adds them to `context.features`. If `adds` is None, a request that the pass has changed is surveyed again. A pass
without `runs_on` always runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from toolglot.features import ANY, survey
from toolglot.ir import Request
from toolglot.passes import Context, RequestPass
from toolglot.passes.origins import Origins

Triggers: TypeAlias = Callable[[Context], int]
"""The features that a pass looks for. They depend only on the key of `_plan`, never on a request."""


class Condition(Struct, frozen=True):
    """The features that a pass handles, and those that it may introduce; None for any. `in_place`: it changes blocks
    without moving them. `keeps_messages`: if the number of messages is unchanged, so are their positions."""

    triggers: Triggers
    adds: int | None
    in_place: bool = False
    keeps_messages: bool = False


_conditions: dict[RequestPass, Condition] = {}
_ALWAYS = Condition(lambda context: ANY, None)

P = TypeVar("P", bound=RequestPass)


def runs_on(
    triggers: Triggers, *, adds: int | None = 0, in_place: bool = False, keeps_messages: bool = False
) -> Callable[[P], P]:
    """Declare when a pass runs, which features it may add (None for any), and whether every block or every message
    keeps its place.
    """

    def declare(request_pass: P) -> P:
        _conditions[request_pass] = Condition(triggers, adds, in_place, keeps_messages)
        return request_pass

    return declare


def condition_of(request_pass: RequestPass) -> Condition:
    return _conditions.get(request_pass, _ALWAYS)


class _PlannedPass(NamedTuple):
    number: int
    request_pass: RequestPass
    triggers: int
    condition: Condition


class _Steps:
    """The passes that may apply, and a cache of those that requests with certain features have needed."""

    __slots__ = ("_needed", "_steps")

    def __init__(self, steps: Iterable[tuple[RequestPass, int, Condition]]) -> None:
        self._steps = [_PlannedPass(number, *step) for number, step in enumerate(steps) if step[1]]
        self._needed: dict[tuple[int, int], list[_PlannedPass]] = {}

    def needed(self, bits: int, start: int) -> list[_PlannedPass]:
        """Return the steps, from number `start` on, that a request with these features needs."""
        needed = self._needed.get((bits, start))
        if needed is None:
            needed = [step for step in self._steps if step.number >= start and bits & step.triggers]
            if len(self._needed) >= _MOST_NEEDED:  # clients choose the features
                self._needed.clear()
            self._needed[bits, start] = needed
        return needed


_MOST_NEEDED = 64


def run_passes(request: Request, passes: Sequence[RequestPass], context: Context) -> tuple[Request, Origins]:
    """Run the passes that the request needs. Returns the final request and the origins of its messages. From here on,
    the receipt names places of the given request.
    """
    bits, context.tool_history = survey(request, context.source, context.source_can.receipt)
    origins = Origins(request.messages)
    context.receipt.asked_at = origins.path
    steps = _plan(context).steps_of(passes)
    waiting = steps.needed(bits, 0)
    while waiting:
        for number, request_pass, _, condition in waiting:
            before = request
            context.features = bits
            request = request_pass(request, context)
            if request is before:
                continue
            if condition.in_place:
                origins.record_replacement(request.messages)
            elif request.messages is not before.messages:
                origins.record_moves(request.messages, keeps_messages=condition.keeps_messages)
            added = condition.adds
            if added is None:
                added, context.tool_history = survey(request, context.source, context.source_can.receipt)
            found = context.features | added  # the pass may have added some to those of the context
            if found != bits:
                bits, waiting = found, steps.needed(found, number + 1)
                break
        else:
            break
    context.tool_history = None  # an answer may be long in coming
    return request, origins


class _Plan:
    """Cached facts about exchanges of one kind: the features that each declared pass handles, and the steps of the last
    passes that were all declared. `can` and `source_can` are referenced so that their `id()` is not reused."""

    __slots__ = ("can", "passes", "source_can", "steps", "triggers")

    def __init__(self, context: Context) -> None:
        self.can = context.can
        self.source_can = context.source_can
        self.triggers = {one: condition.triggers(context) for one, condition in _conditions.items()}
        self.passes: Sequence[RequestPass] = ()
        self.steps = _Steps(())

    def steps_of(self, passes: Sequence[RequestPass]) -> _Steps:
        if passes is self.passes:
            return self.steps
        steps = _Steps((one, self.triggers.get(one, ANY), condition_of(one)) for one in passes)
        if all(one in _conditions for one in passes):  # others are made for one exchange
            self.steps, self.passes = steps, passes
        return steps


_MAX_CACHED = 1024
_cached_plans: dict[tuple[object, ...], _Plan] = {}


def _plan(context: Context) -> _Plan:
    can, source_can, text = context.can, context.source_can, context.text
    key = (
        context.source,
        context.target,
        id(can),
        id(source_can),
        context.aliased,
        context.slots.slot,
        context.slots.details_slot,
        text is None or text.calls is None,
        text is None or text.history_format is None,
        context.cache_marks,
    )
    known = _cached_plans.get(key)
    if known is None:
        if len(_cached_plans) >= _MAX_CACHED:  # clients choose the names of models
            _cached_plans.clear()
        known = _cached_plans[key] = _Plan(context)
    return known
