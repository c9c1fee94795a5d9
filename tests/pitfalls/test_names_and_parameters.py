"""Pitfalls of ids, names, schemas, tool choice, usage, custom tools and stable bytes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.exchanges import NAMES, through
from tests.forms import history_of
from tests.pitfalls.wires import ask, asked, call, calls, chat, frames, gemini
from tests.strategies import SCHEMAS
from toolglot.dialects import DIALECTS
from toolglot.ir import Message, Request, Text, Tool, ToolCall
from toolglot.ir import Response as IrResponse
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore


def function(name: str, parameters: Any = None, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}} if parameters is None else parameters
    return {"type": "function", "function": {"name": name, "parameters": schema, **more}}


def with_call(call_id: str, name: str = "f", **more: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "max_tokens": 100,
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": call_id, "content": "done"},
        ],
        **more,
    }


def ids_in(encoded: Any) -> set[str]:
    keys = ("id", "call_id", "tool_call_id", "tool_use_id")
    found: set[str] = set()
    if isinstance(encoded, dict):
        found |= {encoded[key] for key in keys if isinstance(encoded.get(key), str)}
    for value in encoded.values() if isinstance(encoded, dict) else encoded if isinstance(encoded, list) else ():
        found |= ids_in(value)
    return found


@pytest.mark.parametrize("target", ["openai_responses", "anthropic"])
@pytest.mark.parametrize("call_id", ["functions.Bash:0", "x" * 100, "ид", "call 1"])
def test_an_id_that_the_target_refuses_is_replaced_in_call_and_result(target: str, call_id: str) -> None:
    """bifrost #5097, langchain PR #37756: `functions.Bash:0`, and the limits of 40 and 64 characters."""
    ids = ids_in(ask("openai_chat", target, with_call(call_id)))
    assert len(ids) == 1
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", ids.pop())


def test_mistral_gets_nine_letters_and_digits() -> None:
    """litellm PR #12941: Mistral wants ids of exactly nine letters and digits."""
    document = {
        "model": "mistral-large",
        "max_tokens": 100,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_01ABC", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_01ABC", "content": "1"}]},
        ],
    }
    ids = ids_in(ask("anthropic", "openai_chat", document))
    assert len(ids) == 1
    assert re.fullmatch(r"[A-Za-z0-9]{9}", ids.pop())


def test_two_long_ids_with_one_beginning_stay_two() -> None:
    """experiential PR #801: cutting ids off made two calls one."""
    document = with_call("i" * 80 + "a")
    document["messages"] += with_call("i" * 80 + "b")["messages"][1:]
    assert len(ids_in(ask("openai_chat", "anthropic", document))) == 2


def test_an_id_that_the_provider_uses_again_becomes_another() -> None:
    """litellm PR #30426, open-webui #28305: every answer's first call is `call_0`."""
    document = with_call("call_0")
    document["messages"] += with_call("call_0")["messages"][1:]
    assert len(ids_in(ask("openai_chat", "anthropic", document))) == 2
    exchange = ExchangeCore("anthropic", "openai_chat")
    history = {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "call_0", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_0", "content": "1"}]},
        ],
    }
    exchange.request(json.dumps(history).encode())
    translation = exchange.stream()
    got = frames(translation.feed(chat(calls(call(0, "{}", id="call_0", type="function", name="f")))))
    started = [event["content_block"] for event in got if event["type"] == "content_block_start"]
    assert started[0]["id"] != "call_0"


LONG = "mcp__a_server_with_a_long_name__and_a_tool_with_an_even_longer_name_that_goes_on_and_on"


def anthropic_tools(*names: str, choice: str | None = None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "model": "m",
        "max_tokens": 100,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": names[0], "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "1"}]},
        ],
        "tools": [{"name": name, "input_schema": {"type": "object", "properties": {}}} for name in names],
    }
    if choice is not None:
        document["tool_choice"] = {"type": "tool", "name": choice}
    return document


def test_a_long_name_is_the_same_in_definition_choice_and_history_and_is_restored() -> None:
    """litellm #20107, cline PR #11885: names of 65 to 128 characters, shortened in some places only."""
    encoded, exchange = asked("anthropic", "openai_chat", anthropic_tools(LONG, "other", choice=LONG))
    name = encoded["tools"][0]["function"]["name"]
    assert len(name) <= 64
    assert encoded["tool_choice"]["function"]["name"] == name
    assert encoded["messages"][1]["tool_calls"][0]["function"]["name"] == name
    stream = chat(calls(call(0, "{}", id="b", type="function", name=name)))
    got = frames(exchange.stream().feed(stream))
    assert next(event["content_block"]["name"] for event in got if event["type"] == "content_block_start") == LONG


