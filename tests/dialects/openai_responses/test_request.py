"""Requests of the Responses API: what is read, and that it is written back as it came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.dialects.openai_responses.dialect import OPENAI_RESPONSES
from toolglot.errors import DecodeError
from toolglot.ir import (
    Cache,
    Citation,
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
)
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

NAME = "openai_responses"
PNG = "data:image/png;base64,aGk="


def decode(**fields: Any) -> Request:
    return OPENAI_RESPONSES.decode_request(json.dumps({"model": "gpt-5", **fields}).encode())


def encode(request: Request) -> dict[str, Any]:
    receipt = Receipt()
    body: dict[str, Any] = json.loads(OPENAI_RESPONSES.encode_request(request, receipt))
    assert not receipt, str(receipt)
    return body


def encode_losing(request: Request) -> tuple[dict[str, Any], list[str]]:
    receipt = Receipt()
    body: dict[str, Any] = json.loads(OPENAI_RESPONSES.encode_request(request, receipt))
    return body, [line.where for line in receipt.losses]


def write(*messages: Message, **fields: Any) -> dict[str, Any]:
    return encode(Request(model="gpt-5", messages=messages, **fields))


def items(*messages: Message) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = write(*messages)["input"]
    return written


def assert_comes_back(**fields: Any) -> None:
    body = {"model": "gpt-5", **fields}
    once = OPENAI_RESPONSES.encode_request(OPENAI_RESPONSES.decode_request(json.dumps(body).encode()), Receipt())
    assert json.loads(once) == body
    assert OPENAI_RESPONSES.encode_request(OPENAI_RESPONSES.decode_request(once), Receipt()) == once


ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "short form"},
    {"type": None, "role": "user", "content": "a type that is null"},
    {"type": "message", "role": "developer", "id": "msg_1", "content": [{"type": "input_text", "text": "rules"}]},
    {"type": "message", "role": "system", "content": ""},
    {"type": "message", "role": "critic", "content": [{"type": "input_text", "text": "an unknown role"}]},
    {"type": "message", "role": "user", "content": []},
    {"type": "message", "role": "user", "content": None},
    {"type": "message", "role": "user"},
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}},
            {"type": "input_text", "text": "b", "prompt_cache_breakpoint": {"mode": "explicit"}},
            {"type": "input_text", "text": "c", "prompt_cache_breakpoint": {"mode": "novel", "ttl": "30m"}},
            {"type": "input_text", "text": "d", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "9d"}},
            {"type": "input_text", "text": "e", "prompt_cache_breakpoint": None},
            {"type": "input_image", "image_url": PNG, "detail": "high"},
            {"type": "input_image", "image_url": "https://example.com/a.png"},
            {"type": "input_image", "file_id": "file_1", "image_url": None, "detail": "auto"},
            {"type": "input_image", "file_id": None, "image_url": None, "detail": "auto"},
            {"type": "input_image", "image_url": "data:image/svg+xml,<svg/>", "detail": "low"},
            {"type": "input_file", "file_data": "data:application/pdf;base64,JVBERg==", "filename": "a.pdf"},
            {"type": "input_file", "file_data": "JVBERg=="},
            {"type": "input_file", "file_id": "file_2", "detail": "low"},
            {"type": "input_file", "file_url": "https://example.com/a.pdf", "filename": None},
            {"type": "input_file"},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "mp3", "novel": 1}},
            {"type": "input_novelty", "novel": [1]},
            {"text": "a part without a type"},
        ],
    },
    {
        "type": "message",
        "id": "msg_2",
        "role": "assistant",
        "status": "completed",
        "phase": "commentary",
        "content": [
            {"type": "output_text", "text": "plain", "annotations": [], "logprobs": [], "parsed": None},
            {"type": "output_text", "text": "bare"},
            {
                "type": "output_text",
                "text": "cited",
                "annotations": [
                    {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 5},
                    {"type": "url_citation", "url": "https://b"},
                    {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0},
                ],
                "logprobs": [{"token": "c", "logprob": -0.5}],
            },
            {"type": "refusal", "refusal": "no", "novel": True},
            {"type": "input_text", "text": "input in the assistant's mouth"},
        ],
    },
    {"type": "message", "role": "assistant", "content": "said"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VjcmV0"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}], "content": None, "status": "completed"},
    {"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"type": "reasoning_text", "text": "b"}]},
    {"type": "reasoning"},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"a": 1}'},
    {"type": "function_call", "call_id": "call_2", "name": "f", "arguments": "", "status": "completed"},
    {"type": "function_call", "call_id": "call_3", "name": "f", "arguments": "{broken", "status": "incomplete"},
    {"type": "function_call", "call_id": "call_4", "name": "f", "namespace": "ns", "arguments": None, "async": True},
    {"type": "function_call", "name": "f", "arguments": "{}"},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_5", "name": "exec", "input": "text()"},
    {"type": "custom_tool_call", "call_id": "call_6", "name": "exec", "input": "", "namespace": "functions"},
    {"type": "function_call_output", "id": "fco_1", "call_id": "call_1", "output": "fine", "status": "completed"},
    {"type": "function_call_output", "call_id": "call_2", "output": "", "name": "f", "namespace": None},
    {"type": "function_call_output", "call_id": "call_3", "output": [{"type": "input_text", "text": "one"}]},
    {"type": "function_call_output", "call_id": "call_4", "output": []},
    {"type": "function_call_output", "output": "whose?"},
    {
        "type": "custom_tool_call_output",
        "call_id": "call_5",
        "output": [
            {"type": "input_image", "image_url": PNG, "detail": "high"},
            {"type": "input_text", "text": "t", "prompt_cache_breakpoint": {"mode": "explicit"}},
            {"type": "novel"},
        ],
    },
    {"type": "item_reference", "id": "msg_3"},
    {"type": "compaction", "encrypted_content": "x"},
    {"type": "tool_search_call", "call_id": "call_7", "arguments": {"query": "weather"}},
    {"type": "mcp_approval_response", "approval_request_id": "m", "approve": True},
    {"type": "", "role": "user", "content": "an empty type is no message"},
    {"id": "neither type nor role"},
]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: str(item.get("type")))
def test_every_item_comes_back_as_it_came(item: dict[str, Any]) -> None:
    assert_comes_back(input=[item])


def test_one_item_is_one_message() -> None:
    assert len(decode(input=ITEMS).messages) == len(ITEMS)
    assert_comes_back(input=ITEMS)


TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
    {"type": "function", "name": "silent_on_strict", "parameters": {}},
    {"type": "function", "name": "null_schema", "parameters": None, "strict": None},
    {"type": "function", "name": "no_schema", "strict": False, "defer_loading": False, "output_schema": {}},
    {"type": "custom", "name": "exec", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}},
    {"type": "custom", "name": "free", "description": None, "defer_loading": True},
    {
        "type": "namespace",
        "name": "ns",
        "description": "a server",
        "novel": 1,
        "tools": [
            {"type": "function", "name": "one", "parameters": {}, "strict": False, "defer_loading": True},
            {"type": "custom", "name": "two"},
        ],
    },
    {"type": "namespace", "name": "ns", "description": "", "tools": [{"type": "function", "name": "three"}]},
    {"type": "namespace", "name": "undescribed", "tools": [{"type": "function", "name": "four"}]},
    {"type": "namespace", "name": "empty", "description": "", "tools": []},
    {"type": "namespace", "name": "mixed", "description": "", "tools": [{"type": "mcp", "server_label": "s"}]},
    {"type": "web_search", "external_web_access": True},
    {"type": "tool_search", "execution": "client"},
    {"novel": "no type"},
]

CHOICES: list[Any] = [
    "auto",
    "none",
    "required",
    "novel",
    None,
    {"type": "function", "name": "f"},
    {"type": "custom", "name": "exec"},
    {"type": "function", "name": "f", "novel": 1},
    {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    {"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "e"}]},
    {"type": "allowed_tools", "mode": "required", "tools": [{"type": "mcp", "server_label": "s"}]},
    {"type": "mcp", "server_label": "s"},
    {"type": "web_search_preview"},
]

SETTINGS: list[dict[str, Any]] = [
    {"instructions": "be brief"},
    {"instructions": ""},
    {"instructions": None},
    {"instructions": [{"type": "message", "role": "user", "content": "a template's"}]},
    {"tools": TOOLS},
    {"tools": []},
    {"tools": None},
    *({"tools": TOOLS, "tool_choice": choice} for choice in CHOICES),
    {"parallel_tool_calls": False, "max_output_tokens": 16, "temperature": 0, "top_p": 1.0},
    {"parallel_tool_calls": None, "max_output_tokens": None, "temperature": None, "top_p": None},
    {"reasoning": {"effort": "none"}},
    {"reasoning": {"effort": "xhigh", "summary": "detailed", "context": "all_turns", "mode": "pro"}},
    {"reasoning": {"effort": None, "summary": None}},
    {"reasoning": {}},
    {"reasoning": None},
    {"text": {"verbosity": "low"}},
    {"text": {"format": {"type": "text"}, "novel": 1}},
    {"text": {"format": {"type": "json_object"}, "verbosity": None}},
    {"text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}}},
    {"text": {"format": {"type": "json_schema", "schema": {}, "description": "d", "novel": None}}},
    {"text": {"format": {"type": "grammar", "definition": "x"}}},
    {"text": {}},
    {"text": None},
    {"safety_identifier": "hash", "user": "both"},
    {"user": "only the old name"},
    {"safety_identifier": "x" * 90},
    {"metadata": {"a": "b"}},
    {"metadata": {"a": 1}},
    {"metadata": {}},
    {"service_tier": "flex", "stream": True, "stream_options": {"include_obfuscation": False}},
    {"stream": False},
    {"stream": None},
    {"store": False, "include": ["reasoning.encrypted_content"], "previous_response_id": "resp_1"},
    {"store": True, "conversation": {"id": "conv_1"}, "truncation": "auto", "background": True},
    {"store": None, "prompt_cache_key": "k", "client_metadata": {"turn": "1"}, "max_tool_calls": 3},
    {"context_management": [{"type": "compaction", "compact_threshold": 1000}], "novel": {"deep": [None]}},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: ",".join(settings))
def test_every_setting_comes_back_as_it_came(settings: dict[str, Any]) -> None:
    assert_comes_back(input="hi", **settings)
    assert_comes_back(input=[{"role": "user", "content": "hi"}], **settings)


@pytest.mark.parametrize("value", ["hi", "", []])
def test_input_keeps_its_shape(value: Any) -> None:
    assert_comes_back(input=value)


@pytest.mark.parametrize("body", [{}, {"input": None}])
def test_a_request_without_a_conversation_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(DecodeError, match="required"):
        decode(**body)
    assert_comes_back(**body, previous_response_id="resp_1")


def test_a_request_may_have_neither_model_nor_input() -> None:
    body = {"prompt": {"id": "pmpt_1"}}
    request = OPENAI_RESPONSES.decode_request(json.dumps(body).encode())
    assert (request.model, request.messages) == ("", ())
    assert encode(request) == body


# What is read


def test_instructions_are_a_leading_system_message() -> None:
    request = decode(instructions="be brief", input="hi")
    assert [(message.role, message.content) for message in request.messages] == [
        ("system", (Text(text="be brief"),)),
        ("user", (Text(text="hi"),)),
    ]


def test_parts_become_blocks() -> None:
    content = [
        {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}},
        {"type": "input_image", "image_url": PNG, "detail": "low"},
        {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,JVBERg==", "filename": "a.pdf"},
        {"type": "input_file", "file_id": "file_1", "filename": "b.pdf"},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "mp3"}},
    ]
    (message,) = decode(input=[{"role": "user", "content": content}]).messages
    assert message.content == (
        Text(text="a", cache=Cache(1800)),
        Media(kind="image", source=Source("base64", "aGk=", "image/png"), detail="low"),
        Media(kind="image", source=Source("url", "https://example.com/a.png"), detail="auto"),
        Media(kind="document", source=Source("base64", "JVBERg==", "application/pdf"), name="a.pdf"),
        Media(kind="document", source=Source("file", "file_1"), name="b.pdf"),
        Media(kind="audio", source=Source("base64", "UklGRg==", "audio/mpeg")),
    )


def test_the_fields_of_a_message_item_ride_on_its_message() -> None:
    (message,) = decode(input=[ITEMS[9]]).messages
    assert message.native[NAME] == {"id": "msg_2", "status": "completed", "phase": "commentary"}
    cited, refusal = message.content[2], message.content[3]
    assert isinstance(cited, Text)
    assert [(citation.url, citation.title) for citation in cited.citations] == [
        ("https://a", "A"),
        ("https://b", None),
        (None, "n"),
    ]
    assert isinstance(refusal, Refusal)


def test_a_reasoning_item_is_readable_thinking_with_its_state() -> None:
    summary = [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]
    item = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "c2VjcmV0"}
    (message,) = decode(input=[item]).messages
    (block,) = message.content
    assert message.role == "assistant"
    assert isinstance(block, Thinking)
    assert block.text == "one\n\ntwo"
    assert block.native[NAME]["encrypted_content"] == "c2VjcmV0"
    assert block.native[NAME]["summary"] == summary


def test_calls_and_results_keep_ids_kinds_and_namespaces() -> None:
    request = decode(
        input=[
            {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "namespace": "ns", "arguments": "{ }"},
            {"type": "custom_tool_call", "call_id": "b", "name": "exec", "input": "x"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{", "status": "incomplete"},
            {"type": "function_call_output", "call_id": "a", "output": "fine"},
            {"type": "custom_tool_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "y"}]},
        ]
    )
    assert [message.role for message in request.messages] == ["assistant"] * 3 + ["tool"] * 2
    first, second, third, fine, other = (message.content[0] for message in request.messages)
    assert isinstance(first, ToolCall)
    assert (first.id, first.name, first.namespace, first.arguments) == ("a", "f", "ns", "{ }")
    assert first.native[NAME]["id"] == "fc_1"
    assert isinstance(second, ToolCall)
    assert (second.kind, second.arguments) == ("custom", "x")
    assert isinstance(third, ToolCall)
    assert not third.complete
    assert isinstance(fine, ToolResult)
    assert (fine.call_id, fine.kind, fine.content) == ("a", "function", (Text(text="fine"),))
    assert isinstance(other, ToolResult)
    assert (other.call_id, other.kind, other.content) == ("b", "custom", (Text(text="y"),))


def test_unknown_items_are_opaque_and_have_the_role_of_their_author() -> None:
    kinds = ["web_search_call", "item_reference", "computer_call_output", "mcp_approval_response", "additional_tools"]
    request = decode(input=[{"type": kind} | ({"role": "developer"} if "tools" in kind else {}) for kind in kinds])
    assert [message.role for message in request.messages] == ["assistant", "assistant", "user", "user", "developer"]
    assert all(isinstance(message.content[0], Opaque) for message in request.messages)


def test_namespaces_are_flattened() -> None:
    tools = decode(input="hi", tools=TOOLS).tools
    names = [(tool.namespace, tool.name) for tool in tools if isinstance(tool, Tool)]
    assert names[-4:] == [("ns", "one"), ("ns", "two"), ("ns", "three"), ("undescribed", "four")]
    assert [tool.deferred for tool in tools if isinstance(tool, Tool)][-4:] == [True, False, False, False]
    grammar = next(tool for tool in tools if isinstance(tool, Tool) and tool.name == "exec")
    assert grammar.format == {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}


def test_tools_inside_the_input_are_offered_and_not_written_twice() -> None:
    namespace = {
        "type": "namespace",
        "name": "functions",
        "description": "",
        "tools": [{"type": "custom", "name": "x"}],
    }
    found = {"type": "function", "name": "found", "parameters": {}, "strict": False, "defer_loading": True}
    body = {
        "input": [
            {"type": "additional_tools", "role": "developer", "tools": [namespace, {"type": "web_search"}]},
            {"type": "tool_search_output", "call_id": "c", "tools": [found, found]},
        ],
        "tools": [{"type": "function", "name": "listed", "parameters": {}}],
    }
    tools = decode(**body).tools
    assert [(tool.namespace, tool.name, tool.deferred) for tool in tools if isinstance(tool, Tool)] == [
        (None, "listed", False),
        ("functions", "x", False),
        (None, "found", False),
    ]
    assert_comes_back(**body)
    assert_comes_back(input=body["input"])


def test_a_deferred_tool_that_a_search_has_found_is_deferred_no_longer() -> None:
    deferred = {"type": "function", "name": "f", "parameters": {}, "strict": False, "defer_loading": True}
    body = {"tools": [deferred], "input": [{"type": "tool_search_output", "tools": [deferred]}]}
    (tool,) = decode(**body).tools
    assert isinstance(tool, Tool)
    assert not tool.deferred
    assert_comes_back(**body)


def test_choices_are_read() -> None:
    def choice(value: Any) -> tuple[str, tuple[str, ...]]:
        decoded = decode(input="hi", tool_choice=value).tool_choice
        assert decoded is not None
        return decoded.mode, decoded.names

    tools = [{"type": "function", "name": "f"}, {"type": "custom", "name": "e"}]
    assert choice("required") == ("required", ())
    assert choice({"type": "custom", "name": "e"}) == ("required", ("e",))
    assert choice({"type": "allowed_tools", "mode": "auto", "tools": tools}) == ("auto", ("f", "e"))
    assert choice({"type": "mcp", "server_label": "s"}) == ("opaque", ())


def test_settings_are_read() -> None:
    request = decode(
        input="hi",
        reasoning={"effort": "none", "summary": "concise"},
        text={"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}, "verbosity": "high"},
        safety_identifier="u",
        max_output_tokens=99,
        stream=True,
    )
    assert request.reasoning is not None
    assert (request.reasoning.mode, request.reasoning.effort, request.reasoning.show) == ("off", "none", True)
    assert request.response_format is not None
    assert (request.response_format.kind, request.response_format.name) == ("json_schema", "n")
    assert (request.verbosity, request.user, request.max_output_tokens, request.stream) == ("high", "u", 99, True)


# What is written for requests from elsewhere


def test_a_first_plain_system_message_becomes_instructions() -> None:
    body = write(
        Message(role="system", content=(Text(text="be brief"),)),
        Message(role="system", content=(Text(text="and kind"),)),
        Message(role="user", content=(Text(text="hi"),)),
    )
    assert body["instructions"] == "be brief"
    assert [item["role"] for item in body["input"]] == ["system", "user"]


def test_system_text_of_several_parts_stays_apart_in_an_item() -> None:
    body = write(Message(role="system", content=(Text(text="a"), Text(text="b", cache=Cache(300)))))
    assert "instructions" not in body
    assert body["input"] == [
        {
            "type": "message",
            "role": "system",
            "content": [
                {"type": "input_text", "text": "a"},
                {"type": "input_text", "text": "b", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}},
            ],
        }
    ]


def test_a_message_of_several_blocks_becomes_items_in_order() -> None:
    assistant = Message(
        role="assistant",
        content=(
            Text(text="before"),
            ToolCall(id="a", name="f", arguments=""),
            ToolCall(id="b", name="exec", kind="custom", arguments="x", namespace="ns"),
            Text(text="after"),
        ),
    )
    results = Message(
        role="user",
        content=(
            ToolResult(call_id="a", content=(Text(text="fine"),)),
            ToolResult(call_id="b", kind="custom"),
            Text(text="go on"),
            Media(kind="image", source=Source("base64", "aGk=", "image/png")),
        ),
    )
    assert items(assistant, results) == [
        {"type": "message", "role": "assistant", "content": "before"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "b", "name": "exec", "namespace": "ns", "input": "x"},
        {"type": "message", "role": "assistant", "content": "after"},
        {"type": "function_call_output", "call_id": "a", "output": "fine"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": ""},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "go on"},
                {"type": "input_image", "image_url": PNG, "detail": "auto"},
            ],
        },
    ]


def test_no_item_ids_are_invented() -> None:
    call = ToolCall(id="toolu_1", name="f", arguments="{}", native={"anthropic": {"id": "foreign"}})
    (item,) = items(Message(role="assistant", content=(call,)))
    assert "id" not in item


def test_media_results_keep_their_images_and_the_breakpoint_after_them() -> None:
    content = (Text(text="look"), Media(kind="image", source=Source("file", "file_1"), detail="low"))
    (item,) = items(Message(role="tool", content=(ToolResult(call_id="a", content=content, cache=Cache(3600)),)))
    assert item["output"] == [
        {"type": "input_text", "text": "look"},
        {
            "type": "input_image",
            "file_id": "file_1",
            "detail": "low",
            "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"},
        },
    ]


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        (
            Source("base64", "JVBERg==", "application/pdf"),
            None,
            {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
        ),
        (Source("base64", "JVBERg=="), "a.pdf", {"filename": "a.pdf", "file_data": "JVBERg=="}),
        (Source("url", "https://example.com/a.pdf"), None, {"file_url": "https://example.com/a.pdf"}),
        (Source("file", "file_1"), None, {"file_id": "file_1"}),
        (Source("text", "hi"), None, {"filename": "document.txt", "file_data": "data:text/plain;base64,aGk="}),
    ],
)
def test_documents_become_files(source: Source, name: str | None, expected: dict[str, str]) -> None:
    (item,) = items(Message(role="user", content=(Media(kind="document", source=source, name=name),)))
    assert item["content"] == [{"type": "input_file", **expected}]


def test_citations_of_other_apis_become_annotations() -> None:
    text = Text(text="so", citations=(Citation(url="https://a", start=0, end=2),))
    (item,) = items(Message(role="assistant", content=(text, Refusal(text="no"))))
    assert item["content"] == [
        {
            "type": "output_text",
            "text": "so",
            "annotations": [
                {"type": "url_citation", "url": "https://a", "title": "https://a", "start_index": 0, "end_index": 2}
            ],
        },
        {"type": "refusal", "refusal": "no"},
    ]


def test_strict_and_store_are_explicit_because_their_defaults_differ_here() -> None:
    body = write(tools=(Tool(name="f", parameters={"type": "object"}), Tool(name="g", strict=True)))
    assert body["store"] is False
    assert body["tools"] == [
        {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False},
        {"type": "function", "name": "g", "parameters": {"type": "object", "properties": {}}, "strict": True},
    ]


def test_namespaced_tools_are_put_together() -> None:
    body = write(
        tools=(
            Tool(name="a", namespace="ns", parameters={}, strict=False),
            Tool(name="free", kind="custom", format={"type": "text"}, description="d"),
            Tool(name="b", namespace="ns", parameters={}, strict=False, deferred=True),
        )
    )
    assert body["tools"] == [
        {
            "type": "namespace",
            "name": "ns",
            "description": "",
            "tools": [
                {"type": "function", "name": "a", "parameters": {}, "strict": False},
                {"type": "function", "name": "b", "parameters": {}, "strict": False, "defer_loading": True},
            ],
        },
        {"type": "custom", "name": "free", "description": "d", "format": {"type": "text"}},
    ]
    assert list(body["tools"][0]) == ["type", "name", "description", "tools"]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(mode="required"), "required"),
        (ToolChoice(mode="required", names=("f",)), {"type": "function", "name": "f"}),
        (ToolChoice(mode="required", names=("e",)), {"type": "custom", "name": "e"}),
        (
            ToolChoice(mode="auto", names=("f", "e")),
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "e"}],
            },
        ),
    ],
)
def test_choices_are_written(choice: ToolChoice, expected: Any) -> None:
    tools = (Tool(name="f", parameters={}), Tool(name="e", kind="custom"))
    assert write(tools=tools, tool_choice=choice)["tool_choice"] == expected


def test_a_choice_that_a_pass_has_changed_is_written_anew() -> None:
    request = decode(input="hi", tools=TOOLS[:1], tool_choice={"type": "function", "name": "f", "novel": 1})
    assert request.tool_choice is not None
    changed = ToolChoice(mode="required", names=("g",), native=request.tool_choice.native)
    body = encode(Request(model="m", tools=request.tools, tool_choice=changed))
    assert body["tool_choice"] == {"type": "function", "name": "g"}


def test_settings_are_written() -> None:
    body = write(
        reasoning=Reasoning(mode="off", show=True),
        response_format=ResponseFormat(kind="json_schema", schema={"type": "object"}, strict=False),
        verbosity="low",
        user="u",
        metadata={"a": "b"},
        max_output_tokens=16,
        temperature=0.5,
        stream=True,
    )
    assert body["reasoning"] == {"effort": "none", "summary": "auto"}
    assert body["text"] == {
        "format": {"type": "json_schema", "name": "response", "schema": {"type": "object"}, "strict": False},
        "verbosity": "low",
    }
    assert (body["safety_identifier"], body["metadata"], body["stream"]) == ("u", {"a": "b"}, True)


def test_a_switch_for_reasoning_is_not_written_but_noted() -> None:
    receipt = Receipt()
    request = Request(model="m", reasoning=Reasoning(mode="on"))
    assert "reasoning" not in json.loads(OPENAI_RESPONSES.encode_request(request, receipt))
    assert [line.where for line in receipt.notes] == ["reasoning"]


def test_a_long_user_id_is_hashed_and_always_to_the_same_identifier() -> None:
    receipt = Receipt()
    request = Request(model="m", user="user_" * 30)
    first = json.loads(OPENAI_RESPONSES.encode_request(request, receipt))["safety_identifier"]
    assert len(first) == 64
    assert first == json.loads(OPENAI_RESPONSES.encode_request(request, Receipt()))["safety_identifier"]
    assert [line.where for line in receipt.notes] == ["user"]


def test_a_stream_that_the_gateway_turned_off_is_off() -> None:
    request = decode(input="hi", stream=True)
    off = Request(model="m", messages=request.messages, native=request.native)
    assert "stream" not in encode(off)


def test_a_longer_history_extends_the_bytes_of_the_shorter() -> None:
    messages = (Message(role="user", content=(Text(text="a"),)), Message(role="assistant", content=(Text(text="b"),)))
    short = OPENAI_RESPONSES.encode_request(Request(model="m", messages=messages[:1], temperature=1.0), Receipt())
    long = OPENAI_RESPONSES.encode_request(Request(model="m", messages=messages, temperature=1.0), Receipt())
    assert long.startswith(short.removesuffix(b"]}"))


# What cannot be written is told


def test_reasoning_of_another_model_is_never_forged() -> None:
    thinking = Thinking(text="hm", native={"anthropic": {"signature": "s"}})
    body, losses = encode_losing(Request(model="m", messages=(Message(role="assistant", content=(thinking,)),)))
    assert body["input"] == []
    assert losses == ["messages[0].content[0]"]


def test_everything_without_a_place_is_in_the_receipt() -> None:
    messages = (
        Message(
            role="user",
            content=(
                Media(kind="video", source=Source("url", "https://example.com/a.mp4")),
                Opaque("anthropic", {"type": "container_upload"}),
                ToolResult(call_id="a", content=(Thinking(text="x"),), is_error=True),
            ),
        ),
        Message(
            role="assistant",
            content=(
                Text(text="a", cache=Cache(), citations=(Citation(quote="q"), Citation(url="https://a", quote="q"))),
                ToolCall(id="a", name="f", cache=Cache()),
            ),
        ),
        Message(role="user", content=(Text(text="u", citations=(Citation(url="https://a"),)),)),
    )
    request = Request(
        model="m",
        messages=messages,
        tools=(Opaque("gemini", {"googleSearch": {}}), Tool(name="f", parameters={}, cache=Cache())),
        tool_choice=ToolChoice(mode="opaque", native={"anthropic": {"choice": {}}}),
        reasoning=Reasoning(budget_tokens=1024),
        top_k=1,
        seed=2,
        stop=("x",),
        cache=Cache(),
    )
    _, losses = encode_losing(request)
    assert set(losses) == {
        "messages[0].content[0]",
        "messages[0].content[1]",
        "messages[0].content[2].is_error",
        "messages[0].content[2].content[0]",
        "messages[1].content[0].cache",
        "messages[1].content[0].citations[0]",
        "messages[1].content[0].citations[1].quote",
        "messages[1].content[1].cache",
        "messages[2].content[0].citations",
        "tools[0]",
        "tools[1].cache",
        "tool_choice",
        "reasoning.budget_tokens",
        "top_k",
        "seed",
        "stop",
        "cache",
    }


STRICT = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"$ref": "#/$defs/c"}}},
    "required": ["a", "b"],
    "additionalProperties": False,
    "$defs": {"c": {"type": ["object", "null"], "properties": {}, "required": [], "additionalProperties": False}},
}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (STRICT, True),
        ({**STRICT, "required": ["a"]}, None),
        ({**STRICT, "additionalProperties": True}, None),
        ({**STRICT, "anyOf": []}, None),
        ({**STRICT, "properties": {"a": {"type": "string", "minLength": 1}}, "required": ["a"]}, None),
        ({**STRICT, "properties": {"a": {"type": "string", "format": "novel"}}, "required": ["a"]}, None),
        ({**STRICT, "properties": {"a": {"type": "object"}}, "required": ["a"]}, None),
        ({**STRICT, "properties": {"a": True}, "required": ["a"]}, None),
        ({"type": "string"}, None),
        (None, None),
    ],
)
def test_a_schema_that_others_enforce_is_enforced_where_strict_mode_takes_it(schema: Any, strict: bool | None) -> None:
    wanted = ResponseFormat(kind="json_schema", name="n", schema=schema)
    body, losses = encode_losing(Request(model="m", response_format=wanted))
    assert body["text"]["format"].get("strict") is strict
    assert losses == ([] if strict else ["response_format.schema"])


def test_an_allowed_subset_with_hosted_tools_keeps_its_functions() -> None:
    hosted = {"type": "web_search"}
    wire = {"type": "allowed_tools", "mode": "auto", "tools": [hosted, {"type": "function", "name": "f"}]}
    tools = [{"type": "function", "name": "f", "parameters": {}, "strict": False}, hosted]
    request = decode(input="hi", tools=tools, tool_choice=wire)
    choice = request.tool_choice
    assert choice is not None
    assert (choice.mode, choice.names) == ("auto", ("f",))
    assert encode(request)["tool_choice"] == wire
    renamed = ToolChoice(mode="auto", names=("g",), native=choice.native)
    assert encode(Request(model="m", tools=request.tools, tool_choice=renamed))["tool_choice"] == {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "g"}, hosted],
    }
    exchange = ExchangeCore("openai_responses", "openai_chat", model="gpt-4o")
    body = json.loads(exchange.request({"model": "m", "input": "hi", "tools": tools, "tool_choice": wire}))
    assert body["tool_choice"]["allowed_tools"]["tools"] == [{"type": "function", "function": {"name": "f"}}]
    assert "tool_choice.tools" in [line.where for line in exchange.receipt.losses]


def test_reasoning_that_another_client_carried_goes_back_if_it_is_whole_in_itself() -> None:
    """Without its encrypted content an item is only an id, and nothing was stored under it."""
    fields = {"id": "rs_1", "summary": []}
    bare = Message(role="assistant", content=(Thinking(text="hm", native={NAME: fields}),))
    whole = Message(
        role="assistant", content=(Thinking(text="hm", native={NAME: {**fields, "encrypted_content": "c2VjcmV0"}}),)
    )
    assert items(whole) == [{"type": "reasoning", **fields, "encrypted_content": "c2VjcmV0"}]
    body, losses = encode_losing(Request(model="m", messages=(bare,)))
    assert (body["input"], losses) == ([], ["messages[0].content[0]"])
    own = encode(Request(model="m", messages=(bare,), native={NAME: {"$input": "items"}}))["input"]
    assert own == [{"type": "reasoning", **fields}]


@pytest.mark.parametrize(
    ("model", "asked"),
    [("gpt-5", True), ("openai/o3-mini", True), ("gpt-5-chat-latest", False), ("gpt-4o", False), ("qwen3", False)],
)
def test_encrypted_reasoning_is_asked_for_where_a_client_must_carry_it(model: str, asked: bool) -> None:
    wanted = ["reasoning.encrypted_content"] if asked else None
    assert encode(Request(model=model)).get("include") == wanted
    assert "include" not in encode(Request(model=model, native={NAME: {"$input": "items"}}))


def test_tools_inside_the_input_may_have_the_deepest_schemas() -> None:
    deep: Any = {"type": "string"}
    for _ in range(400):
        deep = {"type": "array", "items": deep}
    member = {"type": "function", "name": "f", "parameters": deep, "strict": False}
    tools = [member, {"type": "namespace", "name": "ns", "description": "", "tools": [{**member, "name": "g"}]}]
    item = {"type": "additional_tools", "role": "developer", "tools": tools}
    request = decode(input=[item])
    assert [tool.name for tool in request.tools if isinstance(tool, Tool)] == ["f", "g"]
    assert encode(request)["input"] == [item]


@pytest.mark.parametrize(
    "parameters", [{"type": "object"}, True, {"anyOf": [{"type": "object"}]}, {"$ref": "#/$defs/a"}]
)
def test_the_root_of_parameters_from_elsewhere_is_an_object_with_properties(parameters: Any) -> None:
    function = {"name": "f", "parameters": parameters}
    body = {"model": "m", "messages": [], "tools": [{"type": "function", "function": function}]}
    written = json.loads(ExchangeCore("openai_chat", "openai_responses").request(body))["tools"][0]["parameters"]
    assert (written["type"], written["properties"]) == ("object", {})


# What is refused


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b"[]", "$"),
        (b'{"model": 1, "input": "x"}', "$.model"),
        (b'{"model": "m", "input": 5}', "$.input"),
        (b'{"model": "m"}', "$.input"),
        (b'{"model": "m", "input": ["text"]}', "$.input[0]"),
        (b'{"model": "m", "input": [{"type": "function_call_output", "output": [5]}]}', "$.input[0].output[0]"),
        (b'{"model": "m", "input": [{"type": 5}]}', "$.input[0].type"),
        (b'{"model": "m", "input": [{"type": "message", "content": "x"}]}', "$.input[0].role"),
        (b'{"model": "m", "input": [{"role": "user", "content": 5}]}', "$.input[0].content"),
        (b'{"model": "m", "input": [{"role": "user", "content": ["x"]}]}', "$.input[0].content[0]"),
        (
            b'{"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": 5}]}]}',
            "$.input[0].content[0].text",
        ),
        (b'{"model": "m", "input": [{"type": "function_call", "arguments": "{}"}]}', "$.input[0].name"),
        (b'{"model": "m", "input": [{"type": "function_call_output", "output": {}}]}', "$.input[0].output"),
        (b'{"model": "m", "input": [{"type": "reasoning", "summary": "x"}]}', "$.input[0].summary"),
        (b'{"model": "m", "tools": [{"type": "function"}]}', "$.tools[0].name"),
        (b'{"model": "m", "input": "x", "tool_choice": 5}', "$.tool_choice"),
        (b'{"model": "m", "input": "x", "temperature": "hot"}', "$.temperature"),
        (b'{"model": "m", "input": "x", "stream": "yes"}', "$.stream"),
    ],
)
def test_wrong_types_are_refused_with_their_path(body: bytes, where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        OPENAI_RESPONSES.decode_request(body)
    assert caught.value.where == where


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        request = OPENAI_RESPONSES.decode_request(data)
    except DecodeError:
        return
    OPENAI_RESPONSES.encode_request(request, Receipt())


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", "message", "function", "user"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "role", "content", "text", "id", "name", "tools"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(st.sampled_from([*ITEMS, *TOOLS]), st.data())
def test_a_damaged_item_or_tool_is_read_or_refused(original: dict[str, Any], data: st.DataObject) -> None:
    damaged = {**original, data.draw(st.sampled_from(list(original))): data.draw(values)}
    key = "tools" if original in TOOLS else "input"
    try:
        request = decode(**{key: [damaged]})
    except DecodeError:
        return
    OPENAI_RESPONSES.encode_request(request, Receipt())
