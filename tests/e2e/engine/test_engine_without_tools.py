"""An engine that refuses tools, behind the gateway: every official SDK completes a loop of three turns nevertheless.

The engine is llama.cpp without Jinja. Its model reads the results of the tools in its prompt and writes its calls as
text, token by token.
"""

from __future__ import annotations

from itertools import cycle, pairwise

import pytest

from tests.e2e.answers import Call
from tests.e2e.python_loops import TOOLS
from tests.e2e.recordings import STOPS
from tests.e2e.sdks.all_clients import CLIENTS
from tests.e2e.sdks.clients import Client
from tests.e2e.sdks.pieces import PIECES
from tests.e2e.sdks.script import OUTCOMES, Outcome, Wish

from .asking import arguments
from .engine import SERVED
from .text_story import LAST_WORD, LEARNED, ROUNDS, SAID, TOLD

Urls = dict[str, str]
STREAMED = {client.name for client in CLIENTS if client.streams and client.name.startswith("python")}
"""These meet every dialect that the engine speaks, the others one of them."""


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine takes none: the tools answer with text alone."""
    for name, outcome in OUTCOMES.items():
        monkeypatch.setitem(OUTCOMES, name, Outcome(outcome.text, failed=outcome.failed))


LOOPS = [
    pytest.param(client, upstream, model, id=f"{client.name}-{upstream}-{model}")
    for number, (client, model) in enumerate(zip(CLIENTS, cycle((TOLD, TOLD, TOLD, LEARNED)), strict=False))
    for upstream in (SERVED if client.name in STREAMED else SERVED[number % len(SERVED) :][:1])
]


@pytest.mark.parametrize(("client", "upstream", "model"), LOOPS)
def test_a_loop_of_three_turns(gateways_to_text_engine: Urls, client: Client, upstream: str, model: str) -> None:
    answers = client.run(gateways_to_text_engine[upstream], Wish(model=model))
    texts = (SAID, "", LAST_WORD)
    for answer, expected, text in zip(answers, ROUNDS, texts, strict=True):
        assert [Call(None, call.name, call.arguments) for call in answer.calls] == expected
        assert answer.text.strip() == text
        assert answer.stop == STOPS["tool_calls" if expected else "end"][client.dialect]
        if client.usage or not expected:
            assert answer.input_tokens > 0
            assert answer.output_tokens > 0
    for before, answer in pairwise(answers) if client.usage else ():
        assert answer.cached_tokens >= before.input_tokens  # a prompt begins with the whole of the one before it
    ids = [call.id for answer in answers for call in answer.calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("upstream", SERVED)
@pytest.mark.parametrize("client", PIECES)
def test_arguments_are_streamed_as_the_engine_writes_them(
    gateways_to_text_engine: Urls, client: str, upstream: str
) -> None:
    pieces = PIECES[client](gateways_to_text_engine[upstream], Wish(model=TOLD), TOOLS)
    assert arguments(pieces) == [call.arguments for call in ROUNDS[0]]
    assert len(pieces) > 10
