"""A model's answer, from the client's request to the last byte: the heart of the gateway."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from toolglot.dialects import find
from toolglot.errors import ApiError, RefusedError
from toolglot.events import Start, unfold
from toolglot.gateway.commands import BeginStream, Flow, StreamEnd, WholeAnswer, Write
from toolglot.gateway.context import client_context, encode_early_failure
from toolglot.gateway.driver import ClientCommand, FlowDriver
from toolglot.gateway.errors import FailedError
from toolglot.gateway.features.conversation_replay import Replays
from toolglot.gateway.features.mcp_loop import serve
from toolglot.gateway.features.mcp_servers import note_withheld_servers
from toolglot.gateway.features.reasoning_state import States
from toolglot.gateway.features.recording import taped
from toolglot.gateway.features.responses_state import with_turn
from toolglot.gateway.features.responses_turn import Turn
from toolglot.gateway.features.separate_error import with_separate_error
from toolglot.gateway.flow import FlowContext
from toolglot.gateway.keepalive import SilenceTimer, cancelled_with_client
from toolglot.gateway.plain_answer import plain_answer
from toolglot.gateway.received import ReceivedRequest, check_request, decode_request, start_of_failure
from toolglot.gateway.targets import RequestTargets, answer_without_model
from toolglot.gateway.tool_mode import Calling
from toolglot.ir import Request, Response, replace
from toolglot.receipt import Receipt
from toolglot.routing import MAX_NAME, Target
from toolglot.server import headers
from toolglot.server.asgi_request import Incoming
from toolglot.server.credentials import hide_in_lines
from toolglot.server.error_replies import DRAINING, is_told_in_stream, told
from toolglot.server.request_body import hold_body
from toolglot.server.routes import Match
from toolglot.server.service import Service
from toolglot.translate import Exchange
from toolglot.upstream.offload import offload, release

_NO = ("", "0", "false", "no", "off")


async def generate(service: Service, incoming: Incoming, match: Match) -> None:
    """`POST` to a path where models answer."""
    received = await _read(service, incoming, match)
    record = incoming.record
    record.model, record.stream = received.request.model[:MAX_NAME], received.request.stream
    try:
        await _generate(service, incoming, received)
    except (FailedError, RefusedError) as failure:
        if not received.request.stream or incoming.begun or not is_told_in_stream(received.client, failure.error):
            raise
        receipt, start = (failure.receipt, failure.start) if isinstance(failure, FailedError) else (Receipt(), None)
        await _stream_error(incoming, received, failure.error, receipt, start)


async def _stream_error(
    incoming: Incoming, received: ReceivedRequest, error: ApiError, receipt: Receipt, start: Start | None
) -> None:
    """A stream that is only an error, for clients that do not look at the status."""
    error = incoming.hide_in_error(error)
    incoming.record.error, incoming.record.message = error.kind, error.message
    if start is None:
        start = start_of_failure(received, incoming.record, None)
    await incoming.begin({**headers.STREAM_HEADERS, **headers.of_receipt(receipt)})
    await incoming.write(encode_early_failure(received, start, error))
    await incoming.end()


async def _generate(service: Service, incoming: Incoming, received: ReceivedRequest) -> None:
    record = incoming.record
    routed = incoming.gateway.router.resolve(received.request.model)
    if (ready := answer_without_model(incoming.gateway, received, routed[0])) is not None:
        await _reply_at_once(incoming, received, ready)
        return
    turn, received = await _with_history(service, incoming, received, routed[0])
    with cancelled_with_client(incoming):
        answering = await _answering(service, incoming, received, routed)

        def note() -> None:
            answering.note()
            if (exchange := answering.exchange) is not None:
                turn.note_failure(exchange.receipt)
                service.receipts.keep(record, hide_in_lines(tuple(exchange.receipt), incoming.shown))

        try:
            await (_stream if received.request.stream else _whole)(incoming, answering, turn, note)
        finally:
            await answering.close()
            note()
            exchange = answering.exchange
            if exchange is not None and incoming.tape is not None:
                incoming.tape.receipt(exchange.receipt)
            release(len(received.body), received.request.messages, *(() if exchange is None else exchange.stages))


async def _reply_at_once(incoming: Incoming, received: ReceivedRequest, response: Response) -> None:
    receipt, client = Receipt(), received.client
    if not received.request.stream:
        body = client.encode_response(response, received.request, receipt)
        await incoming.reply(200, {"content-type": "application/json", **headers.of_receipt(receipt)}, body)
        return
    encoder = client.stream_encoder(received.request, receipt)
    data = b"".join(encoder.feed(event) for event in unfold(response))
    await incoming.begin({**headers.STREAM_HEADERS, **headers.of_receipt(receipt)})
    await incoming.write(data)
    await incoming.end()


async def _answering(
    service: Service, incoming: Incoming, received: ReceivedRequest, routed: tuple[Target, ...]
) -> Answering:
    record, gateway = incoming.record, incoming.gateway
    store = taped(service.store, incoming.tape)
    calling, replays = Calling(service.verdicts, store), Replays(store, record.owner)
    states = States(store, record.owner)
    if lines := note_withheld_servers(gateway.config.mcp, routed[0], record.key):
        received = replace(received, lines=(*received.lines, *lines))
    context = client_context(record, received, gateway.config.limits, incoming.hide_in_error)
    serving = await serve(service, gateway, received, context, routed[0], calling, replays, states)
    if serving is not None:
        return serving
    return plain_answer(context, RequestTargets.of(gateway, received, calling, replays, states), routed)


class Answering(Protocol):
    """The flow of one answer, and what is told about it."""

    flow: Flow
    context: FlowContext

    @property
    def exchange(self) -> Exchange | None:
        """The exchange that answers, or the last one that was tried."""
        ...

    def client_headers(self, upstream_headers: Mapping[str, str] | None) -> dict[str, str]:
        """The headers of the answer; None while no upstream has answered."""
        ...

    def note(self) -> None:
        """Put what is known of the answer into its record and its receipt."""
        ...

    async def close(self) -> None: ...


async def _read(service: Service, incoming: Incoming, match: Match) -> ReceivedRequest:
    """The request: its body, and for Gemini what stands in its path."""
    body = await incoming.body()
    incoming.record.bytes_in = len(body)
    client = find(match.dialect or "")
    incoming.stream_headers = headers.stream_headers(client.stream.framing)
    request: Request | None = None
    try:
        request = await offload(len(body), decode_request, client, body, match.route, match.values)
    finally:  # what cannot be read is worth a recording too
        if service.tapes is not None:
            incoming.tape = service.tapes.begin(incoming, client.name, body, request)
    check_request(client, request, incoming.gateway.config.limits)
    return ReceivedRequest(
        client=client,
        request=request,
        body=body,
        headers=incoming.headers,
        query=incoming.query,
        shown=incoming.shown,
        tape=incoming.tape,
        can_cut=incoming.scope.get("http_version") != "1.0",
        strict=incoming.gateway.config.strict or incoming.headers.get(headers.STRICT, "0").lower() not in _NO,
    )


async def _with_history(
    service: Service, incoming: Incoming, received: ReceivedRequest, target: Target
) -> tuple[Turn, ReceivedRequest]:
    """The request with what went before it, where the client leaves that to the server."""
    owner, store = incoming.record.owner, taped(service.store, incoming.tape)
    keeps_state = incoming.gateway.upstreams[target.upstream].keeps_state
    turn, body = await Turn.begin(received.client.name, received.body, store, owner, upstream_keeps_state=keeps_state)
    if turn.withheld:
        received = replace(received, lines=turn.withheld)
    if body is received.body:
        return turn, received
    await hold_body(incoming.hold, body, incoming.limits)
    request = await offload(len(body), received.client.decode_request, body)
    return turn, replace(received, body=body, request=request)


async def _whole(incoming: Incoming, answering: Answering, turn: Turn, note: Callable[[], None]) -> None:
    driver = _driver(incoming, answering, turn)
    try:
        result = await driver.run()
    finally:
        driver.close()
    if not isinstance(result, WholeAnswer):
        assert isinstance(result, ApiError)
        raise FailedError(result, answering.exchange)
    note()  # whoever has the answer may ask for its receipt at once
    told = answering.client_headers(result.upstream_headers)
    await incoming.reply(200, {"content-type": "application/json", **told}, result.body)


def _driver(incoming: Incoming, answering: Answering, turn: Turn, apart: bytes = b"") -> FlowDriver:
    record, context, flow = incoming.record, answering.context, answering.flow
    if turn.is_active:
        flow = with_turn(flow, context, turn)
    if apart and incoming.framing is None:
        flow = with_separate_error(flow, context, apart)
    # A cancellation that does not come from the client comes from the server, whose time to drain is over.
    return FlowDriver(flow, context, lambda: None if record.cancelled else DRAINING)


async def _stream(incoming: Incoming, answering: Answering, turn: Turn, note: Callable[[], None]) -> None:
    """Write each piece of an answer as it comes, no faster than the client reads."""
    context = answering.context
    driver = _driver(incoming, answering, turn, find(incoming.record.client or "").stream.apart)

    async def begin(upstream_headers: Mapping[str, str] | None) -> None:
        await incoming.begin({**headers.STREAM_HEADERS, **answering.client_headers(upstream_headers)})

    async def write(command: ClientCommand) -> None:
        if type(command) is BeginStream:
            await begin(command.upstream_headers)
        else:
            await incoming.write(command.data if type(command) is Write else command)  # type: ignore[arg-type]

    async with SilenceTimer(incoming, driver, context.keepalive_seconds, write) as silence:
        try:
            while (command := await driver.next_command()) is not None:
                await silence.settle()
                await write(command)
            await silence.settle()
            result = driver.result
            if not isinstance(result, StreamEnd):
                assert isinstance(result, ApiError)
                raise FailedError(result, answering.exchange)
            note()
            if result.upstream_headers is not None and not context.begun:
                await begin(result.upstream_headers)
            if result.data:
                await incoming.write(result.data)
            if result.is_cut:
                await incoming.cut()
                return
            await incoming.end()
            await driver.drain()
        except BaseException as failure:  # a cancellation too, which may be the end of the time to drain
            if not incoming.begun or incoming.finished or (error := told(failure, incoming.record)) is None:
                raise
            # Something was written, be it a keep-alive: the error can only be told inside the stream.
            end = context.end(error)
            await _write_end(incoming, turn, end)
            note()
            await (incoming.cut() if end.is_cut else incoming.end())
        finally:
            driver.close()


async def _write_end(incoming: Incoming, turn: Turn, end: StreamEnd) -> None:
    data = turn.feed(end.data)
    if turn.is_due:
        data = await turn.keep(data)
    if data := data if end.is_cut else data + turn.close():
        await incoming.write(data)
