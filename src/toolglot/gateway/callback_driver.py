"""Run an answer flow from socket callbacks, without a task, future or timer for a request that is sent once.

    client ─ request ─▶ start ─▶ flow ─▶ Send ─▶ upstream/http_client
    client ◀─ bytes ──── flow ◀─ on_head, on_body, on_end, on_whole, on_broken

The client is an `AnswerClient`: a connection (`client_request.py`), or a caller in this process that awaits the pieces
of the answer (`awaited_answer.py`).

A task exists while a connection opens and while the flow awaits something; a timer exists while a retry waits. One
sweep over all drivers (`sweep.py`) handles everything else that depends on time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from toolglot.errors import ApiError
from toolglot.gateway.commands import (
    ELAPSED,
    END,
    RELEASE,
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
from toolglot.gateway.flow import TRAILING_SECONDS, FlowContext
from toolglot.gateway.reply_drain import DRAIN_SECONDS, ReplyDrain
from toolglot.gateway.request_record import RequestRecord
from toolglot.gateway.upstream_errors import ERROR_BODY_LIMIT, is_answer
from toolglot.server.error_replies import DRAINING, describe_failure
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
    from toolglot.gateway.sweep import DriverSweep


class AnswerClient(Protocol):
    """The client of an answer, as a driver sees it."""

    @property
    def full(self) -> bool:
        """Whether earlier writes are still buffered."""
        ...

    def begin(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> None:
        """Write the head of a streamed answer, with its first piece at the latest."""
        ...

    def write(self, data: bytes) -> None:
        """Write a piece of a streamed answer."""
        ...

    def end(self, context: FlowContext, end: StreamEnd, now: float) -> None:
        """Write the end of a streamed answer, and its head if that was not written yet."""
        ...

    def reply(self, context: FlowContext, answer: WholeAnswer, now: float) -> None:
        """Write a whole answer."""
        ...

    def refuse(self, context: FlowContext, error: ApiError, now: float) -> None:
        """Write an error in place of an answer."""
        ...

    def fail(self, context: FlowContext, failure: Exception, now: float) -> None:
        """Write an error in place of an answer after the flow raised an exception."""
        ...

    def close(self, context: FlowContext, now: float) -> None:
        """Handle the end of the request. Called once, even if the client has disconnected."""
        ...

    def answered(self, now: float) -> None:
        """Handle a complete answer. Called after `close`."""
        ...

    def drained(self) -> None:
        """Handle the end of the upstream's stream, read or abandoned. Called after the answer is complete."""
        ...


