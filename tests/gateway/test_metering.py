"""Every row of the flow's table within limits: however it goes, and wherever its client leaves, what was reserved is
given back, and an answer is charged once."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, cast

from tests.gateway.stage import Stage, play, transcript
from tests.gateway.test_flow import rows
from toolglot.config.schema import TeamConfig
from toolglot.dialects import find
from toolglot.errors import ApiError
from toolglot.gateway.commands import Flow, WholeAnswer
from toolglot.gateway.features.metering import RequestMeter, with_metering
from toolglot.gateway.flow import FlowContext, answer
from toolglot.gateway.received import ReceivedRequest
from toolglot.ir import Request, Usage
from toolglot.routing import Target
from toolglot.team.counters import LocalCounters, Spent
from toolglot.team.directory import Account
from toolglot.team.keys import ApiKey, KeyLimits, KeyPolicy
from toolglot.team.service import Team
from toolglot.team.sql import UsageRow
from toolglot.upstream.pricing import Pricing

LIMITS = KeyLimits(concurrent_requests=1, tokens_per_day=1000, tokens_per_minute=1000, requests_per_minute=100)
USED = Usage(input_tokens=3, output_tokens=4)


class NotedRows:
    """A ledger that only remembers."""

    def __init__(self) -> None:
        self.rows: list[UsageRow] = []

    def add(self, rows: Sequence[UsageRow]) -> None:
        self.rows += rows


class Keys:
    def __init__(self) -> None:
        self.is_valid = True

    def may_continue(self, account: Account) -> bool:
        return self.is_valid

    def refuse(self, account: Account) -> Any:
        return ApiError(kind="authentication", message="revoked")


class Metered:
    """A flow of a key with limits; the answers of its upstream report `USED`."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.counters, self.ledger, self.keys = LocalCounters(), NotedRows(), Keys()
        self.counters.load("k", {})
        team = Team(
            TeamConfig(enabled=True),
            cast("Any", None),
            cast("Any", self.keys),
            self.counters,
            cast("Any", self.ledger),
            cast("Any", None),
        )
        key = ApiKey(id="k", name="anna", created=0, policy=KeyPolicy(limits=LIMITS))
        received = ReceivedRequest(client=find("openai_chat"), request=Request(model="m"), body=b"{}")
        self.is_answered = False
        self.meter = RequestMeter(
            team,
            Account(key, "o", inf),
            Pricing({}, {}),
            received,
            Target(asked="m", rule="", upstream="a", model="m"),
            self._note,
        )
        self.flow = with_metering(self._watched(answer(stage.context, stage.targets)), stage.context, self.meter)

    def _watched(self, flow: Flow) -> Flow:
        result = yield from flow
        self.is_answered = isinstance(result, WholeAnswer)
        return result

    def _note(self, context: FlowContext) -> None:
        if self.is_answered or context.stream is not None:
            context.record.usage = USED

    def check(self) -> None:
        """Nothing is held any more, and what was answered is charged once."""
        counts = self.counters._keys["k"]
        assert counts.in_flight == 0
        assert all((each.held_tokens, each.held_nano_usd) == (0, 0) for each in counts.windows.values())
        assert len(self.ledger.rows) <= 1
        used = sum(row.tokens for row in self.ledger.rows)
        for window in counts.windows:
            assert self.counters.spent("k", window) == Spent(used, 0)


@rows
def test_limits_that_are_not_reached_change_nothing(stream: bool, targets: str, outcomes: list[Any], said: str) -> None:
    metered = Metered(Stage(targets, stream=stream))
    assert transcript(metered.flow, outcomes) == said
    metered.check()
    assert bool(metered.ledger.rows) == (metered.is_answered or metered.stage.context.stream is not None)


@rows
def test_a_client_that_leaves_at_any_point_holds_nothing(
    stream: bool, targets: str, outcomes: list[Any], said: str
) -> None:
    """LiteLLM #28160: a decrement that was lost by a cancellation in the clean-up."""
    for end in range(len(outcomes) + 1):
        metered = Metered(Stage(targets, stream=stream))
        play(metered.flow, outcomes[:end])
        metered.flow.close()
        metered.check()


@rows
def test_a_key_that_is_revoked_meanwhile_makes_no_further_call(
    stream: bool, targets: str, outcomes: list[Any], said: str
) -> None:
    metered = Metered(Stage(targets, stream=stream))
    outcome: Any = None
    sent = 0
    left = list(outcomes)
    while True:
        try:
            command = metered.flow.send(outcome)
        except StopIteration:
            break
        sent += type(command).__name__ == "Send"
        metered.keys.is_valid = False
        if type(command).__name__ in ("BeginStream", "Write", "Signal"):
            outcome = None
        elif left:
            outcome = left.pop(0)
        else:
            metered.flow.close()
            break
    assert sent <= 1
    metered.check()


def test_a_flow_that_was_never_started_holds_nothing() -> None:
    metered = Metered(Stage("a"))
    metered.flow.close()
    assert metered.ledger.rows == []
    assert metered.counters.spent("k", "2026-11-18") == Spent(0, 0)
