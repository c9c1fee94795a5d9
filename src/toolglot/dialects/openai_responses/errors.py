"""Errors of the Responses API.

Before a response begins, they have the envelope that both of OpenAI's APIs share. After that there are two forms: a
response whose `status` is `failed`, with `error: {code, message}`, and an `error` event, flat or nested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from toolglot.dialects.openai_responses.native import NAME
from toolglot.errors import CONTEXT_OVERFLOW, STATUS, ApiError, ErrorKind, HttpError
from toolglot.wire import openai_error

# Codes that only a failed response has; `openai_error` knows the others.
_KIND_OF_CODE: dict[str, ErrorKind] = {
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "vector_store_timeout": "timeout",
    "previous_response_not_found": "not_found",
    "bio_policy": "permission",
    "misalignment_policy_violation": "permission",
    "data_residency_mismatch": "bad_request",
    "invalid_image": "bad_request",
    "invalid_image_format": "bad_request",
    "invalid_base64_image": "bad_request",
    "invalid_image_url": "bad_request",
    "image_too_large": "bad_request",
    "image_too_small": "bad_request",
    "image_parse_error": "bad_request",
    "image_content_policy_violation": "bad_request",
    "invalid_image_mode": "bad_request",
    "image_file_too_large": "bad_request",
    "image_file_not_found": "bad_request",
    "unsupported_image_media_type": "bad_request",
    "empty_image_file": "bad_request",
    "failed_to_download_image": "bad_request",
}

# The code of a failed response for each kind. Codex distinguishes quota and rate limits by these codes. An overload is
# `server_error`: Codex retries after that, as other agents do on overload, but gives up on `server_is_overloaded`.
_CODE_OF_KIND: dict[ErrorKind, str] = {
    "bad_request": "invalid_prompt",
    "authentication": "server_error",
    "billing": "insufficient_quota",
    "permission": "server_error",
    "not_found": "server_error",
    "conflict": "server_error",
    "too_large": "invalid_prompt",
    "rate_limit": "rate_limit_exceeded",
    "server": "server_error",
    "overloaded": "server_error",
    "timeout": "server_error",
}
_KNOWN_CODES = frozenset(_CODE_OF_KIND.values()) | frozenset(_KIND_OF_CODE) | {CONTEXT_OVERFLOW}

STREAMED_ERRORS = frozenset({CONTEXT_OVERFLOW})
"""Codex compacts only if it reads this code in `response.failed`; on status 400 it gives up. The API itself also
answers a streaming request with this event."""


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    return openai_error.decode_http(status, headers, body, NAME)


def encode_error(error: ApiError) -> HttpError:
    return openai_error.encode_http(error)


def decode_failure(value: Any) -> ApiError:
    """Read the error in a failed response, in an `error` event of either form, or in the forms of imitators."""
    is_own = isinstance(value, dict) and (value.get("object") == "response" or value.get("type") == "error")
    if isinstance(value, dict) and value.get("object") == "response":
        value = {"error": value.get("error") or {"message": f"The response is {value.get('status')}"}}
    if isinstance(value, dict) and value.get("type") == "error":
        # The event's own type does not name the kind of error.
        value = {key: item for key, item in value.items() if key != "type"}
    error = openai_error.read_error(value, NAME)
    if is_own:
        error = replace(error, in_foreign_form=False)
    kind = _KIND_OF_CODE.get(error.code or "")
    return error if kind is None else replace(error, kind=kind, status=STATUS[kind])


def encode_failure(error: ApiError) -> dict[str, Any]:
    """Encode `error` of a failed response. Its codes are a closed list, so a code of another API is replaced by the
    kind's."""
    code = error.code if error.code in _KNOWN_CODES or NAME in error.native else None
    return {"code": code or _CODE_OF_KIND[error.kind], "message": error.message}
