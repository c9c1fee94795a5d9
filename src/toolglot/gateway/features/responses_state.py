"""State of the Responses API: an answer is stored before its client can go on from it."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from toolglot.gateway.commands import Flow, Outcome, Result, Steps, StreamEnd, WholeAnswer, Write
from toolglot.gateway.features.responses_turn import Turn
from toolglot.gateway.flow import FlowContext, await_result, offload


def with_turn(flow: Flow, context: FlowContext, turn: Turn) -> Flow:
    """Everything that goes to the client passes through its turn."""
    outcome: Outcome = None
    try:
        while True:
            command = flow.send(outcome)
            if type(command) is bytes:
                if command:
                    command = yield from pass_through(context, turn, command)
            elif type(command) is Write:
                command = Write((yield from pass_through(context, turn, command.data)))
            outcome = yield command
    except StopIteration as end:
        result: Result = end.value
    finally:
        flow.close()
    if isinstance(result, WholeAnswer):
        body = yield from offload(context, len(result.body), partial(turn.rewrite, result.body))
        if turn.keeps_whole:
            body = yield from await_result(context, partial(turn.keep_whole, body))
        return replace(result, body=body)
    if isinstance(result, StreamEnd):
        data = yield from pass_through(context, turn, result.data)
        return replace(result, data=data if result.is_cut else data + turn.close())
    return result


def pass_through(context: FlowContext, turn: Turn, data: bytes) -> Steps[bytes]:
    # The last events of a long answer have all of it in them.
    data = yield from offload(context, len(data), partial(turn.feed, data))
    if turn.is_due:
        data = yield from await_result(context, partial(turn.keep, data))
    return data
