"""Members of answers that clients of other dialects get in another form, or are told of."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.exchanges import NAMES
from toolglot.errors import UpstreamDecodeError
from toolglot.translate import ExchangeCore

Document = dict[str, Any]

CHAT: Document = {
    "id": "c",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
}
GEMINI: Document = {
    "candidates": [{"content": {"parts": [{"text": "Hi"}], "role": "model"}, "finishReason": "STOP"}],
    "responseId": "r",
    "modelVersion": "m",
}
ANTHROPIC: Document = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
MESSAGE: Document = {
    "id": "msg",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}
RESPONSES: Document = {
    "id": "r",
    "object": "response",
    "created_at": 1700000000,
    "status": "completed",
    "model": "m",
    "output": [MESSAGE],
}


def answered(source: str, target: str, document: Document) -> tuple[Document, list[str]]:
    exchange = ExchangeCore(target, source)
    body: Document = json.loads(exchange.response(document))
    return body, [str(line) for line in exchange.receipt]


TIERED: dict[str, Callable[[str], Document]] = {
    "openai_chat": lambda tier: {**CHAT, "service_tier": tier},
    "openai_responses": lambda tier: {**RESPONSES, "service_tier": tier},
    "anthropic": lambda tier: {**ANTHROPIC, "usage": {**ANTHROPIC["usage"], "service_tier": tier}},
    "gemini": lambda tier: {**GEMINI, "usageMetadata": {"promptTokenCount": 1, "trafficType": tier}},
}
TIER_OF: dict[str, Callable[[Document], str | None]] = {
    "openai_chat": lambda body: body.get("service_tier"),
    "openai_responses": lambda body: body["service_tier"],
    "anthropic": lambda body: body["usage"]["service_tier"],
    "gemini": lambda body: body["usageMetadata"].get("trafficType"),
}


@pytest.mark.parametrize(
    ("source", "said", "target", "told"),
    [
        ("openai_chat", "flex", "openai_responses", "flex"),
        ("openai_chat", "default", "anthropic", "standard"),
        ("openai_chat", "priority", "gemini", "ON_DEMAND_PRIORITY"),
        ("openai_responses", "scale", "openai_chat", "scale"),
        ("anthropic", "priority", "openai_responses", "priority"),
        ("anthropic", "standard", "openai_chat", "default"),
        ("gemini", "ON_DEMAND_FLEX", "openai_chat", "flex"),
        ("gemini", "ON_DEMAND_PRIORITY", "anthropic", "priority"),
    ],
)
def test_the_service_tier_of_an_answer_is_told_in_the_clients_own_word(
    source: str, said: str, target: str, told: str
) -> None:
    body, lines = answered(source, target, TIERED[source](said))
    assert TIER_OF[target](body) == told
    assert not [line for line in lines if "tier" in line]


@pytest.mark.parametrize(
    ("source", "said", "target"),
    [
        ("openai_chat", "flex", "anthropic"),
        ("anthropic", "batch", "openai_responses"),
        ("gemini", "ON_DEMAND_OFFPEAK", "openai_chat"),
    ],
)
def test_a_service_tier_that_the_client_has_no_word_for_is_told_in_the_receipt(
    source: str, said: str, target: str
) -> None:
    body, lines = answered(source, target, TIERED[source](said))
    assert TIER_OF[target](body) in (None, "default")
    assert [line for line in lines if line.startswith("note: service_tier: service tier")]


def test_the_text_that_a_citation_quotes_goes_to_clients_that_have_a_place_for_it() -> None:
    cited = {"url": "https://x", "title": "X", "start_index": 0, "end_index": 2, "content": "what it says", "new": 1}
    message = {"role": "assistant", "content": "Hi", "annotations": [{"type": "url_citation", "url_citation": cited}]}
    document = {**CHAT, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    body, lines = answered("openai_chat", "anthropic", document)
    assert body["content"][0]["citations"][0]["cited_text"] == "what it says"
    assert "loss: content[0].citations[0].new: anthropic has no known equivalent" in lines
    for target in ("openai_responses", "gemini"):
        assert [line for line in answered("openai_chat", target, document)[1] if "quote" in line], target


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "anthropic"])
def test_what_gemini_says_of_a_candidate_is_told(target: str) -> None:
    rating = {"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW"}
    said = {"finishMessage": "Done.", "avgLogprobs": -0.5, "safetyRatings": [rating]}
    document = {**GEMINI, "candidates": [{**GEMINI["candidates"][0], **said}]}
    _, lines = answered("gemini", target, document)
    assert f"note: candidates[0].avgLogprobs: {target} has no known equivalent" in lines
    assert f"note: candidates[0].safetyRatings: {target} has no known equivalent" in lines
    assert "note: stop.detail: an explanation: the client's API has no place for it" in lines


def test_the_time_of_a_gemini_answer_goes_over() -> None:
    document = {**GEMINI, "createTime": "2023-11-14T22:13:20.123456Z"}
    assert answered("gemini", "openai_chat", document)[0]["created"] == 1700000000
    assert answered("gemini", "openai_responses", document)[0]["created_at"] == 1700000000


@pytest.mark.parametrize("target", ["anthropic", "gemini"])
def test_the_phase_of_a_message_is_told(target: str) -> None:
    _, lines = answered("openai_responses", target, {**RESPONSES, "output": [{**MESSAGE, "phase": "commentary"}]})
    assert "note: content[0].phase: only its own models read this label; the text is kept" in lines


def test_the_end_of_an_answer_is_the_clocks_time_and_only_where_it_is_completed() -> None:
    exchange = ExchangeCore("openai_responses", "openai_chat", clock=lambda: 1700000009.7)
    assert json.loads(exchange.response(CHAT))["completed_at"] == 1700000009
    cut = {**CHAT, "choices": [{**CHAT["choices"][0], "finish_reason": "length"}]}
    exchange = ExchangeCore("openai_responses", "openai_chat", clock=lambda: 1700000009.7)
    assert json.loads(exchange.response(cut))["completed_at"] is None


ARGUMENTS = '{"a":1,"a":2}'
CALL = {"id": "t", "type": "function", "function": {"name": "f", "arguments": ARGUMENTS}}
CALLED = {"role": "assistant", "tool_calls": [CALL]}
USE = {"type": "tool_use", "id": "t", "name": "f", "input": "@"}
PARTS = {"parts": [{"functionCall": {"name": "f", "args": "@"}}], "role": "model"}
FUNCTION_CALL = {"id": "f", "type": "function_call", "call_id": "t", "name": "f", "arguments": ARGUMENTS}
CALLS: dict[str, Document] = {
    "openai_chat": {**CHAT, "choices": [{"index": 0, "message": CALLED, "finish_reason": "tool_calls"}]},
    "openai_responses": {**RESPONSES, "output": [FUNCTION_CALL]},
    "anthropic": {**ANTHROPIC, "content": [USE], "stop_reason": "tool_use"},
    "gemini": {**GEMINI, "candidates": [{"content": PARTS, "finishReason": "STOP"}]},
}
TEXTS, OBJECTS = ("openai_chat", "openai_responses"), ("anthropic", "gemini")
"""The dialects in which arguments are a text, and those in which they are an object of the document."""


@pytest.mark.parametrize("source", TEXTS)
@pytest.mark.parametrize("target", CALLS)
def test_members_that_stand_twice_in_arguments_go_over_as_they_are(source: str, target: str) -> None:
    body = ExchangeCore(target, source).response(json.dumps(CALLS[source]))
    assert ARGUMENTS in body.decode().replace("\\", "")


@pytest.mark.parametrize("source", OBJECTS)
@pytest.mark.parametrize("target", TEXTS)
def test_an_answer_in_which_members_stand_twice_is_no_answer(source: str, target: str) -> None:
    with pytest.raises(UpstreamDecodeError, match="is repeated"):
        ExchangeCore(target, source).response(json.dumps(CALLS[source]).replace('"@"', ARGUMENTS))


@pytest.mark.parametrize("target", [name for name in NAMES if name != "anthropic"])
def test_no_receipt_shows_a_stop_sequence(target: str) -> None:
    """It is the client's own text, and receipts end up in headers and logs."""
    document = {**ANTHROPIC, "stop_reason": "stop_sequence", "stop_sequence": "of the client"}
    exchange = ExchangeCore(target, "anthropic")
    exchange.response(document)
    assert [line.what for line in exchange.receipt if line.where == "stop.sequence"] == ["the stop sequence"]
    assert "of the client" not in "".join(map(str, exchange.receipt))
