"""What became of one call to an upstream when it is no answer, and what a client is told of it."""

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
"""Failures after which a client that wants a cut connection gets one, though nothing of an answer was written. The
others say something that the same request meets again."""


def transport_error(upstream: str, failure: TransportError) -> ApiError:
    """What a client is told of an upstream that cannot be reached, or that broke off."""
    kind, status, code = _FAILURES[failure.failure]
    if failure.failure in OWN_FAILURES:
        return ApiError(kind=kind, status=status, code=code, message=str(failure), retry_after=1.0)
    message = f"The upstream {upstream!r} failed: {failure}"
    is_broken = failure.failure in _CUT_FAILURES
    return ApiError(kind=kind, status=status, code=code, message=message, is_broken_off=is_broken)


class BreakableStream(Protocol):
    def break_off(self, error: ApiError, *, broken: bool = True) -> bytes: ...


def end_broken_stream(translation: BreakableStream, upstream: str, failure: TransportError) -> bytes:
    """The end of a client's stream whose upstream has failed. An answer over our own limit is over it again next time:
    the client is told so, and not made to ask again by a connection that is cut."""
    return translation.break_off(transport_error(upstream, failure), broken=failure.failure != "too_large")


def shorten_message(error: ApiError) -> str:
    """The beginning of what an upstream said, on one line."""
    return " ".join(error.message.split())[:MAX_MESSAGE_SHOWN]


_CREDENTIAL_KINDS: frozenset[ErrorKind] = frozenset({"authentication", "permission", "billing"})


def describe_outcome(upstream: Upstream, outcome: ApiError | TransportError) -> ApiError:
    """What a client is told of a failed attempt. Whose key was refused is said: it is not the client's own."""
    if isinstance(outcome, TransportError):
        return transport_error(upstream.name, outcome)
    error = upstream.redact_error(outcome)
    if error.retryable and error.retry_after is None and error.retry_after_date is None:
        error = replace(error, retry_after=seconds_in_message(error.message))  # few clients read it in the message
    if error.kind in _CREDENTIAL_KINDS:
        return replace(error, message=f"The upstream {upstream.name!r} says: {error.message}")
    return error


def decode_error_reply(upstream: Upstream, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """What a reply says that is no answer: an error, a redirect, or a page for people."""
    if 200 <= status < 300:
        return _unexpected_page_error(upstream, body)
    body = error_document(upstream.redact_body(body))
    return _redirect_error(upstream, status) or upstream.dialect.decode_error(
        status, upstream.safe_headers(headers), body
    )


def _redirect_error(upstream: Upstream, status: int) -> ApiError | None:
    """A redirect is not followed: the credential would go where nobody said it may."""
    if status >= 400:
        return None
    message = f"The upstream {upstream.name!r} answered with status {status}; is its base URL right?"
    return ApiError(kind="server", status=502, code="upstream_redirect", message=message)


def _unexpected_page_error(upstream: Upstream, body: bytes) -> ApiError:
    """Most often of a server that is not what the base URL takes it for."""
    shown = " ".join(body.decode("utf-8", "replace").split())[:MAX_MESSAGE_SHOWN]
    message = f"The upstream {upstream.name!r} answered with text/html; is its base URL right? It begins: {shown}"
    return ApiError(kind="server", status=502, code="upstream_unreadable", message=message)


def resting_error(upstream: str, wait: float) -> ApiError:
    """What a client is told of an upstream that is not asked now."""
    message = f"The upstream {upstream!r} has failed repeatedly and is left alone for {ceil(wait)} seconds"
    return ApiError(kind="server", status=503, code=RESTING, message=message, retry_after=wait)
