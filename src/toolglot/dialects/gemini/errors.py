"""Errors: `{"error": {"code", "message", "status", "details"}}`, Google's form for all its APIs.

`status` is the name of a gRPC code and says more than the HTTP status; `details` are typed: `RetryInfo` tells when to
come again, `ErrorInfo` the exact reason, `BadRequest` the field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolglot.dialects.gemini.native import NAME
from toolglot.errors import (
    CONTEXT_OVERFLOW,
    STATUS,
    ApiError,
    DecodeError,
    ErrorKind,
    HttpError,
    error_status,
    kind_of_status,
)
from toolglot.ir import Native, replace
from toolglot.wire import json, retry_after
from toolglot.wire.context_overflow import recognize_overflow

_KINDS: dict[str, ErrorKind] = {
    "INVALID_ARGUMENT": "bad_request",
    "FAILED_PRECONDITION": "bad_request",
    "OUT_OF_RANGE": "bad_request",
    "UNIMPLEMENTED": "bad_request",
    "UNAUTHENTICATED": "authentication",
    "PERMISSION_DENIED": "permission",
    "NOT_FOUND": "not_found",
    "ABORTED": "conflict",
    "ALREADY_EXISTS": "conflict",
    "RESOURCE_EXHAUSTED": "rate_limit",
    "INTERNAL": "server",
    "UNKNOWN": "server",
    "DATA_LOSS": "server",
    "CANCELLED": "server",
    "UNAVAILABLE": "overloaded",
    "DEADLINE_EXCEEDED": "timeout",
}

_KINDS_OF_REASON: dict[str, ErrorKind] = {
    # A bad key is answered with 400 INVALID_ARGUMENT; only the detail tells.
    "API_KEY_INVALID": "authentication",
    "API_KEY_EXPIRED": "authentication",
    "BILLING_DISABLED": "billing",
}

_STATUSES: dict[ErrorKind, str] = {
    "bad_request": "INVALID_ARGUMENT",
    "authentication": "UNAUTHENTICATED",
    "billing": "RESOURCE_EXHAUSTED",
    "permission": "PERMISSION_DENIED",
    "not_found": "NOT_FOUND",
    "conflict": "ABORTED",
    "too_large": "INVALID_ARGUMENT",
    "rate_limit": "RESOURCE_EXHAUSTED",
    "server": "INTERNAL",
    "overloaded": "UNAVAILABLE",
    "timeout": "DEADLINE_EXCEEDED",
}

_CODES: dict[ErrorKind, int] = STATUS | {"billing": 429}

_TOO_MANY = "exceeds the maximum number of tokens allowed"
OVERFLOW_WORDS = re.compile(_TOO_MANY.encode(), re.IGNORECASE)
"""The words by which clients of this API know a conversation that is too long."""

_TYPE = "type.googleapis.com/google.rpc."
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


# Reading


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    names = {name.lower(): value for name, value in headers.items()}
    wait = retry_after.seconds_in(names)
    try:
        error = read_error(json.decode_frame(body), status, wait)
    except DecodeError:
        text = body.decode("utf-8", "replace").strip()
        message = text[:1000] or f"The server answered with status {status}"
        error = recognize_overflow(
            ApiError(kind=kind_of_status(status), status=status, message=message, retry_after=wait)
        )
    return replace(error, retry_after_date=retry_after.date_in(names))


def error_in(value: Any) -> Any:
    """The error in a document, or in a list of documents; None when there is none."""
    if isinstance(value, list):
        return next((error for item in value if (error := _error_of(item)) is not None), None)
    return _error_of(value)


def _error_of(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    if value.get("error") is None and "message" in value and "candidates" not in value:
        return value  # the inner object alone, as some proxies send it
    return value.get("error")


def read_error(value: Any, status: int = 0, wait: float | None = None) -> ApiError:
    """An error document. `status` is that of HTTP; without one, in a stream, the code in the body counts."""
    error = error_in(value)
    if not isinstance(error, dict):
        text = error if isinstance(error, str) else json.encode_text(value)[:1000]
        return recognize_overflow(ApiError(kind=kind_of_status(status), status=status, message=text, retry_after=wait))
    code = error.get("code")
    if not status and type(code) is int and 400 <= code < 600:
        status = code
    details = error.get("details") if isinstance(error.get("details"), list) else []
    reason = _detail(details, "ErrorInfo", "reason")
    name = error.get("status")
    message = error.get("message")
    read = ApiError(
        kind=_kind(status, name if isinstance(name, str) else "", reason),
        status=status,
        message=message if isinstance(message, str) else json.encode_text(error)[:1000],
        code=reason,
        param=_field(details),
        retry_after=_retry_delay(details) if wait is None else wait,
        native=_native(error),
    )
    return recognize_overflow(read, error)


def _native(error: dict[str, Any]) -> Native:
    rest = {key: value for key, value in error.items() if key not in ("code", "message")}
    return {NAME: rest} if rest else {}


def _kind(status: int, name: str, reason: str | None) -> ErrorKind:
    if reason in _KINDS_OF_REASON:
        return _KINDS_OF_REASON[reason]
    if status == STATUS["too_large"]:
        return "too_large"
    return _KINDS.get(name) or kind_of_status(status)


def _detail(details: Any, kind: str, member: str) -> str | None:
    for detail in details:
        if isinstance(detail, dict) and str(detail.get("@type", "")).endswith(f".{kind}"):
            value = detail.get(member)
            return value if isinstance(value, str) else None
    return None


def _field(details: Any) -> str | None:
    for detail in details:
        if isinstance(detail, dict) and str(detail.get("@type", "")).endswith(".BadRequest"):
            violations = detail.get("fieldViolations")
            first = violations[0] if isinstance(violations, list) and violations else None
            field = first.get("field") if isinstance(first, dict) else None
            return field if isinstance(field, str) else None
    return None


def _retry_delay(details: Any) -> float | None:
    delay = _detail(details, "RetryInfo", "retryDelay") or ""
    return float(delay[:-1]) if delay.endswith("s") and _SECONDS.fullmatch(delay[:-1]) else None


# Writing


def encode_error(error: ApiError) -> HttpError:
    document = write_error(error)
    headers = {"content-type": "application/json; charset=UTF-8"}
    headers |= retry_after.written(error)
    return HttpError(document["error"]["code"], headers, json.encode(document))


def write_error(error: ApiError) -> dict[str, Any]:
    """The error document. `error` is its first member and `code` is whole: the Python SDK overlooks it otherwise."""
    own = error.native.get(NAME, {})
    name = own.get("status") if error.code != CONTEXT_OVERFLOW else None
    code = error_status(error) if own and error.status else _code(error)
    fields: dict[str, Any] = {
        "code": code,
        "message": _message(error),
        "status": name if isinstance(name, str) else _name(error),
    }
    details = own.get("details") if isinstance(own.get("details"), list) else _details(error)
    if details:
        fields["details"] = details
    return {"error": {**fields, **{key: value for key, value in own.items() if key not in fields}}}


def _message(error: ApiError) -> str:
    """The upstream's words; those of a context overflow in Google's."""
    if error.code != CONTEXT_OVERFLOW or OVERFLOW_WORDS.search(error.message.encode(errors="replace")):
        return error.message
    overflow = error.overflow
    if overflow is None or not overflow.is_input_too_long:
        return f"The input token count {_TOO_MANY}: {error.message}"
    return f"The input token count ({overflow.input_tokens}) {_TOO_MANY} ({overflow.limit})."


_BEHIND = frozenset({502, 503})
"""Statuses of a gateway whose upstream cannot be had. Google's APIs have no 502, and 500 `INTERNAL` would be ours."""


def _is_unavailable(error: ApiError) -> bool:
    return error.kind == "server" and error.status in _BEHIND


def _code(error: ApiError) -> int:
    return STATUS["overloaded"] if _is_unavailable(error) else _CODES[error.kind]


def _name(error: ApiError) -> str:
    return _STATUSES["overloaded" if _is_unavailable(error) else error.kind]


def _details(error: ApiError) -> list[dict[str, Any]]:
    details: list[dict[str, Any]] = []
    reason = error.code or ("BILLING_DISABLED" if error.kind == "billing" else None)
    if reason is not None:
        info: dict[str, Any] = {"@type": _TYPE + "ErrorInfo", "reason": reason}
        if error.message not in _message(error):
            info["metadata"] = {"upstream_message": error.message}
        details.append(info)
    if error.param is not None:
        violation = {"field": error.param, "description": error.message}
        details.append({"@type": _TYPE + "BadRequest", "fieldViolations": [violation]})
    if (seconds := retry_after.whole_seconds(error)) is not None:
        details.append({"@type": _TYPE + "RetryInfo", "retryDelay": f"{seconds}s"})
    return details
