"""Reasoning state that the client cannot carry: kept before the client can go on from the answer."""

from __future__ import annotations

from functools import partial

from toolglot.errors import ApiError
from toolglot.gateway.commands import Flow, WholeAnswer
from toolglot.gateway.features.reasoning_state import States
from toolglot.gateway.flow import FlowContext, await_result


def with_carried_state(flow: Flow, context: FlowContext, states: States) -> Flow:
    result = yield from flow
    exchange = context.exchange
    if exchange is not None and not isinstance(result, ApiError) and context.record.error is None:
        is_whole = isinstance(result, WholeAnswer)
        if states.has_news(exchange, whole=is_whole):
            yield from await_result(context, partial(states.keep, exchange, whole=is_whole))
    return result
