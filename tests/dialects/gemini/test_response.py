"""Responses of generateContent, read and written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot import translate_response
from toolglot.dialects.gemini.dialect import GEMINI
from toolglot.errors import DecodeError, UpstreamError
from toolglot.events import Fault, Finish
from toolglot.ir import (
    Citation,
    Media,
    Opaque,
    Refusal,
    Request,
    Response,
    Source,
    Stop,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    native_of,
    replace,
)
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore


def decode(body: Any) -> Response:
    return GEMINI.decode_response(json.dumps(body).encode())


def encode(response: Response, receipt: Receipt | None = None, request: Request | None = None) -> Any:
    return json.loads(GEMINI.encode_response(response, request, receipt if receipt is not None else Receipt()))


def candidate(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"content": {"parts": list(parts), "role": "model"}, "finishReason": "STOP", "index": 0, **fields}


CALL = {"functionCall": {"id": "fc-a", "name": "get_weather", "args": {"city": "Paris"}}, "thoughtSignature": "c2ln"}
USAGE = {
    "promptTokenCount": 50,
    "cachedContentTokenCount": 10,
    "toolUsePromptTokenCount": 5,
    "candidatesTokenCount": 30,
    "thoughtsTokenCount": 7,
    "totalTokenCount": 92,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 50}],
}

BODIES: dict[str, Any] = {
    "full": {
        "candidates": [
            candidate(
                {"text": "hm", "thought": True},
                {"text": "Let me look."},
                CALL,
                {"functionCall": {"name": "now"}},
                {"executableCode": {"code": "1"}},
                safetyRatings=[],
                groundingMetadata={"webSearchQueries": ["x"]},
                citationMetadata={"citationSources": [{"uri": "u"}]},
            )
        ],
        "usageMetadata": USAGE,
        "modelVersion": "gemini-3-pro",
        "responseId": "r1",
        "createTime": "2026-01-01T00:00:00Z",
        "novel": None,
    },
    "two candidates": {"candidates": [candidate({"text": "a"}), candidate({"text": "b"}, index=1)]},
    "bare": {"candidates": [{"content": {"parts": [{"text": "a"}]}}]},
    "no content": {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "no"}]},
    "no parts": {"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS", "index": 0}]},
    "null content": {"candidates": [{"content": None, "finishReason": "STOP", "index": 0}]},
    "single part": {"candidates": [{"content": {"role": "", "parts": {"text": "a"}, "novel": 1}, "index": 3}]},
    "blocked": {"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": []}, "usageMetadata": {}},
    "blocked, empty": {"candidates": [], "promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "why"}},
    "blocked, with a candidate": {
        "candidates": [{"finishMessage": "m"}],
        "promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "why"},
    },
    "message alone": {"candidates": [{"finishMessage": "m"}]},
    "nulls": {
        "candidates": None,
        "promptFeedback": {"blockReason": "OTHER"},
        "usageMetadata": {},
        "modelVersion": "",
        "responseId": None,
    },
    "cut calls": {
        "candidates": [
            candidate(
                {"functionCall": {"name": "f", "args": {"a": 1}, "willContinue": True}},
                {"functionCall": {"name": "f", "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}]}},
                {"functionCall": {"name": "f", "args": {"a": 1}, "partialArgs": [{"jsonPath": "$.a"}]}},
                {"functionCall": {"name": "f", "partialArgs": [], "willContinue": False}},
                {"functionCall": {"id": "1", "name": "f", "willContinue": True}, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "f", "willContinue": True, "partialArgs": "novel", "args": None}},
                finishReason="MAX_TOKENS",
            )
        ]
    },
    "signatures apart": {
        "candidates": [
            candidate(
                {"text": "", "thoughtSignature": "Zmlyc3Q="},
                {"text": "a"},
                {"text": "", "thoughtSignature": "c2ln"},
                {"text": "", "thoughtSignature": "c2Vjb25k"},
                {"text": "b", "thoughtSignature": "dGhpcmQ="},
                {"text": "", "thoughtSignature": "Zm91cnRo"},
            )
        ]
    },
    "new reason": {"candidates": [candidate(finishReason="NOVEL")]},
    "odd reason": {"candidates": [candidate(finishReason="stop", finishMessage="m")]},
    "continuation": {"candidates": [candidate(finishReason="CONTINUATION", continuationToken="t")]},
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_response_comes_back_as_it_was(body: Any) -> None:
    receipt = Receipt()
    first = GEMINI.encode_response(decode(body), None, receipt)
    assert json.loads(first) == body
    assert GEMINI.encode_response(GEMINI.decode_response(first), None, receipt) == first
    assert not receipt


def test_a_signature_apart_is_no_second_message_of_a_responses_answer() -> None:
    """The OpenAI Agents SDK takes the text of the last message for the answer."""
    body = {"candidates": [candidate({"text": "Done."}, {"text": "", "thoughtSignature": "c2ln"})]}
    answer = translate_response(json.dumps(body).encode(), "gemini", "openai_responses").json()
    assert [item["type"] for item in answer["output"]] == ["message", "reasoning"]
    assert answer["output"][0]["content"][0]["text"] == "Done."


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ({"partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}]}, '{"a":"x"'),
        ({"partialArgs": [{"jsonPath": "$.a", "stringValue": "x", "willContinue": True}]}, '{"a":"x'),
        ({"partialArgs": [{"jsonPath": "$.a"}]}, '[{"jsonPath":"$.a"}]'),
        ({"partialArgs": [1]}, "[1]"),
        ({"args": {"a": 1}, "willContinue": True}, '{"a": 1}'),
        ({"willContinue": True}, ""),
    ],
)
def test_a_piece_of_a_call_is_not_a_whole_one(call: Any, arguments: str) -> None:
    (block,) = decode({"candidates": [candidate({"functionCall": {"name": "f", **call}})]}).content
    assert isinstance(block, ToolCall)
    assert (block.arguments, block.complete) == (arguments, False)
    elsewhere = ExchangeCore("openai_chat", "gemini").response(
        {"candidates": [candidate({"functionCall": {"name": "f", **call}})]}
    )
    assert b'"arguments":"{}"' not in elsewhere


def test_arguments_beside_pieces_are_whole() -> None:
    call = {"name": "f", "args": {"a": 1}, "partialArgs": [{"jsonPath": "$.a", "numberValue": 1}]}
    (block,) = decode({"candidates": [candidate({"functionCall": call})]}).content
    assert isinstance(block, ToolCall)
    assert (block.arguments, block.complete) == ('{"a": 1}', True)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"candidates": None, "usageMetadata": None},
        {"candidates": []},
        {"modelVersion": "m"},
        {"usageMetadata": {"promptTokenCount": 1}},
        {"candidates": [], "promptFeedback": {"safetyRatings": []}, "usageMetadata": {"promptTokenCount": 1}},
        {"response": {}, "traceId": "t"},
        {"response": {"usageMetadata": {"promptTokenCount": 1}}},
    ],
)
def test_a_document_without_an_answer_is_refused(body: Any) -> None:
    """The stream of such an answer ends in a fault, too."""
    with pytest.raises(DecodeError):
        decode(body)
    decoder = GEMINI.stream_decoder(Receipt())
    data = b"data: " + json.dumps(body).encode() + b"\n\n"
    assert isinstance([*decoder.feed(data), *decoder.close()][-1], Fault)


@pytest.mark.parametrize("name", ["full", "blocked", "two candidates"])
def test_an_answer_of_code_assist_is_unwrapped(name: str) -> None:
    """Gemini CLI's sign-in uses an API that puts the answer beside its trace."""
    body = BODIES[name]
    wrapped = decode({"response": body, "traceId": "t"})
    assert replace(wrapped, native={}) == replace(decode(body), native={})
    assert native_of(wrapped, "gemini")["traceId"] == "t"
    frames = [b"data: " + json.dumps(each).encode() + b"\n\n" for each in ({"response": body, "traceId": "t"}, body)]
    streams = [GEMINI.stream_decoder(Receipt()) for _ in frames]
    (first, second) = [[*each.feed(data), *each.close()] for each, data in zip(streams, frames, strict=True)]
    assert first[:-1] == second[:-1]
    assert isinstance(first[-1], Finish)
    assert isinstance(second[-1], Finish)
    assert (first[-1].stop, first[-1].usage) == (second[-1].stop, second[-1].usage)


