"""From a client's request to the beginning of an answer: targets in order, retries, one mending, then the next target.

Everything here happens before the client has seen a byte of an answer (a keep-alive is none). Once it has, there is one
way on: to the end, or to an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from random import random
from time import time

from msgspec import Struct

from toolglot.dialect import Dialect, StreamEncoder, capabilities
from toolglot.errors import ApiError, ToolglotError, UpstreamDecodeError, UpstreamError, unreadable
from toolglot.events import Start
from toolglot.ir import Request, Usage, replace
from toolglot.receipt import Loss, Receipt
from toolglot.recordings.format import CallSettings
from toolglot.routing import Target
from toolglot.server import headers
from toolglot.server.beginning import Answer, Bounded, begin_stream
from toolglot.server.calling import Calling
from toolglot.server.credentials import also_hiding, shown_credentials
from toolglot.server.express.handing import Handed
from toolglot.server.gateway import Gateway
from toolglot.server.logs import printable
from toolglot.server.outcomes import RESTING, refused, resting, said, told
from toolglot.server.prefixes import PrefixHashing
from toolglot.server.recent_prefixes import prefix_key
from toolglot.server.record import Record
from toolglot.server.replays import Replays
from toolglot.server.states import States
from toolglot.server.taping import Tape, settings_of
from toolglot.textcalls.settings import TextCalls
from toolglot.translate import Exchange
from toolglot.upstream.aside import aside
from toolglot.upstream.breaker import Ticket
from toolglot.upstream.exchange import Told
from toolglot.upstream.mend import mend
from toolglot.upstream.replay import labels
from toolglot.upstream.replay.unmatched import CODE as NO_RECORDING
from toolglot.upstream.retry import falls_back, next_wait
from toolglot.upstream.transport import Reply, TransportError
from toolglot.upstream.upstream import Upstream

log = logging.getLogger("toolglot.server")


class Asked(Struct, frozen=True, kw_only=True):
    """What a client asked for, in its own bytes and decoded."""

    client: Dialect
    request: Request
    body: bytes
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    strict: bool = False
    can_cut: bool = False
    """The client can tell a connection that is cut from an answer that has ended."""
    encoder: Callable[[], StreamEncoder] | None = None
    """Takes the place of the client's encoder where the events of an answer are wanted; no bytes are forwarded then."""
    serves: Callable[[str], bool] | None = None
    """Knows the tools that are run here, by the client's name of them."""
    tape: Tape | None = None
    """What the exchange is recorded on, if it is."""
    lines: tuple[Loss, ...] = ()
    """What is known for the receipt already."""


def start_of_failure(asked: Asked, record: Record, exchange: Exchange | None) -> Start:
    """The beginning of an answer that fails before any upstream has begun one."""
    if exchange is not None:
        return exchange.start_of_failure()
    return Start(id=_answer_id(record), model=asked.request.model, created=int(time()))


def _answer_id(record: Record) -> str:
    return record.id.replace("req_", "resp_")


