"""Requests, responses and streams as clients and servers of Ollama write them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.documents.shared import (
    Spoken,
    answers,
    counts,
    dump,
    flags,
    fractions,
    object_schemas,
    objects,
    record,
    some,
    texts,
    words,
)
from tests.strategies import ids, names

images = st.lists(st.sampled_from(["iVBORw0KGgo=", "/9j/4AAQ", "aGVsbG8="]), max_size=2)
calls = record(
    {"function": record({"name": names, "arguments": objects}, {"index": counts}, nulls=False)},
    {"id": ids},
    nulls=False,
)
messages = st.one_of(
    record({"role": st.sampled_from(["system", "user"]), "content": texts}, {"images": images}),
    record(
        {"role": st.just("assistant"), "content": texts},
        {"thinking": texts, "tool_calls": some(calls)},
    ),
    record({"role": st.just("tool"), "content": texts}, {"tool_name": names, "tool_call_id": ids}),
    record({"role": st.just("critic"), "content": texts}),
)
tools = record(
    {
        "type": st.just("function"),
        "function": record({"name": names}, {"description": texts, "parameters": object_schemas}),
    }
)
options = record(
    {},
    {
        "temperature": fractions,
        "top_p": fractions,
        "top_k": counts,
        "seed": counts,
        "presence_penalty": fractions,
        "frequency_penalty": fractions,
        "num_predict": st.sampled_from([-2, -1, 1, 128]),
        "num_ctx": counts,
        "stop": st.lists(words, max_size=3),
    },
)
settings: dict[str, st.SearchStrategy[Any]] = {
    "stream": flags,
    "format": st.one_of(st.sampled_from(["json", ""]), object_schemas),
    "options": options,
    "think": st.one_of(flags, st.sampled_from(["low", "medium", "high"])),
    "logprobs": flags,
    "top_logprobs": counts,
    "keep_alive": st.one_of(words, counts),
}
requests = record(
    {"model": st.sampled_from(["qwen3", "qwen3:8b", "qwen3:latest"]), "messages": some(messages, at_most=5)},
    {"tools": some(tools), **settings},
)

durations = dict.fromkeys(("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"), counts)
responses = record(
    {
        "model": words,
        "created_at": st.sampled_from(["2026-11-15T00:00:00Z", "2026-11-15T00:00:00.123456Z"]),
        "message": record(
            {"role": st.just("assistant"), "content": texts}, {"thinking": texts, "tool_calls": some(calls)}
        ),
        "done": st.just(True),
        "done_reason": st.sampled_from(["stop", "length", "novel"]),
    },
    {"prompt_eval_count": counts, "eval_count": counts, **durations},
)


def write_stream(answer: list[Spoken]) -> str:
    written = ""
    for number, block in enumerate(answer):
        if block.kind == "call":
            function = {"name": block.name, "arguments": json.loads("".join(block.pieces) or "{}")}
            written += _line({"content": "", "tool_calls": [{"id": f"call_{number}", "function": function}]})
        else:
            for piece in block.pieces:
                said = {"content": piece} if block.kind == "text" else {"content": "", "thinking": piece}
                written += _line(said)
    end = {"done_reason": "stop", "prompt_eval_count": 50, "eval_count": 30}
    return written + _line({"content": ""}, done=True, **end)


def _line(message: dict[str, Any], *, done: bool = False, **beside: Any) -> str:
    base = {"model": "qwen3", "created_at": "2026-11-15T00:00:00Z"}
    return f"{dump({**base, 'message': {'role': 'assistant', **message}, 'done': done, **beside})}\n"


streams = answers().map(write_stream)
