"""Calls that were served on the way, as the official SDKs read them and send them back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from anthropic import Anthropic
from anthropic.types.beta import BetaContentBlock, BetaContentBlockParam, BetaRawMessageStreamEvent
from openai import OpenAI
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.dialects.served_rounds import (
    Round,
    answer,
    expected_turns,
    model_request,
    stream_frames,
    turns,
    written,
)
from tests.e2e.loopback import Asked, Loopback, Reply, stream, whole
from tests.e2e.python_ways import MODEL, PROMPT, anthropic_client, openai_client
from tests.e2e.sdk_types import check, complaints
from toolglot.dialect import Dialect
from toolglot.dialects.anthropic.dialect import ANTHROPIC
from toolglot.dialects.openai_responses.dialect import OPENAI_RESPONSES
from toolglot.events import Close, Event, Open, fold
from toolglot.ir import Text, Tool, ToolResult
from toolglot.receipt import Receipt
from toolglot.tools.served import ServedCall, ServedForms

ROUNDS = [
    Round(
        "Let me look.",
        (
            ServedCall(id="call_1", server="files", name="read", arguments='{"path":"a.txt","lines":[1,2]}'),
            ServedCall(id="call_2", server="weather", name="get", arguments=""),
        ),
        (
            ToolResult(call_id="call_1", content=(Text(text="one\ntwo"),), is_error=False),
            ToolResult(call_id="call_2", content=(Text(text="no such city 日本"),), is_error=True),
        ),
    ),
    Round(
        "",
        (ServedCall(id="call_3", server="weather", name="get", arguments='{"city":"Zürich"}'),),
        (ToolResult(call_id="call_3", content=(Text(text="rain"),), is_error=False),),
    ),
]
LISTED = Tool(name="read", description="Reads.", parameters={"type": "object"}, native={"mcp": {"annotations": {}}})


def forms(dialect: Dialect) -> ServedForms:
    assert dialect.served is not None
    return dialect.served


def events(dialect: Dialect) -> list[Event]:
    return answer(forms(dialect), ROUNDS)


def served_by(dialect: Dialect, happened: Sequence[Event]) -> Callable[[Asked], Reply]:
    """A server that gives this answer, streamed to whoever wants that."""

    def respond(asked: Asked) -> Reply:
        if not asked.json().get("stream"):
            return whole(dialect.encode_response(fold(happened), None, Receipt()))
        encoder = dialect.stream_encoder(None, Receipt())
        return stream(encoder.feed(event) for event in happened)

    return respond


# ── Responses ────────────────────────────────────────────────────────────────────────────────────────────────────────


def response_of(client: OpenAI, streams: bool, history: Any) -> Any:
    arguments: dict[str, Any] = {"model": MODEL, "input": history, "tools": [{"type": "mcp", "server_label": "files"}]}
    if not streams:
        return client.responses.create(**arguments)
    with client.responses.stream(**arguments) as events:
        return events.get_final_response()


@pytest.mark.parametrize("streams", [False, True])
def test_openais_sdk_reads_the_calls_and_sends_them_back(loopback: Loopback, streams: bool) -> None:
    with loopback.serving(served_by(OPENAI_RESPONSES, events(OPENAI_RESPONSES))) as exchange:
        client = openai_client().with_options(base_url=f"{exchange.base_url}/v1")
        history: list[Any] = [{"role": "user", "content": PROMPT}]
        response = response_of(client, streams, history)
        calls = [item for item in response.output if item.type == "mcp_call"]
        response_of(client, streams, [*history, *response.output, {"role": "user", "content": "And now?"}])
        body = exchange.asked[-1].json()
    assert [(call.server_label, call.name, json.loads(call.arguments)) for call in calls] == [
        ("files", "read", {"path": "a.txt", "lines": [1, 2]}),
        ("weather", "get", {}),
        ("weather", "get", {"city": "Zürich"}),
    ]
    assert [(call.status, call.output) for call in calls] == [
        ("completed", "one\ntwo"),
        ("failed", None),
        ("completed", "rain"),
    ]
    assert calls[1].error.type == "mcp_tool_execution_error"
    assert response.output_text == "Let me look.Done."
    assert check("openai_responses", body) == []
    assert turns(model_request(OPENAI_RESPONSES, body).messages) == expected_turns(ROUNDS)


def test_openais_types_take_every_event_and_item() -> None:
    listed = forms(OPENAI_RESPONSES).encode_tool_list("files", [LISTED])
    approval = forms(OPENAI_RESPONSES).encode_approval_request
    assert listed is not None
    assert approval is not None
    start, *middle, finish = answer(forms(OPENAI_RESPONSES), ROUNDS, last="")
    count = 1 + max(event.index for event in middle if isinstance(event, Open))
    happened = [start, *middle]
    for index, block in ((count, listed), (count + 1, approval(ROUNDS[0].calls[0]))):
        happened += [Open(index, block), Close(index=index)]
    happened.append(finish)
    read, item = TypeAdapter[Any](ResponseStreamEvent), TypeAdapter[Any](ResponseOutputItem)
    names = set()
    for frame in stream_frames(OPENAI_RESPONSES, happened):
        parsed = read.validate_python(frame)
        assert parsed.type == frame["type"]
        names.add(type(parsed).__name__)
    kinds = {"InProgress", "ArgumentsDelta", "ArgumentsDone", "Completed", "Failed"}
    assert names >= {f"ResponseMcpCall{kind}Event" for kind in kinds}
    assert names >= {"ResponseMcpListToolsInProgressEvent", "ResponseMcpListToolsCompletedEvent"}
    parsed_items = [item.validate_python(value) for value in written(OPENAI_RESPONSES, happened)["output"]]
    assert [type(each).__name__ for each in parsed_items] == [
        "ResponseOutputMessage",
        *("McpCall", "McpCall", "McpCall", "McpListTools", "McpApprovalRequest"),
    ]


@pytest.mark.parametrize("approve", [True, False])
def test_openais_sdk_answers_a_request_for_a_yes(loopback: Loopback, approve: bool) -> None:
    approval = forms(OPENAI_RESPONSES).encode_approval_request
    assert approval is not None
    call = ROUNDS[0].calls[0]
    start, *_, finish = answer(forms(OPENAI_RESPONSES), [])
    happened = [start, Open(0, approval(call)), Close(index=0), finish]
    with loopback.serving(served_by(OPENAI_RESPONSES, happened)) as exchange:
        client = openai_client().with_options(base_url=f"{exchange.base_url}/v1")
        response = response_of(client, True, PROMPT)
        (request,) = response.output
        said = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve}
        response_of(client, False, [*response.output, said])
        body = exchange.asked[-1].json()
    assert check("openai_responses", body) == []
    decoded = OPENAI_RESPONSES.decode_request(json.dumps(body).encode())
    restored = forms(OPENAI_RESPONSES).restore_history(decoded, lambda server, name: f"{server}__{name}")
    assert [each.id for each in restored.approved] == (["call_1"] if approve else [])
    assert len(restored.request.messages) == (1 if approve else 2)


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def message_of(client: Anthropic, beta: bool, streams: bool, history: Any) -> Any:
    arguments: dict[str, Any] = {"model": MODEL, "max_tokens": 1024, "messages": history}
    servers = [{"type": "url", "name": "files", "url": "https://files.example/mcp"}]
    if beta:
        arguments |= {"mcp_servers": servers, "betas": ["mcp-client-2025-11-20"]}
    else:
        arguments |= {"extra_body": {"mcp_servers": servers}}
    messages: Any = client.beta.messages if beta else client.messages
    if not streams:
        return messages.create(**arguments)
    with messages.stream(**arguments) as events:
        return events.get_final_message()


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("beta", [False, True])
def test_anthropics_sdk_reads_the_calls_and_sends_them_back(loopback: Loopback, beta: bool, streams: bool) -> None:
    with loopback.serving(served_by(ANTHROPIC, events(ANTHROPIC))) as exchange:
        client = anthropic_client().with_options(base_url=exchange.base_url)
        history: list[Any] = [{"role": "user", "content": PROMPT}]
        message = message_of(client, beta, streams, history)
        told = {"role": "assistant", "content": message.content}
        message_of(client, beta, streams, [*history, told, {"role": "user", "content": "And now?"}])
        body = exchange.asked[-1].json()
    uses = [block for block in message.content if block.type == "mcp_tool_use"]
    results = [block for block in message.content if block.type == "mcp_tool_result"]
    assert [(use.server_name, use.name, use.input) for use in uses] == [
        ("files", "read", {"path": "a.txt", "lines": [1, 2]}),
        ("weather", "get", {}),
        ("weather", "get", {"city": "Zürich"}),
    ]
    assert [result.tool_use_id for result in results] == [use.id for use in uses]
    assert [result.is_error for result in results] == [False, True, False]
    assert turns(model_request(ANTHROPIC, body).messages) == expected_turns(ROUNDS)


def test_anthropics_types_take_every_event_and_block() -> None:
    read, block = TypeAdapter[Any](BetaRawMessageStreamEvent), TypeAdapter[Any](BetaContentBlock)
    for frame in stream_frames(ANTHROPIC, events(ANTHROPIC)):
        if frame["type"] not in ("message_start", "message_delta"):  # whose usage the SDK's types want more of
            assert read.validate_python(frame).type == frame["type"]
    content = written(ANTHROPIC, events(ANTHROPIC))["content"]
    assert [type(block.validate_python(value)).__name__ for value in content] == [
        "BetaTextBlock",
        *("BetaMCPToolUseBlock", "BetaMCPToolUseBlock", "BetaMCPToolResultBlock", "BetaMCPToolResultBlock"),
        *("BetaMCPToolUseBlock", "BetaMCPToolResultBlock", "BetaTextBlock"),
    ]
    assert [line for value in content for line in complaints(value, BetaContentBlockParam)] == []
