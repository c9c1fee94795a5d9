"""A model's answer, from the client's request to the last byte: the heart of the gateway."""

from __future__ import annotations

from contextlib import aclosing

from toolglot.dialects import find
from toolglot.errors import ApiError
from toolglot.events import Fault
from toolglot.ir import replace
from toolglot.receipt import Receipt
from toolglot.routing import MAX_NAME, Target
from toolglot.server import headers
from toolglot.server.attempts import Answer, Asked, Attempts, FailedError
from toolglot.server.calling import Calling
from toolglot.server.failures import told
from toolglot.server.heartbeat import keeping_alive, watching
from toolglot.server.incoming import Incoming
from toolglot.server.ingress import read_body
from toolglot.server.pieces import drain, pieces
from toolglot.server.record import Record
from toolglot.server.replays import Replays
from toolglot.server.routes import Match
from toolglot.server.service import Service
from toolglot.server.turn import Turn
from toolglot.streaming import StreamTranslation
from toolglot.textcalls.again import both
from toolglot.upstream.aside import aside

_NO = ("", "0", "false", "no", "off")


async def generate(service: Service, incoming: Incoming, match: Match) -> None:
    """`POST` to a path where models answer."""
    asked = await _read(incoming, match)
    record = incoming.record
    record.model, record.stream = asked.request.model[:MAX_NAME], asked.request.stream
    targets = incoming.gateway.router.resolve(asked.request.model)
    turn, asked = await _with_history(service, incoming, asked, targets[0])
    replays = Replays(service.store, record.owner)
    attempts = Attempts(incoming.gateway, asked, record, Calling(service.verdicts, service.store), replays)
    async with watching(incoming):
        try:
            if asked.request.stream:
                await _stream(incoming, asked, attempts, targets, turn)
            else:
                await _whole(incoming, attempts, targets, turn)
        finally:
            if attempts.exchange is not None:
                service.receipts.keep(record, attempts.exchange)


async def _read(incoming: Incoming, match: Match) -> Asked:
    """The request: its body, and for Gemini what stands in its path."""
    limits = incoming.gateway.config.limits
    body = await read_body(incoming.scope, incoming.receive, limits)
    incoming.record.bytes_in = len(body)
    client = find(match.dialect or "")
    request = await aside(len(body), client.decode_request, body)
    if client.model_in_path:
        streams = match.route.path.endswith(":streamGenerateContent")
        request = replace(request, model=match.values["model"], stream=streams)
    for what, count, limit in (
        ("messages", len(request.messages), limits.messages),
        ("tools", len(request.tools), limits.tools),
    ):
        if count > limit:
            raise FailedError(ApiError(kind="bad_request", message=f"{what}: {count} of at most {limit}", param=what))
    return Asked(
        client=client,
        request=request,
        body=body,
        headers=incoming.headers,
        query=incoming.query,
        strict=incoming.gateway.config.strict or incoming.headers.get("x-toolglot-strict", "0").lower() not in _NO,
    )


async def _with_history(service: Service, incoming: Incoming, asked: Asked, target: Target) -> tuple[Turn, Asked]:
    """The request with what went before it, where the client leaves that to the server."""
    owner = incoming.record.owner
    keeps_state = incoming.gateway.upstreams[target.upstream].keeps_state
    turn, body = await Turn.begin(asked.client.name, asked.body, service.store, owner, upstream_keeps_state=keeps_state)
    if body is asked.body:
        return turn, asked
    request = await aside(len(body), asked.client.decode_request, body)
    return turn, replace(asked, body=body, request=request)


async def _whole(incoming: Incoming, attempts: Attempts, targets: tuple[Target, ...], turn: Turn) -> None:
    answer = await attempts.answer(targets)
    assert answer.whole is not None
    if (answered := answer.exchange.answered) is not None:
        incoming.record.usage = both(attempts.spent, answered.usage)
        incoming.record.stop = answered.stop.reason
    told = headers.of_exchange(answer.exchange, answer.headers, incoming.record)
    await incoming.reply(200, {"content-type": "application/json", **told}, await turn.whole(answer.whole))


async def _stream(
    incoming: Incoming, asked: Asked, attempts: Attempts, targets: tuple[Target, ...], turn: Turn
) -> None:
    encoder = asked.client.stream_encoder(asked.request, Receipt())

    def commit() -> dict[str, str]:
        receipt = attempts.exchange.receipt if attempts.exchange is not None else Receipt()
        return {**headers.STREAM_HEADERS, **headers.of_receipt(receipt)}

    def fail(error: ApiError) -> bytes:
        return encoder.feed(Fault(error))

    limits = incoming.gateway.config.limits
    async with keeping_alive(incoming, encoder.keepalive(), limits.keepalive, commit, lambda: not attempts.waiting):
        try:
            answer = await attempts.answer(targets)
            assert answer.translation is not None
            fail = answer.translation.fail
            try:
                await _pump(incoming, answer, turn, attempts)
            finally:
                _note(incoming.record, answer.translation)
                answer.reply.close()
        except BaseException as failure:  # a cancellation too, which may be the end of the time to drain
            if not incoming.begun or incoming.finished or (error := told(failure, incoming.record)) is None:
                raise
            # Something has gone out, be it a keep-alive: the error can only be told inside the stream.
            incoming.record.error, incoming.record.message = error.kind, error.message
            await _tell(incoming, turn, fail(error))
            await _end(incoming, turn)


def _note(record: Record, translation: StreamTranslation) -> None:
    record.usage = translation.usage
    record.stop = None if translation.stop is None else translation.stop.reason


async def _pump(incoming: Incoming, answer: Answer, turn: Turn, attempts: Attempts) -> None:
    """The rest of a stream: each piece translated and written as it comes, no faster than the client reads."""
    if not incoming.begun:
        told = headers.of_exchange(answer.exchange, answer.headers, incoming.record)
        await incoming.begin({**headers.STREAM_HEADERS, **told})
    async with aclosing(pieces(answer, attempts, incoming.record)) as parts:
        async for data in parts:
            await _tell(incoming, turn, data)
    await _end(incoming, turn)
    await drain(answer)


async def _tell(incoming: Incoming, turn: Turn, data: bytes) -> None:
    data = turn.feed(data)
    if turn.is_due:
        await turn.keep()  # before the client can go on from it
    if data:
        await incoming.write(data)


async def _end(incoming: Incoming, turn: Turn) -> None:
    if rest := turn.close():
        await incoming.write(rest)
    await incoming.end()