def test_two_names_that_are_equal_after_truncation_stay_two() -> None:
    """hermes PR #92659: both became the same tool."""
    encoded = ask("anthropic", "openai_chat", anthropic_tools(LONG + "_a", LONG + "_b"))
    names = [tool["function"]["name"] for tool in encoded["tools"]]
    assert len(set(names)) == 2
    assert all(len(name) <= 64 for name in names)


@pytest.mark.parametrize("name", ["files.read", "files:read", "日本語", "with space"])
def test_a_name_with_other_letters_is_cleaned_and_restored(name: str) -> None:
    """Gemini allows dots and colons, others do not; unicode is refused everywhere."""
    request = Request(
        model="m",
        max_output_tokens=9,
        tools=(Tool(name=name, parameters={"type": "object", "properties": {}}),),
        messages=(Message(role="user", content=(Text(text="Hi"),)),),
    )
    exchange = ExchangeCore("gemini", "anthropic")
    tool = exchange.rewrite(request).tools[0]
    assert isinstance(tool, Tool)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,128}", tool.name)
    answer = exchange.restore(IrResponse(content=(ToolCall(id="a", name=tool.name, arguments="{}"),)))
    assert isinstance(answer.content[0], ToolCall)
    assert answer.content[0].name == name


MORE_SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "array"}}},
    {"type": "object", "properties": {"a": {"type": "integer", "enum": [1, 2]}}},
    {"type": "object", "properties": {"a": {"type": "boolean", "enum": [True]}}},
    {"type": "object", "properties": {"a": {"const": 3}}},
    {"type": "object", "additionalProperties": {"type": "string"}},
    {"type": "object", "propertyNames": {"pattern": "^x"}},
    {"type": "object", "allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["a"]}]},
    {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}},
    {"type": "object", "properties": {"n": {"type": "number", "maximum": 1e308, "exclusiveMinimum": 0}}},
    {"type": "object", "properties": {"n": {"type": "integer", "maximum": 2**63 - 1}}},
    {"type": "object", "properties": {"p": {"type": "string", "pattern": "^[a-z]+$", "format": "uri"}}},
    {"type": "object", "properties": {"x": True, "y": False, "z": {}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "definitions": {"a": {"type": "null"}}},
    {"type": "object", "properties": {"self": {"$ref": "#"}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}},
    {"type": "object", "properties": {"a": {"not": {"type": "string"}}, "b": {"uniqueItems": True, "type": "array"}}},
]


@pytest.mark.parametrize("schema", [*(schema for schema in SCHEMAS if schema is not None), *MORE_SCHEMAS])
@pytest.mark.parametrize("target", NAMES)
def test_any_schema_reaches_every_target_without_losing_its_words(target: str, schema: dict[str, Any]) -> None:
    """litellm #14330, #18442, #19098: recursion until memory ran out, `const` turned into an object, enums dropped."""
    source = "openai_chat" if target != "openai_chat" else "anthropic"
    if source == "openai_chat":
        document = with_call("a", tools=[function("f", schema)])
    else:
        document = anthropic_tools("f")
        document["tools"][0]["input_schema"] = schema
    encoded, exchange = asked(source, target, document)
    text = json.dumps(encoded)
    for word in ("enum", "const", "pattern", "additionalProperties", "$ref"):
        told = any(word in str(line) for line in exchange.receipt)
        assert json.dumps(schema).count(f'"{word}"') <= text.count(word) or told, word


def test_a_const_stays_a_const() -> None:
    """litellm turned `const: "x"` into `{"type": "object"}` and dropped integer enums."""
    schema = {"type": "object", "properties": {"a": {"const": "x"}, "b": {"type": "integer", "enum": [1, 2]}}}
    encoded = ask("openai_chat", "anthropic", with_call("a", tools=[function("f", schema)]))
    assert encoded["tools"][0]["input_schema"]["properties"] == schema["properties"]


def test_a_result_that_holds_a_reference_is_no_schema() -> None:
    """Gemini resolves `$ref` in results and refuses those that it cannot; the data must not look like one."""
    document = with_call("a")
    document["messages"][2]["content"] = '{"$ref": "#/x", "found": 1}'
    encoded = ask("openai_chat", "gemini", document)
    response = encoded["contents"][2]["parts"][0]["functionResponse"]["response"]
    assert "$ref" not in response
    assert "#/x" in json.dumps(response)


