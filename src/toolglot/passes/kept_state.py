"""Reasoning state that clients do not carry: extracted from an answer, stored elsewhere, and restored in the history.

Some clients have no field for the state of a model and some do not send it back. The state that the owner expects back
is then kept by the client or the store, and returns here as the `AnswerState` of the answer: its complete reasoning,
and the owner's state of its calls and texts. If the history lacks some of it, it is restored on its blocks before the
other passes see the history. State that the client has sent itself, in its own field or in an envelope, stays
unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from toolglot.ir import Request, Thinking, native_of
from toolglot.passes import Context, RequestPass
from toolglot.passes.answer_state import AnswerState
from toolglot.passes.blocks import Place, with_messages
from toolglot.passes.carry import open_envelopes
from toolglot.passes.envelope import is_ours
from toolglot.passes.reasoning import UNSIGNED
from toolglot.passes.state_placement import AnswerRun, join_split_calls, place_state, runs, write_run
from toolglot.wire.incremental_json import drain


def lacks_state(run: AnswerRun, source: str, slot: str | None, target: str) -> bool:
    """Return whether state for the target may be missing here. It is not if a client of the target's dialect has sent
    its own field. Clients of other dialects lack fields for some state. If the field holds state of the client's own
    vendor, that vendor created the answer, so it has no state of the target."""
    if source != target:
        return slot is None or not any(_is_vendors(native_of(block, source).get(slot)) for _, block in run.blocks)
    return not any(
        isinstance(block, Thinking) or (slot is not None and slot in native_of(block, source))
        for _, block in run.blocks
    )


def _is_vendors(state: object) -> bool:
    """Return whether it is state of the client's own vendor, and neither an envelope nor the mark for calls of other
    models."""
    return bool(state) and not is_ours(state) and state != UNSIGNED


def put_back(kept: Mapping[int, AnswerState]) -> RequestPass:
    """Create the pass that restores each state on the answer with its number."""

    def restore(request: Request, context: Context) -> Request:
        messages = list(request.messages)
        joined: set[int] = set()
        numbers = (number for number in count() if number not in context.joined_answers)
        for number, run in zip(numbers, drain(runs(messages)), strict=False):
            if number not in kept or run.numbers[0] in joined:
                continue
            join_split_calls(run, messages, kept[number])
            if (blocks := place_state(run, kept[number], context)) is not None:
                if context.can.reasoning.in_history == "none":
                    where, why = str(Place(run.numbers[0])), f"it was kept here for {context.target}; {_TAKES_NONE}"
                    context.receipt.loss(where, "reasoning state", why)
                    continue
                write_run(messages, run, blocks)
                joined.update(run.joined)
                sent = any(native_of(block, context.target) for _, block in run.blocks)
                said = "has not sent all of it; the rest of it was" if sent else "has not sent it; it was"
                why = f"the client {said} kept here for {context.target}"
                context.receipt.note(str(Place(run.numbers[0])), "reasoning state", why)
        kept_messages = tuple(message for number, message in enumerate(messages) if number not in joined)
        return with_messages(request, kept_messages)

    return restore


_TAKES_NONE = "this model accepts none"


def with_states(passes: Sequence[RequestPass], kept: Mapping[int, AnswerState]) -> tuple[RequestPass, ...]:
    """Insert this pass after the pass that opens envelopes, which reveals the state that the client has sent."""
    if not kept or open_envelopes not in passes:
        return tuple(passes)
    place = passes.index(open_envelopes) + 1
    return (*passes[:place], put_back(kept), *passes[place:])
