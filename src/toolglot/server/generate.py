"""The handler for requests to a model: from the client's request to the last byte of its answer."""

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
from toolglot.gateway.features.conversation_replay import ConversationReplay
from toolglot.gateway.features.mcp_loop import start_mcp_answer
from toolglot.gateway.features.mcp_servers import note_withheld_servers
from toolglot.gateway.features.reasoning_state import ReasoningState
from toolglot.gateway.features.recording import record_store_reads
from toolglot.gateway.features.responses_turn import ResponsesTurn, with_responses_turn
from toolglot.gateway.features.separate_error import with_separate_error
from toolglot.gateway.flow import FlowContext
from toolglot.gateway.keepalive import SilenceTimer, cancelled_with_client
from toolglot.gateway.plain_answer import plain_answer
from toolglot.gateway.received import ReceivedRequest, check_request, decode_request, start_of_failure
from toolglot.gateway.targets import RequestTargets, answer_without_model
from toolglot.gateway.tool_mode import ToolModes
from toolglot.ir import Request, Response, replace
from toolglot.receipt import Receipt
from toolglot.routing import MAX_NAME, Target
from toolglot.server import headers
from toolglot.server.asgi_request import AsgiRequest
from toolglot.server.credentials import hide_in_lines
from toolglot.server.error_replies import DRAINING, describe_failure, is_sent_as_stream
from toolglot.server.request_body import charge_body
from toolglot.server.routes import Match
from toolglot.server.service import Service
from toolglot.translate import Exchange
from toolglot.upstream.offload import offload, release

_FALSE_VALUES = ("", "0", "false", "no", "off")


