"""A call that its server calls cut off never looks like one to run, even if its arguments are sound JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import Exchange

ASKED: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "model": "m",
        "messages": [{"role": "user", "content": "Go."}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "Go."}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    },
}
ITEM = {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "f", "status": "incomplete"}


def answer(arguments: str, status: str = "incomplete") -> dict[str, Any]:
    reason = {"reason": "max_output_tokens"} if status == "incomplete" else None
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "incomplete_details": reason,
        "model": "m",
        "output": [{**ITEM, "arguments": arguments}],
        "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    }


def stream(pieces: list[str]) -> bytes:
    whole = answer("".join(pieces))
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**ITEM, "arguments": "", "status": "in_progress"},
        },
        *(
            {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": piece}
            for piece in pieces
        ),
        {"type": "response.output_item.done", "output_index": 0, "item": whole["output"][0]},
        {"type": "response.incomplete", "response": whole},
    ]
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def streamed(client: str, pieces: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    exchange = Exchange(client, "openai_responses")
    exchange.request(ASKED[client], stream=True)
    known = len(exchange.receipt)
    translation = exchange.stream()
    written = b"".join(translation.feed(bytes([byte])) for byte in stream(pieces)) + translation.close()
    lines = [line[6:] for line in written.decode().splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines], [str(line) for line in exchange.receipt][known:]


LOSS = "loss: content[0].arguments: the last brace: the call was cut off and must not be run"
NOTE = "note: content[0]: call of f: the call was cut off and must not be run"
CUTS = [
    (['{"a":{"b":1}', "}"], '{"a":{"b":1}', LOSS),
    (['{"a":1} \n'], '{"a":1', LOSS),
    (['{"a":'], '{"a":', NOTE),
    (["{}"], "{", LOSS),
    ([], "{", NOTE),
]


@pytest.mark.parametrize(("pieces", "seen", "line"), CUTS)
def test_a_streaming_chat_client_sees_that_a_call_was_cut(pieces: list[str], seen: str, line: str) -> None:
    chunks, receipt = streamed("openai_chat", pieces)
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert "".join(call["function"].get("arguments", "") for call in calls) == seen
    assert [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]][-1] == "length"
    assert receipt == [line]


@pytest.mark.parametrize(("pieces", "seen", "line"), CUTS)
def test_a_streaming_messages_client_sees_that_a_call_was_cut(pieces: list[str], seen: str, line: str) -> None:
    events, receipt = streamed("anthropic", pieces)
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta["partial_json"] for delta in deltas) == seen
    assert [event["delta"]["stop_reason"] for event in events if event["type"] == "message_delta"] == ["max_tokens"]
    assert receipt == [line]


@pytest.mark.parametrize(("pieces", "seen", "line"), CUTS)
def test_a_chat_client_sees_that_a_whole_answers_call_was_cut(pieces: list[str], seen: str, line: str) -> None:
    exchange = Exchange("openai_chat", "openai_responses")
    exchange.request(ASKED["openai_chat"])
    choice = json.loads(exchange.response(answer("".join(pieces))))["choices"][0]
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == seen
    assert choice["finish_reason"] == "length"
    assert line in [str(line) for line in exchange.receipt]


def test_a_call_that_is_whole_is_streamed_whole() -> None:
    whole = stream(['{"a":{"b":1}', "}"]).replace(b"incomplete", b"completed")
    exchange = Exchange("openai_chat", "openai_responses")
    exchange.request(ASKED["openai_chat"], stream=True)
    translation = exchange.stream()
    written = (translation.feed(whole) + translation.close()).decode()
    assert written.count('finish_reason":"tool_calls') == 1
    assert '"arguments":"{\\"a\\":{\\"b\\":1}"' in written
    assert '"arguments":"}"' in written


CUT = "messages[1].content[0]: call of f that was cut off:"
WHOLE = f"loss: {CUT} it looks complete to the target"
SEEN = f"note: {CUT} the target has no mark for it; only its arguments show it"


def raw(words: str) -> str:
    return f"loss: messages[1].content[0].arguments: its arguments are cut off; {words}they are in `_raw` as text"


@pytest.mark.parametrize(
    ("target", "arguments", "line"),
    [
        ("openai_chat", "{}", WHOLE),
        ("openai_chat", "", WHOLE),
        ("openai_chat", '{"a":', SEEN),
        ("anthropic", "{}", WHOLE),
        ("anthropic", "", WHOLE),
        ("anthropic", '{"a":', raw("Messages takes an object, so ")),
        ("gemini", "{}", WHOLE),
        ("gemini", '{"a":', raw("Gemini takes an object, so ").replace(".arguments:", ": arguments:")),
        ("warp", "{}", WHOLE),
        ("warp", '{"a":', raw("").replace(".arguments:", ": arguments:")),
    ],
)
def test_a_call_of_the_history_that_was_cut_has_one_line_that_says_how_it_looks(
    target: str, arguments: str, line: str
) -> None:
    output = {"type": "function_call_output", "call_id": "c1", "output": "no"}
    body = {
        "model": "m",
        "input": [{"role": "user", "content": "Go."}, {**ITEM, "arguments": arguments}, output],
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
    }
    exchange = Exchange("openai_responses", target)
    exchange.request(body)
    lines = [str(line) for line in exchange.receipt if line.where.startswith("messages[1]")]
    assert [line for line in lines if "signature" not in line] == [line]


@pytest.mark.parametrize("status", ["completed", "incomplete"])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("client", ["openai_chat", "anthropic", "gemini", "warp"])
def test_a_broken_call_of_an_answer_has_one_line(client: str, whole: bool, status: str) -> None:
    exchange = Exchange(client, "openai_responses")
    if whole:
        exchange.response(json.loads(json.dumps(answer('{"a":', status)).replace("incomplete", status)))
    else:
        translation = exchange.stream()
        translation.feed(stream(['{"a":']).replace(b"incomplete", status.encode()))
        translation.close()
    assert len([line for line in exchange.receipt if line.where.startswith("content[0]")]) == 1
