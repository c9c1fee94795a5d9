"""Errors: `{"error": {"code", "message", "status", "details"}}`, Google's form for all its APIs.

`status` is the name of a gRPC code, and more precise than the HTTP status. `details` are typed: `RetryInfo` has the
time to wait, `ErrorInfo` the exact reason, `BadRequest` the field.
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
    kind_of_error,
    kind_of_status,
)
from toolglot.ir import Native
from toolglot.wire import json, retry_after
from toolglot.wire.error_documents import (
    GOOGLE_KINDS_OF_REASON,
    add_retry_after,
    google_field,
    google_kind,
    google_reason,
    message_of_text,
    read_error_document,
)
from toolglot.wire.known_errors import recognize_error

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
"""The text by which clients of this API detect a conversation that is too long."""

_NO_HEADERS: Mapping[str, str] = {}
_TYPE = "type.googleapis.com/google.rpc."


# Decoding


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    names = {name.lower(): value for name, value in headers.items()}
    try:
        return read_error(json.decode_frame(body), status, names)
    except DecodeError:
        message = message_of_text(body, status, 1000)
        error = recognize_error(ApiError(kind=kind_of_status(status), status=status, message=message))
        return add_retry_after(error, names, {})


def read_error(value: Any, status: int = 0, headers: Mapping[str, str] = _NO_HEADERS) -> ApiError:
    """Read an error document. `status` is the HTTP status; in a stream it is 0, and the code in the body counts."""
    document = read_error_document(value)
    fields = document.fields
    status = status or document.status
    error = ApiError(
        kind=_kind(status, fields),
        status=status,
        message=document.message,
        code=google_reason(fields),
        param=google_field(fields),
        native=_native(fields) if document.is_enveloped else {},
    )
    return add_retry_after(recognize_error(error, document.innermost), headers, fields)


def _native(error: dict[str, Any]) -> Native:
    rest = {key: value for key, value in error.items() if key not in ("code", "message")}
    return {NAME: rest} if rest else {}


def _kind(status: int, fields: Mapping[str, Any]) -> ErrorKind:
    if status == STATUS["too_large"] and google_reason(fields) not in GOOGLE_KINDS_OF_REASON:
        return "too_large"
    return kind_of_error(google_kind(fields), status)


# Encoding


def encode_error(error: ApiError) -> HttpError:
    document = write_error(error)
    headers = {"content-type": "application/json; charset=UTF-8"}
    headers |= retry_after.retry_after_header(error)
    return HttpError(document["error"]["code"], headers, json.encode(document))


def write_error(error: ApiError) -> dict[str, Any]:
    """Encode the error document. The Python SDK misses it unless `error` is the first member and `code` an integer."""
    own = error.native.get(NAME, {})
    name = own.get("status") if error.code != CONTEXT_OVERFLOW else None
    code = error_status(error) if own and error.status else _code(error)
    fields: dict[str, Any] = {
        "code": code,
        "message": _message(error),
        "status": name if isinstance(name, str) else _status_name(error),
    }
    details = own.get("details") if isinstance(own.get("details"), list) else _details(error)
    if details:
        fields["details"] = details
    return {"error": {**fields, **{key: value for key, value in own.items() if key not in fields}}}


def _message(error: ApiError) -> str:
    """Return the upstream's message. A context overflow gets Google's wording."""
    if error.code != CONTEXT_OVERFLOW or OVERFLOW_WORDS.search(error.message.encode(errors="replace")):
        return error.message
    overflow = error.overflow
    if overflow is None or not overflow.is_input_too_long:
        return f"The input token count {_TOO_MANY}: {error.message}"
    return f"The input token count ({overflow.input_tokens}) {_TOO_MANY} ({overflow.limit})."


_GATEWAY_STATUSES = frozenset({502, 503})
"""Statuses of a gateway whose upstream is unavailable. Google's APIs have no 502, and 500 `INTERNAL` would mean an
error of this gateway."""


def _is_unavailable(error: ApiError) -> bool:
    return error.kind == "server" and error.status in _GATEWAY_STATUSES


def _code(error: ApiError) -> int:
    return STATUS["overloaded"] if _is_unavailable(error) else _CODES[error.kind]


def _status_name(error: ApiError) -> str:
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
