"""Schemas of tools that one vendor takes and another refuses, with the whole request: arrays without items (OpenAI:
aichat #1049), names of parameters (Anthropic: composio #3500), keywords of older drafts (Anthropic: ha-mcp #2361), and
parameters that are not an object. Where the arguments change their form, calls come back in the client's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.capabilities import change_capabilities
from toolglot.dialects import DIALECTS
from toolglot.ir import Request, Tool, ToolCall
from toolglot.textcalls.settings import TextCalls
from toolglot.translate import ExchangeCore

Schema = dict[str, Any]
CHAT_UPSTREAMS = ["openai_chat", "openai_responses"]


def chat_tool(schema: Any, name: str = "f") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def chat_request(schema: Any, *messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    user = {"role": "user", "content": "go"}
    return {"model": "m", "messages": [user, *messages], "tools": [chat_tool(schema)], **fields}


def anthropic_request(schema: Schema) -> dict[str, Any]:
    tool = {"name": "f", "input_schema": schema}
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}], "tools": [tool]}


def sent_schema(exchange: ExchangeCore, body: dict[str, Any]) -> Any:
    """The schema of the first tool that the upstream gets."""
    tool = json.loads(exchange.request(body))["tools"][0]
    match exchange.upstream.name:
        case "openai_chat":
            return tool["function"]["parameters"]
        case "anthropic":
            return tool["input_schema"]
        case "gemini":
            return tool["functionDeclarations"][0]["parametersJsonSchema"]
    return tool["parameters"]


def decode_request(dialect: str, data: bytes) -> Request:
    return DIALECTS[dialect].decode_request(data)


def properties(**schemas: Any) -> Schema:
    return {"type": "object", "properties": schemas}


BARE_ARRAYS: list[tuple[Schema, Schema]] = [
    ({"type": "array"}, {"type": "array", "items": {}}),
    ({"type": ["string", "array"]}, {"type": ["string", "array"], "items": {}}),
    ({"type": "array", "items": {"type": "array"}}, {"type": "array", "items": {"type": "array", "items": {}}}),
    ({"anyOf": [{"type": "array"}, {"type": "null"}]}, {"anyOf": [{"type": "array", "items": {}}, {"type": "null"}]}),
    ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "string"}}),
    (
        {"type": "object", "additionalProperties": {"type": "array"}},
        {"type": "object", "additionalProperties": {"type": "array", "items": {}}},
    ),
]


@pytest.mark.parametrize(("given", "expected"), BARE_ARRAYS)
@pytest.mark.parametrize("upstream", CHAT_UPSTREAMS)
def test_every_array_has_items_for_openai(upstream: str, given: Schema, expected: Schema) -> None:
    exchange = ExchangeCore("anthropic", upstream)
    assert sent_schema(exchange, anthropic_request(properties(a=given))) == properties(a=expected)
    assert [line.where for line in exchange.receipt if "tools" in line.where] == (
        [] if given == expected else ["tools[0].parameters"]
    )


@pytest.mark.parametrize("given", [row[0] for row in BARE_ARRAYS])
def test_an_array_without_items_stays_where_it_is_taken(given: Schema) -> None:
    body = chat_request(properties(a=given))
    assert sent_schema(ExchangeCore("openai_chat", "anthropic"), body) == properties(a=given)
    assert sent_schema(ExchangeCore("openai_chat", "openai_chat", verbatim=False), body) == properties(a=given)


PAIR = [{"type": "string"}, {"type": "integer"}]
DATED: list[tuple[Schema, Schema]] = [
    ({"type": "array", "items": PAIR}, {"type": "array", "prefixItems": PAIR}),
    (
        {"type": "array", "items": PAIR, "additionalItems": False},
        {"type": "array", "prefixItems": PAIR, "items": False},
    ),
    ({"type": "array", "items": []}, {"type": "array"}),
    ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 0}),
    ({"type": "number", "maximum": 5, "exclusiveMaximum": False}, {"type": "number", "maximum": 5}),
    ({"type": "number", "exclusiveMinimum": 0}, {"type": "number", "exclusiveMinimum": 0}),
    ({"type": "STRING"}, {"type": "string"}),
    ({"type": ["STRING", "NULL"]}, {"type": ["string", "null"]}),
    ({"anyOf": [{"type": "NUMBER"}]}, {"anyOf": [{"type": "number"}]}),
    (
        {"type": "object", "properties": {"b": {"type": "string", "required": True}, "c": {"required": False}}},
        {"type": "object", "properties": {"b": {"type": "string"}, "c": {}}, "required": ["b"]},
    ),
]


@pytest.mark.parametrize(("given", "expected"), DATED)
def test_keywords_of_older_drafts_have_the_form_of_the_current_one(given: Schema, expected: Schema) -> None:
    exchange = ExchangeCore("openai_chat", "anthropic")
    assert sent_schema(exchange, chat_request(properties(a=given))) == properties(a=expected)
    assert ("tools[0].parameters" in [line.where for line in exchange.receipt]) is (given != expected)
    own = ExchangeCore("openai_chat", "openai_chat", verbatim=False)
    assert sent_schema(own, chat_request(properties(a=given))) == properties(a=given)


def test_references_follow_what_has_moved() -> None:
    schema = {
        "type": "object",
        "properties": {
            "$top": {"type": "array", "items": PAIR},
            "b": {"$ref": "#/properties/$top"},
            "c": {"$ref": "#/properties/$top/items/0"},
        },
    }
    found = sent_schema(ExchangeCore("openai_chat", "anthropic"), chat_request(schema))
    assert found["properties"] == {
        "_top": {"type": "array", "prefixItems": PAIR},
        "b": {"$ref": "#/properties/_top"},
        "c": {"$ref": "#/properties/_top/prefixItems/0"},
    }


LONG = "a" * 70
KEYS: Schema = {
    "type": "object",
    "properties": {
        "filter[id]": {"type": "string"},
        "$top": {"type": "integer"},
        "_top": {"type": "integer"},
        "plain": properties(**{"in side": {"type": "string"}}),
        LONG: {"type": "string"},
    },
    "required": ["filter[id]", "plain"],
    "if": {"required": ["$top"]},
}


def test_names_of_parameters_are_renamed_where_the_target_refuses_them() -> None:
    exchange = ExchangeCore("openai_chat", "anthropic")
    found = sent_schema(exchange, chat_request(KEYS))
    first, top, *others, long = found["properties"]
    assert (first, others) == ("filter_id_", ["_top", "plain"])
    assert top.startswith("_top_")
    assert len(long) == 64
    assert found["required"] == ["filter_id_", "plain"]
    assert found["if"] == {"required": [top]}
    assert found["properties"]["plain"] == KEYS["properties"]["plain"]  # only those at the root are checked
    assert [line.severity for line in exchange.receipt if line.where == "tools[0].parameters"] == ["note"]
    assert sent_schema(ExchangeCore("openai_chat", "gemini"), chat_request(KEYS)) == KEYS


# The arguments of calls: the tool's schema, what the model writes, and what the client gets.
KEYED = '{"filter_id_":"a","plain":{"filter_id_":1.0}}'
ROWS: list[tuple[Schema, str, str]] = [
    (KEYS, KEYED, '{"filter[id]":"a","plain":{"filter_id_":1.0}}'),
    (KEYS, '{"plain":{}}', '{"plain":{}}'),
    ({"type": "array", "items": {"type": "number"}}, '{"value":[1.0,2]}', "[1.0,2]"),
    ({"anyOf": [properties(a={}), {"type": "string"}]}, '{"value":{"a":"x"}}', '{"a":"x"}'),
    ({"type": "string"}, '{"value":"x"}', '"x"'),
]


def anthropic_answer(arguments: str) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": json.loads(arguments)}
    usage = {"input_tokens": 1, "output_tokens": 1}
    shape = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    return {**shape, "content": [call], "stop_reason": "tool_use", "usage": usage}


def anthropic_stream(arguments: str) -> bytes:
    half = len(arguments) // 2
    start = {**anthropic_answer("{}"), "content": [], "stop_reason": None}
    opened = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    pieces = [arguments[:half], arguments[half:]]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": opened},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}}
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


@pytest.mark.parametrize(("schema", "model", "client"), ROWS)
def test_a_call_has_the_arguments_that_the_client_has_declared(schema: Schema, model: str, client: str) -> None:
    exchange = ExchangeCore("openai_chat", "anthropic")
    exchange.request(chat_request(schema))
    answer = json.loads(exchange.response(anthropic_answer(model)))
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == json.loads(client)
    assert answer["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(("schema", "model", "client"), ROWS)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_streamed_call_has_the_same_arguments(schema: Schema, model: str, client: str, size: int) -> None:
    exchange = ExchangeCore("openai_chat", "anthropic")
    exchange.request(chat_request(schema, stream=True))
    stream, data, written = exchange.stream(), anthropic_stream(model), b""
    for at in range(0, len(data), size):
        written += stream.feed(data[at : at + size])
    written += stream.close()
    chunks = [json.loads(line[6:]) for line in written.split(b"\n") if line.startswith(b"data: {")]
    calls = [call for chunk in chunks for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", ())]
    assert "".join(call["function"].get("arguments", "") for call in calls) == client
    assert chunks[-1]["choices"] == [] or chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(("schema", "model", "client"), ROWS)
def test_the_history_has_the_arguments_that_the_model_wrote(schema: Schema, model: str, client: str) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": client}}
    turn = {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call_1", "content": "ok"}
    exchange = ExchangeCore("openai_chat", "anthropic")
    sent = json.loads(exchange.request(chat_request(schema, *turn)))
    assert sent["messages"][1]["content"][0]["input"] == json.loads(model)


WRAPPED = ROWS[2:]
"""Parameters that are no object."""
FOREIGN = sorted(set(DIALECTS) - {"openai_chat"})


def chat_call(arguments: str) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": arguments}}


def answer_of(upstream: str, arguments: str) -> bytes:
    """The upstream's answer, with one call."""
    message = {"role": "assistant", "content": None, "tool_calls": [chat_call(arguments)]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    document = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return ExchangeCore(upstream, "openai_chat").response(document)


def stream_of(upstream: str, arguments: str) -> bytes:
    """The upstream's stream, with one call."""
    call = {**chat_call(arguments), "index": 0}
    deltas = [({"role": "assistant", "tool_calls": [call]}, None), ({}, "tool_calls")]
    shape = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [{**shape, "choices": [{"index": 0, "delta": delta, "finish_reason": why}]} for delta, why in deltas]
    stream = ExchangeCore(upstream, "openai_chat").stream()
    frames = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    return stream.feed(frames + b"data: [DONE]\n\n") + stream.close()


@pytest.mark.parametrize(("schema", "model", "client"), WRAPPED)
@pytest.mark.parametrize("upstream", FOREIGN)
def test_no_upstream_gets_parameters_that_are_no_object(upstream: str, schema: Schema, model: str, client: str) -> None:
    exchange = ExchangeCore("openai_chat", upstream)
    request = decode_request(upstream, exchange.request(chat_request(schema)))
    (tool,) = request.tools
    assert isinstance(tool, Tool)
    assert isinstance(tool.parameters, dict)
    assert (tool.parameters["type"], list(tool.parameters["properties"])) == ("object", ["value"])
    assert "tools[0].parameters" in [line.where for line in exchange.receipt]
    answer = json.loads(exchange.response(answer_of(upstream, model)))
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == json.loads(client)


@pytest.mark.parametrize(("schema", "model", "client"), WRAPPED)
@pytest.mark.parametrize("upstream", FOREIGN)
def test_wrapped_arguments_are_unwrapped_in_streams_of_every_upstream(
    upstream: str, schema: Schema, model: str, client: str
) -> None:
    exchange = ExchangeCore("openai_chat", upstream)
    exchange.request(chat_request(schema, stream=True))
    stream = exchange.stream()
    written = stream.feed(stream_of(upstream, model)) + stream.close()
    chunks = [json.loads(line[6:]) for line in written.split(b"\n") if line.startswith(b"data: {")]
    calls = [call for chunk in chunks for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", ())]
    assert json.loads("".join(call["function"].get("arguments", "") for call in calls)) == json.loads(client)


@pytest.mark.parametrize(("schema", "model", "client"), WRAPPED)
@pytest.mark.parametrize("upstream", FOREIGN)
def test_wrapped_arguments_are_wrapped_in_the_history_for_every_upstream(
    upstream: str, schema: Schema, model: str, client: str
) -> None:
    turn = (
        {"role": "assistant", "tool_calls": [chat_call(client)]},
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": "ok",
        },
    )
    request = decode_request(upstream, ExchangeCore("openai_chat", upstream).request(chat_request(schema, *turn)))
    (call,) = (block for message in request.messages for block in message.content if isinstance(block, ToolCall))
    assert json.loads(call.arguments) == json.loads(model)


def test_older_gemini_endpoints_get_an_object_at_the_root_too() -> None:
    can = change_capabilities(DIALECTS["gemini"].can, schema="openapi")
    sent = json.loads(ExchangeCore("openai_chat", "gemini", can=can).request(chat_request({"type": "string"})))
    (declaration,) = sent["tools"][0]["functionDeclarations"]
    assert declaration["parameters"]["type"] == "OBJECT"
    assert declaration["parameters"]["properties"] == {"value": {"type": "STRING"}}


TEXT_CALLS = {
    "hermes_json": '<tool_call>\n{"name": "f", "arguments": {"value": "x"}}\n</tool_call>',
    "qwen3_coder": "<tool_call>\n<function=f>\n<parameter=value>\nx\n</parameter>\n</function>\n</tool_call>",
    "pythonic": '[f(value="x")]',
}


@pytest.mark.parametrize("client", ["openai_chat", "anthropic"])
@pytest.mark.parametrize("upstream", ["openai_chat", "gemini"])
@pytest.mark.parametrize("name", TEXT_CALLS)
def test_tools_as_text_have_wrapped_parameters(client: str, upstream: str, name: str) -> None:
    exchange = ExchangeCore(client, upstream, text_calls=TextCalls(format=name))
    body = chat_request({"type": "string"}) if client == "openai_chat" else anthropic_request({"type": "string"})
    assert "value" in exchange.request(body).decode()
    choice = {"index": 0, "message": {"role": "assistant", "content": TEXT_CALLS[name]}, "finish_reason": "stop"}
    document = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    written = ExchangeCore(upstream, "openai_chat").response(document) if upstream != "openai_chat" else document
    answer = json.loads(exchange.response(written))
    if client == "openai_chat":
        assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '"x"'
    else:
        assert answer["content"][0]["input"] == {"value": "x"}


def test_a_client_whose_calls_have_objects_gets_one_also_of_wrapped_arguments() -> None:
    schema = {"type": "object", "anyOf": [{"anyOf": [properties(a={})]}, {"type": "array"}]}
    for model, client in (('{"value":{"a":1}}', {"a": 1}), ('{"value":[1]}', {"value": [1]})):
        exchange = ExchangeCore("anthropic", "openai_responses")
        exchange.request(anthropic_request(schema))
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": model}
        document = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [item]}
        answer = json.loads(exchange.response(document))
        assert answer["content"][0]["input"] == client
        is_noted = "content[0].arguments" in [line.where for line in exchange.receipt]
        assert is_noted is ("value" in client)
        call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": client}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
        body = anthropic_request(schema)
        body["messages"] += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        sent = json.loads(ExchangeCore("anthropic", "openai_responses").request(body))
        assert json.loads(next(each for each in sent["input"] if each.get("type") == "function_call")["arguments"]) == (
            json.loads(model)
        )