@pytest.mark.parametrize("source", ["openai_chat", "anthropic", "gemini"])
def test_strict_is_always_said_to_responses(source: str) -> None:
    """CLIProxyAPI #4497: without `strict` the server tries strict first, and models invent optional fields."""
    request = Request(
        model="m",
        tools=(Tool(name="f", parameters={"type": "object", "properties": {}}),),
        messages=(Message(role="user", content=(Text(text="Hi"),)),),
        max_output_tokens=100,
    )
    raw = DIALECTS[source].encode_request(request, Receipt())
    encoded = json.loads(ExchangeCore(source, "openai_responses").request(raw, model="gpt-5"))
    assert encoded["tools"][0]["strict"] is False


LOOSE = {"type": "object", "properties": {"a": {"type": "string"}}}
EXACT = {**LOOSE, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses"])
@pytest.mark.parametrize(("schema", "strict"), [(LOOSE, False), (EXACT, True)])
def test_strict_is_asked_of_openai_only_for_schemas_that_it_takes(
    target: str, schema: dict[str, Any], strict: bool
) -> None:
    """litellm 286b8d1: strict needs every property required and no others allowed, or the request is refused."""
    document = anthropic_tools("f")
    document["tools"] = [{"name": "f", "input_schema": schema, "strict": True}]
    encoded, exchange = asked("anthropic", target, document, model="gpt-4.1")
    tool = encoded["tools"][0]
    assert tool.get("function", tool)["strict"] is strict
    assert any("strict" in line.where for line in exchange.receipt) is not strict


@pytest.mark.parametrize("target", [name for name in NAMES if name != "openai_chat"])
@pytest.mark.parametrize("choice", ["none", "auto", "required", {"type": "function", "function": {"name": "f"}}])
def test_every_tool_choice_reaches_every_target(target: str, choice: Any) -> None:
    """litellm #24443, bifrost #5179: `none` gave a 500, and `any` leaked into other dialects."""
    encoded, exchange = asked(
        "openai_chat", target, with_call("a", tools=[function("f")], tool_choice=choice), model="some-model"
    )
    forms: dict[str, dict[str, Any]] = {
        "none": {"openai_responses": "none", "anthropic": {"type": "none"}, "gemini": {"mode": "NONE"}},
        "auto": {"openai_responses": "auto", "anthropic": {"type": "auto"}, "gemini": {"mode": "AUTO"}},
        "required": {"openai_responses": "required", "anthropic": {"type": "any"}, "gemini": {"mode": "ANY"}},
        "named": {
            "openai_responses": {"type": "function", "name": "f"},
            "anthropic": {"type": "tool", "name": "f"},
            "gemini": {"mode": "ANY", "allowedFunctionNames": ["f"]},
        },
    }
    wanted = forms[choice if isinstance(choice, str) else "named"].get(target)
    if wanted is None:  # a wire without a place for it: what is not the default is told
        assert choice == "auto" or exchange.receipt
        return
    got = encoded["toolConfig"]["functionCallingConfig"] if target == "gemini" else encoded["tool_choice"]
    assert got == wanted
    assert not exchange.receipt.losses


@pytest.mark.parametrize("target", [name for name in NAMES if name != "openai_chat"])
def test_a_tool_choice_without_tools_is_left_out(target: str) -> None:
    """bifrost #6887, litellm #25477: `tools: []` and a choice without tools are refused by vLLM and others."""
    document = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "tools": []}
    encoded = ask("openai_chat", target, {**document, "tool_choice": "auto"})
    assert "tools" not in encoded
    assert "tool_choice" not in encoded
    assert "toolConfig" not in encoded
    assert not encoded.get("mcp_context")


def test_a_choice_that_the_model_refuses_falls_back_and_is_told() -> None:
    """Newer Claude models answer 400 to forced tool choice."""
    encoded, exchange = asked(
        "openai_chat",
        "anthropic",
        with_call("a", tools=[function("f")], tool_choice="required"),
        model="claude-opus-5-5",
    )
    assert encoded["tool_choice"]["type"] == "auto"
    assert any(line.where == "tool_choice" for line in exchange.receipt)


PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}


