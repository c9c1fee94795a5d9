"""The error envelope of OpenAI's two APIs and of the vendors that imitate them.

The usual form is `{"error": {"message", "type", "param", "code"}}`. `error_documents` knows the forms of imitators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil
from typing import Any

from msgspec.structs import replace

from toolglot.errors import (
    CONTEXT_OVERFLOW,
    REQUEST_TOO_LARGE,
    STATUS,
    ApiError,
    DecodeError,
    ErrorKind,
    HttpError,
    RateLimit,
    error_status,
    header_value,
    kind_of_error,
    kind_of_status,
)
from toolglot.wire import json, retry_after
from toolglot.wire.error_documents import (
    add_retry_after,
    google_field,
    google_kind,
    message_of_text,
    read_error_document,
)
from toolglot.wire.known_errors import recognize_error

# kind -> OpenAI's (type, code)
_TYPE_AND_CODE: dict[ErrorKind, tuple[str, str | None]] = {
    "bad_request": ("invalid_request_error", None),
    "authentication": ("invalid_request_error", "invalid_api_key"),
    "billing": ("insufficient_quota", "insufficient_quota"),
    "permission": ("invalid_request_error", "permission_denied"),
    "not_found": ("invalid_request_error", "model_not_found"),
    "conflict": ("conflict_error", None),
    "too_large": ("invalid_request_error", "request_too_large"),
    "rate_limit": ("rate_limit_exceeded", "rate_limit_exceeded"),
    "server": ("server_error", None),
    "overloaded": ("server_error", "overloaded"),
    "timeout": ("server_error", "timeout"),
}

# the kind that a `code` or `type` of any vendor means; the code is looked up first
_KIND_OF_WORD: dict[str, ErrorKind] = {
    "invalid_api_key": "authentication",
    "invalid_authentication": "authentication",
    "authentication_error": "authentication",
    "insufficient_quota": "billing",
    "exceeded_current_quota_error": "billing",
    "billing_error": "billing",
    "permission_denied": "permission",
    "permission_error": "permission",
    "model_not_found": "not_found",
    "not_found_error": "not_found",
    "NotFoundError": "not_found",
    "conflict_error": "conflict",
    "request_too_large": "too_large",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "tokens": "rate_limit",
    "requests": "rate_limit",
    "overloaded": "overloaded",
    "capacity_exceeded": "overloaded",  # Groq's flex tier, with its status 498
    "overloaded_error": "overloaded",
    "server_overloaded": "overloaded",
    "timeout": "timeout",
    "timeout_error": "timeout",
    "server_error": "server",
    "api_error": "server",
    "internal_server_error": "server",
    "InternalServerError": "server",
    "invalid_request_error": "bad_request",
    "invalid_prompt": "bad_request",
    "BadRequestError": "bad_request",
    "context_length_exceeded": "bad_request",
}

# Codes that OpenAI's clients may know, besides those of the kinds. A code of another vendor is replaced by the kind's.
_CODES = frozenset(
    {
        "account_deactivated",
        "billing_hard_limit_reached",
        "content_filter",
        "content_policy_violation",
        "context_length_exceeded",
        "data_residency_mismatch",
        "insufficient_quota",
        "invalid_function_parameters",
        "invalid_prompt",
        "invalid_type",
        "invalid_value",
        "missing_required_parameter",
        "previous_response_not_found",
        "server_error",
        "server_is_overloaded",
        "slow_down",
        "string_above_max_length",
        "unknown_parameter",
        "unsupported_parameter",
        "unsupported_value",
        # this translator's own
        "bad_tool_call",
        "malformed_tool_call",
        "would_lose",
        # the gateway's own; the kind's code would be wrong (a missing path is not `model_not_found`)
        "bad_encoding",
        "method_not_allowed",
        "no_recording",
        "receipt_not_found",
        "unknown_path",
        "unsupported_encoding",
    }
) | {code for _, code in _TYPE_AND_CODE.values() if code}
_OWN_CODES = "upstream_"

_CODES_WITH_TYPE = frozenset({CONTEXT_OVERFLOW, REQUEST_TOO_LARGE})
"""Codes that `recognize_error` assigns. The type that came with the vendor's own code no longer fits, so the kind's
type is written."""

# Only for this kind OpenAI's status differs from everyone else's.
_STATUS: dict[ErrorKind, int] = {**STATUS, "billing": 429}

_FAMILY = ("openai_chat", "openai_responses")
"""The dialects whose errors already use OpenAI's types and codes."""

_OVERFLOW_WORDS = re.compile("maximum context length|context window", re.IGNORECASE)

_NO_HEADERS: Mapping[str, str] = {}
_SCOPES = ("requests", "tokens")


