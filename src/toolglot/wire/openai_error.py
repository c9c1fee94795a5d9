"""The error envelope that OpenAI's two APIs and the vendors that imitate them share.

`{"error": {"message", "type", "param", "code"}}` is the rule; imitators also send `{"object": "error", "message"}`
(vLLM), `{"detail": …}` (FastAPI) and `{"error": "text"}` (Ollama), before a stream and inside one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from toolglot.errors import STATUS, ApiError, DecodeError, ErrorKind, HttpError, RateLimit, kind_of_status
from toolglot.wire import json

# kind -> (type, code) as OpenAI words them
_WORDS: dict[ErrorKind, tuple[str, str | None]] = {
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

# what a `code` or `type` means, whoever sent it; the code is looked up first
_KIND_OF_WORD: dict[str, ErrorKind] = {
    "invalid_api_key": "authentication",
    "invalid_authentication": "authentication",
    "authentication_error": "authentication",
    "insufficient_quota": "billing",
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

_SCOPES = ("requests", "tokens")


def is_error(value: Any) -> bool:
    """Does this object stand where a response should, and say that there is none?"""
    if not isinstance(value, dict):
        return False
    if value.get("error") or value.get("object") == "error" or value.get("type") == "error":
        return True
    return "detail" in value and "choices" not in value and "output" not in value


def read(value: Any, owner: str, status: int = 0) -> ApiError:
    """The error in an envelope of any of the shapes; `owner` is the dialect that keeps what is left over."""
    inner = value.get("error") if isinstance(value, dict) and value.get("error") else value
    fields = dict(inner) if isinstance(inner, dict) else {"message": inner}
    message = next((fields.pop(key) for key in ("message", "detail") if fields.get(key) is not None), None)
    word, code, param = fields.get("type"), fields.get("code"), fields.pop("param", None)
    if type(code) is int and not status and 400 <= code < 600:
        status = code
    kind = _KIND_OF_WORD.get(str(code)) or _KIND_OF_WORD.get(str(word))
    if kind is None or (kind in ("bad_request", "server") and status and kind_of_status(status) != kind):
        kind = kind_of_status(status or 500)
    return ApiError(
        kind=kind,
        message=message if isinstance(message, str) else json.encode_text(message if message is not None else inner),
        status=status or STATUS[kind],
        code=str(code) if code is not None else None,
        param=param if isinstance(param, str) else None,
        native={owner: {"type": word}} if isinstance(word, str) else {},
    )


def write(error: ApiError, owner: str) -> dict[str, Any]:
    """The inner object of the envelope."""
    word, code = _WORDS[error.kind]
    own = error.native.get(owner, {})
    return {
        "message": error.message,
        "type": own.get("type", word),
        "param": error.param,
        "code": error.code or code,
    }


def decode_http(status: int, headers: Mapping[str, str], body: bytes, owner: str) -> ApiError:
    """An HTTP error reply. Bodies that are not JSON (a proxy's page) become the message."""
    try:
        error = read(json.decode_frame(body), owner, status)
    except DecodeError:
        text = body.decode("utf-8", "replace").strip()
        error = ApiError(kind=kind_of_status(status), status=status, message=text[:2000] or f"HTTP status {status}")
    lower = {name.lower(): value for name, value in headers.items()}
    return replace(
        error,
        retry_after=retry_after(lower),
        limits=tuple(limit for scope in _SCOPES if (limit := _rate_limit(lower, scope))),
        request_id=lower.get("x-request-id"),
    )


def encode_http(error: ApiError, owner: str) -> HttpError:
    headers = {"content-type": "application/json"}
    if error.retry_after is not None:
        headers["retry-after"] = f"{error.retry_after:g}"
    if error.request_id:
        headers["x-request-id"] = error.request_id
    for limit in error.limits:
        for name in ("limit", "remaining", "reset"):
            if (value := getattr(limit, name)) is not None:
                headers[f"x-ratelimit-{name}-{limit.scope}"] = value
    status = error.status or STATUS[error.kind]
    # 529 is Anthropic's own; OpenAI's clients know 503 for the same.
    return HttpError(503 if status == 529 else status, headers, json.encode({"error": write(error, owner)}))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after`; an HTTP date there needs a clock and is left alone."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * scale
        except (KeyError, ValueError):
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def _rate_limit(headers: Mapping[str, str], scope: str) -> RateLimit | None:
    limit, remaining, reset = (headers.get(f"x-ratelimit-{name}-{scope}") for name in ("limit", "remaining", "reset"))
    return RateLimit(scope, limit, remaining, reset) if limit or remaining or reset else None
