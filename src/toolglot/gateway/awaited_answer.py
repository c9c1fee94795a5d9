"""The answer of a flow for a caller that awaits its pieces: the ASGI app, and callers in this process.

answer = AwaitedAnswer(flow, context, sweep)
while (command := await answer.next_command()) is not None:     # BeginStream or bytes, to be written before the next
    ...
answer.result()
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from math import inf
from typing import TypeAlias

from toolglot.errors import ApiError
from toolglot.gateway.callback_driver import CallbackDriver
from toolglot.gateway.commands import BeginStream, Flow, Result, StreamEnd, WholeAnswer
from toolglot.gateway.flow import FlowContext
from toolglot.gateway.sweep import DriverSweep

HIGH_WATER = 64 * 1024
"""Bytes that may wait for the caller before the upstream is paused."""

ClientCommand: TypeAlias = BeginStream | bytes


class AwaitedAnswer:
    """The `AnswerClient` of a driver, and the caller's interface to it. It counts as full from the first waiting piece
    until the caller asks for more.
    """

    def __init__(self, flow: Flow, context: FlowContext, sweep: DriverSweep | None = None) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._context = context
        self._loop = loop
        self._waiting: deque[ClientCommand] = deque()
        self._size = 0
        self._result: Result | Exception | None = None
        self._next: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._is_started = self._is_closed = False
        self.full = False
        sweep = DriverSweep(lambda: inf) if sweep is None else sweep
        self._driver = CallbackDriver(
            self, loop, context, flow, flow.send, sweep, context.record, now, now, context.is_streaming
        )

    # The caller

    async def next_command(self) -> ClientCommand | None:
        """Return the next piece for the client, or None once the flow has ended."""
        if not self._is_started:
            self._is_started = True
            self._driver.start()
        while not self._waiting:
            if self._result is not None:
                return None
            self.full = False
            self._driver.resume()
            self._next = self._loop.create_future()
            await self._next
        command = self._waiting.popleft()
        self._size -= len(command) if type(command) is bytes else 0
        return command

    def result(self) -> Result:
        """Return the end of the answer. Raises the exception that the flow raised."""
        if isinstance(self._result, Exception):
            raise self._result
        assert self._result is not None
        return self._result

    async def drain(self) -> None:
        """Wait until the rest of the upstream's stream is read, after the answer is complete."""
        if self._driver.is_draining:
            self._drained = self._loop.create_future()
            await self._drained

    async def release(self) -> None:
        """End the flow, unless it has ended: then the driver reads the rest of the upstream's stream by itself."""
        if self._result is None:
            await self.aclose()

    def stop(self, error: ApiError) -> None:
        """Stop the answer, because the server shuts down and waits no longer."""
        self._driver.stop(error)

    async def aclose(self) -> None:
        """End the flow in any state, and abandon the upstream's reply."""
        if self._is_closed:
            return
        self._is_closed = True
        if tasks := self._driver.abandon():
            await asyncio.wait(tasks)

    # The driver

    def begin(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> None:
        self._add(BeginStream(upstream_headers))

    def write(self, data: bytes) -> None:
        self._size += len(data)
        self._add(data)
        if self._size > HIGH_WATER:
            self._driver.pause()

    def _add(self, command: ClientCommand) -> None:
        self.full = True
        self._waiting.append(command)
        self._wake()

    def end(self, context: FlowContext, end: StreamEnd, now: float) -> None:
        self._result = end

    def reply(self, context: FlowContext, answer: WholeAnswer, now: float) -> None:
        self._result = answer

    def refuse(self, context: FlowContext, error: ApiError, now: float) -> None:
        self._result = error

    def fail(self, context: FlowContext, failure: Exception, now: float) -> None:
        self._result = failure

    def close(self, context: FlowContext, now: float) -> None: ...

    def answered(self, now: float) -> None:
        self._wake()

    def drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _wake(self) -> None:
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
