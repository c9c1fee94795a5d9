"""A model's answer to one request: its flow, and what is reported about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from toolglot.gateway.commands import Flow
from toolglot.gateway.features.carried_state import with_carried_state
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
        return self._targets.client_headers(upstream_headers)

    def note(self) -> None:
        """Put what is known of the answer into its record."""
        self._targets.note()

    async def close(self) -> None:
        self._targets.close()


def plain_answer(targets: RequestTargets, routed: Sequence[Target]) -> PlainAnswer:
    """The answer of the first of these targets that gives one."""
    context, states = targets.context, targets.states
    flow = answer(context, targets.build(routed))
    if states.has_store:
        flow = with_carried_state(flow, context, states)
    return PlainAnswer(flow, context, targets)
