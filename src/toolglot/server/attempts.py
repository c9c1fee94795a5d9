"""From a client's request to the beginning of an answer: targets in order, retries, one mending, then the next target.

Everything here happens before the client has seen a byte of an answer (a keep-alive is none). Once it has, there is one
way on: to the end, or to an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from math import ceil
from random import random
from time import time

from msgspec import Struct

from toolglot.dialect import Dialect
from toolglot.errors import ApiError, ErrorKind, ToolglotError, UpstreamDecodeError, UpstreamError, unreadable
from toolglot.ir import Request, replace
from toolglot.receipt import Receipt
from toolglot.routing import Target
from toolglot.server import headers
from toolglot.server.gateway import Gateway
from toolglot.server.logs import printable
from toolglot.server.record import Record
from toolglot.streaming import StreamTranslation
from toolglot.translate import Exchange
from toolglot.upstream.aside import aside
from toolglot.upstream.breaker import OURS, Ticket
from toolglot.upstream.exchange import exchange_for
from toolglot.upstream.mend import mend
from toolglot.upstream.retry import falls_back, next_wait
from toolglot.upstream.transport import Reply, TransportError, TransportFailure
from toolglot.upstream.upstream import Upstream

ERROR_BODY_LIMIT = 1024 * 1024
PAGE_SHOWN = 200
RESTING = "upstream_resting"

log = logging.getLogger("toolglot.server")


class Asked(Struct, frozen=True, kw_only=True):
    """What a client asked for, in its own bytes and decoded."""

    client: Dialect
    request: Request
    body: bytes
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    strict: bool = False


class Answer(Struct, kw_only=True):
    """An answer that has begun. `whole` is all of it; else `first` and what `chunks` still bring."""

    exchange: Exchange
    reply: Reply
    headers: Mapping[str, str] = {}
    """The reply's, but those that repeat a credential."""
    whole: bytes | None = None
    first: bytes = b""
    translation: StreamTranslation | None = None
    chunks: AsyncIterator[bytes] | None = None