def read_error(value: Any, owner: str, status: int = 0, headers: Mapping[str, str] = _NO_HEADERS) -> ApiError:
    """Read the error in a document of any form. `owner` is the dialect whose native fields hold the rest. Header names
    must be lower case."""
    document = read_error_document(value)
    fields = document.fields
    word, code, param = fields.get("type"), fields.get("code"), fields.get("param")
    status = status or document.status
    kind = _KIND_OF_WORD.get(str(code)) or _KIND_OF_WORD.get(str(word)) or google_kind(fields)
    kind = kind_of_error(kind, status)
    error = ApiError(
        kind=kind,
        message=document.message,
        status=status or STATUS[kind],
        code=str(code) if code is not None else None,
        param=param if isinstance(param, str) else google_field(fields),
        native={owner: {"type": word} if isinstance(word, str) else {}},
        in_foreign_form=not document.is_enveloped,
    )
    error = recognize_error(error, document.innermost)
    if error.kind == "billing" and error.code not in _CODES:
        # The status or the message says so. The code means something else (DeepSeek) or is a number (OpenRouter).
        error = replace(error, code=None, native={owner: {}})
    return add_retry_after(error, headers, fields)


def _native_fields(error: ApiError) -> dict[str, Any] | None:
    """Return the native fields of an error from OpenAI's own APIs; None for an error of any other dialect."""
    return next((error.native[name] for name in _FAMILY if name in error.native), None)


def write_error(error: ApiError) -> dict[str, Any]:
    """Write the inner object of the envelope. Types and codes of other vendors become OpenAI's, the only ones its
    clients know."""
    word, code = _TYPE_AND_CODE[error.kind]
    own = _native_fields(error)
    known = error.code and (own is not None or error.code in _CODES or error.code.startswith(_OWN_CODES))
    return {
        "message": _message(error),
        "type": (own or {}).get("type", word) if error.code not in _CODES_WITH_TYPE else word,
        "param": error.param,
        "code": error.code if known else code,
    }


def _message(error: ApiError) -> str:
    """Return the upstream's message. Clients recognize a context overflow by OpenAI's wording, so that wording is put
    before it.
    """
    overflow = error.overflow
    if overflow is None or not overflow.is_input_too_long or _OVERFLOW_WORDS.search(error.message):
        return error.message
    return (
        f"This model's maximum context length is {overflow.limit} tokens. However, your messages resulted in"
        f" {overflow.input_tokens} tokens. The upstream said: {error.message}"
    )


def _status(error: ApiError) -> int:
    """Return the HTTP status for OpenAI's clients: the upstream's if it is OpenAI's own or a server error, otherwise
    that of the kind."""
    if _native_fields(error) is not None or (500 <= error.status < 600 and error.status != 529):
        return error_status(error)
    return _STATUS[error.kind]


def decode_http(status: int, headers: Mapping[str, str], body: bytes, owner: str) -> ApiError:
    """Read an HTTP error reply. Text that is not JSON becomes the message."""
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        error = read_error(json.decode_frame(body), owner, status, lower)
    except DecodeError:
        message = message_of_text(body, status)
        error = recognize_error(
            ApiError(kind=kind_of_status(status), status=status, message=message, native={owner: {}})
        )
        error = add_retry_after(error, lower, {})
    return replace(
        error,
        limits=tuple(limit for scope in _SCOPES if (limit := _rate_limit(lower, scope))),
        request_id=lower.get("x-request-id"),
    )


def encode_http(error: ApiError) -> HttpError:
    headers: dict[str, str | None] = {
        "content-type": "application/json",
        **_retry_headers(error),
        "x-request-id": error.request_id,
    }
    for limit in error.limits:
        for name in ("limit", "remaining", "reset"):
            headers[f"x-ratelimit-{name}-{limit.scope}"] = getattr(limit, name)
    safe = {name: safe for name, value in headers.items() if (safe := header_value(value)) is not None}
    return HttpError(_status(error), safe, json.encode({"error": write_error(error)}))


def _retry_headers(error: ApiError) -> dict[str, str | None]:
    """Return `retry-after` in whole seconds, the exact wait in OpenAI's `retry-after-ms`, and `x-should-retry`."""
    wait, whole = error.retry_after, retry_after.whole_seconds(error)
    exact = {} if wait is None or whole is None or wait >= whole else {"retry-after-ms": str(ceil(wait * 1000))}
    return {**retry_after.retry_after_header(error), **exact, **retry_after.should_retry_header(error)}


def _rate_limit(headers: Mapping[str, str], scope: str) -> RateLimit | None:
    limit, remaining, reset = (headers.get(f"x-ratelimit-{name}-{scope}") for name in ("limit", "remaining", "reset"))
    return RateLimit(scope, limit, remaining, reset) if limit or remaining or reset else None
