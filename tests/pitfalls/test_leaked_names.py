"""Names of tools with parts of the model's own call format, which its server failed to remove (vllm #32587)."""

from __future__ import annotations

import json

import pytest

from tests.exchanges import NAMES
from tests.pitfalls.wires import chat
from toolglot.dialects import DIALECTS
from toolglot.events import fold
from toolglot.ir import ToolCall
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

CLIENTS = [name for name in NAMES if name not in ("warp", "openai_chat")]
LEAKED = [
    "weather<|channel|>commentary",
    "functions.weather",
    "functions.weather<|constrain|>json",
    "default_api:weather",
    "functions.weather:0",
]
ASKED = {
    "model": "gpt-oss-120b",
    "max_tokens": 99,
    "messages": [{"role": "user", "content": "Umbrella?"}],
    "tools": [{"name": "weather", "input_schema": {"type": "object"}}],
}


def exchange_for(client: str, *, stream: bool) -> ExchangeCore:
    exchange = ExchangeCore(client, "openai_chat", model="gpt-oss-120b", created=1)
    request = DIALECTS["anthropic"].decode_request(json.dumps({**ASKED, "stream": stream}).encode())
    exchange.request(DIALECTS[client].encode_request(request, Receipt()), model="gpt-oss-120b", stream=stream)
    return exchange


def called(name: str) -> dict[str, object]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": '{"city":"Paris"}'}}


def notes_of(exchange: ExchangeCore) -> list[str]:
    return [line.what for line in exchange.receipt if line.what.startswith("call of")]


@pytest.mark.parametrize("leaked", LEAKED)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_leaked_name_is_read_as_the_declared_tool(client: str, leaked: str) -> None:
    exchange = exchange_for(client, stream=False)
    message = {"role": "assistant", "content": None, "tool_calls": [called(leaked)]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    answer = exchange.response(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )
    calls = [block for block in DIALECTS[client].decode_response(answer).content if isinstance(block, ToolCall)]
    assert [call.name for call in calls] == ["weather"]
    assert notes_of(exchange) == [f"call of {leaked}"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_leaked_name_in_a_stream_is_read_as_the_declared_tool(client: str) -> None:
    exchange = exchange_for(client, stream=True)
    stream = exchange.stream()
    written = (
        stream.feed(chat({"tool_calls": [{"index": 0, **called(LEAKED[0])}]}, finish="tool_calls")) + stream.close()
    )
    decoder = DIALECTS[client].stream_decoder(Receipt())
    content = fold([*decoder.feed(written), *decoder.close()]).content
    assert [block.name for block in content if isinstance(block, ToolCall)] == ["weather"]
    assert notes_of(exchange) == [f"call of {LEAKED[0]}"]


def test_a_name_that_is_no_declared_tool_without_its_decoration_stays() -> None:
    exchange = exchange_for("anthropic", stream=False)
    message = {"role": "assistant", "content": None, "tool_calls": [called("functions.other")]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    answer = exchange.response(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )
    assert json.loads(answer)["content"][0]["name"] == "functions.other"
    assert not notes_of(exchange)
