"""Small differences in the shape of requests and answers that were carried over wrongly between dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchanges import NAMES
from tests.forms import is_json
from tests.pitfalls.wires import anthropic, closed, data_frame, frames, opened
from toolglot.api import translate_request, translate_response, translate_stream
from toolglot.dialects import DIALECTS
from toolglot.passes.blocks import NO_CONTENT

USER: dict[str, Any] = {"role": "user", "content": "Hi"}


# Two messages in one answer


def message(index: int, *texts: str) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"id": f"msg_{index}", "type": "message", "status": "completed", "role": "assistant", "content": parts}


def answer(*items: dict[str, Any]) -> dict[str, Any]:
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    return {**head, "output": list(items)}


def streamed(whole: dict[str, Any]) -> bytes:
    """The same answer as a stream, with deltas."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**whole, "output": []}}]
    for place, item in enumerate(whole["output"]):
        at = {"output_index": place, "item_id": item["id"]}
        events.append({"type": "response.output_item.added", **at, "item": {**item, "content": []}})
        for number, part in enumerate(item["content"]):
            pieces = (part["text"][:3], part["text"][3:])
            delta = {"type": "response.output_text.delta", **at, "content_index": number}
            events += [{**delta, "delta": piece} for piece in pieces]
        events.append({"type": "response.output_item.done", **at, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return b"".join(f"event: {event['type']}\n".encode() + data_frame(event) for event in events)


TWO = answer(message(0, "I look.", " Wait."), message(1, "It is sunny."))
JOINED = "I look. Wait.\n\nIt is sunny."


def gemini_text(frames_: list[dict[str, Any]]) -> str:
    """As the SDKs put it together."""
    parts = [part for frame in frames_ for part in frame["candidates"][0]["content"]["parts"]]
    return "".join(part["text"] for part in parts if not part.get("thought"))


def test_two_messages_of_one_answer_do_not_grow_together() -> None:
    chat = translate_response(json.dumps(TWO), "openai_responses", "openai_chat")
    assert chat.json()["choices"][0]["message"]["content"] == JOINED
    assert [(line.severity, line.where) for line in chat.receipt] == [("note", "content[2]")]
    gemini = translate_response(json.dumps(TWO), "openai_responses", "gemini")
    assert gemini_text([gemini.json()]) == JOINED
    assert [(line.severity, line.where) for line in gemini.receipt] == [("note", "content[2]")]


def test_two_messages_of_one_stream_do_not_grow_together() -> None:
    stream = streamed(TWO)
    chunks = frames(b"".join(translate_stream(stream, "openai_responses", "openai_chat")))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == JOINED
    got = frames(b"".join(translate_stream(stream, "openai_responses", "gemini")))
    assert gemini_text(got) == JOINED


def test_texts_that_are_pieces_of_one_stay_together() -> None:
    """Anthropic cuts a text where it cites a source."""
    blocks = [{"type": "text", "text": "It is "}, {"type": "text", "text": "sunny"}, {"type": "text", "text": "."}]
    whole: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": blocks}
    whole |= {"stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
    chat = translate_response(json.dumps(whole), "anthropic", "openai_chat")
    assert chat.json()["choices"][0]["message"]["content"] == "It is sunny."


# Instructions without a word

SAID: list[Any] = ["", {"parts": []}, {"parts": [{"text": ""}]}, {"parts": [{"text": " \n"}]}, {}]
EMPTY: list[tuple[str, dict[str, Any]]] = [
    *(
        ("gemini", {"systemInstruction": said, "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]})
        for said in SAID
    ),
    *(
        ("anthropic", {"max_tokens": 50, "system": said, "messages": [USER]})
        for said in ("", [{"type": "text", "text": ""}])
    ),
    ("openai_responses", {"instructions": "", "input": [USER]}),
    ("openai_responses", {"input": [{"role": "developer", "content": [{"type": "input_text", "text": ""}]}, USER]}),
    ("openai_chat", {"messages": [{"role": "system", "content": ""}, USER]}),
    ("openai_chat", {"messages": [{"role": "developer", "content": [{"type": "text", "text": ""}]}, USER]}),
]
ELSEWHERE = [(*row, target) for row in EMPTY for target in NAMES if is_json(target) and target != row[0]]


@pytest.mark.parametrize(("source", "asked", "target"), ELSEWHERE, ids=lambda value: json.dumps(value)[:50])
def test_an_instruction_without_a_word_is_left_out(source: str, asked: dict[str, Any], target: str) -> None:
    got = translate_request(json.dumps({"model": "m", **asked}), source, target, model="m")
    body = got.json()
    assert not {"instructions", "system", "systemInstruction"} & body.keys()
    assert len(body[DIALECTS[target].request.history_key]) == 1
    assert [message.role for message in DIALECTS[target].decode_request(got.data).messages] == ["user"]
    assert [line.where for line in got.receipt if line.why == NO_CONTENT] == ["messages[0]"]
    assert not got.receipt.losses


# Groq's service tiers


@pytest.mark.parametrize(("word", "wanted"), [("on_demand", "default"), ("performance", "priority"), ("flex", "flex")])
def test_the_tiers_of_groq_are_known(word: str, wanted: str) -> None:
    asked = {"model": "m", "messages": [USER], "service_tier": word}
    got = translate_request(json.dumps(asked), "openai_chat", "openai_responses")
    assert got.json()["service_tier"] == wanted
    assert not got.receipt.losses
    assert translate_request(json.dumps(asked), "openai_chat", "openai_chat").json() == asked


@pytest.mark.parametrize("target", ["openai_responses", "openai_chat"])
def test_a_tier_that_openai_does_not_know_is_told_and_not_sent(target: str) -> None:
    asked = {"model": "m", "max_tokens": 50, "messages": [USER], "service_tier": "novel"}
    got = translate_request(json.dumps(asked), "anthropic", target)
    assert "service_tier" not in got.json()
    assert [line.where for line in got.receipt.losses] == ["service_tier"]


# The end of an answer with calls


def test_a_call_beside_end_turn_is_answered_and_the_receipt_says_so() -> None:
    """Whole and streamed alike: a client that looks at the reason alone would leave the call without a result."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    whole: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": [call]}
    whole |= {"stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
    got = translate_response(json.dumps(whole), "anthropic", "openai_chat")
    assert got.json()["choices"][0]["finish_reason"] == "tool_calls"
    stream = translate_stream(anthropic(opened(0, **call), closed(0), stop="end_turn"), "anthropic", "openai_chat")
    assert b'"finish_reason":"tool_calls"' in b"".join(stream)
    for receipt in (got.receipt, stream.receipt):
        assert [(line.severity, line.where, line.what) for line in receipt] == [("note", "stop", "end_turn")]


# What a model's own server could not read


@pytest.mark.parametrize(
    "reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "TOO_MANY_TOOL_CALLS"]
)
@pytest.mark.parametrize("client", [name for name in NAMES if is_json(name) and name != "gemini"])
def test_a_call_that_gemini_could_not_read_keeps_text_and_usage(client: str, reason: str) -> None:
    usage = {"promptTokenCount": 40, "candidatesTokenCount": 7, "totalTokenCount": 47}
    candidate = {
        "content": {"parts": [{"text": "Let me look."}], "role": "model"},
        "finishReason": reason,
        "finishMessage": "Malformed function call: f(",
        "index": 0,
    }
    document = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r"}
    whole = translate_response(json.dumps(document), "gemini", client)
    stream = translate_stream(data_frame(document), "gemini", client)
    for written, receipt in ((whole.data, whole.receipt), (b"".join(stream), stream.receipt)):
        assert b"Let me look." in written
        assert b":40" in written
        assert b'"error":{' not in written
        assert [(line.where, line.what) for line in receipt.losses] == [("stop", reason)]
        assert receipt.losses[0].why.startswith("The model tried a tool call that its server did not accept: ")
        assert "Malformed function call: f(" in receipt.losses[0].why


ASKS_AGAIN = {"anthropic": b'"stop_reason":"tool_use"', "openai_responses": b'"reason":"content_filter"'}
"""The end of an answer without calls after which Claude Code and Codex ask again. After any other they are done."""


@pytest.mark.parametrize("client", ASKS_AGAIN)
def test_a_call_that_gemini_could_not_read_does_not_end_the_task_of_an_agent(client: str) -> None:
    candidate = {"content": {"parts": [{"text": "Let me look."}], "role": "model"}, "index": 0}
    document = {"candidates": [{**candidate, "finishReason": "MALFORMED_FUNCTION_CALL"}], "modelVersion": "m"}
    stream = translate_stream(data_frame(document), "gemini", client)
    for written in (translate_response(json.dumps(document), "gemini", client).data, b"".join(stream)):
        assert ASKS_AGAIN[client] in written


@pytest.mark.parametrize("client", [name for name in NAMES if is_json(name) and name != "openai_chat"])
def test_a_source_that_mistrals_reasoning_points_to_is_a_loss(client: str) -> None:
    thinking = [{"type": "text", "text": "Hm"}, {"type": "reference", "reference_ids": [41]}]
    content = [{"type": "thinking", "thinking": thinking}, {"type": "text", "text": "Hi"}]
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    receipt = translate_response(json.dumps(answer), "openai_chat", client).receipt
    assert "content[0].thinking.reference" in [line.where for line in receipt.losses]


@pytest.mark.parametrize("upstream", [name for name in NAMES if is_json(name) and name != "anthropic"])
def test_eager_input_streaming_of_a_tool_is_a_note_elsewhere(upstream: str) -> None:
    tools = [
        {"name": name, "input_schema": {"type": "object"}, "eager_input_streaming": eager}
        for name, eager in (("f", True), ("g", False))
    ]
    request = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}], "tools": tools}
    receipt = translate_request(json.dumps(request), "anthropic", upstream).receipt
    noted = [line.where for line in receipt.notes if "eager" in line.where]
    assert (noted, receipt.loss_count) == (["tools[0].eager_input_streaming"], 0)