async def generate(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """Answer a request to a model."""
    received = await _read_request(service, incoming, match)
    record = incoming.record
    record.model, record.stream = received.request.model[:MAX_NAME], received.request.stream
    try:
        await _generate(service, incoming, received)
    except (FailedError, RefusedError) as failure:
        if not received.request.stream or incoming.begun or not is_sent_as_stream(received.client, failure.error):
            raise
        receipt, start = (failure.receipt, failure.start) if isinstance(failure, FailedError) else (Receipt(), None)
        await _send_error_stream(incoming, received, failure.error, receipt, start)


async def _send_error_stream(
    incoming: AsgiRequest, received: ReceivedRequest, error: ApiError, receipt: Receipt, start: Start | None
) -> None:
    """Send a stream that consists of an error only, for clients that ignore the status."""
    error = incoming.hide_in_error(error)
    incoming.record.error, incoming.record.message = error.kind, error.message
    if start is None:
        start = start_of_failure(received, incoming.record, None)
    await incoming.begin({**headers.STREAM_HEADERS, **headers.describe_receipt(receipt)})
    await incoming.write(encode_early_failure(received, start, error))
    await incoming.end()


async def _generate(service: Service, incoming: AsgiRequest, received: ReceivedRequest) -> None:
    record = incoming.record
    routed = incoming.gateway.router.resolve(received.request.model)
    if (ready := answer_without_model(incoming.gateway, received, routed[0])) is not None:
        await _send_ready_answer(incoming, received, ready)
        return
    turn, received = await _with_history(service, incoming, received, routed[0])
    with cancelled_with_client(incoming):
        answering = await _start_answer(service, incoming, received, routed)

        def note() -> None:
            answering.note()
            if (exchange := answering.exchange) is not None:
                turn.note_failure(exchange.receipt)
                service.receipts.keep(record, hide_in_lines(tuple(exchange.receipt), incoming.credentials))

        try:
            await (_send_stream if received.request.stream else _send_whole)(incoming, answering, turn, note)
        finally:
            await answering.close()
            note()
            exchange = answering.exchange
            if exchange is not None and incoming.recording is not None:
                incoming.recording.receipt(exchange.receipt)
            release(len(received.body), received.request.messages, *(() if exchange is None else exchange.stages))


async def _send_ready_answer(incoming: AsgiRequest, received: ReceivedRequest, response: Response) -> None:
    receipt, client = Receipt(), received.client
    if not received.request.stream:
        body = client.encode_response(response, received.request, receipt)
        await incoming.reply(200, {"content-type": "application/json", **headers.describe_receipt(receipt)}, body)
        return
    encoder = client.stream_encoder(received.request, receipt)
    data = b"".join(encoder.feed(event) for event in unfold(response))
    await incoming.begin({**headers.STREAM_HEADERS, **headers.describe_receipt(receipt)})
    await incoming.write(data)
    await incoming.end()


async def _start_answer(
    service: Service, incoming: AsgiRequest, received: ReceivedRequest, routed: tuple[Target, ...]
) -> AnswerSource:
    record, gateway = incoming.record, incoming.gateway
    store = record_store_reads(service.store, incoming.recording)
    tool_modes, replays = ToolModes(service.tool_support, store), ConversationReplay(store, record.owner)
    states = ReasoningState(store, record.owner)
    if lines := note_withheld_servers(gateway.config.mcp, routed[0], record.key):
        received = replace(received, lines=(*received.lines, *lines))
    context = client_context(record, received, gateway.config.limits, incoming.hide_in_error)
    serving = await start_mcp_answer(service, gateway, received, context, routed[0], tool_modes, replays, states)
    if serving is not None:
        return serving
    return plain_answer(context, RequestTargets.of(gateway, received, tool_modes, replays, states), routed)


class AnswerSource(Protocol):
    """The flow of one answer, and what is reported about it."""

    flow: Flow
    context: FlowContext

    @property
    def exchange(self) -> Exchange | None:
        """The exchange that answers, or the last one that was tried."""
        ...

    def client_headers(self, upstream_headers: Mapping[str, str] | None) -> dict[str, str]:
        """Headers of the answer. `upstream_headers` is None while no upstream has answered."""
        ...

    def note(self) -> None:
        """Write what is known about the answer into its record and its receipt."""
        ...

    async def close(self) -> None: ...


async def _read_request(service: Service, incoming: AsgiRequest, match: Match) -> ReceivedRequest:
    """Read and decode the request. Some dialects put the model into the path."""
    body = await incoming.body()
    incoming.record.bytes_in = len(body)
    client = find(match.dialect or "")
    incoming.stream_headers = headers.stream_headers(client.stream.framing)
    request: Request | None = None
    try:
        request = await offload(len(body), decode_request, client, body, match.route, match.values)
    finally:  # an invalid request is recorded, too
        if service.recorder is not None:
            incoming.recording = service.recorder.begin(incoming, client.name, body, request)
    check_request(client, request, incoming.gateway.config.limits)
    return ReceivedRequest(
        client=client,
        request=request,
        body=body,
        headers=incoming.headers,
        query=incoming.query,
        credentials=incoming.credentials,
        recording=incoming.recording,
        can_cut=incoming.scope.get("http_version") != "1.0",
        strict=incoming.gateway.config.strict or incoming.headers.get(headers.STRICT, "0").lower() not in _FALSE_VALUES,
    )


async def _with_history(
    service: Service, incoming: AsgiRequest, received: ReceivedRequest, target: Target
) -> tuple[ResponsesTurn, ReceivedRequest]:
    """Add the stored history to a request of the Responses API."""
    owner, store = incoming.record.owner, record_store_reads(service.store, incoming.recording)
    keeps_state = incoming.gateway.upstreams[target.upstream].keeps_state
    turn, body = await ResponsesTurn.begin(
        received.client.name, received.body, store, owner, upstream_keeps_state=keeps_state
    )
    if turn.unstored_lines:
        received = replace(received, lines=turn.unstored_lines)
    if body is received.body:
        return turn, received
    await charge_body(incoming.hold, body, incoming.limits)
    request = await offload(len(body), received.client.decode_request, body)
    return turn, replace(received, body=body, request=request)


async def _send_whole(
    incoming: AsgiRequest, answering: AnswerSource, turn: ResponsesTurn, note: Callable[[], None]
) -> None:
    driver = _make_driver(incoming, answering, turn)
    try:
        result = await driver.run()
    finally:
        driver.close()
    if not isinstance(result, WholeAnswer):
        assert isinstance(result, ApiError)
        raise FailedError(result, answering.exchange)
    note()  # the client may request the receipt as soon as it has the answer
    fields = answering.client_headers(result.upstream_headers)
    await incoming.reply(200, {"content-type": "application/json", **fields}, result.body)


def _make_driver(incoming: AsgiRequest, answering: AnswerSource, turn: ResponsesTurn, apart: bytes = b"") -> FlowDriver:
    record, context, flow = incoming.record, answering.context, answering.flow
    if turn.is_active:
        flow = with_responses_turn(flow, context, turn)
    if apart and incoming.framing is None:
        flow = with_separate_error(flow, context, apart)
    # A cancellation that the client did not cause comes from the server: its time to drain is over.
    return FlowDriver(flow, context, lambda: None if record.cancelled else DRAINING)


async def _send_stream(
    incoming: AsgiRequest, answering: AnswerSource, turn: ResponsesTurn, note: Callable[[], None]
) -> None:
    """Write each piece of an answer as it arrives, no faster than the client reads."""
    context = answering.context
    driver = _make_driver(incoming, answering, turn, find(incoming.record.client or "").stream.apart)

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
        except BaseException as failure:  # also a cancellation, which may mean that the time to drain is over
            if not incoming.begun or incoming.finished or (error := describe_failure(failure, incoming.record)) is None:
                raise
            # Something was written, at least a keep-alive: the error can only be sent inside the stream.
            end = context.end(error)
            await _write_end(incoming, turn, end)
            note()
            await (incoming.cut() if end.is_cut else incoming.end())
        finally:
            driver.close()


async def _write_end(incoming: AsgiRequest, turn: ResponsesTurn, end: StreamEnd) -> None:
    data = turn.feed(end.data)
    if turn.needs_storing:
        data = await turn.store(data)
    if data := data if end.is_cut else data + turn.close():
        await incoming.write(data)
