"""Errors: `{"error": "text"}` with a status, also as a line of a stream."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from toolglot.errors import (
    CONTEXT_OVERFLOW,
    STATUS,
    ApiError,
    DecodeError,
    HttpError,
    error_status,
    kind_of_status,
)
from toolglot.wire import json, retry_after
from toolglot.wire.error_documents import add_retry_after, message_of_text, read_error_document
from toolglot.wire.known_errors import recognize_error
from toolglot.wire.sse import error_document

MAX_MESSAGE_LENGTH = 2000
"""The maximum length of a message from an error reply that is not JSON."""
_NO_HEADERS: Mapping[str, str] = {}
_REGISTERED = frozenset(HTTPStatus)
_TOO_LONG = "prompt too long; exceeded max context length"
OVERFLOW_WORDS = re.compile(b"exceed(?:ed|s) (?:max |the )?context length", re.IGNORECASE)
"""The text by which clients detect a conversation that is too long."""


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    names = {name.lower(): value for name, value in headers.items()}
    try:
        return read_error(json.decode_frame(error_document(body)), status, names)
    except DecodeError:
        message = message_of_text(body, status, MAX_MESSAGE_LENGTH)
        error = recognize_error(ApiError(kind=kind_of_status(status), status=status, message=message))
        return add_retry_after(error, names, {})


def read_error(value: Any, status: int = 0, headers: Mapping[str, str] = _NO_HEADERS) -> ApiError:
    """Read an error document. A line of a stream has no status; it counts as 500."""
    document = read_error_document(value)
    status = status or document.status or 500
    code = document.fields.get("code")
    error = ApiError(
        kind=kind_of_status(status),
        status=status,
        message=document.message,
        code=code if isinstance(code, str) else None,
        in_foreign_form=not (isinstance(value, dict) and value.get("error") == document.message),
    )
    return add_retry_after(recognize_error(error, document.fields), headers, document.fields)


def encode_error(error: ApiError) -> HttpError:
    headers = {"content-type": "application/json; charset=utf-8"}
    headers |= retry_after.retry_after_header(error)
    return HttpError(_status(error), headers, json.encode(write_error(error)))


def _status(error: ApiError) -> int:
    """Return a registered HTTP status. A vendor's own status (529, for example) becomes that of the error's kind."""
    status = error_status(error)
    return status if status in _REGISTERED else STATUS[error.kind]


def write_error(error: ApiError) -> dict[str, Any]:
    """Encode the error's message and code. Ollama's own servers send no code, and its clients ignore it."""
    return {"error": _message(error), **({} if error.code is None else {"code": error.code})}


def _message(error: ApiError) -> str:
    """Return the upstream's message. A context overflow gets Ollama's wording, which clients recognize."""
    if error.code != CONTEXT_OVERFLOW or OVERFLOW_WORDS.search(error.message.encode(errors="replace")):
        return error.message
    return f"{_TOO_LONG}: {error.message}"
