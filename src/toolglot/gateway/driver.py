"""Runs an answer flow in a task: calls upstreams, waits, and hands on what is for the client.

driver = FlowDriver(flow, context)
async for command in driver.commands():     # BeginStream, Write or bytes, to be written before the next
    ...
driver.result
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TypeAlias

from msgspec import Struct

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
    Wait,
    WholeReply,
    Write,
)
from toolglot.gateway.flow import FlowContext, is_answer
from toolglot.gateway.upstream_errors import ERROR_BODY_LIMIT
from toolglot.upstream.offload import offload
from toolglot.upstream.transport import Reply, TransportError, UpstreamCall, too_large

DRAIN_SECONDS = 1.0
"""How long the rest of an upstream's stream is read once the answer is complete, so that its connection lives on."""

ClientCommand: TypeAlias = BeginStream | Write | bytes
_WRITES = (BeginStream, Write)


class _Ended(Struct, frozen=True, eq=False):
    result: Result


class _Broken(Struct, frozen=True, eq=False):
    error: Exception


class FlowDriver:
    """Drives one flow. `stop_error` tells, when the task is cancelled, what the client is told; None lets the
    cancellation through."""

    __slots__ = (
        "_chunks",
        "_context",
        "_flow",
        "_instead",
        "_last",
        "_left",
        "_limit",
        "_now",
        "_operation",
        "_reply",
        "_stop_error",
        "_task",
        "is_backing_off",
        "result",
        "waiting_since",
    )

    def __init__(
        self, flow: Flow, context: FlowContext, stop_error: Callable[[], ApiError | None] = lambda: None
    ) -> None:
        self._flow = flow
        self._context = context
        self._stop_error = stop_error
        self._now = context.environment.now
        self._task: asyncio.Task[object] | None = None
        self._operation: Send | Await | Offload | None = None
        self._reply: Reply | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._left = 0
        self._limit = 0
        self._instead: Command | _Ended | _Broken | None = None
        self._last: ClientCommand | None = None
        self.waiting_since: float | None = None
        """Since when the flow waits for an upstream or for work of our own."""
        self.is_backing_off = False
        """No upstream is at work: the time until the next attempt is running."""
        self.result: Result | None = None

    async def next_command(self) -> ClientCommand | None:
        """What is to be written to the client next; None once the flow has ended. Raises what the flow raises."""
        if self._task is None:
            self._task = asyncio.current_task()
        try:
            step = await self._next_step() if type(self._last) is bytes else self._resume(None)
            while True:
                if type(step) is bytes:
                    if step:
                        break
                    step = await self._next_step()
                elif isinstance(step, _Ended):
                    self.result = step.result
                    return None
                elif isinstance(step, _WRITES):
                    break
                elif isinstance(step, Wait):
                    step = self._resume(await self._sleep(step.seconds))
                else:
                    assert not isinstance(step, bytes)
                    self._operation = step
                    step = await self._next_step()
        except BaseException:
            self.close()
            raise
        self._last = step
        return step

    async def run(self) -> Result:
        """The result of a flow that writes nothing before it ends."""
        command = await self.next_command()
        assert command is None
        assert self.result is not None
        return self.result

    def _resume(self, outcome: Outcome) -> Command | _Ended:
        try:
            return self._flow.send(outcome)
        except StopIteration as end:
            return _Ended(end.value)

    async def _next_step(self) -> Command | _Ended:
        """Wait for what the flow waits for, and report it."""
        self.waiting_since = self._now()
        try:
            outcome = await self._happening()
        except asyncio.CancelledError:
            assert self._task is not None
            if self._instead is not None and not self._context.record.cancelled:
                self._task.uncancel()
                step, self._instead = self._instead, None
                if isinstance(step, _Broken):
                    raise step.error from None
                return step
            if (error := self._stop_error()) is None:
                raise
            outcome = Shutdown(error)
        finally:
            self.waiting_since = None
        return self._resume(outcome)

    async def _happening(self) -> Outcome:
        operation, self._operation = self._operation, None
        if operation is None:
            return await self._read()
        if type(operation) is Send:
            return await self._send(operation)
        try:
            if type(operation) is Await:
                return Done(await operation.call())
            assert type(operation) is Offload
            return Done(await offload(operation.size, operation.work))
        except Exception as error:
            return Raised(error)

    async def _sleep(self, seconds: float) -> Outcome:
        self.is_backing_off = True
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if (error := self._stop_error()) is None:
                raise
            return Shutdown(error)
        finally:
            self.is_backing_off = False
        return ELAPSED

    async def _send(self, send: Send) -> Outcome:
        self._drop_reply()
        assert isinstance(send.call, UpstreamCall)
        try:
            self._reply = reply = await send.transport.send(send.call)
            if not is_answer(reply.status, reply.headers):
                body = await reply.read(ERROR_BODY_LIMIT)
            elif not send.is_streaming:
                body = await reply.read(send.limit)
            else:
                self._chunks = aiter(reply.chunks())
                self._left = self._limit = send.limit
                return ReplyBegun(reply.headers)
        except TransportError as error:
            self._drop_reply()
            return Failed(error)
        self._drop_reply()
        return WholeReply(reply.status, reply.headers, body)

    async def _read(self) -> Outcome:
        assert self._chunks is not None
        try:
            chunk = await anext(self._chunks, None)
        except TransportError as error:
            return Failed(error)
        if chunk is None:
            return END
        self._left -= len(chunk)
        return chunk if self._left >= 0 else Failed(too_large(self._limit))

    def break_silence(self, written_at: float) -> list[ClientCommand]:
        """Tell the flow that nothing was written since this time. Returns what is to be written now.

        May be called at any time; nothing is told while the flow does not wait, or waits for a retry.
        """
        if self.waiting_since is None or self._instead is not None:
            return []
        now = self._now()
        commands: list[ClientCommand] = []
        step: Command | _Ended | _Broken
        try:
            step = self._resume(Silent(now - written_at, now - self.waiting_since))
            while type(step) is BeginStream or type(step) is Write:
                commands.append(step)
                step = self._resume(None)
        except Exception as error:
            step = _Broken(error)
        if type(step) is not bytes:  # what is waited for is not wanted any more
            self._instead = step
            assert self._task is not None
            self._task.cancel()
        elif step:
            commands.append(step)
        return commands

    async def drain(self) -> None:
        """Read what the upstream still sends behind an answer that is complete."""
        if self._chunks is None or (self._context.stream is not None and self._context.stream.fault is not None):
            return
        with suppress(TransportError, TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while await anext(self._chunks, None) is not None:
                    pass

    def close(self) -> None:
        """End the flow, wherever it is, and give up the upstream's reply."""
        self._flow.close()
        self._drop_reply()

    def _drop_reply(self) -> None:
        reply, self._reply, self._chunks = self._reply, None, None
        if reply is not None:
            reply.close()
