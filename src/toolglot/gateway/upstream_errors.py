"""Errors of upstream calls: decoding them, and describing them for the client."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Protocol

from toolglot.dialect import Dialect
from toolglot.errors import ApiError, ErrorKind
from toolglot.ir import replace
from toolglot.upstream.breaker import OWN_FAILURES, Breaker
from toolglot.upstream.transport import TransportError, TransportFailure
from toolglot.upstream.upstream import CREDENTIAL_KINDS, Upstream
from toolglot.wire.error_documents import describe_web_page, is_web_page
from toolglot.wire.retry_after import seconds_in_message
from toolglot.wire.sse import error_document

ERROR_BODY_LIMIT = 1024 * 1024
MAX_MESSAGE_SHOWN = 200
RESTING = "upstream_resting"

_FAILURES: dict[TransportFailure, tuple[ErrorKind, int, str]] = {
    "pool": ("overloaded", 503, "connections_in_use"),
    "connect": ("server", 502, "upstream_unreachable"),
    "tls": ("server", 502, "upstream_tls"),
    "timeout": ("timeout", 504, "upstream_timeout"),
    "reset": ("server", 502, "upstream_reset"),
    "too_large": ("server", 502, "upstream_too_large"),
}


_CUT_FAILURES: frozenset[TransportFailure] = frozenset({"connect", "reset", "timeout"})
"""Failures after which a client that expects a cut connection gets one, although no answer has begun. Other failures
would recur with the same request.
"""


def transport_error(upstream: str, failure: TransportError) -> ApiError:
    """Return the client's error for an upstream that cannot be reached, or that broke off."""
    kind, status, code = _FAILURES[failure.failure]
    if failure.failure in OWN_FAILURES:
        return ApiError(kind=kind, status=status, code=code, message=str(failure), retry_after=1.0)
    message = f"The upstream {upstream!r} failed: {failure}"
    is_broken = failure.failure in _CUT_FAILURES
    return ApiError(
        kind=kind,
        status=status,
        code=code,
        message=message,
        is_broken_off=is_broken,
        should_retry=False if failure.not_running else None,
    )


class BreakableStream(Protocol):
    def break_off(self, error: ApiError, *, broken: bool = True) -> bytes: ...


def end_broken_stream(translation: BreakableStream, upstream: str, failure: TransportError) -> bytes:
    """End a client's stream whose upstream has failed. An answer over the gateway's size limit would exceed it again:
    then the client gets an error, not a cut connection, after which it would retry."""
    return translation.break_off(transport_error(upstream, failure), broken=failure.failure != "too_large")


def shorten_message(error: ApiError) -> str:
    """Return the start of an upstream's message, on one line."""
    return " ".join(error.message.split())[:MAX_MESSAGE_SHOWN]


def describe_outcome(upstream: Upstream, outcome: ApiError | TransportError) -> ApiError:
    """Return the client's error for a failed attempt. If a key was refused, it says that a retry is useless: otherwise
    Claude Code retries a 401 for more than a minute.
    """
    if isinstance(outcome, TransportError):
        return transport_error(upstream.name, outcome)
    error = upstream.describe_error(outcome)
    if error.retryable and error.retry_after is None and error.retry_after_date is None:
        error = replace(error, retry_after=seconds_in_message(error.message))  # few clients parse the message
    if error.kind in CREDENTIAL_KINDS:
        return replace(error, should_retry=error.should_retry or False)
    return error


def is_answer(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether a reply is neither an error nor a page for people."""
    return 200 <= status < 300 and not headers.get("content-type", "").startswith("text/html")


def decode_error_reply(upstream: Upstream, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Decode a reply that is not an answer: an error, a redirect, or an HTML page."""
    safe = upstream.redact_body(body)
    return decode_refusal(upstream.name, upstream.dialect, status, upstream.safe_headers(headers), safe)


def decode_refusal(name: str, dialect: Dialect, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Decode a refusal when only the name and the dialect of the upstream are known."""
    if 200 <= status < 300:
        return _unexpected_page_error(name, body)
    if status < 400:
        return _redirect_error(name, status)
    body = error_document(body)
    error = dialect.decode_error(status, headers, body)
    return replace(error, message=describe_web_page(body, status, name)) if is_web_page(body) else error


def _redirect_error(upstream: str, status: int) -> ApiError:
    """Return the error for a redirect. It is not followed: the credential would go to another server."""
    message = f"The upstream {upstream!r} answered with status {status}; is its base URL right?"
    return ApiError(kind="server", status=502, code="upstream_redirect", message=message)


def _unexpected_page_error(upstream: str, body: bytes) -> ApiError:
    """Return the error for an HTML page. Usually the base URL is wrong."""
    start = " ".join(body.decode("utf-8", "replace").split())[:MAX_MESSAGE_SHOWN]
    message = f"The upstream {upstream!r} answered with text/html; is its base URL right? It begins: {start}"
    return ApiError(kind="server", status=502, code="upstream_unreadable", message=message)


def resting_error(upstream: str, breaker: Breaker, now: float) -> ApiError:
    """Return the client's error for an upstream whose breaker is open."""
    wait = breaker.wait(now)
    message = (
        f"The upstream {upstream!r} has failed repeatedly and gets no requests for {ceil(wait)} seconds; "
        f"its last failure: {breaker.cause}"
    )
    return ApiError(
        kind="server", status=503, code=RESTING, message=message, retry_after=wait, should_retry=breaker.should_retry
    )
