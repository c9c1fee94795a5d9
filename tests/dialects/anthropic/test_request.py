"""Messages requests: exact both ways within the dialect, idiomatic from the IR alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot import Exchange, translate_request
from toolglot.capabilities import Capabilities
from toolglot.dialect import capabilities
from toolglot.dialects.anthropic.dialect import ANTHROPIC, NAME
from toolglot.errors import DecodeError
from toolglot.events import unfold
from toolglot.ir import (
    Cache,
    Citation,
    Media,
    Message,
    Opaque,
    Reasoning,
    Refusal,
    Request,
    Response,
    ResponseFormat,
    Source,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    native_of,
    replace,
)
from toolglot.receipt import Receipt

EPHEMERAL = {"type": "ephemeral"}
TOOL = {"name": "get_weather", "description": "d", "input_schema": {"type": "object", "properties": {}}}
USER = {"role": "user", "content": "Hi"}


def decode(body: dict[str, Any]) -> Request:
    return ANTHROPIC.decode_request(json.dumps(body).encode())


def request_with(**fields: Any) -> dict[str, Any]:
    return {"model": "claude-opus-4-8", "max_tokens": 100, "messages": [USER], **fields}


def encode(request: Request, receipt: Receipt | None = None) -> dict[str, Any]:
    lines = Receipt() if receipt is None else receipt
    body: dict[str, Any] = json.loads(ANTHROPIC.encode_request(request, lines))
    if receipt is None:
        assert not lines, str(lines)
    return body


def foreign(*messages: Message, **fields: Any) -> Request:
    fields = {"model": "claude-opus-4-8", "max_output_tokens": 100, **fields}
    return Request(messages=messages or (Message(role="user", content=(Text(text="Hi"),)),), **fields)


def block_round_trip(block: dict[str, Any], role: str = "user") -> Any:
    """The IR block of a wire block, which must come back as it was."""
    body = request_with(messages=[{"role": role, "content": [block, {"type": "text", "text": "."}]}])
    request = decode(body)
    assert encode(request) == body
    return request.messages[0].content[0]


# name, wire block, the block in the IR without its native data
BLOCKS: list[tuple[str, dict[str, Any], Any]] = [
    ("text", {"type": "text", "text": "Hi"}, Text(text="Hi")),
    (
        "cached text",
        {"type": "text", "text": "Hi", "cache_control": EPHEMERAL},
        Text(text="Hi", cache=Cache()),
    ),
    (
        "text cached for an hour",
        {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        Text(text="Hi", cache=Cache(3600)),
    ),
    (
        "text cached for five minutes",
        {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", "ttl": "5m"}},
        Text(text="Hi", cache=Cache(300)),
    ),
    (
        "text cached in a way that is new",
        {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", "scope": "global"}},
        Text(text="Hi"),
    ),
    ("text with no citations", {"type": "text", "text": "Hi", "citations": []}, Text(text="Hi")),
    ("text with null citations", {"type": "text", "text": "Hi", "citations": None}, Text(text="Hi")),
    (
        "an image",
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        Media(kind="image", source=Source("base64", "AAAA", "image/png")),
    ),
    (
        "an image by URL, with more about it",
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png", "hint": 1}, "transformations": []},
        Media(kind="image", source=Source("url", "https://x/y.png")),
    ),
    (
        "a document by file id",
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}, "title": "T", "context": "c"},
        Media(kind="document", source=Source("file", "file_1"), name="T", context="c"),
    ),
    (
        "a document of plain text",
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "words"},
            "citations": {"enabled": True},
            "cache_control": EPHEMERAL,
        },
        Media(kind="document", source=Source("text", "words", "text/plain"), cache=Cache()),
    ),
    (
        "a document of text blocks",
        {
            "type": "document",
            "source": {"type": "content", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        },
        Media(kind="document", source=Source("text", "a\n\nb", "text/plain")),
    ),
    (
        "a document written as a string",
        {"type": "document", "source": {"type": "content", "content": "a"}},
        Media(kind="document", source=Source("text", "a", "text/plain")),
    ),
    ("signed thinking", {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}, Thinking(text="Hm")),
    ("redacted thinking", {"type": "redacted_thinking", "data": "ZGF0YQ"}, Thinking()),
    (
        "a call",
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}},
        ToolCall(id="toolu_1", name="f", arguments='{"a": 1}'),
    ),
    (
        "a cached call",
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, "cache_control": EPHEMERAL},
        ToolCall(id="toolu_1", name="f", arguments="{}", cache=Cache()),
    ),
    ("a result without content", {"type": "tool_result", "tool_use_id": "t"}, ToolResult(call_id="t")),
    (
        "a result with an empty string",
        {"type": "tool_result", "tool_use_id": "t", "content": ""},
        ToolResult(call_id="t"),
    ),
    ("a result with no blocks", {"type": "tool_result", "tool_use_id": "t", "content": []}, ToolResult(call_id="t")),
    (
        "a result with null content",
        {"type": "tool_result", "tool_use_id": "t", "content": None},
        ToolResult(call_id="t"),
    ),
    (
        "a result in a string",
        {"type": "tool_result", "tool_use_id": "t", "content": "22", "is_error": False},
        ToolResult(call_id="t", content=(Text(text="22"),), is_error=False),
    ),
    (
        "a failed result in a list",
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "no"}], "is_error": True},
        ToolResult(call_id="t", content=(Text(text="no"),), is_error=True),
    ),
    (
        "a cached result with an image and a reference to a tool",
        {
            "type": "tool_result",
            "tool_use_id": "t",
            "content": [
                {"type": "image", "source": {"type": "url", "url": "u"}},
                {"type": "tool_reference", "tool_name": "g"},
            ],
            "cache_control": EPHEMERAL,
        },
        ToolResult(
            call_id="t",
            content=(
                Media(kind="image", source=Source("url", "u")),
                Opaque(NAME, {"type": "tool_reference", "tool_name": "g"}),
            ),
            cache=Cache(),
        ),
    ),
]


def bare(block: Any) -> Any:
    """The block without what only this dialect understands."""
    return block if isinstance(block, Opaque) else replace(block, native={})


@pytest.mark.parametrize(("name", "wire", "block"), BLOCKS, ids=[case[0] for case in BLOCKS])
def test_a_block_is_read_and_comes_back_as_it_was(name: str, wire: dict[str, Any], block: Any) -> None:
    read = block_round_trip(wire)
    if isinstance(read, ToolResult):
        read = replace(read, content=tuple(bare(item) for item in read.content))
    assert bare(read) == block


OPAQUE: list[dict[str, Any]] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "f", "server_name": "s", "input": {}},
    {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": []},
    {"type": "search_result", "source": "s", "title": "t", "content": []},
    {"type": "compaction", "content": None},
    {"type": "brand_new", "$empty": 1},
    {"type": "image", "source": {"type": "hologram", "id": 1}},
    {"type": "document", "source": {"type": "content", "content": [{"type": "image", "source": {}}]}},
    {"type": "text"},
    {"no_type": True},
]


@pytest.mark.parametrize("wire", OPAQUE, ids=lambda wire: str(wire.get("type")))
def test_what_is_not_understood_rides_along(wire: dict[str, Any]) -> None:
    assert block_round_trip(wire) == Opaque(NAME, wire)


CITATIONS: list[tuple[dict[str, Any], Citation]] = [
    (
        {"type": "web_search_result_location", "url": "u", "title": "t", "cited_text": "q", "encrypted_index": "i"},
        Citation(url="u", title="t", quote="q"),
    ),
    (
        {"type": "char_location", "cited_text": "q", "document_title": "t", "document_index": 0, "end_char_index": 2},
        Citation(title="t", quote="q"),
    ),
    (
        {"type": "search_result_location", "source": "s", "title": None, "cited_text": "q", "start_block_index": 0},
        Citation(url="s", quote="q"),
    ),
    ({"type": "future_location", "where": [1]}, Citation()),
]


@pytest.mark.parametrize(("wire", "citation"), CITATIONS)
def test_citations_come_back_as_they_were(wire: dict[str, Any], citation: Citation) -> None:
    text = block_round_trip({"type": "text", "text": "x", "citations": [wire]}, "assistant")
    assert [bare(item) for item in text.citations] == [citation]


def test_a_citation_of_another_api_is_a_loss_in_history() -> None:
    for citation in (Citation(url="u"), Citation(url="u", native={NAME: {"encrypted_index": ""}})):
        receipt = Receipt()
        body = encode(foreign(Message(role="assistant", content=(Text(text="x", citations=(citation,)),))), receipt)
        assert body["messages"][0]["content"] == [{"type": "text", "text": "x"}]
        assert [line.where for line in receipt.losses] == ["messages[0].content[0].citations[0]"]


def test_arguments_are_kept_as_they_were_written() -> None:
    arguments = '{"n": 1.0, "big":12345678901234567890123,\n "e":1e2, "u":"\\u00e9"}'
    raw = (
        '{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":'
        '[{"type":"text","text":"t"},{"type":"tool_use","id":"t","name":"f","input": ' + arguments + " }]}]}"
    )
    call = ANTHROPIC.decode_request(raw.encode()).messages[1].content[1]
    assert isinstance(call, ToolCall)
    assert call.arguments == arguments


def test_arguments_survive_where_the_word_tool_use_is_escaped() -> None:
    raw = (
        rb'{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":'
        rb'[{"type":"tool\u005fuse","id":"t","name":"f","input":{"a": 1}}]}]}'
    )
    call = ANTHROPIC.decode_request(raw).messages[0].content[0]
    assert isinstance(call, ToolCall)
    assert call.arguments == '{"a": 1}'


FULL: dict[str, Any] = {
    "model": "claude-opus-5-5",
    "max_tokens": 4096,
    "system": [
        {"type": "text", "text": "Be brief.", "cache_control": EPHEMERAL},
        {"type": "text", "text": "Be kind."},
    ],
    "messages": [
        USER,
        {"role": "system", "content": "Mind the gap", "output_config": {"effort": "low"}},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "get_weather", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "sun"}]},
        {"role": "critic", "content": "Meh"},
    ],
    "tools": [
        TOOL,
        {**TOOL, "name": "b", "type": "custom", "strict": True, "cache_control": EPHEMERAL, "input_examples": [{}]},
        {**TOOL, "name": "c", "defer_loading": True, "eager_input_streaming": False},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
        {"type": "mcp_toolset", "mcp_server_name": "s"},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "adaptive", "display": "omitted", "block_binding": {"x": 1}},
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {"a": 1}}, "task_budget": {}},
    "metadata": {"user_id": '{"device":"d"}', "team": "t"},
    "service_tier": "standard_only",
    "stop_sequences": ["END"],
    "stream": True,
    "cache_control": {"type": "ephemeral", "ttl": "1h"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
    "container": None,
    "thread": {"type": "create"},
    "mcp_servers": [{"type": "url", "name": "s", "url": "https://x"}],
    "$strange": {"kept": True},
}


def test_a_rich_request_comes_back_as_it_was() -> None:
    request = decode(FULL)
    assert encode(request) == FULL
    assert request.messages[0].role == "system"
    assert [message.role for message in request.messages[1:]] == ["user", "system", "assistant", "user", "critic"]
    assert request.user == '{"device":"d"}'
    assert request.service_tier == "default"
    assert request.cache == Cache(3600)
    assert request.parallel_tool_calls is False
    assert request.response_format is not None
    assert (request.response_format.kind, request.response_format.schema) == ("json_schema", {"a": 1})
    assert request.reasoning is not None
    assert (request.reasoning.mode, request.reasoning.effort, request.reasoning.show) == ("auto", "high", False)
    tools = request.tools
    assert [tool.name for tool in tools if isinstance(tool, Tool)] == ["get_weather", "b", "c"]
    assert isinstance(tools[1], Tool)
    assert (tools[1].strict, tools[1].cache) == (True, Cache())
    assert isinstance(tools[2], Tool)
    assert tools[2].deferred
    assert [tool.dialect for tool in tools if isinstance(tool, Opaque)] == [NAME, NAME]
    assert set(native_of(request, NAME)) >= {"thread", "container", "context_management", "mcp_servers"}


def test_the_second_encoding_has_the_same_bytes_and_a_longer_history_extends_the_first() -> None:
    first = ANTHROPIC.encode_request(decode(FULL), Receipt())
    assert ANTHROPIC.encode_request(ANTHROPIC.decode_request(first), Receipt()) == first
    longer = {**FULL, "messages": [*FULL["messages"], {"role": "assistant", "content": "And?"}]}
    assert ANTHROPIC.encode_request(decode(longer), Receipt()).startswith(first[:-2])


VARIANTS: list[dict[str, Any]] = [
    {"system": "Be brief."},
    {"system": ""},
    {"system": []},
    {"system": None},
    {"system": [{"type": "text", "text": "Be brief."}]},
    {"system": [{"type": "text", "text": "a"}, {"type": "future"}]},
    {"messages": []},
    {"messages": [{"role": "user", "content": ""}]},
    {"messages": [{"role": "user", "content": []}]},
    {"messages": [{"role": "user", "content": None}]},
    {"messages": [{"role": "user"}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}], "clear_at": 1}]},
    {"tools": []},
    {"tools": None, "tool_choice": None, "thinking": None, "output_config": None, "metadata": None},
    {"tools": [{**TOOL, "defer_loading": False}]},
    {"tools": [{"name": "f", "type": "custom"}]},
    {"tools": [{**TOOL, "description": None}]},
    {"tool_choice": {"type": "any"}},
    {"tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": False}},
    {"tool_choice": {"type": "none"}},
    {"tool_choice": {"type": "future", "x": 1}},
    {"tool_choice": {"type": "auto", "new": 1}},
    {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    {"thinking": {"type": "enabled", "budget_tokens": 31999, "display": "omitted"}, "model": "claude-opus-5-5"},
    {"thinking": {"type": "adaptive", "display": "updates"}, "model": "claude-sonnet-4-5"},
    {"thinking": {"type": "disabled"}},
    {"thinking": {"type": "between_tools"}, "output_config": {"effort": "max"}},
    {"output_config": {"effort": "low"}, "model": "claude-sonnet-4-5"},
    {"output_config": {}},
    {"output_config": {"format": {"type": "future"}}},
    {"metadata": {}},
    {"metadata": {"user_id": None}},
    {"service_tier": "auto"},
    {"service_tier": "future"},
    {"stop_sequences": []},
    {"stream": False},
    {"temperature": 1, "top_p": 0.5, "top_k": 3},
    {"temperature": 0.5, "thinking": {"type": "enabled", "budget_tokens": 1024}},
    {"max_tokens": 0},
    {"model": "", "messages": []},
    {"messages": [{"role": "system", "content": "first"}, USER], "system": "before"},
    {"messages": [{"role": "developer", "content": "first"}, {"role": "tool", "content": "x"}]},
    {"messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "of an imitator"}]}]},
    {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": None}]}]},
    {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": "{}"}]}]},
    {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "AA"}}]}]},
    {"messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "data": "y"}]}]},
    {"output_config": {"format": {"type": "json_schema"}}},
    {"cache_control": {"type": "ephemeral"}},
]


@pytest.mark.parametrize("fields", VARIANTS, ids=json.dumps)
def test_a_request_comes_back_as_it_was(fields: dict[str, Any]) -> None:
    body = request_with(**fields)
    request = decode(body)
    assert encode(request) == body
    once = ANTHROPIC.encode_request(request, Receipt())
    assert ANTHROPIC.encode_request(ANTHROPIC.decode_request(once), Receipt()) == once


def test_the_body_of_count_tokens_gains_no_limit() -> None:
    body = {"model": "claude-opus-4-8", "messages": [USER]}
    assert encode(decode(body)) == body


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"messages": None}, "$.messages"),
    ({"messages": 1}, "$.messages"),
    ({"messages": [1]}, "$.messages[0]"),
    ({"messages": [{"content": "x"}]}, "$.messages[0].role"),
    ({"messages": [{"role": "user", "content": 1}]}, "$.messages[0].content"),
    ({"messages": [{"role": "user", "content": [1]}]}, "$.messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}, "$.messages[0].content[0].text"),
    ({"system": 1}, "$.system"),
    ({"tools": [1]}, "$.tools[0]"),
    ({"tool_choice": "auto"}, "$.tool_choice"),
    ({"max_tokens": "many"}, "$.max_tokens"),
    ({"stop_sequences": [1]}, "$.stop_sequences[0]"),
    ({"stream": "yes"}, "$.stream"),
]


@pytest.mark.parametrize(("fields", "where"), BROKEN)
def test_a_wrong_type_is_told_with_its_path(fields: dict[str, Any], where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(request_with(**fields))
    assert caught.value.where == where


@given(st.binary(max_size=80))
def test_garbage_raises_nothing_but_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        ANTHROPIC.decode_request(data)


def test_notes_cannot_be_forged_by_a_client() -> None:
    block = {"type": "text", "text": "Hi", "$empty": 5, "$dollar": {"text": "x"}, "$content": "list"}
    assert block_round_trip(block).text == "Hi"


# ── from other dialects ──


def test_a_plain_foreign_request_is_idiomatic() -> None:
    request = foreign(
        Message(role="system", content=(Text(text="Be brief."),)),
        Message(role="user", content=(Text(text="Weather?"),)),
        Message(role="assistant", content=(ToolCall(id="c1", name="f", arguments=""),)),
        Message(role="tool", content=(ToolResult(call_id="c1", content=(Text(text="sun"),), name="f"),)),
        tools=(Tool(name="f"),),
        stop=("END",),
        user="u",
        stream=True,
    )
    assert encode(request) == {
        "model": "claude-opus-4-8",
        "max_tokens": 100,
        "system": "Be brief.",
        "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}],
        "metadata": {"user_id": "u"},
        "stop_sequences": ["END"],
        "stream": True,
        "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sun"}]},
        ],
    }


def test_a_leading_run_of_system_text_becomes_blocks_and_later_ones_stay() -> None:
    body = encode(
        foreign(
            Message(role="system", content=(Text(text="a"),)),
            Message(role="developer", content=(Text(text="b", cache=Cache(3600)),)),
            Message(role="user", content=(Text(text="Hi"),)),
            Message(role="developer", content=(Text(text="c"),)),
        )
    )
    assert body["system"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ]
    assert body["messages"] == [USER, {"role": "system", "content": "c"}]


def test_reasoning_without_a_signature_of_this_api_is_not_written() -> None:
    for native in ({}, {"openai_responses": {"encrypted_content": "x"}}, {NAME: {"signature": ""}}):
        receipt = Receipt()
        thinking = Thinking(text="Hm", native=native)
        body = encode(
            foreign(
                Message(role="user", content=(Text(text="Hi"),)),
                Message(role="assistant", content=(thinking, Text(text="x"))),
                Message(role="assistant", content=(thinking,)),
            ),
            receipt,
        )
        assert body["messages"] == [USER, {"role": "assistant", "content": [{"type": "text", "text": "x"}]}]
        assert [line.what for line in receipt.losses] == ["reasoning of another model"] * 2


def test_broken_arguments_in_history_are_wrapped_and_told() -> None:
    for arguments in ('{"a":', "[1]", "free text"):
        receipt = Receipt()
        call = ToolCall(id="c", name="f", arguments=arguments)
        body = encode(foreign(Message(role="assistant", content=(call,))), receipt)
        assert body["messages"][0]["content"][0]["input"] == {"_raw": arguments}
        assert [line.where for line in receipt.losses] == ["messages[0].content[0].arguments"]


def test_blocks_without_a_place_are_losses() -> None:
    receipt = Receipt()
    user = (
        Media(kind="audio", source=Source("base64", "AA", "audio/wav")),
        Opaque("openai_chat", {"type": "x"}),
        Media(kind="image", source=Source("url", "u"), detail="low", name="n"),
        Refusal(text="no"),
    )
    body = encode(foreign(Message(role="user", content=user)), receipt)
    image = {"type": "image", "source": {"type": "url", "url": "u"}}
    assert body["messages"] == [{"role": "user", "content": [image, {"type": "text", "text": "no"}]}]
    where = "messages[0].content"
    assert [line.where for line in receipt.losses] == [
        f"{where}[0]",
        f"{where}[1]",
        f"{where}[2].detail",
        f"{where}[2].name",
    ]
    assert [line.where for line in receipt.notes] == [f"{where}[3]"]


def test_a_text_file_in_base64_becomes_a_text_document() -> None:
    media = Media(kind="document", source=Source("base64", "aGk=", "text/markdown"), name="a.md")
    body = encode(foreign(Message(role="user", content=(media,))))
    source = {"type": "text", "data": "hi", "media_type": "text/plain"}
    assert body["messages"][0]["content"] == [{"type": "document", "source": source, "title": "a.md"}]


def test_a_text_file_that_is_none_is_a_loss_and_leaves_a_marker() -> None:
    receipt = Receipt()
    media = Media(kind="document", source=Source("base64", "/w==", "text/csv"), cache=Cache())
    body = encode(foreign(Message(role="user", content=(media, Text(text="x")))), receipt)
    marker = {"type": "text", "text": "[document left out: it cannot be read]", "cache_control": EPHEMERAL}
    assert body["messages"][0]["content"][0] == marker
    assert [line.where for line in receipt.losses] == ["messages[0].content[0]"]


def test_documents_are_pdf_or_text() -> None:
    def part(media_type: str) -> dict[str, Any]:
        return {"type": "file", "file": {"filename": "f", "file_data": f"data:{media_type};base64,aGk="}}

    parts = [part(kind) for kind in ("application/vnd.ms-excel", "application/pdf", "text/csv")]
    exchange = Exchange("openai_chat", "anthropic")
    asked = {"model": "claude-opus-4-8", "messages": [{"role": "user", "content": parts}]}
    written = json.loads(exchange.request(asked))["messages"][0]["content"]
    assert [block["type"] for block in written] == ["text", "document", "document"]
    assert [block["source"]["type"] for block in written[1:]] == ["base64", "text"]
    assert written[2]["source"]["data"] == "hi"
    assert [line.where for line in exchange.receipt.losses] == ["messages[0].content[0]"]


def test_a_missing_limit_is_filled_in_and_noted() -> None:
    receipt = Receipt()
    assert encode(foreign(max_output_tokens=None), receipt)["max_tokens"] == 8192
    assert [line.where for line in receipt.notes] == ["max_output_tokens"]
    assert not receipt.losses


@pytest.mark.parametrize(
    ("choice", "parallel", "wire"),
    [
        (None, None, None),
        (None, True, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice(mode="auto"), True, {"type": "auto"}),
        (ToolChoice(mode="required"), False, {"type": "any", "disable_parallel_tool_use": True}),
        (ToolChoice(mode="required", names=("f",)), None, {"type": "tool", "name": "f"}),
        (ToolChoice(mode="none"), False, {"type": "none"}),
    ],
)
def test_a_tool_choice_is_written(choice: ToolChoice | None, parallel: bool | None, wire: Any) -> None:
    body = encode(foreign(tools=(Tool(name="f"),), tool_choice=choice, parallel_tool_calls=parallel))
    assert body.get("tool_choice") == wire


def test_one_call_at_a_time_says_nothing_where_there_are_no_tools() -> None:
    assert "tool_choice" not in encode(foreign(parallel_tool_calls=False))


def test_choices_that_cannot_be_written_are_losses() -> None:
    receipt = Receipt()
    body = encode(foreign(tool_choice=ToolChoice(mode="required", names=("a", "b"))), receipt)
    assert body["tool_choice"] == {"type": "any"}
    assert "tool_choice" not in encode(foreign(tool_choice=ToolChoice(mode="opaque")), receipt)
    assert [line.where for line in receipt.losses] == ["tool_choice.names", "tool_choice"]


def test_tools_that_cannot_be_written_are_losses() -> None:
    receipt = Receipt()
    tools = (Opaque("openai_responses", {"type": "x"}), Tool(name="f", kind="custom"), Tool(name="g", namespace="n"))
    assert [tool["name"] for tool in encode(foreign(tools=tools), receipt)["tools"]] == ["f", "g"]
    assert [line.where for line in receipt.losses] == ["tools[0]", "tools[1]", "tools[2].namespace"]


@pytest.mark.parametrize(
    ("model", "reasoning", "thinking", "effort"),
    [
        ("claude-opus-4-8", Reasoning(effort="high"), {"type": "adaptive"}, "high"),
        ("claude-opus-4-8", Reasoning(mode="on", show=True), {"type": "adaptive", "display": "summarized"}, None),
        ("claude-opus-4-8", Reasoning(mode="off", effort="none"), {"type": "disabled"}, None),
        ("claude-opus-4-8", Reasoning(effort="none"), {"type": "disabled"}, None),
        ("claude-opus-4-8", Reasoning(show=True), {"type": "adaptive", "display": "summarized"}, None),
        ("claude-opus-4-8", Reasoning(show=False), None, None),
        ("claude-sonnet-4-5", Reasoning(show=True), None, None),
        ("kimi-k3", Reasoning(show=True), None, None),
        ("claude-opus-4-6", Reasoning(mode="on", budget_tokens=2000), {"type": "enabled", "budget_tokens": 2000}, None),
        ("claude-sonnet-4-5-20250929", Reasoning(effort="low"), {"type": "enabled", "budget_tokens": 1024}, None),
        ("claude-sonnet-4-20250514", Reasoning(mode="auto"), {"type": "enabled", "budget_tokens": 8192}, None),
        ("claude-opus-4-5", Reasoning(effort="high"), {"type": "enabled", "budget_tokens": 16000}, "high"),
        (
            "claude-3-7-sonnet-latest",
            Reasoning(mode="on", budget_tokens=10),
            {"type": "enabled", "budget_tokens": 1024},
            None,
        ),
    ],
)
def test_reasoning_of_other_apis_is_written_as_the_model_knows_it(
    model: str, reasoning: Reasoning, thinking: Any, effort: str | None
) -> None:
    receipt = Receipt()
    body = encode(foreign(model=model, reasoning=reasoning, max_output_tokens=32000), receipt)
    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == effort
    assert not receipt.losses


def test_a_budget_stays_below_the_limit_or_gives_way() -> None:
    receipt = Receipt()
    reasoning = Reasoning(mode="on", budget_tokens=9000)
    body = encode(foreign(reasoning=reasoning, max_output_tokens=2000), receipt)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 1999}
    assert not receipt.losses
    assert "thinking" not in encode(foreign(reasoning=reasoning, max_output_tokens=500), receipt)
    assert [line.where for line in receipt.losses] == ["reasoning"]


def test_sampling_gives_way_to_thinking() -> None:
    receipt = Receipt()
    body = encode(foreign(reasoning=Reasoning(effort="low"), temperature=0.2, top_p=0.97, top_k=5), receipt)
    assert "temperature" not in body
    assert "top_k" not in body
    assert body["top_p"] == 0.97
    assert [line.where for line in receipt.losses] == ["temperature", "top_k"]
    receipt = Receipt()
    assert "top_p" not in encode(foreign(reasoning=Reasoning(effort="low"), top_p=0.9), receipt)
    assert [line.where for line in receipt.losses] == ["top_p"]


def test_a_forced_call_leaves_no_room_for_thinking_that_is_merely_to_be_seen() -> None:
    receipt = Receipt()
    choice = ToolChoice(mode="required")
    body = encode(foreign(reasoning=Reasoning(show=True), tools=(Tool(name="f"),), tool_choice=choice), receipt)
    assert "thinking" not in body
    assert [line.where for line in receipt.notes] == ["reasoning.show"]


@pytest.mark.parametrize(
    ("model", "thinking", "show"),
    [
        ("claude-sonnet-4-5", {"type": "enabled", "budget_tokens": 2000}, True),
        ("claude-sonnet-4-5", {"type": "enabled", "budget_tokens": 2000, "display": "omitted"}, False),
        ("claude-opus-4-6", {"type": "adaptive"}, True),
        ("claude-opus-4-8", {"type": "adaptive"}, None),
        ("claude-opus-4-8", {"type": "adaptive", "display": "summarized"}, True),
        ("claude-opus-4-8", {"type": "adaptive", "display": "new"}, None),
        ("claude-opus-4-6", {"type": "disabled"}, None),
    ],
)
def test_thinking_that_was_asked_for_is_to_be_seen(model: str, thinking: dict[str, Any], show: bool | None) -> None:
    body = request_with(model=model, thinking=thinking)
    request = decode(body)
    assert request.reasoning is not None
    assert request.reasoning.show is show
    assert encode(request) == body


@pytest.mark.parametrize(
    ("upstream", "path"),
    [("gemini", "generationConfig.thinkingConfig.includeThoughts"), ("openai_responses", "reasoning.summary")],
)
def test_thinking_within_a_budget_is_asked_to_be_shown_elsewhere(upstream: str, path: str) -> None:
    asked = request_with(model="claude-sonnet-4-5", thinking={"type": "enabled", "budget_tokens": 2000})
    found: Any = json.loads(Exchange("anthropic", upstream, model="gemini-2.5-pro").request(asked))
    for key in path.split("."):
        found = found[key]
    assert found


def test_thinking_stays_visible_on_a_model_that_hides_it_by_default() -> None:
    asked = request_with(model="claude-sonnet-4-5", thinking={"type": "enabled", "budget_tokens": 2000})
    sent = json.loads(Exchange("anthropic", "anthropic", model="claude-opus-4-8").request(asked))
    assert sent["thinking"] == {"type": "adaptive", "display": "summarized"}


def test_parameters_without_a_place_are_losses() -> None:
    receipt = Receipt()
    request = foreign(
        seed=1,
        presence_penalty=0.5,
        frequency_penalty=0.5,
        candidates=2,
        verbosity="low",
        metadata={"a": "b"},
        service_tier="flex",
        response_format=ResponseFormat(kind="json"),
    )
    assert encode(request, receipt) == {"model": "claude-opus-4-8", "max_tokens": 100, "messages": [USER]}
    assert {line.where for line in receipt.losses} == {
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "candidates",
        "verbosity",
        "metadata",
        "service_tier",
        "response_format",
    }


def test_a_schema_for_the_answer_is_written_without_its_name() -> None:
    receipt = Receipt()
    wanted = ResponseFormat(kind="json_schema", schema={"type": "string"}, name="n", strict=True)
    body = encode(foreign(response_format=wanted), receipt)
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": {"type": "string"}}}
    assert not receipt.losses
    assert [line.where for line in receipt.notes] == ["response_format.name", "response_format.strict"]


def test_service_tiers_are_translated() -> None:
    assert encode(foreign(service_tier="default"))["service_tier"] == "standard_only"
    assert encode(foreign(service_tier="auto"))["service_tier"] == "auto"


def test_a_stream_that_was_asked_for_can_be_turned_off() -> None:
    assert "stream" not in encode(replace(decode(request_with(stream=True)), stream=False))


# ── what the models can ──


def can(model: str) -> Capabilities:
    return capabilities(ANTHROPIC, model)


OLD = (
    "claude-3-5-sonnet-20241022",
    "claude-3-haiku",
    "claude-sonnet-4-20250514",
    "claude-opus-4-1",
    "claude-haiku-4-5",
)
RECENT = ("claude-opus-4-7", "claude-opus-4.7", "us.anthropic.claude-opus-4-7-v1:0", "claude-mythos-preview")
INLINE = ("claude-opus-4-8", "claude-sonnet-5", "claude-fable-5", "claude-haiku-5-5")
UNFORCED = ("claude-opus-5-5", "claude-fable-5-1", "claude-mythos-5-1", "anthropic/claude-opus-5.5", "claude-opus-6")


@pytest.mark.parametrize("model", OLD)
def test_old_models_sample_and_reason_by_budget(model: str) -> None:
    assert "temperature" in can(model).parameters.fields
    assert can(model).reasoning.budget
    assert can(model).reasoning.efforts == ()
    assert can(model).messages.prefill
    assert can(model).messages.system == "leading"


def test_models_before_45_have_no_structured_output() -> None:
    assert {can(model).tools.strict for model in OLD} == {False, True}
    for model in ("claude-3-5-sonnet-20241022", "claude-sonnet-4-20250514", "claude-opus-4-1-20250805"):
        assert can(model).parameters.response_formats == {"text"}
        assert not can(model).tools.strict
    for model in ("claude-haiku-4-5", "claude-opus-4-5-20251101", *RECENT, *INLINE):
        assert can(model).parameters.response_formats == {"text", "json_schema"}
        assert can(model).tools.strict


def test_some_models_take_a_temperature_or_a_top_p() -> None:
    both = {
        model
        for model in (*OLD, *RECENT, "claude-sonnet-4-6")
        if "temperature_with_top_p" in can(model).limits.refused_content
    }
    assert both == {"claude-opus-4-1", "claude-haiku-4-5", "claude-sonnet-4-6"}


NOTES = (
    *("empty", "missing", "dollar", "content", "role", "tier", "thinking", "shown", "source", "written", "cut"),
    *("twice", "redacted", "unsigned", "untyped", "encoded", "strict", "own", "inline", "stop_reason", "type"),
)
FORGED: list[Any] = [5, "x", [[]], {"a": 1}, None]


@pytest.mark.parametrize("value", FORGED, ids=str)
def test_notes_of_any_type_do_no_harm(value: Any) -> None:
    native: dict[str, dict[str, Any]] = {NAME: {f"${key}": value for key in NOTES}}
    blocks = (
        Text(text="x", native=native),
        Thinking(text="x", native=native),
        ToolCall(id="c", name="f", native=native),
        ToolResult(call_id="c", content=(Text(text="x", native=native),), native=native),
        Media(kind="document", source=Source("text", "x"), native=native),
    )
    request = foreign(
        Message(role="user", content=blocks, native=native),
        tools=(Tool(name="f", strict=True, native=native),),
        tool_choice=ToolChoice(mode="auto", native=native),
        reasoning=Reasoning(mode="on", native=native),
        response_format=ResponseFormat(kind="json_schema", schema={}, native=native),
        service_tier="auto",
        native={NAME: {**native[NAME], "output_config": value, "metadata": value}},
    )
    ANTHROPIC.encode_request(request, Receipt())
    response = Response(content=blocks, usage=Usage(native=native), native=native)
    ANTHROPIC.encode_response(response, None, Receipt())
    encoder = ANTHROPIC.stream_encoder(None, Receipt())
    for event in unfold(response):
        encoder.feed(event)


@pytest.mark.parametrize("model", RECENT + INLINE + UNFORCED)
def test_recent_models_refuse_sampling_budgets_and_prefills(model: str) -> None:
    assert not can(model).parameters.fields & {"temperature", "top_p", "top_k"}
    assert not can(model).reasoning.budget
    assert not can(model).messages.prefill
    assert can(model).reasoning.efforts == ("low", "medium", "high", "xhigh", "max")


def test_system_messages_may_follow_the_user_since_opus_48() -> None:
    families = ("opus", "fable", "mythos")
    later = [model for model in (*INLINE, *UNFORCED) if any(family in model for family in families)]
    assert later
    assert {can(model).messages.system for model in later} == {"after_user"}
    assert {can(model).messages.system for model in ("claude-sonnet-5", "claude-haiku-5-5")} == {"leading"}
    assert {can(model).messages.system for model in (*OLD, *RECENT)} == {"leading"}


def test_the_newest_models_choose_their_tools_themselves() -> None:
    assert {can(model).tools.choices for model in UNFORCED} == {frozenset({"auto", "none"})}
    assert not any(can(model).reasoning.can_disable for model in UNFORCED)
    assert all(
        "required" in can(model).tools.choices for model in (*OLD, *RECENT, "claude-opus-5", "claude-sonnet-5-1")
    )


def test_efforts_of_the_models_in_between() -> None:
    assert can("claude-opus-4-5").reasoning.efforts == ("low", "medium", "high")
    assert can("claude-opus-4-6").reasoning.efforts == ("low", "medium", "high", "max")
    assert can("claude-sonnet-4-6").reasoning.efforts == ("low", "medium", "high")
    assert can("claude-sonnet-4-6").reasoning.budget
    assert not can("claude-sonnet-4-6").messages.prefill


def test_the_base_fits_a_model_that_nobody_knows() -> None:
    assert can("kimi-k3") == ANTHROPIC.can
    assert "temperature" in ANTHROPIC.can.parameters.fields
    assert can("claude-opus-4-1").limits.default_output_tokens == 32000
    assert can("claude-3-5-haiku").limits.default_output_tokens == 8192


def test_every_rule_says_why() -> None:
    assert all(rule.why for rule in ANTHROPIC.models)


def test_the_path_is_that_of_messages() -> None:
    assert ANTHROPIC.path(foreign()) == "/v1/messages"


FORMAT = {"type": "json_schema", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}}
WITH_FORMAT = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}], "output_format": FORMAT}


def test_the_older_place_of_a_response_format_is_read_and_written_again() -> None:
    encoded = ANTHROPIC.encode_request(ANTHROPIC.decode_request(json.dumps(WITH_FORMAT).encode()), Receipt())
    assert json.loads(encoded) == WITH_FORMAT
    sent = translate_request(json.dumps(WITH_FORMAT), "anthropic", "openai_chat")
    assert sent.json()["response_format"]["json_schema"]["schema"] == FORMAT["schema"]
    assert "output_format" not in str(sent.receipt)


def test_the_newer_place_of_a_response_format_wins() -> None:
    other = {"type": "json_schema", "schema": {"type": "object", "properties": {"b": {"type": "string"}}}}
    both = {**WITH_FORMAT, "output_config": {"format": other}}
    assert json.loads(ANTHROPIC.encode_request(ANTHROPIC.decode_request(json.dumps(both).encode()), Receipt())) == both
    sent = translate_request(json.dumps(both), "anthropic", "openai_chat")
    assert sent.json()["response_format"]["json_schema"]["schema"] == other["schema"]
    assert "output_format" in [line.what for line in sent.receipt.losses]


def test_tools_of_the_same_bytes_are_the_same_tools() -> None:
    tools = b'[{"name":"find","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}]'
    first, second = (
        ANTHROPIC.decode_request(b'{"model":"m","max_tokens":%d,"messages":[],"tools":%b}' % (limit, tools))
        for limit in (1, 2)
    )
    assert len(first.tools) == 2
    assert first.tools is second.tools


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        (b'{"a":1,"a":2}', "$.messages[0].content[0].input.a"),
        (b'{"a":1e400}', "$.messages[0].content[0].input.a"),
        (b'{"a":"\xff"}', "$.messages[0].content[0].input.a"),
    ],
)
def test_arguments_that_nobody_can_rely_on_are_refused_with_their_path(raw: bytes, where: str) -> None:
    block = b'{"type":"tool_use","id":"t","name":"f","input":%b}' % raw
    with pytest.raises(DecodeError) as refused:
        ANTHROPIC.decode_request(b'{"messages":[{"role":"assistant","content":[%b]}]}' % block)
    assert refused.value.where == where


@pytest.mark.parametrize("raw", [b"[1,2]", b"7", b"true", b'[{"a": 1.0}]'])
def test_a_call_whose_arguments_are_no_object_is_read_and_written_as_it_came(raw: bytes) -> None:
    """Claude Code sends such a call back in its history."""
    block = b'{"type":"tool_use","id":"t","name":"f","input":%b}' % raw
    request = ANTHROPIC.decode_request(b'{"model":"m","messages":[{"role":"assistant","content":[%b]}]}' % block)
    (call,) = request.messages[0].content
    assert isinstance(call, ToolCall)
    assert call.arguments == raw.decode()
    assert block in ANTHROPIC.encode_request(request, Receipt())


def test_a_document_of_texts_and_one_of_other_blocks() -> None:
    texts = {"type": "content", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    pictures = {"type": "content", "content": [{"type": "image", "source": {"type": "url", "url": "u"}}]}
    blocks = [{"type": "document", "title": "T", "source": source} for source in (texts, pictures)]
    body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": blocks}]}
    written, opaque = ANTHROPIC.decode_request(json.dumps(body).encode()).messages[0].content
    assert isinstance(written, Media)
    assert (written.name, written.source.data) == ("T", "a\n\nb")
    assert isinstance(opaque, Opaque)
    assert opaque.value == blocks[1]