def test_a_response_is_its_first_candidate() -> None:
    response = decode(BODIES["full"])
    assert (response.id, response.model) == ("r1", "gemini-3-pro")
    assert response.content[:3] == (
        Thinking(text="hm", native={"gemini": {"thought": True}}),
        Text(text="Let me look."),
        ToolCall(
            id="fc-a",
            name="get_weather",
            arguments='{"city": "Paris"}',
            native={"gemini": {"thoughtSignature": "c2ln"}},
        ),
    )
    assert decode(BODIES["two candidates"]).content == (Text(text="a"),)


def test_snake_case_is_read_and_camel_case_is_written() -> None:
    body = {
        "candidates": [
            {"content": {"parts": [{"function_call": {"name": "f", "args": {"a_b": 1}}}]}, "finish_reason": "STOP"}
        ],
        "usage_metadata": {"prompt_token_count": 3},
        "response_id": "r1",
    }
    response = decode(body)
    assert response.stop.reason == "tool_calls"
    assert response.usage is not None
    assert response.usage.input_tokens == 3
    assert encode(response) == {
        "candidates": [
            {"content": {"parts": [{"functionCall": {"name": "f", "args": {"a_b": 1}}}]}, "finishReason": "STOP"}
        ],
        "usageMetadata": {"promptTokenCount": 3},
        "responseId": "r1",
    }


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("STOP", "end"),
        ("MAX_TOKENS", "length"),
        ("CONTINUATION", "length"),
        ("SAFETY", "filtered"),
        ("RECITATION", "filtered"),
        ("BLOCKLIST", "filtered"),
        ("PROHIBITED_CONTENT", "filtered"),
        ("SPII", "filtered"),
        ("LANGUAGE", "filtered"),
        ("IMAGE_SAFETY", "filtered"),
        ("MALFORMED_FUNCTION_CALL", "malformed_call"),
        ("UNEXPECTED_TOOL_CALL", "malformed_call"),
        ("MALFORMED_RESPONSE", "malformed_call"),
        ("TOO_MANY_TOOL_CALLS", "malformed_call"),
        ("OTHER", "other"),
        ("NOVEL", "other"),
    ],
)
def test_a_finish_reason_has_a_meaning_and_keeps_its_word(raw: str, reason: StopReason) -> None:
    response = decode({"candidates": [candidate({"text": "a"}, finishReason=raw, finishMessage="m")]})
    assert response.stop == Stop(reason, raw, detail="m")


