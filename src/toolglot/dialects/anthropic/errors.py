"""Errors: `{"type": "error", "error": {"type", "message", "details"}, "request_id"}` <-> `ApiError`.

An HTTP reply and an `error` event of a stream have the same object. `error_documents` reads the forms of servers that
imitate the API.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolglot.dialects.anthropic.native import NAME
from toolglot.errors import (
    CONTEXT_OVERFLOW,
    STATUS,
    ApiError,
    ContextOverflow,
    DecodeError,
    ErrorKind,
    HttpError,
    RateLimit,
    error_status,
    header_value,
    kind_of_error,
    kind_of_status,
)
from toolglot.ir import Request, native_of, replace
from toolglot.wire import json, retry_after
from toolglot.wire.error_documents import (
    add_retry_after,
    google_field,
    google_kind,
    message_of_text,
    read_error_document,
)
from toolglot.wire.known_errors import recognize_error

_TYPES: dict[ErrorKind, str] = {
    "bad_request": "invalid_request_error",
    "authentication": "authentication_error",
    "billing": "billing_error",
    "permission": "permission_error",
    "not_found": "not_found_error",
    "conflict": "conflict_error",
    "too_large": "request_too_large",
    "rate_limit": "rate_limit_error",
    "server": "api_error",
    "overloaded": "overloaded_error",
    "timeout": "timeout_error",
}

_STATUS: dict[ErrorKind, int] = {**STATUS, "overloaded": 529}

_KINDS: dict[str, ErrorKind] = {
    **{name: kind for kind, name in _TYPES.items()},
    # types that imitators send
    "insufficient_quota": "billing",
    "rate_limit_exceeded": "rate_limit",
    "server_error": "server",
    "internal_server_error": "server",
    "service_unavailable": "overloaded",
    "invalid_api_key": "authentication",
    "model_not_found": "not_found",
}

_TOO_LONG = "prompt is too long"
OVERFLOW_WORDS = re.compile(rb"prompt is too long|input length and `max_tokens` exceed context limit", re.IGNORECASE)
"""Texts by which clients of this API detect that they must shorten a conversation or lower their output limit."""

# Only clients of this API understand other scopes (`unified`, `unified-5h`, `priority-input-tokens`).
_SCOPES = frozenset({"requests", "tokens", "input-tokens", "output-tokens"})
_LIMIT_HEADER = re.compile(rf"anthropic-ratelimit-({'|'.join(sorted(_SCOPES))})-(limit|remaining|reset)")
_NO_HEADERS: Mapping[str, str] = {}
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT")


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Decode an HTTP error reply. Text that is not JSON becomes the message."""
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        error = read_error(json.decode_frame(body), status, lower)
    except DecodeError:
        message = message_of_text(body, status)
        error = recognize_error(ApiError(kind=kind_of_status(status), status=status, message=message))
        error = add_retry_after(error, lower, {})
    return replace(
        error,
        limits=_decode_limits(lower),
        request_id=lower.get("request-id") or error.request_id,
    )


def refuse_threads(request: Request) -> ApiError | None:
    """Refuse a server-side thread. The SDK's tool runner then sends the whole conversation instead.

    Its first request creates a thread. Later requests have only the new results, without tools or history.
    """
    if native_of(request, NAME).get("thread") is None:
        return None
    details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    message = "thread: this model's upstream keeps no threads; send the whole conversation"
    return ApiError(
        kind="bad_request", status=400, message=message, param="thread", native={NAME: {"details": details}}
    )