def test_arguments_that_the_model_has_not_wrapped_are_passed_on_and_noted() -> None:
    exchange = ExchangeCore("openai_chat", "anthropic")
    exchange.request(chat_request({"type": "array"}))
    answer = json.loads(exchange.response(anthropic_answer('{"a":1}')))
    assert json.loads(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]) == {"a": 1}
    assert "content[0].arguments" in [line.where for line in exchange.receipt]


@pytest.mark.parametrize("kind", ["OBJECT", "object"])
def test_parameters_with_the_type_in_upper_case_are_not_wrapped(kind: str) -> None:
    schema = {"type": kind, "properties": {"a": {"type": "STRING"}}}
    assert sent_schema(ExchangeCore("openai_chat", "anthropic"), chat_request(schema)) == properties(
        a={"type": "string"}
    )


def test_a_call_that_is_cut_off_stays_cut_off() -> None:
    exchange = ExchangeCore("openai_chat", "anthropic")
    exchange.request(chat_request(KEYS, stream=True))
    stream = exchange.stream()
    data = anthropic_stream('{"filter_id_":"a').replace(b'"tool_use"}', b'"max_tokens"}')
    written = stream.feed(data) + stream.close()
    assert b"filter_id_" in written
    assert b'"finish_reason":"length"' in written