class FailedError(Exception):
    """No target could answer. `error` is what the client is told."""

    def __init__(self, error: ApiError, receipt: Receipt | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.receipt = receipt if receipt is not None else Receipt()


class Attempts:
    """The attempts to answer one request. `record.calls` counts them."""

    def __init__(self, gateway: Gateway, asked: Asked, record: Record) -> None:
        self._gateway = gateway
        self._asked = asked
        self._record = record
        self.waiting = False
        """No upstream is at work: the time until the next attempt is running."""
        self.exchange: Exchange | None = None
        self._ticket: Ticket | None = None

    async def answer(self, targets: tuple[Target, ...]) -> Answer:
        """The first answer that any target gives.

        Raises:
            FailedError: none gave one.
            LossError, RefusedError, DecodeError: the request cannot be sent to the target at all.
        """
        errors: list[ApiError] = []
        for number, target in enumerate(targets):
            upstream = self._gateway.upstreams[target.upstream]
            self._record.fallbacks = number
            outcome = await self._guarded(upstream, target)
            if isinstance(outcome, Answer):
                if errors:
                    outcome.exchange.receipt.note("model", f"answered by {upstream.name}", errors[0].message)
                return outcome
            error = _told(upstream, outcome)
            log.warning("request %s: %s (%s): %s", self._record.id, upstream.name, error.kind, printable(error.message))
            # That an upstream is left alone says less than what another one answered.
            errors.insert(len(errors) if error.code == RESTING else 0, error)
            if not falls_back(outcome):
                break
        raise FailedError(errors[0], None if self.exchange is None else self.exchange.receipt)

    async def _guarded(self, upstream: Upstream, target: Target) -> Answer | ApiError | TransportError:
        """One target, if its breaker lets the request through."""
        exchange, asked = self._exchange(upstream, target), self._asked
        try:
            body = await aside(len(asked.body), exchange.request_of, asked.request, asked.body)
        except ToolglotError:
            self.exchange = exchange
            raise
        self.exchange = exchange  # not before: somebody may look at its receipt while it is being written
        self._note(upstream, exchange)
        loop, breaker = asyncio.get_running_loop(), self._gateway.breaker(upstream)
        ticket = breaker.enter(loop.time())
        if ticket is None:
            return resting(upstream, breaker.wait(loop.time()))
        try:
            outcome = await self._ask(upstream, exchange, body)
        except BaseException:
            breaker.leave(ticket)
            raise
        if isinstance(outcome, Answer) and outcome.whole is None:
            breaker.answer(ticket)
            self._ticket = ticket
        else:
            breaker.settle(ticket, None if isinstance(outcome, Answer) else outcome, loop.time())
        return outcome

    def over(self, failure: TransportError | None) -> None:
        """A stream has ended, well or by breaking off: only now is known how it went."""
        if self._ticket is not None:
            breaker = self._gateway.breaker(self._gateway.upstreams[self._record.upstream or ""])
            breaker.settle(self._ticket, failure, asyncio.get_running_loop().time())

    async def _ask(self, upstream: Upstream, exchange: Exchange, body: bytes) -> Answer | ApiError | TransportError:
        """One target, as often as the retry policy allows."""
        attempt, mended = 0, False
        while True:
            attempt += 1
            self._record.count_call(upstream.name)
            outcome = await self._once(upstream, exchange, body)
            if isinstance(outcome, Answer):
                return outcome
            if (
                not mended
                and isinstance(outcome, ApiError)
                and (mending := await self._mend(upstream, exchange, outcome)) is not None
            ):
                mended, body = True, mending
                continue
            wait = next_wait(upstream.retries, attempt, outcome, random(), time())
            if wait is None:
                return outcome
            self.waiting = True
            await asyncio.sleep(wait)
            self.waiting = False

    def _exchange(self, upstream: Upstream, target: Target) -> Exchange:
        return exchange_for(
            self._asked.client,
            upstream,
            target,
            strict=self._asked.strict,
            created=int(time()),
            answer_id=self._record.id.replace("req_", "resp_"),
        )

    def _note(self, upstream: Upstream, exchange: Exchange) -> None:
        assert exchange.sent is not None
        self._record.upstream = upstream.name
        self._record.upstream_dialect = upstream.dialect.name
        self._record.upstream_model = exchange.sent.model

    async def _mend(self, upstream: Upstream, exchange: Exchange, error: ApiError) -> bytes | None:
        assert exchange.sent is not None
        size = len(self._asked.body)
        mending = await aside(size, mend, exchange.sent, upstream.dialect.name, error)
        if mending is None:
            return None
        sent, lines = mending
        exchange.receipt.add(lines)
        self._record.mended += 1
        return await aside(size, exchange.resend, sent)

    async def _once(self, upstream: Upstream, exchange: Exchange, body: bytes) -> Answer | ApiError | TransportError:
        """One call: the beginning of an answer, or the error that stands in its place."""
        asked = self._asked
        assert exchange.sent is not None
        stream = exchange.sent.stream
        path = headers.with_query(exchange.path, asked.client, upstream.dialect, asked.query)
        passed = headers.to_upstream(asked.client, upstream.dialect, asked.headers, stream=stream)
        try:
            reply = await upstream.transport.send(upstream.call(path, body, passed))
        except TransportError as failure:
            return failure
        answer: Answer | ApiError | None = None
        try:
            answer = await self._begin(upstream, exchange, reply)
            if isinstance(answer, Answer):
                answer.headers = upstream.harmless(reply.headers)
            return answer
        except TransportError as failure:
            return failure
        finally:
            if not isinstance(answer, Answer) or answer.whole is not None:
                reply.close()

    async def _begin(self, upstream: Upstream, exchange: Exchange, reply: Reply) -> Answer | ApiError:
        if not 200 <= reply.status < 300:
            body = upstream.without_secrets(await reply.read(ERROR_BODY_LIMIT))
            told = upstream.harmless(reply.headers)
            return _redirected(upstream, reply) or upstream.dialect.decode_error(reply.status, told, body)
        if reply.headers.get("content-type", "").startswith("text/html"):
            return await _page(upstream, reply)
        if exchange.sent is not None and exchange.sent.stream:
            return await _begin_stream(exchange, reply, self._gateway.config.limits.response)
        try:
            body = await reply.read(self._gateway.config.limits.response)
            whole = await aside(len(body), exchange.response, body)
        except UpstreamError as error:
            return error.error
        except UpstreamDecodeError as error:
            return unreadable(error)
        return Answer(exchange=exchange, reply=reply, whole=whole)


class Bounded:
    """The pieces of a body, up to a number of bytes; `TransportError("too_large")` after that."""

    def __init__(self, chunks: AsyncIterator[bytes], limit: int) -> None:
        self._chunks = chunks
        self._limit = self._left = limit

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await anext(self._chunks)
        self._left -= len(chunk)
        if self._left < 0:
            raise TransportError("too_large", f"its answer has more than {self._limit} bytes")
        return chunk


async def _begin_stream(exchange: Exchange, reply: Reply, limit: int) -> Answer | ApiError:
    """Read on until there is something to tell the client. An error that comes first is an error of the request."""
    translation = exchange.stream()
    chunks = Bounded(aiter(reply.chunks()), limit)
    first = b""
    while not first and not translation.ended:
        chunk = await anext(chunks, None)
        if chunk is None:
            first = translation.close()
            break
        first = translation.feed(chunk)
    if translation.fault is not None:
        return translation.fault
    return Answer(exchange=exchange, reply=reply, first=first, translation=translation, chunks=chunks)


_FAILURES: dict[TransportFailure, tuple[ErrorKind, int, str]] = {
    "pool": ("overloaded", 503, "connections_in_use"),
    "connect": ("overloaded", 502, "upstream_unreachable"),
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


_CREDENTIAL: frozenset[ErrorKind] = frozenset({"authentication", "permission", "billing"})


def _told(upstream: Upstream, outcome: ApiError | TransportError) -> ApiError:
    """What a client is told of a failed attempt. Whose key was refused is said: it is not the client's own."""
    if isinstance(outcome, TransportError):
        return transport_error(upstream.name, outcome)
    error = upstream.hide(outcome)
    if error.kind in _CREDENTIAL:
        return replace(error, message=f"The upstream {upstream.name!r} says: {error.message}")
    return error


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
    return ApiError(kind="overloaded", status=503, code=RESTING, message=message, retry_after=wait)
