"""Errors: `{"error": "…"}` over HTTP, with a code in the header `x-warp-error-code`.

A 429 with `OUT_OF_CREDITS` means that the account has no credits left, and retrying does not help. Without it, the
server is overloaded. Errors inside a stream are `finished` events: `finish.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolglot.dialects.warp.native import NAME
from toolglot.errors import (
    STATUS,
    ApiError,
    DecodeError,
    ErrorKind,
    HttpError,
    error_status,
    header_value,
    kind_of_status,
)
from toolglot.wire import json, retry_after
from toolglot.wire.error_documents import message_of_text
from toolglot.wire.known_errors import recognize_error

CODE = "x-warp-error-code"
OUT_OF_CREDITS = "OUT_OF_CREDITS"
_KINDS: dict[str, ErrorKind] = {OUT_OF_CREDITS: "billing", "AT_CLOUD_AGENT_CAPACITY": "rate_limit"}
_STATUSES: dict[ErrorKind, int] = STATUS | {"billing": 429}


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    names = {name.lower(): value for name, value in headers.items()}
    try:
        return read_error(json.decode_frame(body), status, names)
    except DecodeError:
        return _error(message_of_text(body, status), status, names, {})


def read_error(value: Any, status: int, headers: Mapping[str, str]) -> ApiError:
    """Read an error document. The message for users has priority."""
    fields = value if isinstance(value, dict) else {}
    inner = fields.get("error")
    nested = inner.get("message") if isinstance(inner, dict) else inner
    candidates = [fields.get("userDisplayMessage"), nested, fields.get("message")]
    message = next((text for text in candidates if isinstance(text, str) and text), None)
    return _error(message or json.encode_text(value)[:2000], status, headers, fields)


def _error(message: str, status: int, headers: Mapping[str, str], fields: Mapping[str, Any]) -> ApiError:
    code = header_value(headers.get(CODE))
    native = {NAME: dict(fields)} if fields else {}
    error = ApiError(
        kind=_KINDS.get(code or "") or ("server" if not status else kind_of_status(status)),
        status=status,
        message=message,
        code=code,
        retry_after=retry_after.seconds_in(headers),
        retry_after_date=retry_after.date_in(headers),
        native=native,
    )
    return recognize_error(error, fields)


def encode_error(error: ApiError) -> HttpError:
    own = error.native.get(NAME, {})
    body = {} if "finished" in own else dict(own)
    if not body:
        body = {"error": error.message}
        if error.kind == "billing":
            body["userDisplayMessage"] = error.message
    headers = {"content-type": "application/json", **retry_after.retry_after_header(error)}
    code = OUT_OF_CREDITS if error.kind == "billing" else header_value(error.code)
    if code is not None:
        headers[CODE] = code
    status = error_status(error) if error.status and error.kind != "billing" else _STATUSES[error.kind]
    return HttpError(status, headers, json.encode(body))
