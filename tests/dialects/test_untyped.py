"""Objects without a `type`, or in the sister API's form, whose meaning is beyond doubt: SDKs send such."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchanges import JSON_NAMES
from toolglot.api import translate_request
from toolglot.dialects import DIALECTS
from toolglot.ir import Tool
from toolglot.receipt import Receipt

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": "Tells the weather", "parameters": SCHEMA}
ASK = [{"role": "user", "content": "Paris?"}]


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "mistral-large", "messages": ASK, **fields}


def responses(**fields: Any) -> dict[str, Any]:
    return {"model": "gpt-x", "input": ASK, **fields}


CHAT_TOOLS = [
    {"function": FUNCTION},  # Mistral's SDK
    {"type": "function", **FUNCTION},  # the form of the Responses API
]
RESPONSES_TOOLS = [
    {"function": FUNCTION},
    {"type": "function", "function": FUNCTION},  # the form of Chat Completions
    FUNCTION,
]
SENT: list[tuple[str, dict[str, Any]]] = [
    *(("openai_chat", chat(tools=[tool])) for tool in CHAT_TOOLS),
    *(("openai_responses", responses(tools=[tool])) for tool in RESPONSES_TOOLS),
]
NAMED = [
    ("openai_chat", chat(tools=[{"function": FUNCTION}], tool_choice={"function": {"name": "get_weather"}})),
    ("openai_chat", chat(tools=CHAT_TOOLS[1:], tool_choice={"type": "function", "name": "get_weather"})),
    (
        "openai_responses",
        responses(tools=RESPONSES_TOOLS[:1], tool_choice={"type": "function", "function": {"name": "get_weather"}}),
    ),
]


def tools_of(target: str, body: dict[str, Any]) -> list[tuple[str, Any]]:
    match target:
        case "openai_chat" | "ollama":
            functions = [tool["function"] for tool in body["tools"]]
            return [(function["name"], function["parameters"]) for function in functions]
        case "openai_responses":
            return [(tool["name"], tool["parameters"]) for tool in body["tools"] if tool["type"] == "function"]
        case "anthropic":
            return [(tool["name"], tool["input_schema"]) for tool in body["tools"]]
        case "gemini":
            declared = body["tools"][0]["functionDeclarations"]
            return [(tool["name"], tool["parametersJsonSchema"]) for tool in declared]
        case _:
            tools = DIALECTS[target].decode_request(json.dumps(body).encode()).tools
            return [(tool.name, tool.parameters) for tool in tools if isinstance(tool, Tool)]


# Within one dialect the bytes go through as they are.
ELSEWHERE = [(*sent, target) for sent in SENT for target in JSON_NAMES if sent[0] != target]


@pytest.mark.parametrize(("source", "request_", "target"), ELSEWHERE, ids=lambda value: json.dumps(value)[:60])
def test_a_function_that_is_unmistakable_is_offered(source: str, request_: dict[str, Any], target: str) -> None:
    translated = translate_request(json.dumps(request_), source, target)
    assert tools_of(target, translated.json()) == [("get_weather", SCHEMA)]
    assert not translated.receipt.losses


@pytest.mark.parametrize(("source", "request_"), [*SENT, *NAMED], ids=lambda value: json.dumps(value)[:60])
def test_what_came_without_a_type_goes_back_without_it(source: str, request_: dict[str, Any]) -> None:
    dialect = DIALECTS[source]
    encoded = dialect.encode_request(dialect.decode_request(json.dumps(request_).encode()), Receipt())
    assert json.loads(encoded) == request_


@pytest.mark.parametrize(("source", "request_"), NAMED, ids=lambda value: json.dumps(value)[:60])
def test_a_choice_that_is_unmistakable_is_made(source: str, request_: dict[str, Any]) -> None:
    translated = translate_request(json.dumps(request_), source, "anthropic")
    assert translated.json()["tool_choice"] == {"type": "tool", "name": "get_weather"}


def test_mistrals_word_for_a_required_call_is_read() -> None:
    request = chat(tools=[{"function": FUNCTION}], tool_choice="any")
    translated = translate_request(json.dumps(request), "openai_chat", "openai_responses")
    assert translated.json()["tool_choice"] == "required"
    dialect = DIALECTS["openai_chat"]
    assert (
        json.loads(dialect.encode_request(dialect.decode_request(json.dumps(request).encode()), Receipt())) == request
    )


def test_parts_of_chat_messages_without_a_type_are_read() -> None:
    parts = [{"text": "What is this?"}, {"image_url": {"url": "data:image/png;base64,QUJD"}}]
    request = chat(messages=[{"role": "user", "content": parts}])
    translated = translate_request(json.dumps(request), "openai_chat", "anthropic")
    image = {"type": "image", "source": {"type": "base64", "data": "QUJD", "media_type": "image/png"}}
    assert translated.json()["messages"][0]["content"] == [{"type": "text", "text": "What is this?"}, image]
    dialect = DIALECTS["openai_chat"]
    assert (
        json.loads(dialect.encode_request(dialect.decode_request(json.dumps(request).encode()), Receipt())) == request
    )


def test_items_of_responses_without_a_type_are_read() -> None:
    items = [
        *ASK,
        {"role": "user", "content": [{"text": "Quick."}]},
        {"call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Paris"}'},
        {"call_id": "call_1", "output": "sunny"},
    ]
    request = responses(input=items)
    translated = translate_request(json.dumps(request), "openai_responses", "openai_chat")
    assert [message["role"] for message in translated.json()["messages"]] == ["user", "user", "assistant", "tool"]
    assert translated.json()["messages"][1]["content"] == "Quick."
    call = {"name": "get_weather", "arguments": '{"city":"Paris"}'}
    assert translated.json()["messages"][2]["tool_calls"][0]["function"] == call
    assert translated.json()["messages"][3]["content"] == "sunny"
    assert not translated.receipt
    dialect = DIALECTS["openai_responses"]
    assert (
        json.loads(dialect.encode_request(dialect.decode_request(json.dumps(request).encode()), Receipt())) == request
    )


@pytest.mark.parametrize("tool", [{"name": "x"}, {"function": {"name": "f"}, "custom": {"name": "f"}}, {"function": 5}])
def test_what_could_mean_several_things_is_not_guessed(tool: dict[str, Any]) -> None:
    translated = translate_request(json.dumps(chat(tools=[tool])), "openai_chat", "anthropic")
    assert "tools" not in translated.json()
    assert [line.where for line in translated.receipt.losses] == ["tools[0]"]
