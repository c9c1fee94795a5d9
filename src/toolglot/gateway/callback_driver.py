"""Runs an answer flow from the sockets' callbacks: no task, future or timer for a request that is sent once.

    client's connection ─ request ─▶ start ─▶ flow ─▶ Send ─▶ upstream/http_client
    client's connection ◀─ bytes ──── flow ◀─ on_head, on_body, on_end, on_whole, on_broken

A task exists while a connection is opened and while the flow awaits something, a timer while a retry waits. Everything
else that depends on time is found by one sweep over all drivers (`sweep.py`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from toolglot.dialect import Dialect
from toolglot.errors import ApiError
from toolglot.gateway.commands import (
    ELAPSED,
    END,
    Await,
    BeginStream,
    Command,
    Done,
    Failed,
    Flow,
    Offload,
    Outcome,
    Raised,
    ReplyBegun,
    Result,
    Send,
    Shutdown,
    Silent,
    StreamEnd,
    Wait,
    WholeAnswer,
    WholeReply,
    Write,
)
from toolglot.gateway.driver import DRAIN_SECONDS
from toolglot.gateway.flow import TRAILING_SECONDS, FlowContext, is_answer
from toolglot.gateway.request_record import RequestRecord
from toolglot.gateway.upstream_errors import ERROR_BODY_LIMIT
from toolglot.server import error_replies
from toolglot.server.headers import encode_lines
from toolglot.upstream.http_client import (
    HttpTransport,
    InFlightRequest,
    PreparedCall,
    adopt_reply,
    complete_reply,
    request_head,
)
from toolglot.upstream.offload import offload
from toolglot.upstream.transport import Reply, Transport, TransportError, UpstreamCall, too_large

if TYPE_CHECKING:
    from toolglot.gateway.client_connection import ClientConnection
    from toolglot.gateway.known_heads import RequestHead
    from toolglot.gateway.sweep import DriverSweep

_WHOLE = b"content-type: application/json\r\ncontent-length: %d\r\n"


class AnsweredRequest(Protocol):
    """The client's request that a flow answers."""

    @property
    def head(self) -> RequestHead: ...
    @property
    def client_dialect(self) -> Dialect: ...
    def hash_prefix(self) -> None:
        """Called when the upstream has the request, and is at work."""
        ...

    def header_lines(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> bytes:
        """The headers of the answer that describe the exchange."""
        ...

    def receipt_headers(self, context: FlowContext) -> dict[str, str]:
        """The headers of an error."""
        ...

    def encode_early_failure(self, context: FlowContext, error: ApiError) -> bytes:
        """A stream that is only this error."""
        ...

    def close(self, context: FlowContext, now: float) -> None:
        """The request is over."""
        ...


class CallbackDriver(Struct, eq=False):
    """One flow between a client's connection and an upstream's.

    `response_complete`, `response_started`, `keep_alive` and `disconnected` are what uvicorn asks a cycle for.
    """

    _client: ClientConnection
    _request: AnsweredRequest
    _context: FlowContext
    _flow: Flow
    _resume: Callable[[Outcome], Command]
    _sweep: DriverSweep
    record: RequestRecord
    _touched: float
    """When something was written last, or was seen to have been."""
    _upstream_touched: float
    """When the upstream said something last."""
    _is_streaming: bool
    _turn: int = 0
    """Counts what the flow has waited for: a reply that it has given up is not told any more."""
    _seen_out: int = 0
    _seen_left: int = 0
    _answer_limit: int = 0
    _limit: int = 0
    _left: int = 0
    """Bytes that the reply may still have."""
    _status: int = 0
    _headers: Mapping[str, str] = {}
    _collected: list[bytes] | None = None
    """The body of a reply that is wanted whole."""
    _pending_head: bytes = b""
    """The head of a stream, which leaves with its first piece."""
    _deferred: deque[Outcome] | None = None
    """What the upstream says while the flow waits for something else."""
    _is_awaiting: bool = False
    _is_offloading: bool = False
    _sending: InFlightRequest | None = None
    _reply: Reply | None = None
    _task: asyncio.Task[None] | None = None
    """Opens a connection, or reads a reply."""
    _awaited: asyncio.Task[None] | None = None
    _room: asyncio.Future[None] | None = None
    _backoff: asyncio.TimerHandle | None = None
    response_started: bool = False
    response_complete: bool = False
    disconnected: bool = False
    keep_alive: bool = True

    def start(self) -> None:
        self._sweep.add(self)
        self._step(None)
        if not self.response_complete:
            self._request.hash_prefix()  # while the upstream is at work

    # The flow

    def _step(self, outcome: Outcome) -> None:
        """Report what has happened and do what the flow says, until it waits."""
        try:
            command = self._resume(outcome)
            while True:
                if type(command) is bytes:
                    if command:
                        self._write(command)
                    if not self._deferred or self._is_awaiting:
                        return
                    command = self._resume(self._next_outcome())
                elif self._obey(command):
                    command = self._resume(None)
                else:
                    return
        except StopIteration as end:
            self._end(end.value)
        except Exception as failure:  # a defect of ours
            self._fail(failure)

    def _next_outcome(self) -> Outcome:
        """What the upstream said while the flow waited for something else."""
        assert self._deferred
        outcome = self._deferred.popleft()
        if not self._deferred:
            self._deferred = None
            if self._sending is not None and not self._client.full:
                self._sending.resume()
        return outcome

    def _obey(self, command: Command) -> bool:
        """Do what is no writing of a piece. Whether the flow goes on at once."""
        if type(command) is Send:
            self._call(command)
            return False
        if type(command) is BeginStream:
            self._client.begun()
            self._pending_head = self._head(self._request.head.stream_lines, command.upstream_headers)
        elif type(command) is Write:
            self._write(command.data)
        elif type(command) is Wait:
            self._drop()
            self._deferred = None
            self._turn += 1
            self._backoff = self._client.loop.call_later(command.seconds, self._elapse)
            return False
        else:
            assert isinstance(command, (Await, Offload))
            self._defer()
            self._is_awaiting, self._is_offloading = True, isinstance(command, Offload)
            self._awaited = asyncio.create_task(self._await(command))
            return False
        return True

    def _defer(self) -> None:
        if self._deferred is None:
            self._deferred = deque()
        if self._sending is not None:
            self._sending.pause()

    def _elapse(self) -> None:
        self._backoff = None
        self._step(ELAPSED)

    async def _await(self, command: Await | Offload) -> None:
        outcome: Outcome
        try:
            if isinstance(command, Await):
                outcome = Done(await command.call())
            else:
                outcome = Done(await offload(command.size, command.work))
        except Exception as error:
            outcome = Raised(error)
        if self.disconnected:
            return
        self._awaited, self._is_awaiting, self._is_offloading = None, False, False
        self._go_on_reading()
        if not self._deferred:
            self._deferred = None
            if self._sending is not None and not self._client.full:
                self._sending.resume()
        self._step(outcome)

    # The upstream

    def _call(self, send: Send) -> None:
        if self._sending is not None or self._reply is not None:
            self._drop()
        self._collected, self._deferred, self._status = None, None, 0
        self._turn += 1
        self._is_streaming, self._answer_limit = send.is_streaming, send.limit
        call, transport = send.call, send.transport
        if not isinstance(transport, HttpTransport):
            assert isinstance(call, UpstreamCall)
            self._task = asyncio.create_task(self._send(transport, call))
            return
        if not isinstance(call, PreparedCall):
            try:
                destination = transport.destination(call.url)
                call = PreparedCall(destination, request_head(call, destination), call.body, call.timeouts)
            except TransportError as error:
                self._client.loop.call_soon(self._hear, Failed(error))
                return
        self._sending = transport.begin(call.destination, call.head, call.body, call.timeouts, self)
        if self._sending is None:
            self._task = asyncio.create_task(self._connect(transport, call))

    async def _connect(self, transport: HttpTransport, call: PreparedCall) -> None:
        try:
            sending = await transport.connect(call.destination, call.head, call.body, call.timeouts, self)
        except TransportError as error:
            self._task = None
            self.on_broken(error)
        else:
            self._task, self._sending = None, sending
            if self._client.full:
                sending.pause()

    async def _send(self, transport: Transport, call: UpstreamCall) -> None:
        """Call an upstream over another transport."""
        turn = self._turn
        try:
            self._reply = reply = await transport.send(call)
        except TransportError as error:
            self._hear_of(turn, Failed(error))
        else:
            await self._read(reply)

    async def _read(self, reply: Reply) -> None:
        """Read a reply in a task: one of another transport, or one that is packed."""
        turn = self._turn
        try:
            if is_answer(reply.status, reply.headers) and self._is_streaming:
                self._begin_body(reply.headers)
                async for chunk in reply.chunks():
                    if self._client.full or self._is_awaiting:
                        self._room = self._client.loop.create_future()
                        await self._room
                    if self._turn != turn:
                        return
                    self.on_body(chunk)
                self._hear_of(turn, END)
            else:
                body = await reply.read(self._limit_of(reply.status, reply.headers))
                self._hear_of(turn, WholeReply(reply.status, reply.headers, body))
        except TransportError as error:
            self._hear_of(turn, Failed(error))

    def _hear_of(self, turn: int, outcome: Outcome) -> None:
        if self._turn == turn:
            self._hear(outcome)

    def _begin_body(self, headers: Mapping[str, str]) -> None:
        self._limit = self._left = self._seen_left = self._answer_limit
        self._hear(ReplyBegun(headers))

    def _limit_of(self, status: int, headers: Mapping[str, str]) -> int:
        return self._answer_limit if is_answer(status, headers) else ERROR_BODY_LIMIT

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        if "content-encoding" in headers and self._sending is not None:
            sending, self._sending = self._sending, None
            self._reply = adopt_reply(sending, status, headers)
            self._task = asyncio.create_task(self._read(self._reply))
        elif self._is_streaming and is_answer(status, headers):
            self._begin_body(headers)
        else:
            self._status, self._headers, self._collected = status, headers, []
            self._limit = self._left = self._limit_of(status, headers)

    def on_body(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self._drop()
            self._hear(Failed(too_large(self._limit)))
        elif self._collected is not None:
            self._collected.append(data)
        elif self._deferred is not None:
            self._deferred.append(data)
        else:
            try:  # as `_step`, with as little as possible for each piece of a stream
                command = self._resume(data)
                if type(command) is bytes:
                    if command:
                        if self._pending_head:
                            self._write(command)
                        else:
                            size = len(command)
                            self.record.bytes_out += size
                            self._client.put(b"%x\r\n%b\r\n" % (size, command))
                elif self._obey(command):
                    self._step(None)
            except StopIteration as end:
                self._end(end.value)
            except Exception as failure:  # a defect of ours
                self._fail(failure)

    def on_end(self) -> None:
        self._sending = None
        if self._collected is None:
            self._hear(END)
        else:
            body, self._collected = b"".join(self._collected), None
            self._hear(WholeReply(self._status, self._headers, body))

    def on_whole(self, headers: dict[str, str], body: bytes) -> None:
        self._sending = None
        if "content-encoding" in headers:
            self._reply = reply = complete_reply(headers, body)
            self._task = asyncio.create_task(self._read(reply))
        elif self._is_streaming and is_answer(200, headers):
            turn = self._turn
            self._begin_body(headers)
            if body:
                self.on_body(body)
            self._hear_of(turn, END)
        elif len(body) > self._answer_limit:
            self._hear(Failed(too_large(self._answer_limit)))
        elif self.response_complete or self.disconnected:
            self._sweep.discard(self)
        else:
            self._step(WholeReply(200, headers, body))

    def on_broken(self, error: TransportError) -> None:
        self._sending = None
        self._hear(Failed(error))

    def _hear(self, outcome: Outcome) -> None:
        if self.response_complete or self.disconnected:
            self._sweep.discard(self)
        elif self._deferred is not None:
            self._deferred.append(outcome)
        else:
            self._step(outcome)

    def _drop(self) -> None:
        """Give up what the upstream still sends."""
        if self._sending is not None:
            self._sending.abort()
            self._sending = None
        if self._reply is not None:
            self._reply.close()
            self._reply = None

    # The client

    def pause(self) -> None:
        """The client does not read as fast as the upstream writes."""
        if self._sending is not None:
            self._sending.pause()

    def resume(self) -> None:
        if self._sending is not None and self._deferred is None:
            self._sending.resume()
        self._go_on_reading()

    def _go_on_reading(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def left(self) -> None:
        """The client has gone."""
        self.disconnected = True
        self._resume = _ignore
        if not self.response_complete:
            self._sweep.leave(self)

    def clear_up(self) -> None:
        """Behind a client that has gone."""
        self._cancel()
        self._flow.close()
        self._drop()
        self.record.cancelled = True
        self._leave(self._client.loop.time())

    def _cancel(self) -> None:
        for task in (self._task, self._awaited):
            if task is not None:
                task.cancel()
        self._task = self._awaited = None
        if self._backoff is not None:
            self._backoff.cancel()
            self._backoff = None

    def _head(self, framing: bytes, upstream_headers: Mapping[str, str] | None) -> bytes:
        self.record.status = 200
        told = self._request.header_lines(self._context, upstream_headers)
        return b"%b%b%bx-request-id: %b\r\n\r\n" % (self._client.greeting(), framing, told, self.record.id.encode())

    def _write(self, data: bytes) -> None:
        head, self._pending_head = self._pending_head, b""
        self._put(b"%b%x\r\n%b\r\n" % (head, len(data), data), len(data))

    def _put(self, data: bytes, size: int) -> None:
        """Write; `size` bytes of it are the body."""
        record = self.record
        self._touched = now = self._client.loop.time()
        if record.first_byte is None:
            record.first_byte = now
        self.response_started = True
        record.bytes_out = self._seen_out = record.bytes_out + size
        self._client.put(data)

    # Time

    def tick(self, now: float, keepalive: float) -> None:
        """Called now and then: tell the flow of silence, and end what is only drained."""
        if self.response_complete:
            if now - self._touched >= DRAIN_SECONDS:
                self._drop()
                self._sweep.discard(self)
            return
        if self.disconnected:
            return
        if self.record.bytes_out != self._seen_out:
            self._seen_out, self._touched = self.record.bytes_out, now
        if self._left != self._seen_left:
            self._seen_left, self._upstream_touched = self._left, now
        if self._backoff is None and not self._client.full:
            silent = Silent(now - self._touched, now - self._upstream_touched)
            if silent.client >= min(keepalive, TRAILING_SECONDS):
                self._step(silent)

    def stop(self, error: ApiError) -> None:
        """The server shuts down and waits no longer."""
        if self.response_complete or self.disconnected:
            return
        if self._is_offloading and self._deferred is not None:
            self._deferred.append(Shutdown(error))  # a thread is at work on the stream
            return
        self._cancel()
        self._deferred, self._is_awaiting = None, False
        self._step(Shutdown(error))

    # The end

    def _end(self, result: Result) -> None:
        if type(result) is WholeAnswer:
            size = len(result.body)
            self._put(self._head(_WHOLE % size, result.upstream_headers) + result.body, size)
        elif isinstance(result, ApiError):
            self._refuse(result)
        else:
            self._end_stream(result)
        self._finish()

    def _end_stream(self, end: StreamEnd) -> None:
        head, self._pending_head = self._pending_head, b""
        if end.upstream_headers is not None and not self._context.begun:
            head = self._head(self._request.head.stream_lines, end.upstream_headers)
        last = b"%x\r\n%b\r\n" % (len(end.data), end.data) if end.data else b""
        if end.is_cut:  # its last chunk never comes
            self.keep_alive, self.record.cut = False, True
            self._put(head + last, len(end.data))
        else:
            self._put(b"%b%b0\r\n\r\n" % (head, last), len(end.data))

    def _refuse(self, failure: ApiError) -> None:
        """Tell an error in place of an answer."""
        context, record = self._context, self.record
        error = context.hide(failure)
        context.note(error)
        client = self._request.client_dialect
        if context.is_streaming and error_replies.is_sent_as_stream(client, failure):
            self._pending_head = self._head(self._request.head.stream_lines, None)
            self._end_stream(StreamEnd(self._request.encode_early_failure(context, error)))
            return
        told = error_replies.encode_error_reply(client, error, record)
        record.status = told.status
        fields = {**told.headers, **self._request.receipt_headers(context), "content-length": str(len(told.body))}
        head = self._client.greeting(told.status) + encode_lines({**fields, "x-request-id": record.id})
        self._put(head + b"\r\n" + told.body, len(told.body))

    def _fail(self, failure: Exception) -> None:
        """End an answer that a defect of ours, or the end of the server, has broken."""
        self._flow.close()
        error = error_replies.describe_failure(failure, self.record)
        if error is None:
            error = error_replies.DRAINING
        if self._context.begun:
            self._end_stream(self._context.end(error))
        else:
            self._refuse(error)
        self._finish()

    def _finish(self) -> None:
        if self._task is not None or self._awaited is not None or self._backoff is not None:
            self._cancel()
        self.response_complete = True
        self._resume = _ignore
        record = self.record
        if record.error is None:
            record.is_simple = record.has_one_call
        now = self._touched
        self._leave(now)
        if self._sending is not None:  # the upstream has a moment to end, so that its connection lives on
            self._sweep.add(self)
        elif self._reply is not None:
            self._drop()
        self._client.answered(now)

    def _leave(self, now: float) -> None:
        self._sweep.discard(self)
        self._request.close(self._context, now)


def _ignore(outcome: Outcome) -> Command:
    """Takes the place of a flow that is over: what its upstream still says is for nobody."""
    return b""
