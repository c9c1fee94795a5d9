"""`message` objects: exact both ways within the dialect, and what the official SDKs accept from any other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.dialects.anthropic.dialect import ANTHROPIC, NAME
from toolglot.errors import DecodeError, UpstreamError
from toolglot.events import fold, unfold
from toolglot.ir import (
    Citation,
    Media,
    Opaque,
    Refusal,
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
)
from toolglot.receipt import Receipt

USAGE = {"input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 5}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}


def message(**fields: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
        **fields,
    }


def decode(body: dict[str, Any]) -> Response:
    return ANTHROPIC.decode_response(json.dumps(body).encode())


def encode(response: Response, receipt: Receipt | None = None) -> dict[str, Any]:
    lines = Receipt() if receipt is None else receipt
    body: dict[str, Any] = json.loads(ANTHROPIC.encode_response(response, None, lines))
    if receipt is None:
        assert not lines, str(lines)
    return body


CITED = {"type": "char_location", "cited_text": "q", "document_index": 0, "document_title": "t", "start_char_index": 0}

VARIANTS: list[dict[str, Any]] = [
    {},
    {
        "content": [
            {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "ZGF0YQ"},
            {"type": "text", "text": "Hi", "citations": [CITED]},
            {"type": "text", "text": "Hi", "citations": None},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}},
            SEARCH,
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            {"type": "brand_new", "x": [1]},
        ],
        "stop_reason": "tool_use",
    },
    {"content": []},
    {"stop_reason": "stop_sequence", "stop_sequence": "END"},
    {
        "stop_reason": "refusal",
        "stop_details": {"type": "refusal", "category": "cyber", "explanation": "No."},
        "content": [],
    },
    {"stop_reason": "brand_new_reason", "stop_details": None},
    {"container": {"id": "c"}, "diagnostics": None, "context_management": {"applied_edits": []}},
    {"usage": {"input_tokens": 1, "output_tokens": 2}},
    {"usage": {"input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": None, "service_tier": "standard"}},
    {
        "usage": {
            **USAGE,
            "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 0},
            "output_tokens_details": {"thinking_tokens": 3},
            "server_tool_use": {"web_search_requests": 1},
        }
    },
    {"$strange": 1},
    {"type": "future", "role": None, "id": None, "model": None, "stop_reason": None, "usage": None},
    {"usage": {"input_tokens": -1, "output_tokens": None, "cache_read_input_tokens": 5}},
    {"content": [{"type": "thinking", "thinking": "Hm"}, {"type": "tool_use", "name": "f", "id": None}]},
    {"content": [{"type": "text", "text": "x", "citations": [{}]}], "stop_reason": ""},
]


@pytest.mark.parametrize("fields", VARIANTS, ids=lambda fields: json.dumps(fields)[:60])
def test_a_message_comes_back_as_it_was(fields: dict[str, Any]) -> None:
    body = message(**fields)
    response = decode(body)
    assert encode(response) == body
    once = ANTHROPIC.encode_response(response, None, Receipt())
    assert ANTHROPIC.encode_response(ANTHROPIC.decode_response(once), None, Receipt()) == once
    assert fold(unfold(response)) == response


def test_what_an_imitator_leaves_out_is_not_added() -> None:
    body = {"content": [{"type": "text", "text": "Hi"}]}
    assert encode(decode(body)) == body


STOPS: list[tuple[str, StopReason]] = [
    ("end_turn", "end"),
    ("stop_sequence", "stop_sequence"),
    ("tool_use", "tool_calls"),
    ("max_tokens", "length"),
    ("model_context_window_exceeded", "context_full"),
    ("refusal", "refusal"),
    ("pause_turn", "pause"),
    ("compaction", "other"),
]


@pytest.mark.parametrize(("raw", "reason"), STOPS)
def test_stop_reasons_are_named(raw: str, reason: StopReason) -> None:
    response = decode(message(stop_reason=raw))
    assert response.stop == Stop(reason, raw)
    assert encode(response)["stop_reason"] == raw


FOREIGN_STOPS: list[tuple[Stop, str]] = [
    (Stop("end", "stop"), "end_turn"),
    (Stop("filtered", "SAFETY"), "refusal"),
    (Stop("malformed_call", "MALFORMED_FUNCTION_CALL"), "tool_use"),
    (Stop("other", "OTHER"), "end_turn"),
    (Stop("length", "length"), "max_tokens"),
]


@pytest.mark.parametrize(("stop", "word"), FOREIGN_STOPS, ids=[word for _, word in FOREIGN_STOPS])
def test_stop_reasons_of_other_apis_are_written_in_this_ones_words(stop: Stop, word: str) -> None:
    assert encode(Response(content=(Text(text="x"),), stop=stop))["stop_reason"] == word


def test_a_refusal_tells_why() -> None:
    details = {"type": "refusal", "category": None, "explanation": "No."}
    response = decode(message(stop_reason="refusal", stop_details=details))
    assert response.stop.detail == "No."
    assert encode(Response(stop=Stop("filtered", "SAFETY", detail="No.")))["stop_details"] == details


def test_usage_of_the_ir_counts_the_cache_in() -> None:
    usage = decode(message(usage={**USAGE, "output_tokens_details": {"thinking_tokens": 3}})).usage
    assert usage is not None
    counted = (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.reasoning_tokens)
    assert counted == (60, 30, 20, 3)
    foreign = Usage(input_tokens=100, cached_tokens=75, output_tokens=9, reasoning_tokens=4)
    assert encode(Response(usage=foreign))["usage"] == {
        "input_tokens": 25,
        "cache_creation_input_tokens": None,
        "cache_read_input_tokens": 75,
        "output_tokens": 9,
        "cache_creation": None,
        "inference_geo": None,
        "output_tokens_details": {"thinking_tokens": 4},
        "server_tool_use": None,
        "service_tier": None,
    }


NOTHING_WRITTEN = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
NO_DETAILS = {
    "cache_creation": None,
    "inference_geo": None,
    "output_tokens_details": None,
    "server_tool_use": None,
    "service_tier": None,
}


def test_usage_that_nobody_told_has_all_members() -> None:
    required = {"input_tokens": 0, "output_tokens": 0}
    unknown = dict.fromkeys(("cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation"))
    assert encode(Response())["usage"] == {**required, **NO_DETAILS, **unknown}


def test_tokens_are_written_for_the_shorter_lifetime_unless_the_longer_one_is_told() -> None:
    for long in (0, 3):
        written = encode(Response(usage=Usage(input_tokens=9, cache_write_tokens=4, cache_write_long_tokens=long)))[
            "usage"
        ]
        by_lifetime = {"ephemeral_5m_input_tokens": 4 - long, "ephemeral_1h_input_tokens": long}
        assert (written["cache_creation_input_tokens"], written["cache_creation"]) == (4, by_lifetime)


@pytest.mark.parametrize(
    ("tier", "name"), [("default", "standard"), ("priority", "priority"), ("batch", "batch"), (None, None)]
)
def test_the_service_tier_stands_in_the_usage(tier: str | None, name: str | None) -> None:
    assert encode(Response(service_tier=tier))["usage"]["service_tier"] == name
    assert decode(message(usage={**USAGE, "service_tier": name})).service_tier == tier


def test_members_that_the_schema_requires_are_not_added_to_blocks_that_came_without_them() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    for content in (
        [{"type": "text", "text": "a", "citations": None}, {**call, "caller": {"type": "direct"}}],
        [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "citations": None}, call],
        [{"type": "text", "text": "a"}, {**call, "caller": {"type": "direct"}}],
    ):
        assert encode(decode(message(content=content)))["content"] == content
    assert not decode(message(content=[{"type": "text", "text": "a", "citations": None}])).content[0].native


def test_arguments_are_kept_as_they_were_written() -> None:
    raw = json.dumps(message(content=[{"type": "tool_use", "id": "t", "name": "f", "input": "@"}]))
    response = ANTHROPIC.decode_response(raw.replace('"@"', '{"n": 1.0,  "e":1E2}').encode())
    assert response.content == (ToolCall(id="t", name="f", arguments='{"n": 1.0,  "e":1E2}'),)


def test_arguments_that_a_server_encoded_twice_are_read() -> None:
    body = message(content=[{"type": "tool_use", "id": "t", "name": "f", "input": '{"a":1}'}])
    call = decode(body).content[0]
    assert isinstance(call, ToolCall)
    assert call.arguments == '{"a":1}'
    assert encode(decode(body)) == body


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_a_call_that_the_limit_cut_is_not_complete(reason: str) -> None:
    first, last = ({"type": "tool_use", "id": name, "name": "f", "input": {}} for name in "ab")
    body = message(content=[first, last], stop_reason=reason)
    calls = decode(body).content
    assert [call.complete for call in calls if isinstance(call, ToolCall)] == [True, False]
    assert encode(decode(body)) == body


def test_a_foreign_response_is_what_the_sdks_accept() -> None:
    response = Response(
        id="chatcmpl-1",
        model="gpt",
        created=5,
        content=(
            Thinking(text="Hm"),
            Thinking(native={"openai_responses": {"encrypted_content": "x"}}),
            Text(text="Hi", citations=(Citation(url="u", title="t"),)),
            ToolCall(id="call_1", name="f", arguments=""),
        ),
        stop=Stop("tool_calls", "tool_calls"),
        usage=Usage(input_tokens=3, output_tokens=4),
    )
    citation = {
        "type": "web_search_result_location",
        "cited_text": "",
        "url": "u",
        "title": "t",
        "encrypted_index": "",
    }
    assert encode(response) == {
        "id": "chatcmpl-1",
        "type": "message",
        "role": "assistant",
        "model": "gpt",
        "content": [
            {"type": "thinking", "thinking": "Hm", "signature": ""},
            {"type": "text", "text": "Hi", "citations": [citation]},
            {"type": "tool_use", "id": "call_1", "name": "f", "input": {}, "caller": {"type": "direct"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "stop_details": None,
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": None,
            "cache_read_input_tokens": None,
            "output_tokens": 4,
            **NO_DETAILS,
            "cache_creation": None,
        },
        "container": None,
    }


def test_a_refusal_is_text_and_a_reason() -> None:
    body = encode(Response(content=(Refusal(text="I won't."),), stop=Stop("end", "stop")))
    assert body["content"] == [{"type": "text", "text": "I won't.", "citations": None}]
    assert body["stop_reason"] == "refusal"


def test_a_call_with_broken_arguments_is_shown_and_never_offered() -> None:
    receipt = Receipt()
    call = ToolCall(id="c", name="f", arguments='{"a":', complete=False)
    body = encode(Response(content=(call,), stop=Stop("tool_calls")), receipt)
    assert body["content"] == [{"type": "text", "text": '[tool call f was cut off: {"a":]', "citations": None}]
    assert body["stop_reason"] == "end_turn"
    assert [line.where for line in receipt.losses] == ["content[0]"]
    assert encode(Response(content=(call,), stop=Stop("length")), Receipt())["stop_reason"] == "max_tokens"


@pytest.mark.parametrize("arguments", ["", '{"a":1}'])
def test_a_call_that_was_cut_gets_no_arguments_and_is_never_offered(arguments: str) -> None:
    receipt = Receipt()
    call = ToolCall(id="c", name="f", arguments=arguments, complete=False)
    body = encode(Response(content=(call,), stop=Stop("length")), receipt)
    assert body["content"] == [{"type": "text", "text": f"[tool call f was cut off: {arguments}]", "citations": None}]
    assert body["stop_reason"] == "max_tokens"
    assert [line.where for line in receipt.losses] == ["content[0]"]


def test_a_call_that_this_api_cut_comes_back_as_it_was() -> None:
    body = message(content=[{"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}], stop_reason="max_tokens")
    response = decode(body)
    assert isinstance(call := response.content[0], ToolCall)
    assert not call.complete
    assert encode(response) == body
    assert encode(fold(unfold(response))) == body


def test_the_stretch_that_a_citation_backs_is_noted() -> None:
    receipt = Receipt()
    encode(Response(content=(Text(text="Hi", citations=(Citation(url="u", start=0, end=2),)),)), receipt)
    assert [f"{line.severity} {line.where}" for line in receipt] == ["note content[0].citations[0]"]


def test_the_explanation_of_a_refusal_is_the_detail_of_the_stop() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    response = decode(message(content=[], stop_reason="refusal", stop_details=details))
    assert response.stop == Stop("refusal", "refusal", None, "No.")


def test_blocks_without_a_place_are_losses() -> None:
    receipt = Receipt()
    content = (
        Media(kind="image", source=Source("url", "u")),
        Opaque("gemini", {"executableCode": {}}),
        ToolResult(call_id="c"),
        Text(text="x", citations=(Citation(title="t"),)),
    )
    assert encode(Response(content=content), receipt)["content"] == [{"type": "text", "text": "x", "citations": None}]
    assert [line.where for line in receipt.losses] == [
        "content[0]",
        "content[1]",
        "content[2]",
        "content[3].citations[0]",
    ]


def test_signatures_are_native_and_come_back_untouched() -> None:
    thinking = decode(message(content=[{"type": "thinking", "thinking": "", "signature": "c2ln+/="}])).content[0]
    assert isinstance(thinking, Thinking)
    assert native_of(thinking, NAME) == {"signature": "c2ln+/="}


def test_an_error_where_a_message_should_be_is_told_apart() -> None:
    for body in (
        b'{"type":"error","error":{"type":"overloaded_error","message":"m"}}',
        b'{"error":{"message":"m","code":529}}',
    ):
        with pytest.raises(UpstreamError) as caught:
            ANTHROPIC.decode_response(body)
        assert caught.value.error.kind == "overloaded"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"id": "x", "type": "message"}, "$.content"),
        ({"content": [1]}, "$.content[0]"),
    ],
)
def test_a_wrong_type_is_told_with_its_path(body: dict[str, Any], where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(body)
    assert caught.value.where == where


@given(st.binary(max_size=80))
def test_garbage_raises_nothing_but_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        ANTHROPIC.decode_response(data)
