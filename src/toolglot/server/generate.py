"""The handler for requests to a model: from the client's request to the last byte of its answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from toolglot.dialect import Dialect
from toolglot.dialects import find
from toolglot.errors import ApiError, RefusedError
from toolglot.events import Start
from toolglot.gateway.awaited_answer import AwaitedAnswer
from toolglot.gateway.client_answer import ClientAnswer
from toolglot.gateway.commands import WholeAnswer
from toolglot.gateway.context import copy_context, encode_early_failure
from toolglot.gateway.errors import FailedError
from toolglot.gateway.known_heads import RequestHead
from toolglot.gateway.model_route import find_route
from toolglot.gateway.received import ReceivedRequest, check_request, decode_request, start_of_failure
from toolglot.ir import Request
from toolglot.receipt import Receipt
from toolglot.routing import MAX_NAME
from toolglot.server import headers
from toolglot.server.asgi_request import AsgiRequest
from toolglot.server.error_replies import DRAINING, is_sent_as_stream
from toolglot.server.routes import Match
from toolglot.server.service import Service
from toolglot.upstream.offload import offload

log = logging.getLogger("toolglot.server")

_FALSE_VALUES = ("", "0", "false", "no", "off")


async def generate(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """Answer a request to a model."""
    received = await _read_request(service, incoming, match)
    record, gateway = incoming.record, incoming.gateway
    record.model, record.stream = received.request.model[:MAX_NAME], received.request.stream
    head = _head_of(incoming, match, received.client)
    try:
        route = find_route(gateway, head, received.request.model)
        context = copy_context(route.context, record, received)
        answer = ClientAnswer(service, gateway, head, route, record, received, context, incoming.hold)
        with _cancelled_with_client(incoming):
            await _send_answer(incoming, answer)
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
        caller=incoming.caller,
        credentials=incoming.credentials,
        recording=incoming.recording,
        can_cut=incoming.scope.get("http_version") != "1.0",
        strict=incoming.gateway.config.strict or incoming.headers.get(headers.STRICT, "0").lower() not in _FALSE_VALUES,
    )


def _head_of(incoming: AsgiRequest, match: Match, client: Dialect) -> RequestHead:
    return RequestHead(
        path=incoming.path,
        route=match.route,
        values=match.values,
        client=client,
        stream_lines=b"",
        query=incoming.query,
        headers=incoming.headers,
        caller=incoming.caller,
        credentials=incoming.credentials,
        guard=incoming.gateway.guard,
    )


async def _send_answer(incoming: AsgiRequest, answer: ClientAnswer) -> None:
    """Write each piece of an answer as it arrives, no faster than the client reads."""
    record, context = incoming.record, answer.context
    running = AwaitedAnswer(answer.flow(), context, answer.service.sweep)

    async def begin(upstream_headers: Mapping[str, str] | None) -> None:
        await incoming.begin({**headers.STREAM_HEADERS, **answer.source.client_headers(context, upstream_headers)})

    async def relay() -> None:
        while (command := await running.next_command()) is not None:
            await (incoming.write(command) if isinstance(command, bytes) else begin(command.upstream_headers))

    try:
        try:
            await relay()
        except asyncio.CancelledError:
            if record.cancelled:
                raise
            # The client did not cause it, so the server did: its drain time has elapsed.
            running.stop(DRAINING)
            await relay()
        result = running.result()
        if isinstance(result, ApiError):
            raise FailedError(result, context.exchange)
        answer.report()  # the client may request the receipt as soon as it has the answer
        if isinstance(result, WholeAnswer):
            fields = answer.source.client_headers(context, result.upstream_headers)
            fields |= headers.describe_cost(record)
            await incoming.reply(200, {"content-type": "application/json", **fields}, result.body)
            return
        if result.upstream_headers is not None and not context.begun:
            await begin(result.upstream_headers)
        if result.data:
            await incoming.write(result.data)
        if result.is_cut:
            await incoming.cut()
            return
        await incoming.end()
        await running.drain()
    finally:
        await running.aclose()
        answer.report()
        answer.source.close()
        if context.exchange is not None and incoming.recording is not None:
            incoming.recording.receipt(context.exchange.receipt)
        answer.release()


@contextmanager
def _cancelled_with_client(incoming: AsgiRequest) -> Iterator[None]:
    """Cancel the work inside immediately when the client disconnects, at any await."""
    worker = asyncio.current_task()
    assert worker is not None

    async def wait() -> None:
        while (await incoming.receive())["type"] != "http.disconnect":
            pass
        if not incoming.finished:
            incoming.record.cancelled = True
            worker.cancel()

    watch = asyncio.create_task(wait())
    watch.add_done_callback(_log_failure)
    try:
        yield
    finally:
        watch.cancel()  # it does nothing more, so its end need not be awaited


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (failure := task.exception()) is not None:
        log.error("a background task of an answer failed", exc_info=failure)