def test_a_custom_tool_is_a_function_upstream_and_custom_again_on_the_way_back() -> None:
    """CLIProxyAPI #5753, copilot-api #242: Codex's freeform tools were dropped or JSON-wrapped for the client."""
    document = {"model": "m", "max_output_tokens": 100, "input": "Hi", "tools": [PATCH]}
    encoded, exchange = asked("openai_responses", "anthropic", document)
    tool = encoded["tools"][0]
    assert tool["input_schema"]["properties"]["input"]["type"] == "string"
    assert "start: /.+/" in json.dumps(tool)
    block = {"type": "tool_use", "id": "a", "name": tool["name"], "input": {}}
    upstream = b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        for event in (
            {"type": "message_start", "message": {"id": "m", "model": "m", "content": [], "usage": {}}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": '{"input":"*** Be'},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": 'gin\\n+\\u00e9"}'},
            },
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        )
    )
    got = frames(exchange.stream().feed(upstream))
    deltas = [event["delta"] for event in got if event["type"] == "response.custom_tool_call_input.delta"]
    assert deltas == ["*** Be", "gin\n+é"]
    done = [event["item"] for event in got if event["type"] == "response.output_item.done"]
    assert (done[0]["type"], done[0]["name"], done[0]["input"]) == ("custom_tool_call", "apply_patch", "*** Begin\n+é")


def test_a_namespace_is_flattened_and_split_again() -> None:
    """sub2api #3390: namespaced tools of Codex were dropped, or came back without their namespace."""
    inner = {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {}}, "strict": False}
    namespace = {"type": "namespace", "name": "mcp__files", "description": "Files", "tools": [inner]}
    document = {"model": "m", "max_output_tokens": 100, "input": "Hi", "tools": [namespace]}
    encoded, exchange = asked("openai_responses", "openai_chat", document)
    name = encoded["tools"][0]["function"]["name"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    got = frames(exchange.stream().feed(chat(calls(call(0, "{}", id="a", type="function", name=name)))))
    item = next(event["item"] for event in got if event["type"] == "response.output_item.done")
    assert (item["name"], item["namespace"]) == ("read", "mcp__files")


def test_the_bytes_of_a_prefix_do_not_move_when_a_turn_is_added() -> None:
    """kubeai #690, vibeproxy PR #294: shuffled keys cost the prompt cache, 75 % hits down to 25 %."""
    short, longer = with_call("functions.f:0"), with_call("functions.f:0")
    longer["messages"] += [{"role": "assistant", "content": "So."}, {"role": "user", "content": "And?"}]
    for target in NAMES:
        exchanges = [(ExchangeCore("openai_chat", target), document) for document in (short, longer)]
        first, second = (history_of(target, exchange.request(document)) for exchange, document in exchanges)
        assert len(second.items) == len(first.items) + 2
        assert second.items[: len(first.items)] == first.items
        assert list(first.rest) == list(second.rest)


def test_cache_breakpoints_survive() -> None:
    """headroom PR #383: `cache_control` was stripped on the way."""
    text = {"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}}
    document = {"model": "gpt-5.6", "max_tokens": 9, "messages": [{"role": "user", "content": [text]}]}
    encoded = ask("anthropic", "openai_chat", document)
    assert encoded["messages"][0]["content"][0]["prompt_cache_breakpoint"]["mode"] == "explicit"


def test_a_legacy_function_call_is_answered_in_kind() -> None:
    """A client that asks with `functions` understands `function_call` alone."""
    document = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hi"}],
        "functions": [{"name": "f", "parameters": {"type": "object", "properties": {}}}],
    }
    _, exchange = asked("openai_chat", "gemini", document)
    part = {"functionCall": {"name": "f", "args": {"a": 1}}}
    got = frames(through(exchange, [gemini([part])]))
    deltas = [chunk["choices"][0]["delta"] for chunk in got if chunk["choices"]]
    assert any(delta.get("function_call", {}).get("name") == "f" for delta in deltas)
    assert not any("tool_calls" in delta for delta in deltas)
    assert [chunk["choices"][0]["finish_reason"] for chunk in got if chunk["choices"]][-1] == "function_call"


def test_results_of_a_batch_keep_their_names_for_gemini() -> None:
    """Gemini's functionResponse needs the tool's name, which other wires do not repeat in results."""
    encoded = ask("openai_chat", "gemini", with_call("a", "get_weather"))
    assert encoded["contents"][2]["parts"][0]["functionResponse"]["name"] == "get_weather"
