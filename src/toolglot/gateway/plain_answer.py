"""A model's answer to one request: its flow, and what is reported about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from toolglot.gateway.commands import Flow
from toolglot.gateway.features.reasoning_state import with_reasoning_state
from toolglot.gateway.flow import FlowContext, answer
from toolglot.gateway.targets import RequestTargets
from toolglot.routing import Target
from toolglot.translate import Exchange


class PlainAnswer(Struct, eq=False):
    flow: Flow
    context: FlowContext
    _targets: RequestTargets

    @property
    def exchange(self) -> Exchange | None:
        """The exchange that answers, or the last one that was tried."""
        return self.context.exchange

    def client_headers(self, upstream_headers: Mapping[str, str] | None) -> dict[str, str]:
        """The headers of the answer; None while no upstream has answered."""
        return self._targets.client_headers(self.context, upstream_headers)

    def note(self) -> None:
        """Put what is known of the answer into its record."""
        self._targets.note(self.context)

    async def close(self) -> None:
        self._targets.close()


def plain_answer(context: FlowContext, targets: RequestTargets, routed: Sequence[Target]) -> PlainAnswer:
    return PlainAnswer(answer_flow(context, targets, routed), context, targets)


def answer_flow(context: FlowContext, targets: RequestTargets, routed: Sequence[Target]) -> Flow:
    """The answer of the first of these targets that gives one."""
    flow = answer(context, targets.build(routed))
    return with_reasoning_state(flow, context, targets.states) if targets.states.has_store else flow
