"""A model's answer, from the client's request to the last byte: the heart of the gateway."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from time import time

from toolglot.dialect import Dialect
from toolglot.dialects import find
from toolglot.errors import ApiError, RefusedError
from toolglot.events import Fault, Start
from toolglot.ir import Request, replace
from toolglot.receipt import Receipt
from toolglot.routing import MAX_NAME, Target
from toolglot.server import headers
from toolglot.server.attaching import note_withheld_servers
from toolglot.server.attempts import Asked, Attempts, FailedError
from toolglot.server.calling import Calling
from toolglot.server.credentials import hide_in_lines
from toolglot.server.failures import told
from toolglot.server.heartbeat import keeping_alive, watching
from toolglot.server.incoming import Incoming
from toolglot.server.ingress import hold_body
from toolglot.server.replays import Replays
from toolglot.server.routes import Match
from toolglot.server.service import Service
from toolglot.server.serving import serve
from toolglot.server.sources import Plain, Source
from toolglot.server.states import States
from toolglot.server.taped_store import taped
from toolglot.server.turn import Turn
from toolglot.upstream.aside import LARGE, aside, let_go

_NO = ("", "0", "false", "no", "off")


async def generate(service: Service, incoming: Incoming, match: Match) -> None:
    """`POST` to a path where models answer."""
    asked = await _read(service, incoming, match)
    record = incoming.record
    record.model, record.stream = asked.request.model[:MAX_NAME], asked.request.stream
    try:
        await _generate(service, incoming, asked)
    except (FailedError, RefusedError) as failure:
        if not asked.request.stream or incoming.begun or not _is_told_in_stream(asked.client, failure.error):
            raise
        receipt, start = (failure.receipt, failure.start) if isinstance(failure, FailedError) else (Receipt(), None)
        await _stream_error(incoming, asked, failure.error, receipt, start)


def _is_told_in_stream(client: Dialect, error: ApiError) -> bool:
    early = client.stream.early_failures and error.streamed_by == client.name
    return early or error.code in client.stream.error_codes


async def _stream_error(
    incoming: Incoming, asked: Asked, error: ApiError, receipt: Receipt, start: Start | None
) -> None:
    """A stream that is only an error, for clients that do not look at the status."""
    error = incoming.hide_in_error(error)
    incoming.record.error, incoming.record.message = error.kind, error.message
    encoder = asked.client.stream_encoder(replace(asked.request, store=False), Receipt())  # failures are not stored
    if start is None:
        start = Start(id=incoming.record.id.replace("req_", "resp_"), model=asked.request.model, created=int(time()))
    await incoming.begin({**headers.STREAM_HEADERS, **headers.of_receipt(receipt)})
    await incoming.write(encoder.feed(start) + encoder.feed(Fault(error)))
    await incoming.end()


async def _generate(service: Service, incoming: Incoming, asked: Asked) -> None:
    record = incoming.record
    targets = incoming.gateway.router.resolve(asked.request.model)
    turn, asked = await _with_history(service, incoming, asked, targets[0])
    with watching(incoming):
        source = await _source(service, incoming, asked, targets)

        def note() -> None:
            source.note()
            _note_unstored(source, turn)
            if source.exchange is not None:
                service.receipts.keep(record, hide_in_lines(tuple(source.exchange.receipt), incoming.shown))

        try:
            await (_stream if asked.request.stream else _whole)(incoming, source, turn, note)
        finally:
            source.close()
            note()
            if source.exchange is not None and incoming.tape is not None:
                incoming.tape.receipt(source.exchange.receipt)
            stages = () if source.exchange is None else source.exchange.stages
            let_go(len(asked.body), asked.request.messages, *stages)


def _note_unstored(source: Source, turn: Turn) -> None:
    """Put into the receipt that the answer could not be stored."""
    if turn.store_failure is not None and source.exchange is not None:
        source.exchange.receipt.loss("store", "store", f"the answer could not be stored: {turn.store_failure}")
        turn.store_failure = None


async def _source(service: Service, incoming: Incoming, asked: Asked, targets: tuple[Target, ...]) -> Source:
    record, gateway = incoming.record, incoming.gateway
    store = taped(service.store, incoming.tape)
    calling, replays = Calling(service.verdicts, store), Replays(store, record.owner)
    states = States(store, record.owner)
    if lines := note_withheld_servers(gateway.config.mcp, targets[0], record.key):
        asked = replace(asked, lines=(*asked.lines, *lines))
    if (serving := await serve(service, gateway, asked, targets[0], record, calling, replays, states)) is not None:
        return serving
    attempts = Attempts(gateway, asked, record, calling, replays, states, incoming.handed)
    return Plain(asked, attempts, targets, record)


async def _read(service: Service, incoming: Incoming, match: Match) -> Asked:
    """The request: its body, and for Gemini what stands in its path."""
    limits = incoming.gateway.config.limits
    body = await incoming.body()
    incoming.record.bytes_in = len(body)
    client = find(match.dialect or "")
    incoming.apart = client.stream.apart
    incoming.stream_headers = headers.stream_headers(client.stream.framing)
    request: Request | None = None
    try:
        request = await aside(len(body), client.decode_request, body)
        if client.request.model_in_path:
            streams = match.route.path.endswith(":streamGenerateContent")
            request = replace(request, model=match.values["model"], stream=streams)
    finally:  # what cannot be read is worth a recording too
        if service.tapes is not None:
            incoming.tape = service.tapes.begin(incoming, client.name, body, request)
    for what, count, limit in (
        ("messages", len(request.messages), limits.messages),
        ("tools", len(request.tools), limits.tools),
    ):
        if count > limit:
            raise FailedError(ApiError(kind="bad_request", message=f"{what}: {count} of at most {limit}", param=what))
    require_model(request, required=client.request.needs_model)
    return Asked(
        client=client,
        request=request,
        body=body,
        headers=incoming.headers,
        query=incoming.query,
        tape=incoming.tape,
        can_cut=incoming.scope.get("http_version") != "1.0",
        strict=incoming.gateway.config.strict or incoming.headers.get(headers.STRICT, "0").lower() not in _NO,
    )


def require_model(request: Request, *, required: bool) -> None:
    """Refuse a request that names no model. Any upstream that answered it would be one that nobody chose."""
    if required and not request.model.strip():
        message = "model: this string is required"
        error = ApiError(kind="bad_request", code="missing_required_parameter", message=message, param="model")
        raise FailedError(error)


async def _with_history(service: Service, incoming: Incoming, asked: Asked, target: Target) -> tuple[Turn, Asked]:
    """The request with what went before it, where the client leaves that to the server."""
    owner, store = incoming.record.owner, taped(service.store, incoming.tape)
    keeps_state = incoming.gateway.upstreams[target.upstream].keeps_state
    turn, body = await Turn.begin(asked.client.name, asked.body, store, owner, upstream_keeps_state=keeps_state)
    if turn.withheld:
        asked = replace(asked, lines=turn.withheld)
    if body is asked.body:
        return turn, asked
    await hold_body(incoming.hold, body, incoming.limits)
    request = await aside(len(body), asked.client.decode_request, body)
    return turn, replace(asked, body=body, request=request)


async def _whole(incoming: Incoming, source: Source, turn: Turn, note: Callable[[], None]) -> None:
    body = await turn.whole(await source.whole())
    note()  # whoever has the answer may ask for its receipt at once
    await incoming.reply(200, {"content-type": "application/json", **source.headers()}, body)


async def _stream(incoming: Incoming, source: Source, turn: Turn, note: Callable[[], None]) -> None:
    """Each piece of an answer written as it comes, no faster than the client reads."""

    def commit() -> dict[str, str]:
        receipt = source.exchange.receipt if source.exchange is not None else Receipt()
        return {**headers.STREAM_HEADERS, **headers.of_receipt(receipt)}

    beat, silence = source.encoder.keepalive(), incoming.gateway.config.limits.keepalive
    async with keeping_alive(incoming, beat, silence, commit, lambda: not source.waiting):
        try:
            async with aclosing(source.stream()) as parts:
                async for data in parts:
                    if not incoming.begun:
                        await incoming.begin({**headers.STREAM_HEADERS, **source.headers()})
                    await _tell(incoming, turn, data)
            note()
            if source.is_cut:
                await incoming.cut()
                return
            await _end(incoming, turn)
            await source.settle()
        except BaseException as failure:  # a cancellation too, which may be the end of the time to drain
            if not incoming.begun or incoming.finished or (error := told(failure, incoming.record)) is None:
                raise
            error = incoming.hide_in_error(error)
            # Something has gone out, be it a keep-alive: the error can only be told inside the stream.
            incoming.record.error, incoming.record.message = error.kind, error.message
            await _tell(incoming, turn, source.fail(error))
            note()
            await _end(incoming, turn)


async def _tell(incoming: Incoming, turn: Turn, data: bytes) -> None:
    # The last events of a long answer have all of it in them.
    data = turn.feed(data) if len(data) <= LARGE else await aside(len(data), turn.feed, data)
    if turn.is_due:
        data = await turn.keep(data)  # before the client can go on from it
    if data:
        await incoming.write(data)


async def _end(incoming: Incoming, turn: Turn) -> None:
    if rest := turn.close():
        await incoming.write(rest)
    await incoming.end()
