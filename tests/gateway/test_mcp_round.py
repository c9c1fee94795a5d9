"""A round of the MCP loop: a model's flow inside the flow of the client's answer."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, cast

import pytest

from tests.gateway.stage import BEGUN, RESET, Stage, transcript
from toolglot.errors import ApiError
from toolglot.events import Delta, Event
from toolglot.gateway.commands import END, RELEASE, BeginStream, Flow, Result, Shutdown, Silent, StreamEnd, Write
from toolglot.gateway.features.mcp_loop import McpRound
from toolglot.gateway.flow import StoppedError, answer
from toolglot.gateway.gateway_model import ModelRound


class PieceRound:
    """A round whose pieces are its events."""

    def __init__(self, model: Stage) -> None:
        self.context = model.context
        self.context.keepalive_seconds = inf  # which are the client's
        self.flow = answer(model.context, model.targets)

    def take(self, command: BeginStream | Write | bytes) -> Sequence[Event]:
        return (Delta(index=0, text=command.decode()),) if isinstance(command, bytes) and command else ()

    def end(self, result: Result) -> Sequence[Event]:
        assert isinstance(result, StreamEnd)
        return self.take(result.data)

    def close(self) -> None:
        self.flow.close()


def rounds(models: Sequence[Stage], client: Stage) -> Flow:
    """Rounds whose events the client is told, as the loop runs them."""
    for model in models:
        running = McpRound(cast("ModelRound", PieceRound(model)), client.context)
        try:
            while (events := (yield from running.next_events())) is not None:
                yield Write("".join(event.text for event in events if isinstance(event, Delta)).encode())
            yield RELEASE
        finally:
            running.close()
    return StreamEnd(b"")


SAID: dict[str, tuple[list[Any], str]] = {
    "the next call does not wait for the end of a complete reply": (
        [BEGUN, b"a", b"b.", BEGUN, b"c."],
        "send a ask | - | write A | - | write B. | RELEASE | send a ask | - | write C. | RELEASE | = ",
    ),
    "a reply that has ended": (
        [BEGUN, b"a;", END, BEGUN, b"c;", RESET],
        "send a ask | - | write A; | - | write <END> | RELEASE "
        "| send a ask | - | write C; | - | write <END> | RELEASE | = ",
    ),
    "keep-alives are the client's": (
        [Silent(15.0, 15.0), BEGUN, b"a", Silent(15.0, 1.0), b"b.", BEGUN, b"c."],
        "send a ask | begin early | :beat | - | write A | - | :beat | write B. | RELEASE "
        "| send a ask | - | write C. | RELEASE | = ",
    ),
    "an upstream that is silent after its stop reason has ended the round": (
        [BEGUN, b"a;", Silent(5.0, 4.0), Silent(6.0, 5.0), BEGUN, b"c."],
        "send a ask | - | write A; | - | - | write <END> | RELEASE | send a ask | - | write C. | RELEASE | = ",
    ),
}


@pytest.mark.parametrize("what", SAID)
def test_a_round(what: str) -> None:
    outcomes, said = SAID[what]
    models = Stage(stream=True), Stage(stream=True)
    assert transcript(rounds(models, Stage(stream=True)), outcomes) == said
    assert [model.open for model in models] == [0, 0]


def test_a_server_that_shuts_down_ends_the_round() -> None:
    for outcomes in ([], [BEGUN], [BEGUN, b"a"]):
        model = Stage(stream=True)
        stopped = Shutdown(ApiError(kind="overloaded", message="draining"))
        with pytest.raises(StoppedError):
            transcript(rounds([model], Stage(stream=True)), [*outcomes, stopped])
        assert model.open == 0
