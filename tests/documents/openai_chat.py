"""Requests, responses and streams as clients and servers of Chat Completions write them."""

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
    novel_parts,
    object_schemas,
    objects,
    plain_event,
    record,
    some,
    tagged,
    texts,
    words,
)
from tests.strategies import arguments, broken_arguments, ids, names

breakpoints = record(
    {"mode": st.just("explicit")}, {"ttl": st.sampled_from(["30m", "12h"])}, nulls=False, unknown=False
)
text_parts = tagged("text", {"text": texts}, {"prompt_cache_breakpoint": breakpoints})
image_parts = tagged(
    "image_url",
    {
        "image_url": record(
            {"url": st.sampled_from(["https://example.com/a.png", "data:image/png;base64,aGVsbG8="])},
            {"detail": st.sampled_from(["auto", "low", "high"])},
        )
    },
)
audio_parts = tagged(
    "input_audio", {"input_audio": record({"data": st.just("UklGRg=="), "format": st.sampled_from(["wav", "mp3"])})}
)
file_parts = tagged(
    "file",
    {
        "file": st.one_of(
            record({"file_data": st.just("data:application/pdf;base64,JVBERi0=")}, {"filename": st.just("a.pdf")}),
            record({"file_id": st.just("file-1")}),
        )
    },
)

function_calls = record(
    {
        "id": ids,
        "type": st.just("function"),
        "function": record({"name": names, "arguments": arguments() | broken_arguments}),
    }
)
custom_calls = record(
    {"id": ids, "type": st.just("custom"), "custom": record({"name": names, "input": texts}, unknown=False)}
)
novel_calls = tagged("novel", {"id": ids, "novel": objects})

details = some(
    tagged("reasoning.encrypted", {"data": texts}),
    tagged("reasoning.text", {"text": texts, "signature": st.none() | words, "index": counts}),
    at_least=1,
)

messages = st.one_of(
    record(
        {"role": st.sampled_from(["system", "developer", "critic"]), "content": texts | some(text_parts)},
        {"name": words},
    ),
    record(
        {
            "role": st.just("user"),
            "content": st.just("") | texts | some(text_parts, image_parts, audio_parts, file_parts, novel_parts),
        },
        {"name": words},
    ),
    record(
        {"role": st.just("assistant"), "tool_calls": some(function_calls, custom_calls, novel_calls, at_least=1)},
        {"content": st.just("") | texts, "reasoning_content": texts, "reasoning_details": details, "refusal": texts},
    ),
    record(
        {"role": st.just("assistant"), "content": texts | some(text_parts, tagged("refusal", {"refusal": texts}))},
        {"reasoning": texts, "reasoning_details": details, "audio": record({"id": words}), "name": words},
    ),
    record(
        {"role": st.just("assistant"), "function_call": record({"name": names, "arguments": arguments()})},
        {"content": texts},
    ),
    record({"role": st.just("tool"), "tool_call_id": ids, "content": texts | some(text_parts)}, {"name": names}),
    record({"role": st.just("function"), "name": names, "content": texts}),
)

functions = record({"name": names}, {"description": texts, "parameters": object_schemas, "strict": flags})
tools = st.one_of(
    record({"type": st.just("function"), "function": functions}),
    record(
        {
            "type": st.just("custom"),
            "custom": record(
                {"name": names},
                {
                    "description": texts,
                    "format": st.sampled_from(
                        [
                            {"type": "text"},
                            {"type": "grammar", "grammar": {"definition": "start: /a/", "syntax": "lark"}},
                        ]
                    ),
                },
            ),
        }
    ),
    tagged("novel_tool", {"novel": objects}),
)
choices: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["none", "auto", "required"]),
    record({"type": st.just("function"), "function": record({"name": names}, unknown=False)}, unknown=False),
    record({"type": st.just("custom"), "custom": record({"name": names}, unknown=False)}, unknown=False),
    st.builds(
        lambda mode, few: {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": mode,
                "tools": [{"type": "function", "function": {"name": name}} for name in few],
            },
        },
        st.sampled_from(["auto", "required"]),
        st.lists(names, min_size=1, max_size=3, unique=True),
    ),
)
response_formats = st.one_of(
    st.sampled_from([{"type": "text"}, {"type": "json_object"}, {"type": "novel", "novel": 1}]),
    record(
        {
            "type": st.just("json_schema"),
            "json_schema": record({"name": words, "schema": object_schemas}, {"strict": flags, "description": texts}),
        },
        unknown=False,
    ),
)

