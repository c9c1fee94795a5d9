"""Law 8 over the official SDKs: each field of their answer types reaches a client of another dialect, or the receipt.

A field is there if the client's bytes differ with it, told if the receipt has another line with it, or if it belongs to
an object that is told as a whole and of which the client gets nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from anthropic.types import beta as anthropic_types
from google.genai import types as genai_types
from openai.types import chat as chat_types
from openai.types import responses as responses_types
from pydantic import BaseModel

from toolglot.errors import UpstreamDecodeError, UpstreamError, api_error
from toolglot.translate import ExchangeCore

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
DEFAULT = "it says what the client's API means where nothing is said"
STATE = "the state of an item follows from the state of the answer"
CLOCK = "the header Date of the gateway's answer tells the time"
ERROR = "an error has a kind, a code and a message in every dialect; the rest explains them"
ONLY = "the only answer is the first one, whatever its number, and the model's"
UNCOUNTED = "the kind of tokens says nothing without their number"
TOKEN = "the text of the token says which one it is"
STEPS = "the counts of the steps are added up, and the receipt names their list"
REMAINDER = "the tokens that no other count names; the sums are carried"

_ECHO = (
    "background|conversation|image|instructions|max_output_tokens|max_tool_calls|metadata|parallel_tool_calls"
    "|previous_response_id|prompt|prompt_cache_key|prompt_cache_options|prompt_cache_retention|reasoning"
    "|safety_identifier|temperature|text|tool_choice|tools|top_logprobs|top_p|truncation|user"
)
EXEMPT: dict[str, dict[str, str]] = {
    "openai_chat": {
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
        r"\.usage\.service_tier=standard": DEFAULT,
        r"\.usage\.iterations\[\].*": STEPS,
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
EXEMPT_IN_STREAMS: dict[str, dict[str, str]] = {
    "openai_chat": {r"\.metadata": "chunks do not have it"},
    "openai_responses": {r"\.error\b.*": "an answer that is completed has none; one that failed is an error"},
    "anthropic": {},
    "gemini": {
        r"\.(modelVersion|responseId)": "the first frame has told it",
        r".*\.partialArgs\b.*": "the arguments of the same call are there as a whole",
    },
}
"""The same for streams alone."""


def translate(source: str, target: str, document: Any) -> tuple[bytes, frozenset[str]]:
    exchange = ExchangeCore(target, source)
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


def unexempt(paths: Iterable[str], exempt: Mapping[str, str]) -> list[str]:
    return [path for path in paths if not any(re.fullmatch(pattern, path) for pattern in exempt)]


def sse(events: Sequence[Mapping[str, Any]], *, named: bool = False) -> bytes:
    frames = (f"event: {event['type']}\n" if named else "" for event in events)
    return "".join(f"{head}data: {json.dumps(event)}\n\n" for head, event in zip(frames, events, strict=True)).encode()


def chat_stream(document: Mapping[str, Any]) -> bytes:
    """The chunks of this answer: its message in one delta, the reason for its end, the usage."""
    top = {key: value for key, value in document.items() if key not in ("choices", "usage", "metadata")}
    top["object"] = "chat.completion.chunk"
    said, ended = [], []
    for choice in document["choices"]:
        delta = dict(choice["message"])
        if delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(delta["tool_calls"])]
        rest = {key: value for key, value in choice.items() if key not in ("message", "finish_reason")}
        said.append({**rest, "delta": delta})
        ended.append({"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"]})
    usage = {"usage": document["usage"]} if "usage" in document else {}
    chunks = [{**top, "choices": said}, {**top, "choices": ended}, {**top, "choices": [], **usage}]
    return sse(chunks) + b"data: [DONE]\n\n"


def responses_stream(document: Mapping[str, Any]) -> bytes:
    """The events of this answer: each item when it is begun and done, and the object without them at the end."""
    begun = {**document, "status": "in_progress", "output": [], "usage": None}
    ended = {"completed": "completed", "incomplete": "incomplete"}.get(str(document.get("status")), "failed")
    items: list[dict[str, Any]] = []
    for index, item in enumerate(document["output"]):
        empty: dict[str, Any] = {"content": []} if item.get("type") == "message" else {}
        added = {"type": "response.output_item.added", "output_index": index, "item": {**item, **empty}}
        items += [added, {"type": "response.output_item.done", "output_index": index, "item": item}]
    last = {"type": f"response.{ended}", "response": {**document, "output": []}}
    return sse([{"type": "response.created", "response": begun}, *items, last], named=True)


AT_THE_END = ("stop_reason", "stop_sequence", "stop_details", "container")
BESIDE = ("context_management", "input_transformations")


def anthropic_stream(document: Mapping[str, Any]) -> bytes:
    """The events of this answer: each block whole in its start, and at the end what only the end can tell."""
    later = (*AT_THE_END, *BESIDE)
    message = {key: value for key, value in document.items() if key not in later}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**message, "content": []}}]
    for index, block in enumerate(document["content"]):
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_stop", "index": index},
        ]
    delta = {key: document[key] for key in AT_THE_END if key in document}
    beside = {key: document[key] for key in BESIDE if key in document}
    events.append({"type": "message_delta", "delta": delta, "usage": document["usage"], **beside})
    return sse([*events, {"type": "message_stop"}], named=True)


def gemini_stream(document: Mapping[str, Any]) -> bytes:
    """The frames of this answer: some text, and the whole of it."""
    first = {"candidates": [{"content": {"parts": [{"text": "So: "}], "role": "model"}, "index": 0}]}
    return sse([{**first, "modelVersion": "m", "responseId": "r1"}, document])


STREAMED: dict[str, Callable[[Mapping[str, Any]], bytes]] = {
    "openai_chat": chat_stream,
    "openai_responses": responses_stream,
    "anthropic": anthropic_stream,
    "gemini": gemini_stream,
}


def translate_stream(source: str, target: str, document: Any) -> tuple[bytes, frozenset[str]]:
    exchange = ExchangeCore(target, source)
    stream = exchange.stream()
    body = stream.feed(STREAMED[source](document)) + stream.close()
    return body, frozenset(map(str, exchange.receipt))


INCOMPLETE = {**RESPONSES, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


@pytest.mark.parametrize("target", [name for name in WHOLE if name != "openai_responses"])
def test_each_reason_of_an_incomplete_answer_goes_over_or_is_told(target: str) -> None:
    changes = list(Walk(SAMPLES).model(responses_types.Response, INCOMPLETE, names=frozenset({"incomplete_details"})))
    assert len(changes) >= 3
    assert list(silent(changes, memoised("openai_responses", target, translate))) == []


PAIRS = [(source, target) for source in WHOLE for target in WHOLE if source != target]


@cache
def silent_paths(source: str, target: str, *, streamed: bool) -> tuple[str, ...]:
    seen = memoised(source, target, translate_stream if streamed else translate)
    return tuple(silent(changes_of(source), seen))


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_each_field_of_an_answer_goes_over_or_is_told(source: str, target: str) -> None:
    assert unexempt(silent_paths(source, target, streamed=False), EXEMPT[source]) == []


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_each_field_of_a_streamed_answer_goes_over_or_is_told(source: str, target: str) -> None:
    exempt = {**EXEMPT[source], **EXEMPT_IN_STREAMS[source]}
    assert unexempt(silent_paths(source, target, streamed=True), exempt) == []


@pytest.mark.parametrize("source", WHOLE)
def test_each_exemption_is_needed(source: str) -> None:
    for streamed, exempt in ((False, EXEMPT[source]), (True, EXEMPT_IN_STREAMS[source])):
        targets = [target for target in WHOLE if target != source]
        paths = {path for target in targets for path in silent_paths(source, target, streamed=streamed)}
        assert [pattern for pattern in exempt if not any(re.fullmatch(pattern, path) for path in paths)] == []
