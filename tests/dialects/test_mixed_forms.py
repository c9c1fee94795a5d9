"""Members in the form of another API or of a sloppy server: what is unmistakable is read, and the receipt names it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import DIALECTS, translate_request, translate_response, translate_stream
from toolglot.errors import DecodeError
from toolglot.receipt import Receipt

USER = {"role": "user", "content": "Hello"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
INPUT_SCHEMA = {"name": "weather", "description": "Tells it", "input_schema": SCHEMA}


def to_anthropic(body: dict[str, Any], source: str) -> tuple[dict[str, Any], list[str]]:
    result = translate_request(json.dumps({"model": "m", **body}).encode(), source, "anthropic")
    lines = [f"{line.severity} {line.where}" for line in result.receipt if line.where != "max_output_tokens"]
    return json.loads(result.data), lines


def again(body: dict[str, Any], dialect: str) -> Any:
    """The same request, read and written by one dialect."""
    codec, receipt = DIALECTS[dialect], Receipt()
    data = codec.encode_request(codec.decode_request(json.dumps({"model": "m", **body}).encode()), receipt)
    assert not list(receipt)
    written = json.loads(data)
    return {key: written[key] for key in body}


@pytest.mark.parametrize("typed", [{}, {"type": "custom"}, {"type": None}])
def test_a_chat_tool_in_the_form_of_messages_is_read(typed: dict[str, Any]) -> None:
    body = {"messages": [USER], "tools": [{**typed, **INPUT_SCHEMA}]}
    written, lines = to_anthropic(body, "openai_chat")
    assert written["tools"] == [INPUT_SCHEMA]
    assert lines == ["note tools[0].input_schema"]
    assert again(body, "openai_chat") == body


def test_a_custom_tool_of_chat_is_no_tool_of_messages() -> None:
    body = {"messages": [USER], "tools": [{"type": "custom", "custom": {"name": "weather"}}]}
    assert again(body, "openai_chat") == body


TEXT_SCHEMAS: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "messages": [USER],
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": json.dumps(SCHEMA)}}],
    },
    "openai_responses": {
        "input": [USER],
        "tools": [{"type": "function", "name": "weather", "parameters": json.dumps(SCHEMA)}],
    },
}


@pytest.mark.parametrize("source", TEXT_SCHEMAS)
def test_a_schema_that_came_as_text_is_read(source: str) -> None:
    written, lines = to_anthropic(TEXT_SCHEMAS[source], source)
    assert written["tools"] == [{"name": "weather", "input_schema": SCHEMA}]
    assert lines == ["note tools[0].parameters"]
    assert again(TEXT_SCHEMAS[source], source) == TEXT_SCHEMAS[source]


@pytest.mark.parametrize("text", ["nonsense", "[1]", '{"type":', ""])
def test_a_schema_in_broken_text_is_a_loss(text: str) -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": text}}
    _, lines = to_anthropic({"messages": [USER], "tools": [tool]}, "openai_chat")
    assert lines == ["loss tools[0].parameters"]


def test_arguments_of_a_responses_history_may_be_an_object() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}
    result = {"type": "function_call_output", "call_id": "c1", "output": "cold"}
    written, lines = to_anthropic({"input": [USER, call, result]}, "openai_responses")
    assert written["messages"][1]["content"][0]["input"] == {"city": "Oslo"}
    assert lines == ["note messages[1].content[0].arguments"]
    assert again({"input": [USER, call, result]}, "openai_responses")["input"][1]["arguments"] == '{"city":"Oslo"}'


@pytest.mark.parametrize("arguments", [[1], 7, True])
def test_arguments_of_any_other_form_are_refused_with_their_place(arguments: object) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": arguments}
    with pytest.raises(DecodeError, match=r"\$\.input\[1\]\.arguments"):
        translate_request(json.dumps({"model": "m", "input": [USER, call]}).encode(), "openai_responses", "anthropic")


def called(*names: str) -> dict[str, Any]:
    calls = [{"function": {"name": name, "arguments": {"of": name}}} for name in names]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def test_results_without_ids_go_to_their_calls_by_ollamas_tool_name() -> None:
    results = [
        {"role": "tool", "tool_name": "second", "content": "of second"},
        {"role": "tool", "name": "first", "tool_name": "first", "content": "of first"},
    ]
    written, lines = to_anthropic({"messages": [USER, called("first", "second"), *results]}, "openai_chat")
    calls = {block["id"]: block["name"] for block in written["messages"][1]["content"]}
    answered = {calls[block["tool_use_id"]]: block["content"] for block in written["messages"][2]["content"]}
    assert answered == {"first": "of first", "second": "of second"}
    assert not [line for line in lines if line.startswith("loss")]
    assert again({"messages": [USER, *results]}, "openai_chat") == {"messages": [USER, *results]}


def test_a_tool_name_beside_another_name_is_a_loss() -> None:
    result = {"role": "tool", "tool_call_id": "c1", "name": "first", "tool_name": "other", "content": "cold"}
    call = {"id": "c1", "type": "function", "function": {"name": "first", "arguments": "{}"}}
    _, lines = to_anthropic(
        {"messages": [USER, {"role": "assistant", "content": None, "tool_calls": [call]}, result]}, "openai_chat"
    )
    assert lines == ["loss messages[2].tool_name"]


def chunk(calls: list[dict[str, Any]], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"tool_calls": calls}, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode() + b"\n\n"


def begun(index: str, name: str, arguments: str) -> dict[str, Any]:
    return {"index": index, "id": f"id_{name}", "function": {"name": name, "arguments": arguments}}


def test_calls_of_a_stream_may_be_numbered_by_strings() -> None:
    stream = [
        chunk([begun("0", "first", '{"city"')]),
        chunk([begun("1", "second", "{}")]),
        chunk([{"index": "0", "function": {"arguments": ':"Oslo"}'}}], "tool_calls"),
        b"data: [DONE]\n\n",
    ]
    written = b"".join(translate_stream(stream, "openai_chat", "anthropic"))
    assert written.count(b'"type":"tool_use"') == 2
    assert written.index(b"first") < written.index(b"Oslo") < written.index(b"second")
    assert b"message_stop" in written


def test_a_call_without_a_readable_number_ends_the_stream_with_an_error() -> None:
    stream = [chunk([begun("one", "first", "{}")], "tool_calls"), b"data: [DONE]\n\n"]
    written = b"".join(translate_stream(stream, "openai_chat", "anthropic"))
    assert b"tool_calls[0].index" in written
    assert b'"type":"tool_use"' not in written


def test_the_number_of_a_call_in_a_whole_answer_says_no_more_than_its_place() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [begun("0", "first", "{}")]}
    answer = {"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    result = translate_response(json.dumps(answer).encode(), "openai_chat", "anthropic")
    assert json.loads(result.data)["content"][0]["name"] == "first"
    assert not result.receipt.losses
