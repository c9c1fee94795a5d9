"""Features around a flow: what they add to what it says, and that it ends with them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.gateway.stage import BEGUN, LATE, Stage, status, transcript, whole
from toolglot.errors import ApiError
from toolglot.gateway.commands import Done, Flow, Shutdown, Silent, StreamEnd, Write
from toolglot.gateway.features.reasoning_state import ReasoningState, with_reasoning_state
from toolglot.gateway.features.responses_turn import ResponsesTurn, with_responses_turn
from toolglot.gateway.features.separate_error import with_separate_error
from toolglot.gateway.flow import answer
from toolglot.translate import ExchangeCore

SILENT = Silent(15.0, 15.0)
STOP = Shutdown(ApiError(kind="overloaded", status=503, message="draining"))


class FullStopTurn:
    """Needs storing once an answer has a full stop; marks what passes through it."""

    def __init__(self) -> None:
        self.needs_storing = False

    def feed(self, data: bytes) -> bytes:
        self.needs_storing = data.endswith(b".")
        return data + b"'" if data else data

    def close(self) -> bytes:
        return b"(closed)"

    async def store(self, data: bytes) -> bytes:
        raise NotImplementedError

    stores_whole = True

    def rewrite(self, body: bytes) -> bytes:
        return body

    async def store_whole(self, body: bytes) -> bytes:
        raise NotImplementedError


def stateful(stage: Stage) -> Flow:
    turn = cast("ResponsesTurn", FullStopTurn())
    return with_responses_turn(answer(stage.context, stage.targets), stage.context, turn)


TURNS: dict[str, tuple[bool, list[Any], str]] = {
    "a stream is kept before its end": (
        True,
        [BEGUN, b"a", b"b.", Done(b"kept")],
        "send a ask | - | begin | A' | await | = kept(closed)",
    ),
    "a stream that fails is not kept": (
        True,
        [BEGUN, b"a", b"!"],
        "send a ask | - | begin | A' | = <overloaded>'(closed)",
    ),
    "a slow store is no silence": (
        True,
        [BEGUN, b"a", b"b.", SILENT, Done(b"kept")],
        "send a ask | - | begin | A' | await | :beat | = kept(closed)",
    ),
    "what is written in between passes too": (
        True,
        [BEGUN, b"a?", BEGUN, b"b!", b"."],
        "send a ask | - | begin | write A?' | send a again | - | B!' | await",
    ),
    "a whole answer is kept": (False, [whole(b"hi"), Done(b"kept")], "send a ask | await | = whole kept"),
    "an error is not": (False, [status(401)], "send a ask | = error 401 authentication"),
}


@pytest.mark.parametrize(("stream", "outcomes", "said"), TURNS.values(), ids=TURNS)
def test_an_answer_passes_through_its_turn(stream: bool, outcomes: list[Any], said: str) -> None:
    stage = Stage(stream=stream)
    assert transcript(stateful(stage), outcomes) == said


@pytest.mark.parametrize(("stream", "outcomes", "said"), TURNS.values(), ids=TURNS)
def test_a_client_that_goes_ends_the_flow_inside(stream: bool, outcomes: list[Any], said: str) -> None:
    for count in range(len(outcomes)):
        stage = Stage(stream=stream)
        flow = stateful(stage)
        transcript(flow, outcomes[:count])
        flow.close()
        assert stage.open == 0


class KeepingStates:
    """Notes what is kept."""

    def __init__(self, *, kept: bool = True) -> None:
        self.kept = kept
        self.calls: list[bool] = []

    def has_new_state(self, exchange: ExchangeCore, *, whole: bool) -> bool:
        return self.kept

    async def store(self, exchange: ExchangeCore, *, whole: bool) -> None:
        self.calls.append(whole)


def test_state_is_kept_before_the_end_of_an_answer_and_only_of_one() -> None:
    for stream, outcomes, said in (
        (True, [BEGUN, b"a", b"b.", Done(None)], "send a ask | - | begin | A | await | = B."),
        (False, [whole(b"hi"), Done(None)], "send a ask | await | = whole HI"),
        (True, [BEGUN, b"a", b"!"], "send a ask | - | begin | A | = <overloaded>"),
        (True, [LATE], "send a ask | = error 504 timeout"),
    ):
        stage, states = Stage(stream=stream), cast("ReasoningState", KeepingStates())
        stage.context.exchange = ExchangeCore("anthropic", "openai_chat")
        flow = with_reasoning_state(answer(stage.context, stage.targets), stage.context, states)
        assert transcript(flow, outcomes) == said


def test_nothing_is_awaited_where_no_state_is_kept() -> None:
    stage, states = Stage(), cast("ReasoningState", KeepingStates(kept=False))
    stage.context.exchange = ExchangeCore("anthropic", "openai_chat")
    flow = with_reasoning_state(answer(stage.context, stage.targets), stage.context, states)
    assert transcript(flow, [whole(b"hi")]) == "send a ask | = whole HI"


def test_whether_an_answer_is_whole_is_told_to_who_keeps_it() -> None:
    async def run(stream: bool) -> list[bool]:
        stage, states = Stage(stream=stream), KeepingStates()
        stage.context.exchange = ExchangeCore("anthropic", "openai_chat")
        flow = with_reasoning_state(answer(stage.context, stage.targets), stage.context, cast("ReasoningState", states))
        flow.send(None)
        command = flow.send(BEGUN if stream else whole(b"hi"))
        if stream:
            command = flow.send(b"hi.")
        await cast("Any", command).call()
        return states.calls

    assert asyncio.run(run(True)) == [False]
    assert asyncio.run(run(False)) == [True]


ERROR = b"data: !\n\n!\n\n"


def scripted(*commands: Any) -> Flow:
    """A flow that says these things, of which the last is its result."""
    for command in commands[:-1]:  # noqa: UP028 (outcomes are sent to it)
        yield command
    return commands[-1]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("commands", "outcomes", "said"),
    [
        ([b"a", StreamEnd(b"b" + ERROR)], [b"", Done(None)], "a | write bdata: !\n\n | await | = !\n\n"),
        ([StreamEnd(b"b" + ERROR, upstream_headers={})], [Done(None)], "begin | write bdata: !\n\n | await | = !\n\n"),
        ([Write(ERROR), StreamEnd(b"")], [Done(None)], "write data: !\n\n | await | write !\n\n | = "),
        ([b"a", StreamEnd(ERROR)], [STOP], "a | = data: !\n\n!\n\n"),
        ([b"a", StreamEnd(b"b")], [b""], "a | = b"),
    ],
    ids=["at the end", "at once", "in the middle", "while the server stops", "no error"],
)
def test_an_error_is_written_in_a_chunk_of_its_own(commands: list[Any], outcomes: list[Any], said: str) -> None:
    flow = with_separate_error(scripted(*commands), Stage(stream=True).context, b"!")
    assert transcript(flow, outcomes) == said
