"""Chat Completions requests: exact both ways within the dialect, idiomatic from the IR alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.dialects.openai_chat.dialect import OPENAI_CHAT
from toolglot.errors import DecodeError
from toolglot.ir import (
    Cache,
    Media,
    Message,
    Opaque,
    Reasoning,
    Refusal,
    Request,
    ResponseFormat,
    Source,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    native_of,
)
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}
USER = {"role": "user", "content": "Hi"}


def decode(body: dict[str, Any]) -> Request:
    return OPENAI_CHAT.decode_request(json.dumps(body).encode())


def encode(request: Request) -> dict[str, Any]:
    receipt = Receipt()
    body: dict[str, Any] = json.loads(OPENAI_CHAT.encode_request(request, receipt))
    assert not receipt, str(receipt)
    return body


# name, wire message, IR message without its native data
MESSAGES: list[tuple[str, dict[str, Any], tuple[str, tuple[Any, ...]]]] = [
    ("plain text", {"role": "user", "content": "Hi"}, ("user", (Text(text="Hi"),))),
    ("text in a part", {"role": "user", "content": [{"type": "text", "text": "Hi"}]}, ("user", (Text(text="Hi"),))),
    ("empty text", {"role": "user", "content": ""}, ("user", ())),
    ("no parts", {"role": "user", "content": []}, ("user", ())),
    ("developer text", {"role": "developer", "content": "Be brief"}, ("developer", (Text(text="Be brief"),))),
    ("a named user", {"role": "user", "content": "Hi", "name": "bob"}, ("user", (Text(text="Hi"),))),
    ("an unknown role", {"role": "critic", "content": "Meh"}, ("critic", (Text(text="Meh"),))),
    (
        "an image in a data URL",
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}],
        },
        ("user", (Media(kind="image", source=Source("base64", "AAAA", "image/png"), detail="low"),)),
    ),
    (
        "an image by URL",
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]},
        ("user", (Media(kind="image", source=Source("url", "https://x/y.png")),)),
    ),
    (
        "audio",
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}]},
        ("user", (Media(kind="audio", source=Source("base64", "AAAA", "audio/mpeg")),)),
    ),
    (
        "a file with data",
        {
            "role": "user",
            "content": [
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}}
            ],
        },
        ("user", (Media(kind="document", source=Source("base64", "AAAA", "application/pdf"), name="a.pdf"),)),
    ),
    (
        "a file by id",
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]},
        ("user", (Media(kind="document", source=Source("file", "file-1")),)),
    ),
    (
        "a cache breakpoint",
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}},
                {"type": "text", "text": "Ho", "prompt_cache_breakpoint": {"mode": "explicit"}},
            ],
        },
        ("user", (Text(text="Hi", cache=Cache(43200)), Text(text="Ho", cache=Cache()))),
    ),
    (
        "an unknown part",
        {"role": "user", "content": [{"type": "hologram", "depth": 3}]},
        ("user", (Opaque("openai_chat", {"type": "hologram", "depth": 3}),)),
    ),
    (
        "two calls and no text",
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1.0}'}},
                {"id": "b", "type": "custom", "custom": {"name": "g", "input": "free"}},
            ],
        },
        (
            "assistant",
            (
                ToolCall(id="a", name="f", arguments='{"x": 1.0}'),
                ToolCall(id="b", name="g", arguments="free", kind="custom"),
            ),
        ),
    ),
    (
        "a call of an empty type",
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "", "function": {"name": "f", "arguments": "{}"}}],
        },
        ("assistant", (ToolCall(id="a", name="f", arguments="{}"),)),
    ),
    (
        "a call beside empty text",
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        ("assistant", (ToolCall(id="a", name="f", arguments="{}"),)),
    ),
    (
        "a call and no content member",
        {
            "role": "assistant",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}],
        },
        ("assistant", (ToolCall(id="a", name="f"),)),
    ),
    (
        "the deprecated function call",
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        ("assistant", (ToolCall(id="", name="f", arguments="{}"),)),
    ),
    (
        "a refusal",
        {"role": "assistant", "content": None, "refusal": "No."},
        ("assistant", (Refusal(text="No."),)),
    ),
    (
        "reasoning of a vendor",
        {"role": "assistant", "content": "4", "reasoning_content": "2+2"},
        ("assistant", (Thinking(text="2+2"), Text(text="4"))),
    ),
    (
        "a tool result",
        {"role": "tool", "tool_call_id": "a", "content": "sunny"},
        ("tool", (ToolResult(call_id="a", content=(Text(text="sunny"),)),)),
    ),
    (
        "a tool result with its name",
        {"role": "tool", "tool_call_id": "a", "name": "f", "content": [{"type": "text", "text": "sunny"}]},
        ("tool", (ToolResult(call_id="a", name="f", content=(Text(text="sunny"),)),)),
    ),
    (
        "a deprecated function result",
        {"role": "function", "name": "f", "content": "sunny"},
        ("tool", (ToolResult(call_id="", name="f", content=(Text(text="sunny"),)),)),
    ),
]


def bare(value: Any) -> Any:
    """The same blocks without their native data."""
    if isinstance(value, tuple):
        return tuple(bare(item) for item in value)
    if isinstance(value, Opaque):
        return value
    fields = {name: getattr(value, name) for name in value.__struct_fields__ if name != "native"}
    if isinstance(value, ToolResult):
        fields["content"] = bare(value.content)
    return type(value)(**fields)


@pytest.mark.parametrize(("wire", "expected"), [case[1:] for case in MESSAGES], ids=[case[0] for case in MESSAGES])
def test_a_message_is_read_and_written_back_exactly(
    wire: dict[str, Any], expected: tuple[str, tuple[Any, ...]]
) -> None:
    body = {"model": "m", "messages": [wire]}
    request = decode(body)
    (message,) = request.messages
    assert (message.role, bare(message.content)) == expected
    assert encode(request) == body


# wire members, the fields of the request they become
FIELDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"max_tokens": 5}, {"max_output_tokens": 5}),
    ({"max_completion_tokens": 5}, {"max_output_tokens": 5}),
    ({"temperature": 0.5, "top_p": 1, "seed": 7}, {"temperature": 0.5, "top_p": 1, "seed": 7}),
    ({"presence_penalty": 1.5, "frequency_penalty": -1}, {"presence_penalty": 1.5, "frequency_penalty": -1}),
    ({"stop": "END"}, {"stop": ("END",)}),
    ({"stop": ["a", "b"]}, {"stop": ("a", "b")}),
    ({"stop": []}, {"stop": ()}),
    ({"n": 2}, {"candidates": 2}),
    ({"user": "u"}, {"user": "u"}),
    ({"safety_identifier": "u"}, {"user": "u"}),
    ({"metadata": {"k": "v"}}, {"metadata": {"k": "v"}}),
    ({"service_tier": "flex", "verbosity": "low"}, {"service_tier": "flex", "verbosity": "low"}),
    ({"reasoning_effort": "high"}, {"reasoning": Reasoning(effort="high")}),
    ({"reasoning_effort": "none"}, {"reasoning": Reasoning(mode="off", effort="none")}),
    ({"stream": True, "stream_options": {"include_usage": True}}, {"stream": True}),
    ({"stream": False}, {"stream": False}),
    ({"temperature": None, "tools": None, "stop": None}, {"temperature": None}),
    ({"response_format": {"type": "json_object"}}, {"response_format": ResponseFormat(kind="json")}),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True}}},
        {"response_format": ResponseFormat(kind="json_schema", name="n", schema={}, strict=True)},
    ),
    ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
    ({"tool_choice": "required"}, {"tool_choice": ToolChoice(mode="required")}),
    ({"tools": []}, {"tools": ()}),
    ({"logit_bias": {"5": 1}, "brand_new": [1]}, {}),
]


@pytest.mark.parametrize(("wire", "expected"), FIELDS, ids=[",".join(wire) for wire, _ in FIELDS])
def test_a_parameter_is_read_and_written_back_exactly(wire: dict[str, Any], expected: dict[str, Any]) -> None:
    body = {"model": "m", "messages": [USER], **wire}
    request = decode(body)
    assert {name: getattr(request, name) for name in expected} == expected
    assert encode(request) == body


CHOICES: list[tuple[Any, str, tuple[str, ...]]] = [
    ("auto", "auto", ()),
    ("none", "none", ()),
    ({"type": "function", "function": {"name": "f"}}, "required", ("f",)),
    ({"type": "custom", "custom": {"name": "g"}}, "required", ("g",)),
    (
        {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
        },
        "auto",
        ("f",),
    ),
    ({"type": "telepathy"}, "opaque", ()),
]


@pytest.mark.parametrize(("wire", "mode", "names"), CHOICES)
def test_a_tool_choice_is_read_and_written_back_exactly(wire: Any, mode: str, names: tuple[str, ...]) -> None:
    body = {"model": "m", "messages": [USER], "tools": [WEATHER], "tool_choice": wire}
    request = decode(body)
    assert request.tool_choice is not None
    assert (request.tool_choice.mode, request.tool_choice.names) == (mode, names)
    assert encode(request) == body


TOOLS: list[dict[str, Any]] = [
    WEATHER,
    {"type": "function", "function": {"name": "bare"}},
    {"type": "function", "function": {"name": "f", "description": "d", "strict": True, "parameters": {}, "new": 1}},
    {"type": "function", "function": {"name": "f", "strict": None}, "beside": True},
    {"type": "custom", "custom": {"name": "g"}},
    {"type": "custom", "custom": {"name": "g", "format": {"type": "text"}}},
    {
        "type": "custom",
        "custom": {"name": "g", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: x"}}},
    },
    {"type": "mind_reading", "range": 3},
]


@pytest.mark.parametrize("tool", TOOLS, ids=[json.dumps(tool)[:60] for tool in TOOLS])
def test_a_tool_is_read_and_written_back_exactly(tool: dict[str, Any]) -> None:
    body = {"model": "m", "messages": [USER], "tools": [tool]}
    assert encode(decode(body)) == body


def test_a_grammar_is_flat_in_the_ir_as_in_the_other_dialects() -> None:
    request = decode({"model": "m", "messages": [], "tools": [TOOLS[6]]})
    (tool,) = request.tools
    assert isinstance(tool, Tool)
    assert tool.format == {"type": "grammar", "syntax": "lark", "definition": "start: x"}


def test_deprecated_functions_are_tools_and_go_back_as_functions() -> None:
    body = {
        "model": "m",
        "messages": [USER],
        "functions": [{"name": "f", "parameters": {"type": "object"}}],
        "function_call": {"name": "f"},
    }
    request = decode(body)
    assert [tool.name for tool in request.tools if isinstance(tool, Tool)] == ["f"]
    assert request.tool_choice is not None
    assert request.tool_choice.names == ("f",)
    assert request.parallel_tool_calls is False, "the answer has room for one call"
    assert encode(request) == body


def test_a_request_from_elsewhere_is_written_as_openai_would() -> None:
    request = Request(
        model="gpt-5",
        max_output_tokens=9,
        stream=True,
        messages=(
            Message(role="user", content=(ToolResult(call_id="a", content=(Text(text="sunny"),)), Text(text="Go on"))),
            Message(role="assistant", content=(ToolCall(id="b", name="f"),)),
            Message(role="tool", content=(ToolResult(call_id="b"),)),
        ),
        tool_choice=ToolChoice(mode="required", names=("f", "g")),
        tools=(Tool(name="f"), Tool(name="g", kind="custom")),
    )
    assert encode(request) == {
        "model": "gpt-5",
        "messages": [
            {"role": "tool", "tool_call_id": "a", "content": "sunny"},
            {"role": "user", "content": "Go on"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "b", "content": ""},
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}, {"type": "custom", "custom": {"name": "g"}}],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [{"type": "function", "function": {"name": "f"}}, {"type": "custom", "custom": {"name": "g"}}],
            },
        },
        "max_completion_tokens": 9,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_compatible_servers_get_the_older_name_of_the_output_limit() -> None:
    assert encode(Request(model="qwen3", max_output_tokens=9))["max_tokens"] == 9


def test_a_long_user_id_is_hashed_and_always_to_the_same() -> None:
    receipt = Receipt()
    request = Request(model="m", user='{"device_id":"' + "x" * 90 + '"}')
    users = [json.loads(OPENAI_CHAT.encode_request(request, receipt))["user"] for _ in range(2)]
    assert (len(users[0]), users[0]) == (64, users[1])
    assert [line.where for line in receipt.notes] == ["user"]
    own = {"model": "m", "messages": [], "user": "x" * 90}
    assert encode(decode(own)) == own


def test_a_document_without_a_name_is_given_one() -> None:
    block = Media(kind="document", source=Source("base64", "AAAA", "application/pdf"))
    part = encode(Request(model="m", messages=(Message(role="user", content=(block,)),)))["messages"][0]["content"][0]
    assert part["file"] == {"file_data": "data:application/pdf;base64,AAAA", "filename": "document.pdf"}
    own = {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}}
    body = {"model": "m", "messages": [{"role": "user", "content": [own]}]}
    assert encode(decode(body)) == body


def test_a_schema_that_others_enforce_is_enforced_where_strict_mode_takes_it() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    wanted = ResponseFormat(kind="json_schema", schema=schema)
    assert encode(Request(model="m", response_format=wanted))["response_format"]["json_schema"]["strict"] is True
    receipt = Receipt()
    loose = Request(model="m", response_format=ResponseFormat(kind="json_schema", schema={"type": "object"}))
    body = json.loads(OPENAI_CHAT.encode_request(loose, receipt))
    assert "strict" not in body["response_format"]["json_schema"]
    assert [line.where for line in receipt.losses] == ["response_format.schema"]


def test_a_schema_is_not_strict_by_default() -> None:
    inner = {"name": "n", "schema": {"type": "object"}}
    body = {"model": "m", "messages": [USER], "response_format": {"type": "json_schema", "json_schema": inner}}
    request = decode(body)
    assert request.response_format is not None
    assert request.response_format.strict is False
    assert encode(request) == body
    exchange = ExchangeCore("openai_chat", "openai_responses")
    assert json.loads(exchange.request(body))["text"]["format"]["strict"] is False
    assert not exchange.receipt.losses


@pytest.mark.parametrize(("model", "official"), [("gpt-5", True), ("openai/o3-mini", True), ("qwen3", False)])
def test_only_openais_own_models_get_developer_messages_and_custom_tools(model: str, official: bool) -> None:
    asked = {
        "model": "m",
        "input": [{"role": "developer", "content": "Be brief"}, {"role": "user", "content": "Hi"}],
        "tools": [{"type": "custom", "name": "exec"}],
    }
    body = json.loads(ExchangeCore("openai_responses", "openai_chat", model=model).request(asked))
    assert body["messages"][0]["role"] == ("developer" if official else "system")
    assert body["tools"][0]["type"] == ("custom" if official else "function")


def test_a_client_of_this_api_knows_which_tools_its_model_takes() -> None:
    body = {"model": "qwen3", "messages": [USER], "tools": [{"type": "custom", "custom": {"name": "exec"}}]}
    assert json.loads(ExchangeCore("openai_chat", "openai_chat").request(body)) == body


@pytest.mark.parametrize("parameters", [{"type": "object"}, True, {"anyOf": [{"type": "object"}]}, {"$ref": "#/a"}])
def test_the_root_of_parameters_from_elsewhere_is_an_object_with_properties(parameters: Any) -> None:
    tool = {"type": "function", "name": "f", "parameters": parameters}
    exchange = ExchangeCore("openai_responses", "openai_chat")
    body = json.loads(exchange.request({"model": "gpt-5", "input": "Hi", "tools": [tool]}))
    written = body["tools"][0]["function"]["parameters"]
    assert (written["type"], written["properties"]) == ("object", {})


def test_foreign_blocks_are_reported() -> None:
    receipt = Receipt()
    request = Request(model="m", messages=(Message(role="user", content=(Opaque("gemini", {"x": 1}),)),))
    OPENAI_CHAT.encode_request(request, receipt)
    assert [line.where for line in receipt.losses] == ["messages[0].content[0]"]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"messages": [{"content": "x"}]}, "$.messages[0].role"),
        ({"messages": {}}, "$.messages"),
        ({"messages": [{"role": "user", "content": 5}]}, "$.messages[0].content"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "$.messages[0].content[0]"),
        ({"messages": [], "temperature": "hot"}, "$.temperature"),
        ({"messages": [], "tools": [5]}, "$.tools[0]"),
        ({"messages": [], "tools": [{"type": "function", "function": {}}]}, "$.tools[0].function.name"),
        ({"messages": [], "stop": 5}, "$.stop"),
    ],
)
def test_a_wrong_type_is_refused_with_its_path(body: dict[str, Any], where: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode({"model": "m", **body})
    assert refused.value.where == where


def test_unknown_fields_ride_along_on_every_level() -> None:
    request = decode({"model": "m", "messages": [{"role": "user", "content": "x", "mood": "good"}], "extra": 1})
    assert native_of(request, "openai_chat")["extra"] == 1
    assert native_of(request.messages[0], "openai_chat")["mood"] == "good"


def test_a_tool_of_another_api_is_reported() -> None:
    receipt = Receipt()
    OPENAI_CHAT.encode_request(Request(model="m", tools=(Opaque("gemini", {"googleSearch": {}}),)), receipt)
    assert [line.where for line in receipt.losses] == ["tools[0]"]