class FailedError(Exception):
    """No target could answer. `error` is what the client is told; `exchange` is the attempt that failed, if any."""

    def __init__(self, error: ApiError, exchange: Exchange | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.receipt = exchange.receipt if exchange is not None else Receipt()
        self.start = exchange.start_of_failure() if exchange is not None else None
        """The id, time and model of an answer that is only this error, for clients that get one."""


class Attempts:
    """The attempts to answer one request. `record.calls` counts them."""

    def __init__(
        self,
        gateway: Gateway,
        asked: Asked,
        record: Record,
        calling: Calling | None = None,
        replays: Replays | None = None,
        states: States | None = None,
        handed: Handed | None = None,
    ) -> None:
        self._handed = handed
        self._gateway = gateway
        self._states = states if states is not None else States()
        self._replays = replays if replays is not None else Replays()
        self._calling = calling if calling is not None else Calling()
        self._asked = asked
        self._record = record
        self.waiting = False
        """No upstream is at work: the time until the next attempt is running."""
        self.exchange: Exchange | None = None
        self.spent: Usage | None = None
        """What a first try cost, after which the model was asked once more."""
        self._ticket: Ticket | None = None
        self._repeats: dict[int, bool] = {}
        self._prefix = PrefixHashing()
        self._settings: CallSettings | None = None

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
                if outcome.whole is not None:
                    await self.keep(outcome)
                if errors:
                    outcome.exchange.receipt.note("model", f"answered by {upstream.name}", errors[0].message)
                return outcome
            error = told(upstream, outcome)
            if error.code != NO_RECORDING:  # which is long, and the request's own line tells it
                log.warning(
                    "request %s: %s (%s): %s", self._record.id, upstream.name, error.kind, printable(error.message)
                )
            # That an upstream is left alone says less than what another one answered.
            errors.insert(len(errors) if error.code == RESTING else 0, error)
            if not falls_back(outcome):
                break
        raise FailedError(errors[0], self.exchange)

    async def _guarded(self, upstream: Upstream, target: Target) -> Answer | ApiError | TransportError:
        """One target, if its breaker lets the request through."""
        calls = await self._calling.of(upstream, target, self._asked.request)
        exchange, body = await self._prepared(upstream, target, calls)
        loop, breaker = asyncio.get_running_loop(), self._gateway.breaker(upstream)
        asked = None if self._handed is None else self._handed.ticket(upstream)
        ticket = asked or breaker.enter(loop.time())
        if ticket is None:
            return resting(upstream, breaker.wait(loop.time()))
        try:
            outcome = await self._ask(upstream, target, exchange, body)
            if isinstance(outcome, Answer):
                self._gateway.prefixes.write(self._record, upstream.name, await self._prefix.result())
        except BaseException:
            breaker.leave(ticket)
            raise
        finally:
            self._prefix.cancel()
        if isinstance(outcome, Answer) and calls is None:
            self._open_lane(upstream, target)
        if isinstance(outcome, Answer) and outcome.whole is None:
            breaker.answer(ticket)
            self._ticket = ticket
        else:
            breaker.settle(ticket, None if isinstance(outcome, Answer) else outcome, loop.time())
        return outcome

    def _open_lane(self, upstream: Upstream, target: Target) -> None:
        """Later requests for the same may go on the express lane."""
        if self._record.fallbacks == 0 and self._asked.encoder is None:
            self._gateway.lanes.open(
                self._asked.client,
                self._asked.request.model,
                upstream,
                target,
                self._gateway.breaker(upstream),
                self._gateway.config.strict,
                asyncio.get_running_loop().time(),
            )

    async def keep(self, answer: Answer) -> None:
        """The answer is all there: what its upstream will want back of it is kept before the client can go on."""
        await self._states.keep(answer.exchange, whole=answer.whole is not None)

    def over(self, failure: ApiError | TransportError | None) -> None:
        """A stream has ended, well or by breaking off: only now is known how it went."""
        if self._ticket is not None:
            breaker = self._gateway.breaker(self._gateway.upstreams[self._record.upstream or ""])
            breaker.settle(self._ticket, failure, asyncio.get_running_loop().time())

    async def _prepared(
        self, upstream: Upstream, target: Target, text_calls: TextCalls | None
    ) -> tuple[Exchange, bytes]:
        """A new exchange, and the upstream's request. Raises what `Exchange.request` does."""
        asked = self._asked
        size = len(asked.body)
        told = await self._replays.told(asked.client, upstream, target, asked.request, text_calls, size)
        if states := await self._states.found(asked.client, upstream, target, asked.request, size):
            told = replace(told, states=states)
        exchange = self._exchange(upstream, target, text_calls, told)
        exchange.receipt.add(asked.lines)
        self._states.watch(exchange)
        try:
            body = await aside(size, exchange.request_of, asked.request, asked.body)
        except ToolglotError:
            self.exchange = exchange
            raise
        self.exchange = exchange  # not before: somebody may look at its receipt while it is being written
        if asked.tape is not None:
            forward = asked.encoder is None
            self._settings = settings_of(upstream, target, exchange, text_calls, told, forward=forward)
        self._note(upstream, exchange)
        return exchange, body

    async def _ask(
        self, upstream: Upstream, target: Target, exchange: Exchange, body: bytes
    ) -> Answer | ApiError | TransportError:
        """One target, as often as the retry policy allows."""
        attempt, mended, as_text = 0, False, False
        self._prefix.begin(self._record.owner, upstream, exchange, body)
        while True:
            attempt += 1
            self._record.count_call(upstream.name)
            outcome = await self._once(upstream, exchange, body)
            if isinstance(outcome, Answer) and exchange.wants_again is not None:
                attempt, body = 0, await self._again(exchange)
                continue
            if isinstance(outcome, Answer):
                if as_text:
                    await self._calling.refused(upstream, target)
                return outcome
            if isinstance(outcome, ApiError) and outcome.code == NO_RECORDING:
                return outcome  # it quotes the request, whose words are no refusal
            if (
                not as_text
                and isinstance(outcome, ApiError)
                and (calls := self._calling.instead(upstream, target, self._asked.request, outcome)) is not None
            ):
                exchange, body = await self._prepared(upstream, target, calls)
                exchange.receipt.note("tools", "sent as text", f"the upstream does not take them: {said(outcome)}")
                as_text, self._record.mended = True, self._record.mended + 1
                self._prefix.begin(self._record.owner, upstream, exchange, body)
                continue
            if (
                not mended
                and isinstance(outcome, ApiError)
                and (mending := await self._mend(upstream, exchange, outcome)) is not None
            ):
                mended, body = True, mending
                self._prefix.begin(self._record.owner, upstream, exchange, body)
                continue
            if not await self._waited(upstream, attempt, outcome):
                return outcome

    async def _waited(self, upstream: Upstream, attempt: int, outcome: ApiError | TransportError) -> bool:
        """Wait until the same call may be made again; False when it may not."""
        wait = next_wait(upstream.retries, attempt, outcome, random(), time())
        if wait is None:
            return False
        self.waiting = True
        await asyncio.sleep(wait)
        self.waiting = False
        return True

    async def _again(self, exchange: Exchange) -> bytes:
        """The request with which the model is asked once more, after a whole answer that had a wrong call in it."""
        self.spent = None if exchange.wants_again is None else exchange.wants_again.usage
        self._record.asked_again += 1
        return await aside(len(self._asked.body), exchange.again)

    async def go_on(self, answer: Answer) -> None:
        """The model is asked once more, because its answer had a wrong call in it; the stream goes on with the second
        answer, as if it were the first one's rest.

        Raises:
            FailedError: the upstream has failed, as often as the retry policy allows.
        """
        upstream, exchange = self._gateway.upstreams[self._record.upstream or ""], answer.exchange
        assert answer.translation is not None
        answer.reply.close()
        self._record.asked_again += 1
        body = await aside(len(self._asked.body), answer.translation.again)
        attempt = 0
        while True:
            attempt += 1
            self._record.count_call(upstream.name)
            outcome = await self._replied(upstream, exchange, body)
            if not isinstance(outcome, ApiError | TransportError):
                answer.reply = outcome
                answer.chunks = Bounded(aiter(outcome.chunks()), self._gateway.config.limits.response)
                return
            if not await self._waited(upstream, attempt, outcome):
                self.over(outcome)
                raise FailedError(told(upstream, outcome), exchange)

    def _exchange(self, upstream: Upstream, target: Target, text_calls: TextCalls | None, told: Told) -> Exchange:
        made = self._gateway.exchanges.of_kind(
            self._asked.client,
            upstream,
            target,
            text_calls=text_calls,
            strict=self._asked.strict,
            told=told,
            forward=self._asked.encoder is None,
        )
        answer_id = _answer_id(self._record)
        repeats = self._prefix_repeats(upstream, target)
        kept, can_cut = self._states.kept, self._asked.can_cut
        exchange = made(
            created=int(time()),
            answer_id=answer_id,
            keeps_state=kept,
            can_cut=can_cut,
            prefix_repeats=repeats,
            serves=self._asked.serves,
        )
        if shown := tuple(shown_credentials(self._asked.headers, self._asked.query)):
            exchange.hide = also_hiding(exchange.hide, shown)
        return exchange

    def _prefix_repeats(self, upstream: Upstream, target: Target) -> bool:
        """Have the request's tools and system text come before, a short time ago? Asked once for each target."""
        client, dialect = self._asked.client, upstream.dialect
        if client.name == dialect.name or not capabilities(dialect, target.model).cache_by_marks:
            return False
        key = prefix_key(self._record.owner, upstream.name, target.model, self._asked.request)
        if key not in self._repeats:
            now = asyncio.get_running_loop().time()
            self._repeats[key] = self._gateway.recent_prefixes.note(key, now)
        return self._repeats[key]

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
        reply = await self._replied(upstream, exchange, body)
        if isinstance(reply, ApiError | TransportError):
            return reply
        answer: Answer | ApiError | None = None
        lines = len(exchange.receipt)
        try:
            answer = await self._begin(exchange, reply)
            if isinstance(answer, Answer):
                answer.headers = upstream.harmless(reply.headers)
            return answer
        except TransportError as failure:
            return failure
        finally:
            if not isinstance(answer, Answer):
                exchange.receipt.truncate(lines)  # an answer that nobody gets; another one may follow
            if not isinstance(answer, Answer) or answer.whole is not None:
                reply.close()

    async def _replied(self, upstream: Upstream, exchange: Exchange, body: bytes) -> Reply | ApiError | TransportError:
        """One call: a reply that may be an answer, or the error that stands in its place."""
        asked = self._asked
        assert exchange.sent is not None
        path = headers.with_query(exchange.path, asked.client, upstream.dialect, asked.query)
        passed = headers.to_upstream(asked.client, upstream.dialect, asked.headers, stream=exchange.sent.stream)
        call, tape = upstream.call(path, body, passed), asked.tape
        taped = None if tape is None else tape.call(upstream, exchange.sent, call, self._settings)
        try:
            reply = await self._first_reply(upstream, exchange.sent.model) or await upstream.transport.send(call)
        except TransportError as failure:
            if taped is not None:
                taped.failed(failure)
            return failure
        if taped is not None:
            reply = taped.replied(reply)
        is_answer = False
        try:
            error = await refused(upstream, reply)
            is_answer = error is None
        except TransportError as failure:
            return failure
        finally:
            if not is_answer:
                reply.close()
        labels.put_on(exchange, upstream, reply)
        return error or self._replays.watched(exchange, reply, body)

    async def _first_reply(self, upstream: Upstream, model: str) -> Reply | None:
        """What came of the same call, where it was made already."""
        handed, self._handed = self._handed, None
        return None if handed is None else await handed.reply(upstream, model)

    async def _begin(self, exchange: Exchange, reply: Reply) -> Answer | ApiError:
        if exchange.sent is not None and exchange.sent.stream:
            encoder = None if self._asked.encoder is None else self._asked.encoder()
            return await begin_stream(exchange, reply, self._gateway.config.limits.response, encoder)
        try:
            body = await reply.read(self._gateway.config.limits.response)
            whole = await aside(len(body), partial(exchange.response, encode=self._asked.encoder is None), body)
        except UpstreamError as error:
            return error.error
        except UpstreamDecodeError as error:
            return unreadable(error)
        return Answer(exchange=exchange, reply=reply, whole=whole)