def read_error(value: Any, status: int = 0, headers: Mapping[str, str] = _NO_HEADERS) -> ApiError:
    """Read the error in a JSON value of any form. `status` is that of the reply, 0 inside a stream."""
    document = read_error_document(value)
    fields, outer = document.fields, document.outer
    word, details, code = fields.get("type"), fields.get("details"), fields.get("code")
    known: dict[str, Any] = details if isinstance(details, dict) else {}
    status = status or document.status
    kind = kind_of_error(_KINDS.get(str(word)) or _KINDS.get(str(code)) or google_kind(fields), status)
    name = known.get("error_code", code)
    param = known.get("param", fields.get("param"))
    request_id = outer.get("request_id")
    read = ApiError(
        kind=kind,
        message=document.message,
        status=status or _STATUS[kind],
        code=str(name) if isinstance(name, (str, int)) else None,
        param=param if isinstance(param, str) else google_field(fields),
        request_id=request_id if isinstance(request_id, str) else None,
        in_foreign_form=not document.is_enveloped or outer.get("type") != "error",
    )
    error = recognize_error(read, document.innermost)
    own: dict[str, Any] = {"status": status} if status else {}
    is_request_fault = kind == "server" and error.kind != kind  # the message tells, not the type
    if isinstance(word, str) and _TYPES[error.kind] != word and word != "error" and not is_request_fault:
        own["type"] = word
    if isinstance(details, dict):
        own["details"] = details
    return add_retry_after(replace(error, native={NAME: own} if own else {}), headers, fields)


def write_error(error: ApiError) -> dict[str, Any]:
    """Encode the whole error object, for a reply's body or an `error` event."""
    own = error.native.get(NAME, {})
    message = _overflow_message(error) if error.code == CONTEXT_OVERFLOW else error.message
    kind = own.get("type", _TYPES[error.kind]) if error.code != CONTEXT_OVERFLOW else _TYPES[error.kind]
    inner: dict[str, Any] = {"type": kind, "message": message}
    # `details.error_code` is this API's member for a code. Its clients ignore unknown members.
    replaced = None if error.message in message else error.message
    known = {"error_code": error.code, "param": error.param, "upstream_message": replaced}
    details = own.get("details") or {key: value for key, value in known.items() if value is not None}
    if details:
        inner["details"] = details
    wire: dict[str, Any] = {"type": "error", "error": inner}
    if error.request_id is not None:
        wire["request_id"] = error.request_id
    return wire


def _overflow_message(error: ApiError) -> str:
    """Return the message of a context overflow, in this API's exact wording if the counts are known."""
    overflow = error.overflow or ContextOverflow()
    if OVERFLOW_WORDS.match(error.message.encode(errors="replace")):
        return error.message
    if overflow.is_input_too_long:
        return f"{_TOO_LONG}: {overflow.input_tokens} tokens > {overflow.limit} maximum"
    if overflow.output_room is not None and overflow.output_tokens is not None:
        return (
            f"input length and `max_tokens` exceed context limit: {overflow.input_tokens} + {overflow.output_tokens}"
            f" > {overflow.limit}, decrease input length or `max_tokens` and try again"
        )
    return f"{_TOO_LONG}: {error.message}"


def encode_error(error: ApiError) -> HttpError:
    headers = {"content-type": "application/json"}
    if (request_id := header_value(error.request_id)) is not None:
        headers["request-id"] = request_id
    headers |= retry_after.retry_after_header(error)
    headers |= retry_after.should_retry_header(error)
    for limit in error.limits:
        for name in ("limit", "remaining", "reset") if limit.scope in _SCOPES else ():
            value = header_value(getattr(limit, name))
            # A reset is a timestamp here. Converting another API's duration to one needs a clock.
            if value is not None and (name != "reset" or _RFC_3339.match(value)):
                headers[f"anthropic-ratelimit-{limit.scope}-{name}"] = value
    return HttpError(_status(error), headers, json.encode(write_error(error)))


def _status(error: ApiError) -> int:
    """Return the status that this API uses for the error. Its own statuses, and a gateway's 502, stay unchanged."""
    if error_status(error) == error.status and (
        error.native.get(NAME, {}).get("status") == error.status or (error.kind == "server" and error.status >= 500)
    ):
        return error.status
    return _STATUS[error.kind]


def _decode_limits(headers: Mapping[str, str]) -> tuple[RateLimit, ...]:
    scopes: dict[str, dict[str, str]] = {}
    for name, value in headers.items():
        if match := _LIMIT_HEADER.fullmatch(name):
            scopes.setdefault(match[1], {})[match[2]] = value
    return tuple(RateLimit(scope, **values) for scope, values in sorted(scopes.items()))
