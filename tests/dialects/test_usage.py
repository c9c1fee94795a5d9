"""Token counts, one after the other: read, written as they came, and written anew once a count has changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchanges import read_events
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError
from toolglot.events import Finish
from toolglot.ir import COUNTS as COUNTS_OF_USAGE
from toolglot.ir import Response, Text, Usage, replace
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

HOLDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai_chat": ("usage", {"choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}]}),
    "openai_responses": ("usage", {"status": "completed", "output": []}),
    "anthropic": ("usage", {"content": []}),
    "gemini": ("usageMetadata", {"candidates": [{}]}),
}
COUNTS: list[tuple[str, Any, dict[str, int]]] = [
    ("openai_chat", {}, {}),
    ("openai_chat", {"prompt_tokens": 9}, {"input_tokens": 9}),
    ("openai_chat", {"completion_tokens": 9}, {"output_tokens": 9}),
    ("openai_chat", {"prompt_tokens_details": {"cached_tokens": 9}}, {"input_tokens": 9, "cached_tokens": 9}),
    ("openai_chat", {"prompt_tokens_details": {"cache_write_tokens": 9}}, {"input_tokens": 9, "cache_write_tokens": 9}),
    (
        "openai_chat",
        {"completion_tokens_details": {"reasoning_tokens": 9}},
        {"output_tokens": 9, "reasoning_tokens": 9},
    ),
    ("openai_chat", {"prompt_tokens_details": None, "completion_tokens_details": {}}, {}),
    # mlx-vlm
    (
        "openai_chat",
        {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16},
        {"input_tokens": 11, "output_tokens": 5},
    ),
    ("openai_responses", {}, {}),
    ("openai_responses", {"input_tokens": 9}, {"input_tokens": 9}),
    ("openai_responses", {"output_tokens": 9}, {"output_tokens": 9}),
    ("openai_responses", {"input_tokens_details": {"cached_tokens": 9}}, {"input_tokens": 9, "cached_tokens": 9}),
    (
        "openai_responses",
        {"input_tokens_details": {"cache_write_tokens": 9}},
        {"input_tokens": 9, "cache_write_tokens": 9},
    ),
    (
        "openai_responses",
        {"output_tokens_details": {"reasoning_tokens": 9}},
        {"output_tokens": 9, "reasoning_tokens": 9},
    ),
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


def counted(usage: Usage | None) -> dict[str, int]:
    assert usage is not None
    return {name: getattr(usage, name) for name in COUNTS_OF_USAGE if getattr(usage, name)}


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
    written = it.encode_response(replace(response, usage=changed), None, Receipt())
    again = it.decode_response(json.dumps({**document, key: json.loads(written)[key]}).encode())
    assert counted(again.usage) == counted(changed)


COUNTED = Usage(
    input_tokens=50, output_tokens=40, cached_tokens=30, cache_write_tokens=10, cache_write_long_tokens=0,
    reasoning_tokens=20,
)  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "usage", "written"),
    [
        (
            "openai_chat",
            COUNTED,
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
            COUNTED,
            {
                "input_tokens": 50,
                "input_tokens_details": {
                    "cached_tokens": 30,
                    "cache_write_tokens": 10,
                    "cache_write_tokens_details": {"ttl_30m_tokens": 10, "ttl_12h_tokens": 0},
                },
                "output_tokens": 40,
                "output_tokens_details": {"reasoning_tokens": 20},
                "total_tokens": 90,
            },
        ),
        (
            "anthropic",
            COUNTED,
            {
                "input_tokens": 10,
                "cache_creation_input_tokens": 10,
                "cache_read_input_tokens": 30,
                "output_tokens": 40,
                "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 0},
                "inference_geo": None,
                "output_tokens_details": {"thinking_tokens": 20},
                "server_tool_use": None,
                "service_tier": None,
            },
        ),
        ("anthropic", Usage(input_tokens=5, cached_tokens=30), {"input_tokens": 0, "cache_read_input_tokens": 30}),
        (
            "gemini",
            COUNTED,
            {
                "promptTokenCount": 50,
                "cachedContentTokenCount": 30,
                "candidatesTokenCount": 20,
                "thoughtsTokenCount": 20,
                "totalTokenCount": 90,
            },
        ),
        ("gemini", Usage(output_tokens=5, reasoning_tokens=6), {"candidatesTokenCount": 0, "thoughtsTokenCount": 6}),
        ("gemini", Usage(), {}),
        ("gemini", Usage(input_tokens=5), {"promptTokenCount": 5}),
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
        # What was told at the start was an estimate: all of it was read from the cache.
        (
            {"input_tokens": 9},
            {"input_tokens": 0, "cache_read_input_tokens": 9, "output_tokens": 8},
            {"input_tokens": 9, "cached_tokens": 9, "output_tokens": 8},
        ),
        (
            {"input_tokens": 2, "cache_read_input_tokens": 7},
            {"input_tokens": 9, "cache_read_input_tokens": 0, "output_tokens": 8},
            {"input_tokens": 9, "output_tokens": 8},
        ),
        ({"input_tokens": 9, "output_tokens": 3}, {"output_tokens": 0}, {"input_tokens": 9}),
        # The count at the start is a placeholder.
        ({"input_tokens": 9, "output_tokens": 3}, {"output_tokens": None}, {"input_tokens": 9}),
    ],
)
def test_the_last_counts_of_a_stream_of_messages_win_also_where_they_are_0(
    first: Any, last: Any, counts: dict[str, int]
) -> None:
    frames = [
        {"type": "message_start", "message": {"usage": first}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last},
        {"type": "message_stop"},
    ]
    stream = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)
    end = read_events("anthropic", [stream.encode()])[-1]
    assert isinstance(end, Finish)
    assert counted(end.usage) == counts


def chat_usage(**fields: Any) -> dict[str, Any]:
    return {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, **fields}


IMITATORS: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    (
        "xAI counts reasoning beside the completion",
        chat_usage(total_tokens=460, completion_tokens_details={"reasoning_tokens": 340}),
        {"input_tokens": 100, "output_tokens": 360, "reasoning_tokens": 340},
    ),
    (
        "Google's endpoint counts reasoning in the total alone",
        chat_usage(total_tokens=460),
        {"input_tokens": 100, "output_tokens": 360, "reasoning_tokens": 340},
    ),
    (
        "OpenAI counts reasoning in the completion",
        chat_usage(completion_tokens_details={"reasoning_tokens": 15}),
        {"input_tokens": 100, "output_tokens": 20, "reasoning_tokens": 15},
    ),
    (
        "reasoning that is more than the completion cannot be part of it",
        {"prompt_tokens": 100, "completion_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 340}},
        {"input_tokens": 100, "output_tokens": 360, "reasoning_tokens": 340},
    ),
    (
        "DeepSeek",
        chat_usage(prompt_cache_hit_tokens=64, prompt_cache_miss_tokens=36),
        {"input_tokens": 100, "output_tokens": 20, "cached_tokens": 64},
    ),
    (
        "Moonshot",
        chat_usage(cached_tokens=64),
        {"input_tokens": 100, "output_tokens": 20, "cached_tokens": 64},
    ),
    (
        "LiteLLM",
        chat_usage(
            prompt_tokens_details={
                "cached_tokens": 60,
                "cache_creation_tokens": 30,
                "cache_creation_token_details": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
            },
            cache_creation_input_tokens=30,
            cache_read_input_tokens=60,
        ),
        {
            "input_tokens": 100,
            "output_tokens": 20,
            "cached_tokens": 60,
            "cache_write_tokens": 30,
            "cache_write_long_tokens": 10,
        },
    ),
    (
        "gateways to Claude that leave the cache out of the prompt",
        chat_usage(cache_creation_input_tokens=300, cache_read_input_tokens=600),
        {"input_tokens": 1000, "output_tokens": 20, "cached_tokens": 600, "cache_write_tokens": 300},
    ),
    (
        "those whose total has it",
        chat_usage(total_tokens=1020, cache_creation_input_tokens=300, cache_read_input_tokens=600),
        {"input_tokens": 1000, "output_tokens": 20, "cached_tokens": 600, "cache_write_tokens": 300},
    ),
    (
        "those whose total has it, of a cache that is smaller than the prompt",
        chat_usage(total_tokens=170, cache_creation_input_tokens=10, cache_read_input_tokens=40),
        {"input_tokens": 150, "output_tokens": 20, "cached_tokens": 40, "cache_write_tokens": 10},
    ),
    (
        "those whose total has it, and reasoning beside the completion",
        chat_usage(total_tokens=1025, cache_read_input_tokens=900, completion_tokens_details={"reasoning_tokens": 5}),
        {"input_tokens": 1000, "output_tokens": 25, "cached_tokens": 900, "reasoning_tokens": 5},
    ),
    (
        "xAI, with as much reasoning as cache",
        chat_usage(total_tokens=160, cached_tokens=40, completion_tokens_details={"reasoning_tokens": 40}),
        {"input_tokens": 100, "output_tokens": 60, "cached_tokens": 40, "reasoning_tokens": 40},
    ),
    (
        "Google's endpoint, of an answer that was nothing but reasoning",
        {"prompt_tokens": 100, "completion_tokens": 0, "total_tokens": 460},
        {"input_tokens": 100, "output_tokens": 360, "reasoning_tokens": 360},
    ),
    (
        "a completion that is missing is what the total has beyond the prompt, and not reasoning",
        {"prompt_tokens": 100, "total_tokens": 460},
        {"input_tokens": 100, "output_tokens": 360},
    ),
    (
        "a completion that is null",
        chat_usage(completion_tokens=None, total_tokens=102),
        {"input_tokens": 100, "output_tokens": 2},
    ),
    (
        "a completion that is missing beside a cache that the prompt leaves out",
        {"prompt_tokens": 100, "total_tokens": 1020, "cache_read_input_tokens": 900},
        {"input_tokens": 1000, "output_tokens": 20, "cached_tokens": 900},
    ),
    (
        "a prompt that is missing is what the total has beyond the completion",
        {"completion_tokens": 20, "total_tokens": 120},
        {"input_tokens": 100, "output_tokens": 20},
    ),
    (
        "a total below the parts that are told",
        {"prompt_tokens": 100, "total_tokens": 60},
        {"input_tokens": 100},
    ),
    (
        "no reasoning is told, so what the total has beyond the sum is none",
        chat_usage(total_tokens=460, completion_tokens_details={"reasoning_tokens": 0}),
        {"input_tokens": 100, "output_tokens": 20},
    ),
    (
        "Mistral and vLLM",
        chat_usage(num_cached_tokens=64),
        {"input_tokens": 100, "output_tokens": 20, "cached_tokens": 64},
    ),
]


@pytest.mark.parametrize(("wire", "counts"), [row[1:] for row in IMITATORS], ids=[row[0] for row in IMITATORS])
def test_usage_is_read_as_the_servers_that_imitate_chat_completions_mean_it(wire: Any, counts: dict[str, int]) -> None:
    key, document = HOLDERS["openai_chat"]
    assert (
        counted(DIALECTS["openai_chat"].decode_response(json.dumps({**document, key: wire}).encode()).usage) == counts
    )


COMPACTED = {
    "input_tokens": 500, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3, "output_tokens": 22,
    "iterations": [
        {"type": "compaction", "input_tokens": 900, "cache_read_input_tokens": 40, "output_tokens": 90,
         "cache_creation_input_tokens": 7, "cache_creation": {"ephemeral_1h_input_tokens": 7}},
        {"type": "message", "input_tokens": 500, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3,
         "output_tokens": 22},
    ],
}  # fmt: skip
STEPS: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    (
        "a compaction",
        COMPACTED,
        {
            "input_tokens": 1455,
            "output_tokens": 112,
            "cached_tokens": 45,
            "cache_write_tokens": 10,
            "cache_write_long_tokens": 7,
        },
    ),
    (
        "an advisor, of a list without the answer itself",
        {"input_tokens": 5, "output_tokens": 6, "iterations": [{"type": "advisor_message", "input_tokens": 7}]},
        {"input_tokens": 12, "output_tokens": 6},
    ),
    (
        "the turns of a loop, which the counts beside them hold",
        {
            "input_tokens": 15,
            "output_tokens": 6,
            "iterations": [
                {"type": "message", "input_tokens": 5, "output_tokens": 2},
                {"type": "message", "input_tokens": 10, "output_tokens": 4},
            ],
        },
        {"input_tokens": 15, "output_tokens": 6},
    ),
    (
        "a model that declined before another one answered",
        {
            "input_tokens": 10,
            "output_tokens": 4,
            "iterations": [
                {"type": "message", "input_tokens": 5, "output_tokens": 2},
                {"type": "fallback_message", "input_tokens": 10, "output_tokens": 4},
            ],
        },
        {"input_tokens": 15, "output_tokens": 6},
    ),
    ("no steps", {"input_tokens": 5, "output_tokens": 6, "iterations": []}, {"input_tokens": 5, "output_tokens": 6}),
]


@pytest.mark.parametrize(("wire", "counts"), [row[1:] for row in STEPS], ids=[row[0] for row in STEPS])
def test_every_step_of_an_answer_of_messages_is_counted(wire: Any, counts: dict[str, int]) -> None:
    key, document = HOLDERS["anthropic"]
    whole = DIALECTS["anthropic"].decode_response(json.dumps({**document, key: wire}).encode())
    assert counted(whole.usage) == counts
    assert json.loads(DIALECTS["anthropic"].encode_response(whole, None, Receipt()))[key] == wire
    frames = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": wire},
        {"type": "message_stop"},
    ]
    stream = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)
    end = read_events("anthropic", [stream.encode()])[-1]
    assert isinstance(end, Finish)
    assert counted(end.usage) == counts


def test_steps_that_are_no_objects_are_an_error() -> None:
    key, document = HOLDERS["anthropic"]
    body = json.dumps({**document, key: {"input_tokens": 1, "iterations": [3]}}).encode()
    with pytest.raises(DecodeError, match=r"usage\.iterations\[0\]"):
        DIALECTS["anthropic"].decode_response(body)


GOOGLE: list[tuple[dict[str, int], dict[str, int], list[str]]] = [
    (
        {"promptTokenCount": 9, "thoughtsTokenCount": 100, "totalTokenCount": 109},
        {"input_tokens": 9, "output_tokens": 100, "reasoning_tokens": 100},
        [],
    ),
    ({"promptTokenCount": 9, "totalTokenCount": 30}, {"input_tokens": 9, "output_tokens": 21}, []),
    (
        {"promptTokenCount": 9, "thoughtsTokenCount": 10, "toolUsePromptTokenCount": 5, "totalTokenCount": 30},
        {"input_tokens": 14, "output_tokens": 16, "reasoning_tokens": 10},
        ["usage.toolUsePromptTokenCount"],
    ),
    ({"candidatesTokenCount": 9, "totalTokenCount": 30}, {"input_tokens": 21, "output_tokens": 9}, []),
    (
        {"promptTokenCount": 9, "candidatesTokenCount": 1, "totalTokenCount": 500},
        {"input_tokens": 9, "output_tokens": 1},
        ["usage.totalTokenCount"],
    ),
    (
        {"promptTokenCount": 9, "toolUsePromptTokenCount": 5, "totalTokenCount": 10},
        {"input_tokens": 14},
        ["usage.toolUsePromptTokenCount", "usage.totalTokenCount", "usage.output_tokens"],
    ),
]


@pytest.mark.parametrize(("wire", "counts", "lines"), GOOGLE)
def test_what_googles_total_holds_beyond_its_parts_is_neither_invented_nor_lost(
    wire: Any, counts: dict[str, int], lines: list[str]
) -> None:
    answer = {"candidates": [{"content": {"parts": [{"text": "xxxx"}]}, "finishReason": "STOP"}], "usageMetadata": wire}
    body = json.dumps(answer).encode()
    assert counted(DIALECTS["gemini"].decode_response(body).usage) == counts
    exchange = ExchangeCore("openai_chat", "gemini")
    told = json.loads(exchange.response(body))["usage"]
    assert (told["prompt_tokens"], told["completion_tokens"]) == (
        counts["input_tokens"],
        counts.get("output_tokens", 1),
    )
    assert [line.where for line in exchange.receipt if line.where.startswith("usage.")] == lines


WRITES = Usage(
    input_tokens=100, output_tokens=40, cached_tokens=50, cache_write_tokens=30, cache_write_long_tokens=10,
    reasoning_tokens=15,
)  # fmt: skip
JSON_DIALECTS = tuple(HOLDERS)


@pytest.mark.parametrize("upstream", JSON_DIALECTS)
@pytest.mark.parametrize("client", JSON_DIALECTS)
def test_every_count_reaches_the_client_or_its_receipt(client: str, upstream: str) -> None:
    """A bill computed from what the client is told equals the upstream's."""
    told = replace(WRITES, **{name: 0 for name in COUNTS_OF_USAGE if name not in DIALECTS[upstream].answer.counts})
    came = Response(id="r", model="m", content=(Text(text="x"),), usage=told)
    exchange = ExchangeCore(client, upstream)
    answer = exchange.response(DIALECTS[upstream].encode_response(came, None, Receipt()))
    heard = counted(DIALECTS[client].decode_response(answer).usage)
    noted = {line.where.removeprefix("usage."): line.what for line in exchange.receipt}
    missing = {name: count for name, count in counted(told).items() if heard.get(name) != count}
    assert noted == {name: f"{count} tokens" for name, count in missing.items()}
    assert missing.keys() == counted(told).keys() - DIALECTS[client].answer.counts


