"""Small things that an exchange changes or leaves behind have their line in the receipt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import Exchange

ASKED: dict[str, dict[str, Any]] = {
    "openai_chat": {"model": "m", "messages": [{"role": "user", "content": "Go."}]},
    "openai_responses": {"model": "m", "input": "Go."},
    "anthropic": {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Go."}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Go."}]}]},
}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
COUNTS = {"input_tokens": 1, "output_tokens": 2}


def asked(client: str, upstream: str, *, stream: bool = False) -> Exchange:
    exchange = Exchange(client, upstream)
    exchange.request(ASKED[client], model="m" if client == "gemini" else None, stream=stream or None)
    return exchange


def lines_of_answer(client: str, upstream: str, answer: dict[str, Any]) -> list[str]:
    exchange = asked(client, upstream)
    known = len(exchange.receipt)
    exchange.response(answer)
    return [str(line) for line in exchange.receipt][known:]


def lines_of_stream(client: str, upstream: str, events: list[dict[str, Any]]) -> list[str]:
    exchange = asked(client, upstream, stream=True)
    known = len(exchange.receipt)
    translation = exchange.stream()
    for event in events:
        kind = b"event: %b\n" % event["type"].encode() if "type" in event else b""
        translation.feed(kind + b"data: " + json.dumps(event).encode() + b"\n\n")
    translation.close()
    return [str(line) for line in exchange.receipt][known:]


REASONING: list[tuple[str, str, dict[str, Any]]] = [
    (
        "openai_responses",
        "$.news",
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": "m",
            "output": [{"id": "rs_1", "type": "reasoning", "summary": [], "news": "x"}],
        },
    ),
    (
        "anthropic",
        "$.news",
        {
            **MESSAGE,
            "content": [{"type": "thinking", "thinking": "hm", "signature": "s", "news": "x"}],
            "usage": COUNTS,
        },
    ),
    (
        "gemini",
        "$.news",
        {
            "candidates": [
                {
                    "content": {"role": "model", "parts": [{"text": "hm", "thought": True, "news": "x"}]},
                    "finishReason": "STOP",
                    "index": 0,
                }
            ]
        },
    ),
]


@pytest.mark.parametrize(("upstream", "path", "answer"), REASONING)
@pytest.mark.parametrize("client", ASKED)
def test_an_unknown_member_of_reasoning_is_reported(
    client: str, upstream: str, path: str, answer: dict[str, Any]
) -> None:
    lines = lines_of_answer(client, upstream, answer)
    expected = [f"loss: content[0].news: {client} has no known equivalent"]
    assert [line for line in lines if "news" in line] == ([] if client == upstream else expected)


HISTORY: list[tuple[str, dict[str, Any]]] = [
    (
        "openai_responses",
        {
            "input": [
                {"role": "user", "content": "Go."},
                {"id": "rs_1", "type": "reasoning", "summary": [], "news": "x"},
            ]
        },
    ),
    (
        "anthropic",
        {
            "messages": [
                {"role": "user", "content": "Go."},
                {
                    "role": "assistant",
                    "content": [{"type": "thinking", "thinking": "hm", "signature": "s", "news": "x"}],
                },
            ]
        },
    ),
    (
        "gemini",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Go."}]},
                {"role": "model", "parts": [{"text": "hm", "thought": True, "news": "x"}]},
            ]
        },
    ),
]


@pytest.mark.parametrize(("client", "history"), HISTORY)
@pytest.mark.parametrize("upstream", ASKED)
def test_an_unknown_member_of_reasoning_in_a_history_is_reported(
    client: str, history: dict[str, Any], upstream: str
) -> None:
    exchange = Exchange(client, upstream)
    exchange.request({**ASKED[client], **history}, model="m" if client == "gemini" else None)
    found = [str(line) for line in exchange.receipt if "news" in str(line)]
    expected = [f"loss: messages[1].content[0].news: {upstream} has no known equivalent"]
    assert found == ([] if client == upstream else expected)


THINKING = {
    "type": "thinking",
    "thinking": [{"type": "text", "text": "hm"}, {"type": "reference", "reference_ids": [1]}],
    "signature": "c2ln",
    "closed": True,
}


def test_references_and_the_signature_of_mistrals_thinking_are_reported() -> None:
    message = {"role": "assistant", "content": [THINKING, {"type": "text", "text": "Hi"}]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    assert lines_of_answer("anthropic", "openai_chat", answer)[:2] == [
        "loss: content[0].signature: anthropic has no known equivalent",
        "loss: content[0].thinking.reference: anthropic has no known equivalent",
    ]
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    begin = {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": [THINKING]}}]}
    end = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    lines = lines_of_stream("anthropic", "openai_chat", [begin, end])
    assert [line for line in lines if "thinking" in line] == [
        "loss: choices[0].delta.content.thinking: signature: only the text of thinking is carried",
        "loss: choices[0].delta.content.thinking: reference: only the text of thinking is carried",
    ]


STOPS = [
    ("openai_chat", "model_context_window_exceeded", "length"),
    ("openai_responses", "model_context_window_exceeded", "max_output_tokens"),
    ("gemini", "model_context_window_exceeded", "MAX_TOKENS"),
    ("gemini", "pause_turn", "TOO_MANY_TOOL_CALLS"),
]


@pytest.mark.parametrize(("client", "reason", "word"), STOPS)
def test_a_stop_reason_that_changes_is_noted(client: str, reason: str, word: str) -> None:
    line = f"note: stop: {reason}: the client gets {word}, the nearest equivalent"
    content = [{"type": "text", "text": "Hi"}]
    answer = {**MESSAGE, "stop_reason": reason, "content": content, "usage": COUNTS}
    assert line in lines_of_answer(client, "anthropic", answer)
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None, "usage": COUNTS}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    assert line in lines_of_stream(client, "anthropic", events)


def test_what_bedrock_measures_is_noted_and_stays_within_its_dialect() -> None:
    measured = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 1, "firstByteLatency": 7}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None, "usage": COUNTS}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop", **measured},
    ]
    assert lines_of_stream("openai_chat", "anthropic", events) == [
        "note: message_stop.amazon-bedrock-invocationMetrics: openai_chat has no known equivalent"
    ]
    exchange = Exchange("anthropic", "anthropic", verbatim=False)
    exchange.request(ASKED["anthropic"], stream=True)
    translation = exchange.stream()
    frames = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    last = (translation.feed(frames) + translation.close()).decode().strip().splitlines()[-1]
    assert json.loads(last.removeprefix("data: ")) == {"type": "message_stop", **measured}


def test_tokens_of_geminis_own_tools_are_noted() -> None:
    candidate = {"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP", "index": 0}
    counts = {"promptTokenCount": 5, "toolUsePromptTokenCount": 30, "candidatesTokenCount": 2, "totalTokenCount": 37}
    lines = lines_of_answer("openai_chat", "gemini", {"candidates": [candidate], "usageMetadata": counts})
    assert lines == [
        "note: usage.toolUsePromptTokenCount: toolUsePromptTokenCount 30: openai_chat has no known equivalent;"
        " the usual counts are carried over",
    ]


def test_a_total_beyond_the_sum_is_told_with_its_number() -> None:
    candidate = {"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP", "index": 0}
    counts = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 50}
    for client in ("openai_chat", "openai_responses", "anthropic"):
        lines = lines_of_answer(client, "gemini", {"candidates": [candidate], "usageMetadata": counts})
        assert lines == [
            f"note: usage.totalTokenCount: totalTokenCount 50: {client} has no known equivalent;"
            " the usual counts are carried over",
        ]


def test_the_ids_of_repeated_calls_are_noted() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    answer = {**MESSAGE, "stop_reason": "tool_use", "content": [call, call], "usage": COUNTS}
    lines = lines_of_answer("openai_chat", "anthropic", answer)
    assert [line.partition(": the client gets")[0] for line in lines] == ["note: content[1].id: call id t1"]


@pytest.mark.parametrize(
    ("client", "upstream", "tools"),
    [
        (
            "anthropic",
            "openai_responses",
            [
                {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
                {"name": "f", "input_schema": {"type": "object"}, "defer_loading": True},
            ],
        ),
        (
            "openai_responses",
            "anthropic",
            [
                {"type": "tool_search"},
                {"type": "function", "name": "f", "parameters": {"type": "object"}, "defer_loading": True},
            ],
        ),
    ],
)
def test_a_deferred_tool_that_is_offered_at_once_is_noted(
    client: str, upstream: str, tools: list[dict[str, Any]]
) -> None:
    exchange = Exchange(client, upstream)
    sent = json.loads(exchange.request({**ASKED[client], "tools": tools}))
    assert [tool["name"] for tool in sent["tools"]] == ["f"]
    assert "note: tools[1]: deferred tool f: it is offered from the start" in [str(line) for line in exchange.receipt]
