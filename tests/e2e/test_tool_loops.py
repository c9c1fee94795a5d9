"""Whole tool loops: an official SDK on one side, an upstream of any dialect on the other, toolglot between them.

Three turns: a call without arguments, two parallel calls after some thinking (one of the tools fails), and a last word.
Every request that reaches the upstream must fit the types of the upstream's own SDK.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from toolglot import DIALECTS, Exchange, Receipt
from toolglot.ir import Request, Text, Tool, ToolCall, ToolResult

from .answers import Answer, Call, Way
from .loopback import Asked, Loopback, Reply, stream, whole
from .python_loops import RESULTS, TOOLS
from .recordings import SOURCES, STATE, STOPS, TEXT, TIME, WEATHER, recording
from .sdk_types import check
from .ways import LOOPS

SCRIPT = ("no_arguments", "parallel_calls", "plain_text")
MODELS = {
    "openai_chat": "deepseek-chat",
    "openai_responses": "gpt-5.6",
    "anthropic": "claude-opus-5-5",
    "gemini": "gemini-3.5-pro",
}
CALLS = [Call(None, "refresh", {}), Call(None, "get_weather", WEATHER), Call(None, "get_time", TIME)]

EXTENSION = ".reasoning_content"
"""The field in which DeepSeek and others have their reasoning, which OpenAI's SDK does not know."""


class Gateway:
    """Translates each request for the upstream and answers with the upstream's recording of that turn."""

    def __init__(self, client: str, upstream: str) -> None:
        self.client = client
        self.upstream = upstream
        self.sent: list[bytes] = []

    def __call__(self, asked: Asked) -> Reply:
        streams = is_streamed(self.client, asked)
        exchange = Exchange(self.client, self.upstream, model=MODELS[self.upstream])
        self.sent.append(exchange.request(asked.body, model=model_of(self.client, asked), stream=streams))
        turn = recording(self.upstream, SCRIPT[len(self.sent) - 1], streams=streams)
        if not streams:
            return whole(exchange.response(turn))
        translation = exchange.stream()
        return stream(translation.feed(turn) + translation.close())


def is_streamed(client: str, asked: Asked) -> bool:
    if client == "gemini":
        return asked.path.endswith(":streamGenerateContent")
    return bool(asked.json().get("stream"))


def model_of(client: str, asked: Asked) -> str | None:
    """Gemini has the model in the URL."""
    return re.split("[/:]", asked.path)[-2] if client == "gemini" else None


def calls_of(request: Request) -> list[ToolCall]:
    return [block for message in request.messages for block in message.content if isinstance(block, ToolCall)]


def results_of(request: Request) -> list[ToolResult]:
    return [block for message in request.messages for block in message.content if isinstance(block, ToolResult)]


def gist(request: Request) -> Any:
    """What no dialect may lose: the tools, the calls, their results, who belongs to whom."""
    calls, results = calls_of(request), results_of(request)
    order = {call.id: number for number, call in enumerate(calls)}
    texts = [[block.text for block in result.content if isinstance(block, Text)] for result in results]
    # Where a wire has no error flag the text says it.
    texts = [[text.removeprefix("Error: ") for text in said] for said in texts]
    return (
        [(tool.name, tool.description, tool.parameters) for tool in request.tools if isinstance(tool, Tool)],
        [(call.name, json.loads(call.arguments or "{}")) for call in calls],
        [(order.get(result.call_id), text) for result, text in zip(results, texts, strict=True)],
    )


@pytest.mark.parametrize("upstream", SOURCES)
@pytest.mark.parametrize("loop", [pytest.param(loop, id=loop.name) for loop in LOOPS])
def test_a_loop_of_three_turns(loopback: Loopback, loop: Way, upstream: str) -> None:
    gateway = Gateway(loop.dialect, upstream)
    with loopback.serving(gateway) as exchange:
        answer = loop.ask(exchange.base_url)
    assert isinstance(answer, Answer), answer
    assert answer.text == TEXT
    assert answer.stop == STOPS["end"][loop.dialect]
    assert [Call(None, call.name, call.arguments or {}) for call in answer.calls] == CALLS
    ids = [call.id for call in answer.calls if call.id]
    assert len(ids) == len(set(ids))
    assert len(gateway.sent) == len(SCRIPT)
    check_upstream(gateway)
    for asked in exchange.asked:
        check_captured(loop.dialect, asked)


def check_upstream(gateway: Gateway) -> None:
    """The upstream got legal requests; the last has every call, and with each call its own result."""
    for sent in gateway.sent:
        if gateway.client != gateway.upstream:  # else the client's own bytes are forwarded
            assert [line for line in check(gateway.upstream, sent) if not line.split(":")[0].endswith(EXTENSION)] == []
    last = DIALECTS[gateway.upstream].decode_request(gateway.sent[-1])
    calls, results = calls_of(last), results_of(last)
    assert [call.name for call in calls] == [call.name for call in CALLS]
    assert [tool.name for tool in last.tools if isinstance(tool, Tool)] == [name for name, _, _ in TOOLS]
    assert len(results) == len(calls)
    for call, result in zip(calls, results, strict=True):
        assert result.call_id == call.id
        said = "".join(block.text for block in result.content if isinstance(block, Text))
        assert RESULTS[call.name][0] in said
    if gateway.client != "openai_chat":  # which has no field that could carry it
        for state in STATE[gateway.upstream]:
            assert state.encode() in gateway.sent[-1]


def check_captured(client: str, asked: Asked) -> None:
    """What an SDK sends decodes, comes back to its own dialect unchanged, and through every other one whole."""
    dialect, receipt = DIALECTS[client], Receipt()
    decoded = dialect.decode_request(asked.body)
    encoded = dialect.encode_request(decoded, receipt)
    assert json.loads(encoded) == (camel_case(asked.json()) if client == "gemini" else asked.json())
    assert dialect.encode_request(dialect.decode_request(encoded), Receipt()) == encoded
    assert not receipt
    for target in SOURCES:
        there = Exchange(client, target, model=MODELS[target]).request(asked.body, model=model_of(client, asked))
        back = Exchange(target, client, model=MODELS[client]).request(there, model=MODELS[target])
        assert gist(dialect.decode_request(back)) == gist(decoded), target


FREE_FORM = frozenset({"args", "response", "parametersJsonSchema", "responseJsonSchema"})
"""Members whose insides are the user's own."""


def camel_case(value: Any) -> Any:
    """The Python SDK mixes both ways to write names; toolglot writes one."""
    if isinstance(value, list):
        return [camel_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    renamed = {re.sub("_([a-z])", lambda found: found[1].upper(), key): item for key, item in value.items()}
    return {key: item if key in FREE_FORM else camel_case(item) for key, item in renamed.items()}