requests = record(
    {"model": st.sampled_from(["gpt-4.1", "gpt-5", "deepseek-chat"]), "messages": some(messages, at_most=5)},
    {
        "tools": some(tools),
        "tool_choice": choices,
        "parallel_tool_calls": flags,
        "functions": some(functions, at_least=1, at_most=2),
        "function_call": st.sampled_from(["auto", "none", {"name": "get_weather"}]),
        "max_tokens": counts,
        "max_completion_tokens": counts,
        "temperature": fractions,
        "top_p": fractions,
        "seed": counts,
        "presence_penalty": fractions,
        "frequency_penalty": fractions,
        "n": st.integers(1, 3),
        "stop": texts | st.lists(words, max_size=4),
        "response_format": response_formats,
        "reasoning_effort": st.sampled_from(["none", "minimal", "low", "high", "novel"]),
        "verbosity": st.sampled_from(["low", "high"]),
        "user": words,
        "safety_identifier": words,
        "metadata": st.dictionaries(words, words, max_size=2),
        "service_tier": st.sampled_from(["auto", "flex"]),
        "stream": flags,
        "stream_options": record({"include_usage": flags}),
        "logit_bias": st.just({"1": -100}),
        "store": flags,
    },
)

usages = record(
    {"prompt_tokens": counts, "completion_tokens": counts, "total_tokens": counts},
    {
        "prompt_tokens_details": record({"cached_tokens": counts}, {"audio_tokens": counts}),
        "completion_tokens_details": record({"reasoning_tokens": counts}),
    },
)
answer_messages = record(
    {"role": st.just("assistant"), "content": st.none() | texts},
    {
        "refusal": texts,
        "reasoning_content": texts,
        "reasoning_details": details,
        "tool_calls": some(function_calls, custom_calls, at_least=1),
        "annotations": st.just(
            [
                {
                    "type": "url_citation",
                    "url_citation": {"url": "https://a.b", "title": "A", "start_index": 0, "end_index": 1},
                }
            ]
        ),
    },
)
responses = record(
    {
        "id": words,
        "object": st.just("chat.completion"),
        "created": counts,
        "model": words,
        "choices": some(
            record(
                {
                    "index": st.just(0),
                    "message": answer_messages,
                    "finish_reason": st.sampled_from(["stop", "length", "tool_calls", "content_filter", "novel"]),
                },
                {"logprobs": objects},
            ),
            at_least=1,
            at_most=2,
        ).map(lambda choices: [{**choice, "index": place} for place, choice in enumerate(choices)]),
    },
    {"usage": usages, "system_fingerprint": words, "service_tier": words},
)


def write_stream(answer: list[Spoken]) -> str:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1763164800, "model": "gpt-x"}
    written = _chunk(base, {"role": "assistant", "content": ""})
    calls = -1
    for number, block in enumerate(answer):
        if block.kind == "call":
            calls += 1
            head = {"id": f"call_{number}", "type": "function", "function": {"name": block.name, "arguments": ""}}
            written += _chunk(base, {"tool_calls": [{"index": calls, **head}]})
            for piece in block.pieces:
                written += _chunk(base, {"tool_calls": [{"index": calls, "function": {"arguments": piece}}]})
        else:
            field = "content" if block.kind == "text" else "reasoning_content"
            for piece in block.pieces:
                written += _chunk(base, {field: piece})
    written += _chunk(base, {}, "tool_calls" if has_calls(answer) else "stop")
    usage = {"prompt_tokens": 50, "completion_tokens": 30, "total_tokens": 80}
    return written + plain_event({**base, "choices": [], "usage": usage}) + "data: [DONE]\n\n"


def _chunk(base: dict[str, Any], delta: dict[str, Any], finish: str | None = None) -> str:
    return plain_event({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None})


streams = answers().map(write_stream)
