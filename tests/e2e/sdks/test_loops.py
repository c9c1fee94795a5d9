"""Whole tool loops through a running gateway: every official SDK, in every manner, over every dialect upstream.

Both ends are held to account: what the SDK made of each turn, and what the upstream was told at each turn.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.e2e.answers import Answer, Call
from tests.e2e.gateway import Gateways
from tests.e2e.python_loops import TOOLS
from tests.e2e.recordings import STATE, STOPS, TURNS
from tests.e2e.sdk_types import check
from tests.e2e.test_tool_loops import EXTENSION
from tests.e2e.wires import WIRES

from .all_clients import CLIENTS
from .clients import Client
from .received import Received, Result
from .script import ARGUMENTS, IDS, OUTCOMES, PICTURE_TEXT, PICTURE_TYPE, Wish, said
from .upstreams import Upstream

PICTURE = f"{PICTURE_TYPE};{PICTURE_TEXT}"
LAST = Answer("", "", [], "end", 12, 7, 0)
ORDERS = (r"\.*", r"\.*ccrr\.*", r"\.*ccrr\.*cr")
"""The results come right after their calls at each turn; a picture that has no place in its result comes after all."""
TAKES_PICTURES = {"openai_responses", "anthropic", "gemini"}
"""Dialects in which a result can hold a picture."""
SAYS_FAILED = {"anthropic", "gemini"}
"""Dialects in which a result can be marked as an error."""


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("client", [pytest.param(client, id=client.name) for client in CLIENTS])
def test_a_loop_of_three_turns(gateways: Gateways, client: Client, dialect: str) -> None:
    gateway, upstream = gateways.to(dialect), Upstream(dialect)
    gateway.exchange.answer = upstream
    answers = client.run(gateway.base_url, Wish())
    check_answers(client, answers, upstream)
    assert len(upstream.received) == len(answers) == 3
    assert upstream.streamed == [client.streams] * 3
    for number, received in enumerate(upstream.received):
        check_received(client, dialect, received, results=(0, 2, 3)[number])
        assert re.fullmatch(ORDERS[number], received.order)
    for body in upstream.bodies if client.dialect != dialect else ():  # else the client's own bytes are forwarded
        assert [line for line in check(dialect, body) if not line.split(":")[0].endswith(EXTENSION)] == []
    if client.returns_state:
        for state in STATE[dialect]:
            assert state.encode() in upstream.bodies[-1]


def check_answers(client: Client, answers: list[Answer], upstream: Upstream) -> None:
    """What the application sees of each turn is what the model said."""
    expected = [TURNS["parallel_calls"], TURNS["no_arguments"], replace(LAST, text=upstream.said)]
    for answer, turn in zip(answers, expected, strict=True):
        assert answer.text == turn.text
        assert answer.thinking == (turn.thinking if client.thinking else answer.thinking)
        assert [Call(None, call.name, call.arguments or {}) for call in answer.calls] == turn.calls
        assert answer.stop == STOPS[turn.stop][client.dialect]
        if client.usage or turn is expected[-1]:
            tokens = (answer.input_tokens, answer.output_tokens, answer.cached_tokens)
            assert tokens == (turn.input_tokens, turn.output_tokens, turn.cached_tokens)
    ids = [call.id for answer in answers for call in answer.calls]
    assert len(set(ids)) == len(ids)
    assert all(ids) or client.dialect == "gemini"  # where ids are optional


def check_received(client: Client, dialect: str, received: Received, *, results: int) -> None:
    """The upstream is told every call with its arguments, and each call's own result, in its own dialect."""
    names = list(ARGUMENTS)[:results]
    assert sorted(received.tools) == sorted(name for name, _, _ in TOOLS)
    assert [(call.name, call.arguments) for call in received.calls] == [(name, ARGUMENTS[name]) for name in names]
    ids = [call.id for call in received.calls]
    assert ids == [given or ids[number] for number, given in enumerate(IDS[dialect][:results])]
    for name, call_id, result in zip(names, ids, received.results, strict=True):
        # An SDK may leave the id out to an upstream of its own dialect, where the name says the same.
        assert result.call_id == call_id or (result.call_id is None and dialect == client.dialect == "gemini")
        check_result(client, dialect, name, result)
    inside = client.dialect != "openai_chat" and dialect in TAKES_PICTURES
    shown = [PICTURE] if results and client.pictures else []
    assert [picture for result in received.results for picture in result.pictures] == (shown if inside else [])
    assert received.pictures == ([] if inside else shown)


def check_result(client: Client, dialect: str, name: str, result: Result) -> None:
    outcome = OUTCOMES[name]
    assert outcome.text in said(result.text)
    assert result.name in (name, None)
    if outcome.failed and client.marks_errors:
        assert result.failed if dialect in SAYS_FAILED else result.text.startswith("Error: ")
    else:
        assert not result.failed
