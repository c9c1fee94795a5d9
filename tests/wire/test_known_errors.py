"""Errors whose message says more than their code: the kind that they get, and the error that each client gets."""

from __future__ import annotations

from typing import Any

import pytest
from tests.exchanges import JSON_NAMES

from toolglot.dialects import DIALECTS
from toolglot.errors import CONTEXT_OVERFLOW, ApiError
from toolglot.upstream.retry import should_fall_back
from toolglot.wire import json
from toolglot.wire.known_errors import KNOWN_ERRORS

GROQ = {
    "error": {
        "message": "Request too large for model `llama-3.3-70b-versatile` in organization `org_x` service tier"
        " `on_demand` on tokens per minute (TPM): Limit 12000, Requested 30521, please reduce your message size and try"
        " again. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing",
        "type": "tokens",
        "code": "rate_limit_exceeded",
    }
}
OPENAI = {
    "error": {
        "message": "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested"
        " 45000. The input or output tokens must be reduced in order to run successfully.",
        "type": "tokens",
        "param": None,
        "code": "rate_limit_exceeded",
    }
}
CREDITS = "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens"
BILLS: list[tuple[str, int, Any]] = [
    (
        "anthropic",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the Anthropic API.",
            },
        },
    ),
    (
        "anthropic",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "You have reached your specified API usage limits. You will regain access on 2027-01-01.",
            },
        },
    ),
    (
        "openai_chat",
        402,
        {"error": {"message": "Insufficient Balance", "type": "unknown_error", "code": "invalid_request_error"}},
    ),
    ("openai_chat", 402, {"error": {"message": CREDITS, "code": 402, "metadata": {"provider_name": None}}}),
    ("openai_chat", 429, {"error": {"code": "1113", "message": "Insufficient balance or no resource package."}}),
    ("openai_chat", 429, {"error": {"message": "Suspended", "type": "exceeded_current_quota_error"}}),
    ("openai_chat", 403, {"code": 30001, "message": "Sorry, your account balance is insufficient", "data": None}),
    ("openai_chat", 403, {"code": "x", "error": "Your newly created team doesn't have any credits or licenses yet."}),
]


def decoded(upstream: str, status: int, body: Any) -> ApiError:
    return DIALECTS[upstream].decode_error(status, {}, json.encode(body))


def written(client: str, error: ApiError) -> tuple[int, dict[str, Any]]:
    reply = DIALECTS[client].encode_error(error)
    fields = json.decode(reply.body)["error"]
    return reply.status, {"message": fields} if isinstance(fields, str) else fields


@pytest.mark.parametrize(("status", "body"), [(413, GROQ), (429, OPENAI)], ids=["Groq", "OpenAI"])
def test_a_request_above_the_tokens_of_a_minute_is_too_large_and_not_sent_again(status: int, body: Any) -> None:
    error = decoded("openai_chat", status, body)
    assert (error.kind, error.retryable) == ("too_large", False)
    told = {client: written(client, error) for client in JSON_NAMES}
    assert [status for status, _ in told.values()] == [413] * len(JSON_NAMES)
    for client in ("openai_chat", "openai_responses"):
        assert (told[client][1]["type"], told[client][1]["code"]) == ("invalid_request_error", "request_too_large")
    assert told["anthropic"][1]["type"] == "request_too_large"
    assert told["gemini"][1]["status"] == "INVALID_ARGUMENT"
    assert all(fields["message"] == body["error"]["message"] for _, fields in told.values())


def test_another_upstream_may_take_a_request_above_the_tokens_of_a_minute() -> None:
    assert should_fall_back(decoded("openai_chat", 413, GROQ))
    assert not should_fall_back(decoded("openai_chat", 413, {"error": {"message": "Request Entity Too Large"}}))


def test_a_budget_that_is_only_used_up_stays_a_rate_limit() -> None:
    message = "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000."
    error = decoded(
        "openai_chat", 429, {"error": {"message": message, "type": "tokens", "code": "rate_limit_exceeded"}}
    )
    assert (error.kind, error.status, error.code) == ("rate_limit", 429, "rate_limit_exceeded")