UNTOLD: list[tuple[str, Any, list[str]]] = [
    ("openai_chat", chat_usage(prompt_tokens_details={"audio_tokens": 9, "image_tokens": 0, "text_tokens": 91}),
     ["usage.prompt_tokens_details.audio_tokens"]),
    ("openai_chat", chat_usage(completion_tokens_details={"rejected_prediction_tokens": 3, "reasoning_tokens": 1}),
     ["usage.completion_tokens_details.rejected_prediction_tokens"]),
    ("openai_chat", chat_usage(cost=0.01, cost_details={"upstream_inference_cost": None}), ["usage.cost"]),
    ("openai_chat", chat_usage(total_tokens=110), ["usage.total_tokens"]),
    ("openai_chat", chat_usage(total_tokens=130, completion_tokens_details={"reasoning_tokens": 5}),
     ["usage.total_tokens"]),
    ("openai_responses", {"input_tokens": 5, "output_tokens": 5, "total_tokens": 12, "novel": 1,
                          "output_tokens_details": {"reasoning_tokens": 1}}, ["usage.novel", "usage.total_tokens"]),
    ("anthropic", {"input_tokens": 5, "output_tokens": 5, "service_tier": "priority", "inference_geo": "us",
                   "server_tool_use": {"web_search_requests": 2}},
     ["usage.inference_geo", "usage.server_tool_use"]),
    ("gemini", {"promptTokenCount": 5, "candidatesTokenCount": 5, "totalTokenCount": 10, "trafficType": "ON_DEMAND",
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 5}],
                "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 5}]},
     ["usage.candidatesTokensDetails"]),
    ("gemini", {"promptTokenCount": 5, "candidatesTokenCount": 5, "totalTokenCount": 12}, ["usage.totalTokenCount"]),
]  # fmt: skip


@pytest.mark.parametrize("client", JSON_DIALECTS)
@pytest.mark.parametrize(("upstream", "wire", "places"), UNTOLD)
def test_what_a_bill_says_beyond_the_counts_is_told(upstream: str, wire: Any, places: list[str], client: str) -> None:
    key, document = HOLDERS[upstream]
    if upstream == "gemini":
        document = {"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]}
    exchange = ExchangeCore(client, upstream)
    exchange.response(json.dumps({**document, key: wire}).encode())
    noted = [line.where for line in exchange.receipt.notes if line.where.startswith("usage.")]
    assert noted == ([] if client == upstream else places)
