"""Members in the form of another API or of a sloppy server: what is unmistakable is read, and the receipt names it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchanges import calls_of
from toolglot import DIALECTS, fold, read_stream, translate_request, translate_response, translate_stream
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


CALL_PART = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}
OTHER_PART = {**CALL_PART, "id": "toolu_2", "input": {"city": "Rome"}}
IMAGE_PART = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
RESULT_PARTS: list[dict[str, Any]] = [
    {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "cold"}, IMAGE_PART]},
    {"type": "tool_result", "tool_use_id": "toolu_2", "content": "lost", "is_error": True},
]
CURSOR = {
    "messages": [
        USER,
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, CALL_PART, OTHER_PART]},
        {"role": "user", "content": [*RESULT_PARTS, {"type": "text", "text": "And now?"}]},
    ]
}


def test_calls_and_results_in_the_form_of_messages_are_read_in_a_chat_history() -> None:
    written, lines = to_anthropic(CURSOR, "openai_chat")
    assert written["messages"][1:] == [
        CURSOR["messages"][1],
        {"role": "user", "content": [*RESULT_PARTS, {"type": "text", "text": "And now?"}]},
    ]
    assert lines == []
    assert again(CURSOR, "openai_chat") == CURSOR


@pytest.mark.parametrize("target", ["gemini", "openai_responses", "ollama"])
def test_such_calls_and_results_reach_every_other_api(target: str) -> None:
    result = translate_request(json.dumps({"model": "m", **CURSOR}).encode(), "openai_chat", target, model="m")
    data = result.data.decode()
    assert data.count("weather") >= 2
    assert all(word in data for word in ("Oslo", "Rome", "cold", "lost", "And now?", "aGk="))
    assert not [line for line in result.receipt.losses if "tool" in line.what]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "tool_use", "id": "toolu_1", "name": "weather"},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": "Oslo"},
        {"type": "tool_result", "content": "cold"},
        {"type": "image", "source": {"type": "base64"}},
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
    ],
)
def test_a_part_that_only_resembles_them_is_a_loss(part: dict[str, Any]) -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, part]}]}
    _, lines = to_anthropic(body, "openai_chat")
    assert lines == ["loss messages[0].content[1]"]
    assert again(body, "openai_chat") == body


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, {"type": "auto"}),
        ({"type": "any"}, {"type": "any"}),
        ({"type": "none"}, {"type": "none"}),
        ({"type": "tool", "name": "weather"}, {"type": "tool", "name": "weather"}),
    ],
)
def test_a_tool_choice_in_the_form_of_messages_is_read(choice: dict[str, Any], expected: dict[str, Any]) -> None:
    body = {"messages": [USER], "tools": [INPUT_SCHEMA], "tool_choice": choice}
    written, lines = to_anthropic(body, "openai_chat")
    assert written["tool_choice"] == expected
    assert lines == ["note tools[0].input_schema"]
    assert again(body, "openai_chat") == body


def answered(calls: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Names and arguments of the calls of a whole answer, which its stream must have too."""
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    answer = {"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    whole = translate_response(json.dumps(answer).encode(), "openai_chat", "anthropic")
    assert not whole.receipt.losses
    stream = translate_stream([chunk(calls, "tool_calls"), b"data: [DONE]\n\n"], "openai_chat", "anthropic")
    folded = fold(read_stream([b"".join(stream)], "anthropic"))
    assert not stream.receipt.losses
    found = [(block["name"], block["input"]) for block in json.loads(whole.data)["content"]]
    assert [(call.name, json.loads(call.arguments)) for call in calls_of(folded.content)] == found
    return found


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c1", "name": "weather", "arguments": {"city": "Oslo"}},
        {"id": "c1", "type": "function", "name": "weather", "arguments": '{"city":"Oslo"}'},
        {"name": "weather", "parameters": {"city": "Oslo"}},
        {"id": "c1", "type": "function", "function": {"name": "weather", "parameters": {"city": "Oslo"}}},
        {"id": "c1", "function": {"name": "weather", "parameters": '{"city":"Oslo"}', "arguments": None}},
        {"index": -1, "id": "c1", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
    ],
)
def test_a_call_of_a_sloppy_server_keeps_its_name_and_arguments(call: dict[str, Any]) -> None:
    assert answered([call]) == [("weather", {"city": "Oslo"})]


@pytest.mark.parametrize("numbered", [{}, {"index": 0}])
@pytest.mark.parametrize("arguments", ["", "{}"])
def test_two_calls_that_one_chunk_names_are_two(numbered: dict[str, Any], arguments: str) -> None:
    calls = [{**numbered, "function": {"name": name, "arguments": arguments}} for name in ("first", "second")]
    assert answered(calls) == [("first", {}), ("second", {})]


def test_two_calls_of_one_chunk_may_have_the_same_id() -> None:
    calls = [{"id": "null", "function": {"name": "weather", "arguments": f'{{"n":{n}}}'}} for n in (1, 2)]
    assert answered(calls) == [("weather", {"n": 1}), ("weather", {"n": 2})]


def test_a_chunk_may_name_a_call_more_than_once() -> None:
    calls = [{"index": 0, "id": "c1", "function": {"name": "weather", "arguments": part}} for part in ('{"n"', ":1}")]
    stream = [chunk(calls, "tool_calls"), b"data: [DONE]\n\n"]
    folded = fold(read_stream(stream, "openai_chat"))
    assert [(call.name, call.arguments) for call in calls_of(folded.content)] == [("weather", '{"n":1}')]


def test_another_name_after_whole_arguments_is_another_call() -> None:
    parts: list[dict[str, Any]] = [{"name": "first"}, {"arguments": "{}"}, {"name": "second"}, {"arguments": '{"n":1}'}]
    stream = [chunk([{"index": 0, "function": part}]) for part in parts]
    folded = fold(read_stream([*stream, chunk([], "tool_calls"), b"data: [DONE]\n\n"], "openai_chat"))
    assert [(call.name, call.arguments) for call in calls_of(folded.content)] == [
        ("first", "{}"),
        ("second", '{"n":1}'),
    ]


def test_a_stream_may_have_one_call_in_place_of_a_list() -> None:
    pieces = [{"name": "weather", "arguments": '{"city":'}, {"arguments": '"Oslo"}'}]
    choices = [{"index": 0, "delta": {"tool_calls": {"index": 0, "id": "", "function": piece}}} for piece in pieces]
    frames = [
        b"data: %b\n\n" % json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode() for choice in choices
    ]
    folded = fold(read_stream([*frames, chunk([], "tool_calls"), b"data: [DONE]\n\n"], "openai_chat"))
    assert [(call.name, call.arguments) for call in calls_of(folded.content)] == [("weather", '{"city":"Oslo"}')]


def test_a_call_without_a_function_in_a_chat_history_keeps_its_result() -> None:
    call = {"id": "c1", "type": "function", "name": "weather", "arguments": '{"city":"Oslo"}'}
    history = [USER, {"role": "assistant", "content": None, "tool_calls": [call]}]
    written, lines = to_anthropic(
        {"messages": [*history, {"role": "tool", "tool_call_id": "c1", "content": "cold"}]}, "openai_chat"
    )
    assert written["messages"][1]["content"][0]["input"] == {"city": "Oslo"}
    assert written["messages"][2]["content"][0]["tool_use_id"] == "c1"
    assert lines == []