@pytest.mark.parametrize(("upstream", "status", "body"), BILLS)
def test_a_bill_that_is_not_paid_is_one_in_each_clients_words(upstream: str, status: int, body: Any) -> None:
    error = decoded(upstream, status, body)
    assert (error.kind, error.retryable, error.status) == ("billing", False, status)
    for client in ("openai_chat", "openai_responses"):
        told, fields = written(client, error)
        assert told == (status if upstream == "openai_chat" else 429)
        assert fields["code"] in ("insufficient_quota", None) or fields["type"] == "exceeded_current_quota_error"
    told, fields = written("anthropic", error)
    assert (told, fields["type"]) == (
        (400, "invalid_request_error") if upstream == "anthropic" else (402, "billing_error")
    )
    told, fields = written("gemini", error)
    assert (told, fields["details"][0]["reason"]) == (429, "BILLING_DISABLED")


TEMPLATES: list[tuple[str, Any]] = [
    ("ollama", {"error": "system message must be at the beginning"}),
    ("openai_chat", {"error": {"code": 500, "message": "Jinja Exception: No user query.", "type": "server_error"}}),
    ("openai_chat", {"error": {"code": 500, "message": "Conversation roles must alternate", "type": "server_error"}}),
    (
        "anthropic",
        {"type": "error", "error": {"type": "api_error", "message": "Unexpected role 'user' after role 'x'"}},
    ),
]


@pytest.mark.parametrize(("upstream", "body"), TEMPLATES)
def test_a_conversation_that_a_template_refuses_with_500_is_a_bad_request(upstream: str, body: Any) -> None:
    error = decoded(upstream, 500, body)
    assert (error.kind, error.retryable) == ("bad_request", False)
    for client in JSON_NAMES:
        status, fields = written(client, error)
        assert status == 400
        assert fields.get("type") in ("invalid_request_error", None)


def test_each_row_of_the_table_is_met_by_a_vendors_words() -> None:
    bodies = [body for _, _, body in BILLS] + [body for _, body in TEMPLATES]
    messages = [GROQ["error"]["message"], *map(json.encode_text, bodies)]
    assert [known for known in KNOWN_ERRORS if not any(known.pattern.search(text) for text in messages)] == []


RAW: list[Any] = [
    '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210 tokens > 200"}}',
    {"error": {"message": "prompt is too long: 210 tokens > 200 maximum"}},
    "prompt is too long: 210 tokens > 200 maximum",
    '{"error":{"message":"This model\'s maximum context length is 200 tokens. However, your messages resulted in 210'
    ' tokens.","code":"context_length_exceeded"}}',
]


@pytest.mark.parametrize("upstream", JSON_NAMES)
@pytest.mark.parametrize("raw", RAW)
def test_an_overflow_of_openrouters_provider_has_each_clients_wording(upstream: str, raw: Any) -> None:
    metadata = {"raw": raw, "provider_name": "P"}
    error = decoded(upstream, 400, {"error": {"message": "Provider returned error", "code": 400, "metadata": metadata}})
    assert error.code == CONTEXT_OVERFLOW
    told = {client: written(client, error) for client in JSON_NAMES}
    assert [status for status, _ in told.values()] == [400] * len(JSON_NAMES)
    assert told["anthropic"][1]["message"] == "prompt is too long: 210 tokens > 200 maximum"
    assert (
        told["gemini"][1]["message"]
        == "The input token count (210) exceeds the maximum number of tokens allowed (200)."
    )
    for client in ("openai_chat", "openai_responses"):
        assert told[client][1]["code"] == "context_length_exceeded"
        assert "maximum context length is 200 tokens" in told[client][1]["message"]


def test_a_code_of_the_provider_alone_means_an_overflow() -> None:
    raw = '{"error":{"message":"too long","code":"context_length_exceeded"}}'
    body = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}
    _, fields = written("anthropic", decoded("openai_chat", 400, body))
    assert fields["message"].startswith("prompt is too long: ")