def test_calls_make_a_stop_wait_for_tools_but_do_not_hide_a_cut() -> None:
    assert decode({"candidates": [candidate(CALL)]}).stop.reason == "tool_calls"
    assert decode({"candidates": [candidate(CALL, finishReason="MAX_TOKENS")]}).stop.reason == "length"


def test_a_refused_prompt_is_filtered() -> None:
    assert decode(BODIES["blocked, empty"]).stop == Stop("filtered", "OTHER", detail="why")


@pytest.mark.parametrize(
    ("reason", "raw", "finish"),
    [
        ("end", "end_turn", "STOP"),
        ("stop_sequence", None, "STOP"),
        ("tool_calls", "tool_use", "STOP"),
        ("length", "max_tokens", "MAX_TOKENS"),
        ("context_full", None, "MAX_TOKENS"),
        ("refusal", "refusal", "SAFETY"),
        ("filtered", "content_filter", "SAFETY"),
        ("filtered", "SPII", "SPII"),
        ("pause", "pause_turn", "TOO_MANY_TOOL_CALLS"),
        ("malformed_call", None, "MALFORMED_FUNCTION_CALL"),
        ("other", "novel", "OTHER"),
        ("other", "NOVEL", "NOVEL"),
        ("length", "STOP", "MAX_TOKENS"),
    ],
)
def test_a_stop_from_elsewhere_gets_the_nearest_word(reason: StopReason, raw: str | None, finish: str) -> None:
    body = encode(Response(stop=Stop(reason, raw, detail="why")))
    assert body["candidates"][0]["finishReason"] == finish
    assert body["candidates"][0]["finishMessage"] == "why"


def test_counts_are_cut_differently_here() -> None:
    usage = decode({"candidates": [candidate({"text": "a"})], "usageMetadata": USAGE}).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (55, 37)
    assert (usage.cached_tokens, usage.reasoning_tokens) == (10, 7)
    changed = replace(usage, output_tokens=40)
    assert encode(Response(usage=changed))["usageMetadata"] == {
        "promptTokenCount": 55,
        "cachedContentTokenCount": 10,
        "candidatesTokenCount": 33,
        "thoughtsTokenCount": 7,
        "totalTokenCount": 95,
    }