class CallbackDriver(Struct, eq=False):
    """One flow between a client and an upstream's connection.

    uvicorn reads `response_complete`, `response_started`, `keep_alive` and `disconnected` from a cycle.
    """

    _client: AnswerClient
    _loop: asyncio.AbstractEventLoop
    _context: FlowContext
    _flow: Flow
    _resume: Callable[[Outcome], Command]
    _sweep: DriverSweep
    record: RequestRecord
    _touched: float
    """Time of the last write, or of the last check that found one."""
    _upstream_touched: float
    """Time of the last data from the upstream."""
    _is_streaming: bool
    _turn: int = 0
    """Counts the operations of the flow, so that outcomes of an abandoned reply can be ignored."""
    _seen_out: int = 0
    _seen_left: int = 0
    _answer_limit: int = 0
    _limit: int = 0
    _left: int = 0
    """Bytes that the reply may still contain."""
    _status: int = 0
    _headers: Mapping[str, str] = {}
    _collected: list[bytes] | None = None
    """Collects the body of a reply that is not streamed."""
    _deferred: deque[Outcome] | None = None
    """Outcomes that arrived while the flow waited for something else."""
    _is_awaiting: bool = False
    _is_offloading: bool = False
    _sending: InFlightRequest | None = None
    _reply: Reply | None = None
    _task: asyncio.Task[None] | None = None
    """Task that opens a connection or reads a reply."""
    _drain: ReplyDrain | None = None
    """Task that reads the rest of the previous reply."""
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
        work, self._context.when_sent = self._context.when_sent, None
        if work is not None and not self.response_complete:
            work()

    # The flow

    def _step(self, outcome: Outcome) -> None:
        """Send an outcome to the flow and run its commands until it waits."""
        try:
            command = self._resume(outcome)
            while True:
                if type(command) is bytes:
                    if command:
                        self._write(command)
                    if not self._deferred or self._is_awaiting:
                        return
                    command = self._resume(self._next_outcome())
                elif self._run_command(command):
                    command = self._resume(None)
                else:
                    return
        except StopIteration as end:
            self._end(end.value)
        except Exception as failure:  # a bug in the gateway
            self._fail(failure)

    def _next_outcome(self) -> Outcome:
        """Return the next outcome that arrived while the flow waited for something else."""
        assert self._deferred
        outcome = self._deferred.popleft()
        if not self._deferred:
            self._deferred = None
            if self._sending is not None and not self._client.full:
                self._sending.resume()
        return outcome

    def _run_command(self, command: Command) -> bool:
        """Run a command other than a write. Returns whether the flow continues at once."""
        if type(command) is Send:
            self._call(command)
            return False
        if type(command) is BeginStream:
            self._client.begin(self._context, command.upstream_headers)
        elif type(command) is Write:
            self._write(command.data)
        elif command is RELEASE:
            self._release()
        elif type(command) is Wait:
            self._drop()
            self._deferred = None
            self._turn += 1
            self._backoff = self._loop.call_later(command.seconds, self._end_delay)
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

    def _end_delay(self) -> None:
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
        while self._client.full:  # the flow may write as often as it awaits
            await self._has_room()
        if self.disconnected:
            return
        self._awaited, self._is_awaiting, self._is_offloading = None, False, False
        self._resume_reading()
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
                self._loop.call_soon(self._deliver, Failed(error))
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
            self._deliver_for(turn, Failed(error))
        else:
            await self._read(reply)

    async def _read(self, reply: Reply) -> None:
        """Read a reply in a task: a reply of another transport, or a compressed one."""
        turn = self._turn
        try:
            if is_answer(reply.status, reply.headers) and self._is_streaming:
                self._begin_body(reply.headers)
                async for chunk in reply.chunks():
                    while self._must_wait(turn):
                        await self._has_room()
                    if self._turn == turn:
                        self.on_body(chunk)
                    elif not self._is_drained(reply):
                        return
                outcome: Outcome = END
            else:
                body = await reply.read(self._limit_of(reply.status, reply.headers))
                outcome = WholeReply(reply.status, reply.headers, body)
        except TransportError as error:
            outcome = Failed(error)
        if self._turn == turn:
            self._reply = None
            reply.close()
            self._deliver(outcome)
        elif self._drain is not None and self._is_drained(reply):
            reply.close()
            self._drain.on_end()

    def _must_wait(self, turn: int) -> bool:
        """Return whether a reply arrives faster than the client or the flow accepts it."""
        is_full = self._client.full or self._is_awaiting
        return is_full and self._turn == turn and not self.response_complete

    def _is_drained(self, reply: Reply) -> bool:
        return self._drain is not None and self._drain.reply is reply

    async def _has_room(self) -> None:
        """Wait until the client or the flow may have accepted the earlier data."""
        if self._room is None:
            self._room = self._loop.create_future()
        await self._room

    def _deliver_for(self, turn: int, outcome: Outcome) -> None:
        if self._turn == turn:
            self._deliver(outcome)

    def _begin_body(self, headers: Mapping[str, str]) -> None:
        self._limit = self._left = self._seen_left = self._answer_limit
        self._deliver(ReplyBegun(headers))

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
            self._deliver(Failed(too_large(self._limit)))
        elif self._collected is not None:
            self._collected.append(data)
        elif self._deferred is not None:
            self._deferred.append(data)
        else:
            try:  # like `_step`, with as little work as possible for each piece of a stream
                command = self._resume(data)
                if type(command) is bytes:
                    if command:
                        if self.response_started:
                            self._client.write(command)
                        else:
                            self._write(command)
                elif self._run_command(command):
                    self._step(None)
            except StopIteration as end:
                self._end(end.value)
            except Exception as failure:  # a bug in the gateway
                self._fail(failure)

    def on_end(self) -> None:
        self._sending = None
        if self._collected is None:
            self._deliver(END)
        else:
            body, self._collected = b"".join(self._collected), None
            self._deliver(WholeReply(self._status, self._headers, body))

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
            self._deliver_for(turn, END)
        elif len(body) > self._answer_limit:
            self._deliver(Failed(too_large(self._answer_limit)))
        elif self.response_complete or self.disconnected:
            self._settle()
        else:
            self._step(WholeReply(200, headers, body))

    def on_broken(self, error: TransportError) -> None:
        self._sending = None
        self._deliver(Failed(error))

    def _deliver(self, outcome: Outcome) -> None:
        if self.response_complete or self.disconnected:
            self._settle()
        elif self._deferred is not None:
            self._deferred.append(outcome)
        else:
            self._step(outcome)

    def _drop(self) -> None:
        """Abandon the rest of the upstream's reply."""
        if self._sending is not None:
            self._sending.abort()
            self._sending = None
        if self._reply is not None:
            self._reply.close()
            self._reply = None

    def _release(self) -> None:
        """Let the upstream end its reply in the background, so that its connection can be reused."""
        self._turn += 1
        self._deferred = None
        if self._drain is not None:
            self._drain.give_up()
            self._drain = None
        if self._sending is not None or self._reply is not None:
            self._drain = ReplyDrain(self._sweep, self._loop.time(), self._sending, self._reply, self._task)
            self._sending = self._reply = self._task = None
            self._drain.start()
            self._resume_reading()

    # The client

    def pause(self) -> None:
        """Stop reading: the client reads more slowly than the upstream writes."""
        if self._sending is not None:
            self._sending.pause()

    def resume(self) -> None:
        if self._sending is not None and self._deferred is None:
            self._sending.resume()
        self._resume_reading()

    def _resume_reading(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def left(self) -> None:
        """Handle a client that disconnected."""
        self.disconnected = True
        self._resume = _ignore
        if not self.response_complete:
            self._sweep.leave(self)

    def clear_up(self) -> None:
        """Clean up after a client that disconnected."""
        self.record.cancelled = True
        self.abandon()

    def abandon(self) -> list[asyncio.Task[None]]:
        """End the flow in any state and abandon the upstream. Returns the tasks that this cancels."""
        tasks = [task for task in (self._task, self._awaited) if task is not None and not task.done()]
        self.disconnected = True
        self._resume = _ignore
        self._cancel()
        self._flow.close()
        self._drop()
        if self._drain is not None:
            tasks += self._drain.give_up()
        if self.response_complete:
            self._settle()
        else:
            self._sweep.discard(self)
            self._client.close(self._context, self._loop.time())
        return tasks

    def _cancel(self) -> None:
        for task in (self._task, self._awaited):
            if task is not None:
                task.cancel()
        self._task = self._awaited = None
        if self._backoff is not None:
            self._backoff.cancel()
            self._backoff = None

    def _write(self, data: bytes) -> None:
        self._touched = self._loop.time()
        self.response_started = True
        self._client.write(data)
        self._seen_out = self.record.bytes_out

    # Time

    def tick(self, now: float, keepalive: float) -> None:
        """Report silence to the flow, and end replies that are only drained. Called periodically."""
        if self.response_complete:
            if now - self._touched >= DRAIN_SECONDS:
                self._cancel()
                self._drop()
                self._settle()
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
        """End the request because the server shuts down."""
        if self.response_complete or self.disconnected:
            return
        if self._is_offloading and self._deferred is not None:
            self._deferred.append(Shutdown(error))  # a thread is working on the stream
            return
        self._cancel()
        self._deferred, self._is_awaiting = None, False
        self._step(Shutdown(error))

    # The end

    def _end(self, result: Result) -> None:
        self._touched = now = self._loop.time()
        if type(result) is WholeAnswer:
            self._client.reply(self._context, result, now)
        elif isinstance(result, ApiError):
            self._client.refuse(self._context, result, now)
        else:
            self._end_stream(result)
        self._finish(result)

    def _end_stream(self, end: StreamEnd) -> None:
        if end.is_cut:  # its last chunk never arrives
            self.keep_alive, self.record.cut = False, True
        self._client.end(self._context, end, self._touched)

    def _fail(self, failure: Exception) -> None:
        """End an answer after a bug in the gateway or the shutdown of the server."""
        self._flow.close()
        self._touched = now = self._loop.time()
        if self._context.begun:
            self._end_stream(self._context.end(describe_failure(failure, self.record) or DRAINING))
        else:
            self._client.fail(self._context, failure, now)
        self._finish()

    def _finish(self, result: Result | None = None) -> None:
        self.response_started = self.response_complete = True
        self._resume = _ignore
        if self._reply is not None and (self._task is None or not self._may_drain(result)):
            self._drop()
        if self._awaited is not None or self._backoff is not None or (self._task is not None and self._reply is None):
            self._cancel()
        now = self._touched
        self._sweep.discard(self)
        self._client.close(self._context, now)
        if self._sending is not None or self._reply is not None:
            # Give the upstream a moment to end, so that its connection can be reused.
            self._sweep.add(self)
            self._resume_reading()
        self._client.answered(now)

    def _may_drain(self, result: Result | None) -> bool:
        """Return whether a task may read the rest of its reply to the end."""
        stream = self._context.stream
        return isinstance(result, StreamEnd) and not result.is_cut and (stream is None or stream.fault is None)

    @property
    def is_draining(self) -> bool:
        """Whether the answer is complete while the rest of the upstream's stream is still being read."""
        return self._sending is not None or self._reply is not None

    def _settle(self) -> None:
        self._sweep.discard(self)
        if self.response_complete:
            self._client.drained()


def _ignore(outcome: Outcome) -> Command:
    """Replaces a flow that has ended: the rest of its upstream's reply is discarded."""
    return b""
