"""Errors of upstream calls: decoding them, and describing them for the client."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Protocol

from toolglot.errors import ApiError, ErrorKind
from toolglot.ir import replace
from toolglot.upstream.breaker import OWN_FAILURES
from toolglot.upstream.transport import TransportError, TransportFailure
from toolglot.upstream.upstream import Upstream
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
"""Failures after which a client that expects a cut connection gets one, although no answer has begun. The others would
happen again to the same request."""


def transport_error(upstream: str, failure: TransportError) -> ApiError:
    """The client's error for an upstream that cannot be reached, or that broke off."""
    kind, status, code = _FAILURES[failure.failure]
    if failure.failure in OWN_FAILURES:
        return ApiError(kind=kind, status=status, code=code, message=str(failure), retry_after=1.0)
    message = f"The upstream {upstream!r} failed: {failure}"
    is_broken = failure.failure in _CUT_FAILURES
    return ApiError(kind=kind, status=status, code=code, message=message, is_broken_off=is_broken)


class BreakableStream(Protocol):
    def break_off(self, error: ApiError, *, broken: bool = True) -> bytes: ...


def end_broken_stream(translation: BreakableStream, upstream: str, failure: TransportError) -> bytes:
    """End a client's stream whose upstream has failed. An answer over the gateway's size limit would exceed it again:
    then the client gets an error, not a cut connection, after which it would retry."""
    return translation.break_off(transport_error(upstream, failure), broken=failure.failure != "too_large")


def shorten_message(error: ApiError) -> str:
    """The start of an upstream's message, on one line."""
    return " ".join(error.message.split())[:MAX_MESSAGE_SHOWN]


_CREDENTIAL_KINDS: frozenset[ErrorKind] = frozenset({"authentication", "permission", "billing"})


def describe_outcome(upstream: Upstream, outcome: ApiError | TransportError) -> ApiError:
    """The client's error for a failed attempt. If a key was refused, it names the upstream, whose key it is."""
    if isinstance(outcome, TransportError):
        return transport_error(upstream.name, outcome)
    error = upstream.redact_error(outcome)
    if error.retryable and error.retry_after is None and error.retry_after_date is None:
        error = replace(error, retry_after=seconds_in_message(error.message))  # few clients parse the message
    if error.kind in _CREDENTIAL_KINDS:
        return replace(error, message=f"The upstream {upstream.name!r} says: {error.message}")
    return error


def decode_error_reply(upstream: Upstream, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Decode a reply that is not an answer: an error, a redirect, or an HTML page."""
    if 200 <= status < 300:
        return _unexpected_page_error(upstream, body)
    body = error_document(upstream.redact_body(body))
    return _redirect_error(upstream, status) or upstream.dialect.decode_error(
        status, upstream.safe_headers(headers), body
    )


def _redirect_error(upstream: Upstream, status: int) -> ApiError | None:
    """The error for a redirect. It is not followed: the credential would go to another server."""
    if status >= 400:
        return None
    message = f"The upstream {upstream.name!r} answered with status {status}; is its base URL right?"
    return ApiError(kind="server", status=502, code="upstream_redirect", message=message)


def _unexpected_page_error(upstream: Upstream, body: bytes) -> ApiError:
    """The error for an HTML page. Usually the base URL is wrong."""
    start = " ".join(body.decode("utf-8", "replace").split())[:MAX_MESSAGE_SHOWN]
    message = f"The upstream {upstream.name!r} answered with text/html; is its base URL right? It begins: {start}"
    return ApiError(kind="server", status=502, code="upstream_unreadable", message=message)


def resting_error(upstream: str, wait: float) -> ApiError:
    """The client's error for an upstream whose breaker is open."""
    message = f"The upstream {upstream!r} has failed repeatedly and is left alone for {ceil(wait)} seconds"
    return ApiError(kind="server", status=503, code=RESTING, message=message, retry_after=wait)
