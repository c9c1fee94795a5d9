"""Token counts, one after the other: read, written as they came, and written anew once a count has changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchanges import read_events
from toolglot.dialects import DIALECTS
from toolglot.events import Finish
from toolglot.ir import Response, Usage, replace
from toolglot.receipt import Receipt

HOLDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai_chat": ("usage", {"choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}]}),
    "openai_responses": ("usage", {"status": "completed", "output": []}),
    "anthropic": ("usage", {"content": []}),
    "gemini": ("usageMetadata", {"candidates": []}),
}
COUNTS: list[tuple[str, Any, dict[str, int]]] = [
    ("openai_chat", {}, {}),
    ("openai_chat", {"prompt_tokens": 9}, {"input_tokens": 9}),
    ("openai_chat", {"completion_tokens": 9}, {"output_tokens": 9}),
    ("openai_chat", {"prompt_tokens_details": {"cached_tokens": 9}}, {"cached_tokens": 9}),
    ("openai_chat", {"prompt_tokens_details": {"cache_write_tokens": 9}}, {"cache_write_tokens": 9}),
    ("openai_chat", {"completion_tokens_details": {"reasoning_tokens": 9}}, {"reasoning_tokens": 9}),
    ("openai_chat", {"prompt_tokens_details": None, "completion_tokens_details": {}}, {}),
    ("openai_responses", {}, {}),
    ("openai_responses", {"input_tokens": 9}, {"input_tokens": 9}),
    ("openai_responses", {"output_tokens": 9}, {"output_tokens": 9}),
    ("openai_responses", {"input_tokens_details": {"cached_tokens": 9}}, {"cached_tokens": 9}),
    ("openai_responses", {"input_tokens_details": {"cache_write_tokens": 9}}, {"cache_write_tokens": 9}),
    ("openai_responses", {"output_tokens_details": {"reasoning_tokens": 9}}, {"reasoning_tokens": 9}),
    ("openai_responses", {"input_tokens_details": None, "output_tokens_details": {}}, {}),
    ("anthropic", {}, {}),
    ("anthropic", {"input_tokens": 9}, {"input_tokens": 9}),
    ("anthropic", {"output_tokens": 9}, {"output_tokens": 9}),
    ("anthropic", {"cache_read_input_tokens": 9}, {"input_tokens": 9, "cached_tokens": 9}),
    ("anthropic", {"cache_creation_input_tokens": 9}, {"input_tokens": 9, "cache_write_tokens": 9}),
    ("anthropic", {"output_tokens_details": {"thinking_tokens": 9}}, {"reasoning_tokens": 9}),
    ("anthropic", {"input_tokens": -1, "output_tokens": 0, "output_tokens_details": {"thinking_tokens": True}}, {}),
    ("gemini", {"totalTokenCount": 9}, {}),
    ("gemini", {"promptTokenCount": 9}, {"input_tokens": 9}),
    ("gemini", {"toolUsePromptTokenCount": 9}, {"input_tokens": 9}),
    ("gemini", {"candidatesTokenCount": 9}, {"output_tokens": 9}),
    ("gemini", {"thoughtsTokenCount": 9}, {"output_tokens": 9, "reasoning_tokens": 9}),
    ("gemini", {"cachedContentTokenCount": 9}, {"cached_tokens": 9}),
]
FIELDS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")


def counted(usage: Usage | None) -> dict[str, int]:
    assert usage is not None
    return {name: getattr(usage, name) for name in FIELDS if getattr(usage, name)}


@pytest.mark.parametrize(("dialect", "wire", "counts"), COUNTS)
def test_a_count_is_read_and_comes_back(dialect: str, wire: Any, counts: dict[str, int]) -> None:
    key, document = HOLDERS[dialect]
    it = DIALECTS[dialect]
    response = it.decode_response(json.dumps({**document, key: wire}).encode())
    assert counted(response.usage) == counts
    assert json.loads(it.encode_response(response, None, Receipt()))[key] == wire


@pytest.mark.parametrize("dialect", [name for name in HOLDERS if name != "openai_chat"])
@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"])
def test_a_count_that_has_changed_is_written_anew(dialect: str, name: str) -> None:
    key, document = HOLDERS[dialect]
    it = DIALECTS[dialect]
    plain = Usage(input_tokens=50, output_tokens=40, cached_tokens=30, reasoning_tokens=20)
    wire = json.loads(it.encode_response(Response(usage=plain), None, Receipt()))[key]
    response = it.decode_response(json.dumps({**document, key: wire}).encode())
    assert response.usage is not None
    changed = replace(response.usage, **{name: getattr(plain, name) + 1})
    if dialect == "anthropic" and name == "reasoning_tokens":
        return  # what stood in its details stays there
    written = it.encode_response(replace(response, usage=changed), None, Receipt())
    again = it.decode_response(json.dumps({**document, key: json.loads(written)[key]}).encode())
    assert counted(again.usage) == counted(changed)


@pytest.mark.parametrize(
    ("dialect", "usage", "written"),
    [
        (
            "openai_chat",
            Usage(input_tokens=50, output_tokens=40, cached_tokens=30, cache_write_tokens=10, reasoning_tokens=20),
            {
                "prompt_tokens": 50,
                "completion_tokens": 40,
                "total_tokens": 90,
                "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 10},
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
        ),
        (
            "openai_responses",
            Usage(input_tokens=50, output_tokens=40, cached_tokens=30, cache_write_tokens=10, reasoning_tokens=20),
            {
                "input_tokens": 50,
                "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 10},
                "output_tokens": 40,
                "output_tokens_details": {"reasoning_tokens": 20},
                "total_tokens": 90,
            },
        ),
        (
            "anthropic",
            Usage(input_tokens=50, output_tokens=40, cached_tokens=30, cache_write_tokens=10, reasoning_tokens=20),
            {
                "input_tokens": 10,
                "cache_creation_input_tokens": 10,
                "cache_read_input_tokens": 30,
                "output_tokens": 40,
                "cache_creation": None,
                "inference_geo": None,
                "output_tokens_details": {"thinking_tokens": 20},
                "server_tool_use": None,
                "service_tier": None,
            },
        ),
        ("anthropic", Usage(input_tokens=5, cached_tokens=30), {"input_tokens": 0, "cache_read_input_tokens": 30}),
        (
            "gemini",
            Usage(input_tokens=50, output_tokens=40, cached_tokens=30, cache_write_tokens=10, reasoning_tokens=20),
            {
                "promptTokenCount": 50,
                "cachedContentTokenCount": 30,
                "candidatesTokenCount": 20,
                "thoughtsTokenCount": 20,
                "totalTokenCount": 90,
            },
        ),
        ("gemini", Usage(output_tokens=5, reasoning_tokens=6), {"candidatesTokenCount": 0, "thoughtsTokenCount": 6}),
        ("gemini", Usage(), {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}),
    ],
)
def test_counts_from_elsewhere_are_written_with_sums_that_agree(dialect: str, usage: Usage, written: Any) -> None:
    body = json.loads(DIALECTS[dialect].encode_response(Response(usage=usage), None, Receipt()))
    shown = body[HOLDERS[dialect][0]]
    assert {key: shown[key] for key in written} == written
    if usage.cache_write_tokens or usage == Usage():
        assert shown == written


@pytest.mark.parametrize(
    ("first", "last", "counts"),
    [
        ({"input_tokens": 9}, {"output_tokens": 8}, {"input_tokens": 9, "output_tokens": 8}),
        ({"input_tokens": 9}, {"input_tokens": 0, "output_tokens": 8}, {"input_tokens": 9, "output_tokens": 8}),
        ({"input_tokens": 9, "output_tokens": 1}, {"output_tokens": 8}, {"input_tokens": 9, "output_tokens": 8}),
        ({}, {"input_tokens": 9}, {"input_tokens": 9}),
    ],
)
def test_the_counts_of_a_stream_of_messages_only_grow(first: Any, last: Any, counts: dict[str, int]) -> None:
    frames = [
        {"type": "message_start", "message": {"usage": first}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last},
        {"type": "message_stop"},
    ]
    stream = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)
    end = read_events("anthropic", [stream.encode()])[-1]
    assert isinstance(end, Finish)
    assert counted(end.usage) == counts