def test_a_response_from_elsewhere_is_written_whole() -> None:
    response = Response(
        id="msg_1",
        model="claude",
        created=1767225600,
        content=(
            Thinking(text="hm", native={"anthropic": {"signature": "x"}}),
            Text(text="a", citations=(Citation(url="https://e.org", title="E", start=0, end=1),)),
            ToolCall(id="toolu_1", name="f", arguments='{"a": 1}'),
            ToolCall(id="toolu_2", name="g"),
            Refusal(text="no"),
            Media(kind="image", source=Source("base64", "AA", "image/png")),
            ToolResult(call_id="s1", content=(Text(text="ok"),)),
        ),
        stop=Stop("tool_calls", "tool_use"),
        usage=Usage(input_tokens=10, output_tokens=5),
    )
    receipt = Receipt()
    assert encode(response, receipt) == {
        "candidates": [
            {
                "content": {
                    "parts": [
                        {"text": "hm", "thought": True},
                        {"text": "a"},
                        {"functionCall": {"id": "toolu_1", "name": "f", "args": {"a": 1}}},
                        {"functionCall": {"id": "toolu_2", "name": "g", "args": {}}},
                        {"text": "no"},
                        {"inlineData": {"mimeType": "image/png", "data": "AA"}},
                        {"functionResponse": {"id": "s1", "name": "s1", "response": {"output": "ok"}}},
                    ],
                    "role": "model",
                },
                "finishReason": "STOP",
                "groundingMetadata": {
                    "groundingChunks": [{"web": {"uri": "https://e.org", "title": "E"}}],
                    "groundingSupports": [
                        {"segment": {"startIndex": 0, "endIndex": 1, "text": "a"}, "groundingChunkIndices": [0]}
                    ],
                },
                "index": 0,
            }
        ],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        "modelVersion": "claude",
        "responseId": "msg_1",
        "createTime": "2026-01-01T00:00:00Z",
    }
    assert not receipt


def test_an_empty_response_still_has_its_frame() -> None:
    assert encode(Response(), request=Request(model="gemini-3-pro")) == {
        "candidates": [{"content": {"parts": [], "role": "model"}, "finishReason": "STOP", "index": 0}],
        "modelVersion": "gemini-3-pro",
    }


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (ToolCall(id="1", name="f", arguments='{"a":'), '[tool call f was cut off: {"a":]'),
        (ToolCall(id="1", name="f", arguments="[1]"), "[tool call f has arguments that are not an object: [1]]"),
        (ToolCall(id="1", name="f", arguments="{}", complete=False), "[tool call f was cut off: {}]"),
    ],
)
def test_a_call_that_must_not_run_is_shown_as_text(call: ToolCall, shown: str) -> None:
    receipt = Receipt()
    body = encode(Response(content=(call,)), receipt)
    assert body["candidates"][0]["content"]["parts"] == [{"text": shown}]
    assert [loss.where for loss in receipt.losses] == ["content[0]"]


def test_what_cannot_be_said_is_reported() -> None:
    receipt = Receipt()
    content = (Thinking(), Opaque("anthropic", {"type": "novel"}), Text(text="a", citations=(Citation(quote="q"),)))
    assert encode(Response(content=content), receipt)["candidates"][0]["content"]["parts"] == [{"text": "a"}]
    assert [loss.where for loss in receipt.losses] == ["content[0]", "content[1]", "content"]


def test_an_error_in_place_of_a_response_is_told_as_one() -> None:
    for body in (
        {"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}},
        [{"error": {"message": "m"}}],
    ):
        with pytest.raises(UpstreamError, match="m"):
            decode(body)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"candidates": {}}, "$.candidates"),
        ({"candidates": [1]}, "$.candidates[0]"),
        ({"candidates": [{"content": {"parts": [{"text": 1}]}}]}, "$.candidates[0].content.parts[0].text"),
        ({"candidates": [{"finishReason": 1}]}, "$.candidates[0].finishReason"),
        ({"usageMetadata": 1}, "$.usageMetadata"),
    ],
)
def test_a_wrong_type_is_refused_with_its_path(body: Any, where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(body)
    assert caught.value.where == where


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_no_bytes_raise_anything_but_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        GEMINI.decode_response(data)
