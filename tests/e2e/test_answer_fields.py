"""Law 8 over the official SDKs: each field of their answer types reaches a client of another dialect, or the receipt.

A field is there if the client's bytes differ with it, told if the receipt has another line with it, or if it belongs to
an object that is told as a whole and of which the client gets nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from anthropic.types import beta as anthropic_types
from google.genai import types as genai_types
from openai.types import chat as chat_types
from openai.types import responses as responses_types
from pydantic import BaseModel

from toolglot.errors import UpstreamDecodeError, UpstreamError, api_error
from toolglot.translate import Exchange

from .sdk_fields import Change, Walk

CHAT: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
}
RESPONSES: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1700000000,
    "model": "m",
    "status": "completed",
    "output": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
        }
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    },
}
ANTHROPIC: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 10, "output_tokens": 5},
}
GEMINI: dict[str, Any] = {
    "candidates": [{"content": {"parts": [{"text": "Hi"}], "role": "model"}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
    "modelVersion": "m",
    "responseId": "r1",
}
WHOLE: dict[str, tuple[type[BaseModel], dict[str, Any]]] = {
    "openai_chat": (chat_types.ChatCompletion, CHAT),
    "openai_responses": (responses_types.Response, RESPONSES),
    "anthropic": (anthropic_types.BetaMessage, ANTHROPIC),
    "gemini": (genai_types.GenerateContentResponse, GEMINI),
}
SAMPLES: dict[type[BaseModel], dict[str, Any]] = {
    responses_types.ResponseFunctionToolCall: {"arguments": "{}"},
    chat_types.chat_completion_message_function_tool_call.Function: {"arguments": "{}"},
    genai_types.FunctionCall: {"name": "f", "args": {}},
    genai_types.FileData: {"fileUri": "https://x/y.png"},
    genai_types.Blob: {"data": "aGk=", "mimeType": "image/png"},
    genai_types.FunctionResponseFileData: {"fileUri": "https://x/y.png"},
    genai_types.FunctionResponseBlob: {"data": "aGk=", "mimeType": "image/png"},
}
APART: dict[type[BaseModel], frozenset[str]] = {
    genai_types.Part: frozenset(
        {
            "codeExecutionResult",
            "executableCode",
            "fileData",
            "functionCall",
            "functionResponse",
            "inlineData",
            "toolCall",
            "toolResponse",
        }
    )
}

# Reasons why a field may stay behind in silence.
REPEATED = "it repeats the client's own request"
IDENTITY = "it names an object that only requests to the same API refer to"
SETTLED = "the end of an answer is made to agree with its content: a stop for calls needs calls"
DEFAULT = "it says what the client's API means where nothing is said"
STATE = "the state of an item follows from the state of the answer"
CLOCK = "the header Date of the gateway's answer tells the time"
ERROR = "an error has a kind, a code and a message in every dialect; the rest explains them"
ONLY = "the only answer is the first one, whatever its number, and the model's"
UNCOUNTED = "the kind of tokens says nothing without their number"
TOKEN = "the text of the token says which one it is"
REMAINDER = "the tokens that no other count names; the sums are carried"

_ECHO = (
    "background|conversation|image|instructions|max_output_tokens|max_tool_calls|metadata|parallel_tool_calls"
    "|previous_response_id|prompt|prompt_cache_key|prompt_cache_options|prompt_cache_retention|reasoning"
    "|safety_identifier|temperature|text|tool_choice|tools|top_logprobs|top_p|truncation|user"
)
EXEMPT: dict[str, dict[str, str]] = {
    "openai_chat": {
        r"\.choices\[\]\.finish_reason=(tool_calls|function_call)": SETTLED,
        r"\.choices\[\]\.index": ONLY,
        r"\.service_tier=default": DEFAULT,
        r"\.created": CLOCK,
        r"\.usage\..*\.text_tokens": REMAINDER,
        r"\.choices\[\]\.logprobs\b.*\.bytes\[\]": TOKEN,
    },
    "openai_responses": {
        rf"\.({_ECHO})\b.*": REPEATED,
        r"\.output\[\](<Response(FunctionToolCall|CustomToolCall)>)?\.id": IDENTITY,
        r"\.output\[\](<ResponseFunctionToolCall>)?\.status=(in_progress|completed)": STATE,
        r"\.output\[\](<ResponseReasoningItem>\.status=.*|\.status=incomplete)": STATE,
        r"\.(created|completed)_at": CLOCK,
        r"\.output\[\]\.content\[\]\.logprobs\b.*\.bytes\[\]": TOKEN,
        r"\.error<ResponseError>\.(misalignment\b.*|type)": ERROR,
        r"\.incomplete_details<IncompleteDetails>\.reason=.*": "an answer that is completed is not incomplete",
    },
    "anthropic": {
        r"\.content\[\]<BetaToolUseBlock>\.caller<BetaDirectCaller>": DEFAULT,
        r"\.stop_reason=tool_use": SETTLED,
        r"\.usage\.service_tier=standard": DEFAULT,
    },
    "gemini": {
        r"\.candidates\[\]\.(content\.role|index)": ONLY,
        r"\.usageMetadata\..*\.modality=.*": UNCOUNTED,
        r"\.usageMetadata\.trafficType=ON_DEMAND": DEFAULT,
        r"\.createTime": CLOCK,
        r"\.candidates\[\]\.logprobsResult\b.*\.tokenId": TOKEN,
    },
}
"""Paths (regular expressions) of fields that may neither go over nor be told, each with the reason."""


def translate(source: str, target: str, document: Any) -> tuple[bytes, frozenset[str]]:
    exchange = Exchange(target, source)
    try:
        body = exchange.response(json.dumps(document))
    except (UpstreamError, UpstreamDecodeError) as error:
        told = error.error if isinstance(error, UpstreamError) else api_error(error)
        body = exchange.refusal(told).body
    return body, frozenset(map(str, exchange.receipt))


SYNONYMS = {"cited_text": "quote"}
"""What receipts call a field that has another name in each dialect."""

Seen = Callable[[Any], tuple[bytes, frozenset[str]]]


def silent(changes: list[Change], seen: Seen) -> Iterator[str]:
    """The paths of fields that are dropped in silence."""
    by_path = {change.path: change for change in changes}

    def is_told_whole(change: Change, holder: str) -> bool:
        """Does the client get nothing of the object around the field, and is it told that there is one?"""
        (after, lines), (before, earlier) = seen(change.after), seen(by_path[holder].before)
        return after == before and bool(lines - earlier)

    for change in changes:
        holders = (*change.within, change.path)
        if change.is_empty or seen(change.after) != seen(change.before):
            continue
        name = re.split(r"[.<=\[]", change.path.rpartition(".")[2])[0]
        name = SYNONYMS.get(name, name)
        is_named = any(f".{name}" in line or f" {name}:" in line for line in seen(change.after)[1])
        if not is_named and not any(is_told_whole(change, holder) for holder in holders):
            yield change.path


def memoised(source: str, target: str, translated: Callable[[str, str, Any], tuple[bytes, frozenset[str]]]) -> Seen:
    known: dict[str, tuple[bytes, frozenset[str]]] = {}

    def seen(document: Any) -> tuple[bytes, frozenset[str]]:
        key = json.dumps(document)
        if key not in known:
            known[key] = translated(source, target, document)
        return known[key]

    return seen


@cache
def changes_of(dialect: str) -> list[Change]:
    model, sample = WHOLE[dialect]
    return list(Walk(SAMPLES, APART).model(model, sample))


def unexempt(paths: Iterator[str], exempt: Mapping[str, str]) -> list[str]:
    return [path for path in paths if not any(re.fullmatch(pattern, path) for pattern in exempt)]


INCOMPLETE = {**RESPONSES, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


@pytest.mark.parametrize("target", [name for name in WHOLE if name != "openai_responses"])
def test_each_reason_of_an_incomplete_answer_goes_over_or_is_told(target: str) -> None:
    changes = list(Walk(SAMPLES).model(responses_types.Response, INCOMPLETE, names=frozenset({"incomplete_details"})))
    assert len(changes) >= 3
    assert list(silent(changes, memoised("openai_responses", target, translate))) == []


PAIRS = [(source, target) for source in WHOLE for target in WHOLE if source != target]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_each_field_of_an_answer_goes_over_or_is_told(source: str, target: str) -> None:
    found = silent(changes_of(source), memoised(source, target, translate))
    assert unexempt(found, EXEMPT[source]) == []


@pytest.mark.parametrize("dialect", WHOLE)
def test_each_exemption_is_needed(dialect: str) -> None:
    paths = [change.path for change in changes_of(dialect)]
    assert [pattern for pattern in EXEMPT[dialect] if not any(re.fullmatch(pattern, path) for path in paths)] == []
