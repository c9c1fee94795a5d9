"""Requests, responses and streams as clients and servers of Anthropic Messages write them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.documents.shared import (
    Spoken,
    answers,
    counts,
    flags,
    fractions,
    has_calls,
    named_event,
    novel_parts,
    object_schemas,
    objects,
    record,
    some,
    tagged,
    texts,
    words,
)
from tests.strategies import ids, names

cache_controls = record(
    {"type": st.just("ephemeral")}, {"ttl": st.sampled_from(["5m", "1h"])}, nulls=False, unknown=False
)
cached: dict[str, st.SearchStrategy[Any]] = {"cache_control": cache_controls}
citations = st.lists(
    st.sampled_from(
        [
            {"type": "web_search_result_location", "url": "https://a.b", "title": "A", "cited_text": "x"},
            {
                "type": "char_location",
                "cited_text": "x",
                "document_index": 0,
                "start_char_index": 0,
                "end_char_index": 1,
            },
            {"type": "novel_location", "x": 1},
        ]
    ),
    max_size=2,
)
text_blocks = tagged("text", {"text": texts}, {**cached, "citations": citations})
image_blocks = tagged(
    "image",
    {
        "source": st.sampled_from(
            [
                {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="},
                {"type": "url", "url": "https://example.com/a.png"},
                {"type": "file", "file_id": "file_1"},
                {"type": "novel", "x": 1},
            ]
        )
    },
    cached,
)
document_blocks = tagged(
    "document",
    {
        "source": st.sampled_from(
            [
                {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                {"type": "text", "media_type": "text/plain", "data": "plain"},
                {"type": "url", "url": "https://example.com/a.pdf"},
                {"type": "content", "content": [{"type": "text", "text": "x"}]},
            ]
        )
    },
    {"title": words, "context": words, "citations": record({"enabled": flags}, unknown=False), **cached},
)
thinking_blocks = st.one_of(
    tagged("thinking", {"thinking": texts, "signature": words}),
    tagged("redacted_thinking", {"data": words}),
)
tool_uses = tagged("tool_use", {"id": ids, "name": names, "input": objects}, {**cached, "caller": objects})
tool_results = tagged(
    "tool_result",
    {"tool_use_id": ids},
    {
        "content": texts | some(text_blocks, image_blocks, document_blocks, novel_parts),
        "is_error": flags,
        **cached,
    },
)
server_blocks = st.one_of(
    tagged("server_tool_use", {"id": words, "name": st.just("web_search"), "input": objects}),
    tagged("web_search_tool_result", {"tool_use_id": words, "content": some(objects)}),
)

messages = st.one_of(
    record(
        {
            "role": st.just("user"),
            "content": texts | some(text_blocks, image_blocks, document_blocks, tool_results, novel_parts, at_most=4),
        }
    ),
    record(
        {
            "role": st.just("assistant"),
            "content": texts
            | some(text_blocks, thinking_blocks, tool_uses, server_blocks, novel_parts, at_least=1, at_most=4),
        }
    ),
    record({"role": st.sampled_from(["system", "critic"]), "content": texts | some(text_blocks, at_least=1)}),
)
tools = st.one_of(
    record(
        {"name": names, "input_schema": object_schemas},
        {
            "description": texts,
            "type": st.just("custom"),
            "strict": flags,
            "defer_loading": flags,
            "eager_input_streaming": flags,
            **cached,
        },
    ),
    tagged("web_search_20250305", {"name": st.just("web_search")}, {"max_uses": counts}),
    tagged("bash_20250124", {"name": st.just("bash")}),
)
choices = st.one_of(
    record({"type": st.sampled_from(["auto", "any"])}, {"disable_parallel_tool_use": flags}),
    record({"type": st.just("tool"), "name": names}, {"disable_parallel_tool_use": flags}),
    record({"type": st.just("none")}),
)
thinking_settings = st.one_of(
    record({"type": st.just("enabled"), "budget_tokens": st.integers(1024, 9000)}),
    record({"type": st.just("disabled")}),
    record({"type": st.just("adaptive")}, {"display": st.sampled_from(["summarized", "omitted"])}),
)

requests = record(
    {
        "model": st.sampled_from(["claude-sonnet-4-5", "claude-opus-5-5"]),
        "max_tokens": counts,
        "messages": some(messages, at_most=5),
    },
    {
        "system": texts | some(text_blocks, at_least=1),
        "tools": some(tools),
        "tool_choice": choices,
        "stop_sequences": st.lists(words, max_size=4),
        "temperature": fractions,
        "top_p": fractions,
        "top_k": counts,
        "thinking": thinking_settings,
        "output_config": record(
            {},
            {
                "effort": st.sampled_from(["low", "max"]),
                "format": record({"type": st.just("json_schema"), "schema": object_schemas}),
            },
        ),
        "metadata": record({}, {"user_id": words}),
        "service_tier": st.sampled_from(["auto", "standard_only"]),
        "stream": flags,
        "container": words,
        **cached,
    },
)

usages = record(
    {"input_tokens": counts, "output_tokens": counts},
    {
        "cache_creation_input_tokens": counts,
        "cache_read_input_tokens": counts,
        "cache_creation": record({"ephemeral_5m_input_tokens": counts}),
        "output_tokens_details": record({"thinking_tokens": counts}),
    },
)
responses = record(
    {
        "id": words,
        "type": st.just("message"),
        "role": st.just("assistant"),
        "model": words,
        "content": some(text_blocks, thinking_blocks, tool_uses, server_blocks, novel_parts, at_most=4),
        "stop_reason": st.sampled_from(["end_turn", "max_tokens", "tool_use", "stop_sequence", "refusal", "novel"]),
        "stop_sequence": st.none() | words,
        "usage": usages,
    },
    {"container": objects, "stop_details": record({"type": st.just("refusal")}, {"explanation": texts})},
)

_FIELD = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "call": ("input_json_delta", "partial_json"),
}


def write_stream(answer: list[Spoken]) -> str:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
    usage = {"input_tokens": 40, "cache_read_input_tokens": 10, "output_tokens": 1}
    end: dict[str, str | None] = {"stop_reason": None, "stop_sequence": None}
    written = named_event("message_start", {"message": {**message, **end, "usage": usage}}) + named_event("ping", {})
    for index, block in enumerate(answer):
        kind, field = _FIELD[block.kind]
        written += named_event("content_block_start", {"index": index, "content_block": _start(block, index)})
        deltas = [{"type": kind, field: piece} for piece in block.pieces]
        if block.kind == "thinking":
            deltas.append({"type": "signature_delta", "signature": "c2ln"})
        for delta in deltas:
            written += named_event("content_block_delta", {"index": index, "delta": delta})
        written += named_event("content_block_stop", {"index": index})
    end = {"stop_reason": "tool_use" if has_calls(answer) else "end_turn", "stop_sequence": None}
    written += named_event("message_delta", {"delta": end, "usage": {"output_tokens": 30}})
    return written + named_event("message_stop", {})


def _start(block: Spoken, index: int) -> dict[str, Any]:
    if block.kind == "call":
        return {"type": "tool_use", "id": f"toolu_{index}", "name": block.name, "input": {}}
    return (
        {"type": "text", "text": ""} if block.kind == "text" else {"type": "thinking", "thinking": "", "signature": ""}
    )


streams = answers().map(write_stream)
