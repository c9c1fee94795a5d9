"""What became of one call to an upstream when it is no answer, and what a client is told of it."""

from __future__ import annotations

from math import ceil

from toolglot.errors import ApiError, ErrorKind
from toolglot.ir import replace
from toolglot.streaming import StreamTranslation
from toolglot.upstream.breaker import OURS
from toolglot.upstream.transport import Reply, TransportError, TransportFailure
from toolglot.upstream.upstream import Upstream
from toolglot.wire.retry_after import seconds_named
from toolglot.wire.sse import error_document

ERROR_BODY_LIMIT = 1024 * 1024
PAGE_SHOWN = 200
RESTING = "upstream_resting"

_FAILURES: dict[TransportFailure, tuple[ErrorKind, int, str]] = {
    "pool": ("overloaded", 503, "connections_in_use"),
    "connect": ("server", 502, "upstream_unreachable"),
    "tls": ("server", 502, "upstream_tls"),
    "timeout": ("timeout", 504, "upstream_timeout"),
    "reset": ("server", 502, "upstream_reset"),
    "too_large": ("server", 502, "upstream_too_large"),
}


def transport_error(upstream: str, failure: TransportError) -> ApiError:
    """What a client is told of an upstream that cannot be reached, or that broke off."""
    kind, status, code = _FAILURES[failure.failure]
    if failure.failure in OURS:
        return ApiError(kind=kind, status=status, code=code, message=str(failure), retry_after=1.0)
    message = f"The upstream {upstream!r} failed: {failure}"
    return ApiError(kind=kind, status=status, code=code, message=message)


def broken_off(translation: StreamTranslation, upstream: str, failure: TransportError) -> bytes:
    """The end of a client's stream whose upstream has failed. An answer over our own limit is over it again next time:
    the client is told so, and not made to ask again by a connection that is cut."""
    return translation.break_off(transport_error(upstream, failure), broken=failure.failure != "too_large")


def said(error: ApiError) -> str:
    """The beginning of what an upstream said, on one line."""
    return " ".join(error.message.split())[:PAGE_SHOWN]


_CREDENTIAL: frozenset[ErrorKind] = frozenset({"authentication", "permission", "billing"})


def told(upstream: Upstream, outcome: ApiError | TransportError) -> ApiError:
    """What a client is told of a failed attempt. Whose key was refused is said: it is not the client's own."""
    if isinstance(outcome, TransportError):
        return transport_error(upstream.name, outcome)
    error = upstream.hide(outcome)
    if error.retryable and error.retry_after is None and error.retry_after_date is None:
        error = replace(error, retry_after=seconds_named(error.message))  # few clients read it in the message
    if error.kind in _CREDENTIAL:
        return replace(error, message=f"The upstream {upstream.name!r} says: {error.message}")
    return error


async def refused(upstream: Upstream, reply: Reply) -> ApiError | None:
    """What a reply says that is no answer."""
    if not 200 <= reply.status < 300:
        body = error_document(upstream.without_secrets(await reply.read(ERROR_BODY_LIMIT)))
        headers = upstream.harmless(reply.headers)
        return _redirected(upstream, reply) or upstream.dialect.decode_error(reply.status, headers, body)
    return await _page(upstream, reply) if reply.headers.get("content-type", "").startswith("text/html") else None


def _redirected(upstream: Upstream, reply: Reply) -> ApiError | None:
    """A redirect is not followed: the credential would go where nobody said it may."""
    if reply.status >= 400:
        return None
    message = f"The upstream {upstream.name!r} answered with status {reply.status}; is its base URL right?"
    return ApiError(kind="server", status=502, code="upstream_redirect", message=message)


async def _page(upstream: Upstream, reply: Reply) -> ApiError:
    """A page for people: most often of a server that is not what the base URL takes it for."""
    page = (await reply.read(ERROR_BODY_LIMIT)).decode("utf-8", "replace")
    shown = " ".join(page.split())[:PAGE_SHOWN]
    message = f"The upstream {upstream.name!r} answered with text/html; is its base URL right? It begins: {shown}"
    return ApiError(kind="server", status=502, code="upstream_unreadable", message=message)


def resting(upstream: Upstream, wait: float) -> ApiError:
    """What a client is told of an upstream that is not asked now."""
    message = f"The upstream {upstream.name!r} has failed repeatedly and is left alone for {ceil(wait)} seconds"
    return ApiError(kind="server", status=503, code=RESTING, message=message, retry_after=wait)
