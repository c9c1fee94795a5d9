"""Running the calls of one round: side by side, within their limits, each to a result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from toolglot.agent.results import failed, result_of, size_of
from toolglot.agent.toolbox import Offered
from toolglot.agent.tools import Pace, ToolFailedError
from toolglot.config.schema import McpConfig
from toolglot.ir import ToolCall, ToolResult
from toolglot.tools.served import ServedCall
from toolglot.upstream.offload import offload
from toolglot.wire import json

log = logging.getLogger("toolglot.agent")

MOST_PROGRESS = 500
"""Of one call."""
PACE = Pace().progress

OnProgress: TypeAlias = Callable[[float, float | None, str | None], None]


class Servers(Protocol):
    """The part of a host that runs calls."""

    async def call(
        self,
        server: str,
        name: str,
        arguments: dict[str, Any],
        *,
        on_progress: OnProgress | None = None,
        generation: int | None = None,
    ) -> dict[str, Any]: ...


class Served(Struct, frozen=True):
    """A call of the model to a tool that is served."""

    call: ToolCall
    offered: Offered
    approval: str | None = None
    """What the reader's yes to it answered, if it was asked."""

    @property
    def told(self) -> ServedCall:
        """As its reader is told of it."""
        return ServedCall(
            id=self.call.id,
            server=self.offered.label,
            name=self.offered.tool.name,
            arguments=self.call.arguments,
            approval=self.approval,
        )


class Progress(Struct, frozen=True):
    """What a tool says while it runs."""

    served: Served
    message: str


class Outcome(Struct, frozen=True, kw_only=True):
    """How a call has ended. `ran`: its tool was really called."""

    position: int
    served: Served
    result: ToolResult
    ran: bool
    seconds: float


Approve: TypeAlias = Callable[[Served], Awaitable[bool]]


class Watch(Protocol):
    """Whoever wants to know what tools have said themselves, before anything is made of it."""

    def said(self, served: Served, done: float, total: float | None, message: str | None) -> None:
        """A tool told of its progress, and that is passed on."""
        ...

    async def returned(self, served: Served, value: dict[str, Any]) -> None:
        """A tool has returned this, which is used up afterwards."""
        ...

    def failed(self, served: Served, why: Exception) -> None:
        """There is no result, for one of these reasons: `ToolFailedError`, `TimeoutError`, or something unforeseen."""
        ...


class Paced:
    """How much a call may say of its progress: not more than a reader can follow."""

    def __init__(self, clock: Callable[[], float], seconds: float = PACE) -> None:
        self._clock = clock
        self._seconds = seconds
        self._left = MOST_PROGRESS
        self._next = 0.0

    def may_tell(self) -> bool:
        if self._left == 0 or self._clock() < self._next:
            return False
        self._left -= 1
        self._next = self._clock() + self._seconds
        return True


class NotRunError(Exception):
    """The call is not run; the model is told why."""


class Runner:
    """Runs the calls of one request, up to `limits.calls` in all. `approve` asks somebody about a call that needs it;
    one question at a time. Between two things that a call says of its progress `pace` seconds go by."""

    def __init__(
        self,
        servers: Servers,
        limits: McpConfig,
        approve: Approve | None = None,
        *,
        watch: Watch | None = None,
        pace: float = PACE,
    ) -> None:
        self._servers = servers
        self._limits = limits
        self._approve = approve
        self._watch = watch
        self._pace = pace
        self._left = limits.calls
        self._places = asyncio.Semaphore(limits.parallel)
        self._asking = asyncio.Lock()
        self.waited = 0.0
        """Seconds that somebody took to answer: they do not count as the tools' time."""

    async def run(self, calls: Sequence[Served], deadline: float) -> AsyncGenerator[Progress | Outcome, None]:
        """What the calls say while they run, and their outcomes in the order of the calls."""
        heard: asyncio.Queue[Progress | Outcome] = asyncio.Queue()
        tasks = [asyncio.create_task(self._one(number, call, deadline, heard)) for number, call in enumerate(calls)]
        ended: dict[int, Outcome] = {}
        following = 0
        try:
            while following < len(calls):
                told = await heard.get()
                if isinstance(told, Progress):
                    yield told
                    continue
                ended[told.position] = told
                while following in ended:
                    yield ended.pop(following)
                    following += 1
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def _one(
        self, position: int, served: Served, deadline: float, heard: asyncio.Queue[Progress | Outcome]
    ) -> None:
        loop = asyncio.get_running_loop()
        began, ran, value = loop.time(), False, None
        told = Paced(loop.time, self._pace)

        def on_progress(done: float, total: float | None, message: str | None) -> None:
            if told.may_tell():
                if self._watch is not None:
                    self._watch.said(served, done, total, message)
                share = f"{done:g}" if total is None else f"{done:g}/{total:g}"
                heard.put_nowait(Progress(served, f"{share} {message}" if message else share))

        try:
            arguments = await self._allowed(served)
            tool = served.offered.tool
            async with self._places, asyncio.timeout_at(deadline + self.waited):
                ran = True
                value = await self._servers.call(
                    tool.server, tool.name, arguments, on_progress=on_progress, generation=tool.generation
                )
            if self._watch is not None:
                await self._watch.returned(served, value)
            # What a tool returns may be large, and others must not wait while it is looked through.
            result = await offload(size_of(value), result_of, value, served.call, self._limits.result_bytes)
        except Exception as error:  # of any kind: a call ends in a result whatever happens
            result = failed(served.call, self._why(served, error))
            if ran and value is None and self._watch is not None:
                self._watch.failed(served, error)
        seconds = loop.time() - began
        heard.put_nowait(Outcome(position=position, served=served, result=result, ran=ran, seconds=seconds))

    def _why(self, served: Served, error: Exception) -> str:
        """Why there is no result, for the model to read."""
        if isinstance(error, (NotRunError, ToolFailedError)):
            return str(error)
        if isinstance(error, TimeoutError):
            return f"The {self._limits.seconds:g} seconds for all calls together are over."
        # Whatever it is, the loop must go on, and the model must not wait for a result that never comes.
        log.error("a call to %s of %s failed", served.offered.tool.name, served.offered.tool.server, exc_info=error)
        return "The tool could not be run."

    async def _allowed(self, served: Served) -> dict[str, Any]:
        """The arguments of a call that may be run. Raises `NotRunError`."""
        call = served.call
        if served.offered.policy == "missing":
            raise NotRunError(f"There is no tool {call.name}: nothing was run.")
        if not call.complete:
            raise NotRunError("The call was cut off, or its arguments are no JSON: it was not run.")
        arguments = _arguments(call.arguments)
        self._left -= 1
        if self._left < 0:
            raise NotRunError(f"{self._limits.calls} calls may be run for one request: this one was not run.")
        if served.offered.policy == "ask":
            if self._approve is None:
                raise NotRunError("This tool needs somebody's yes, and nobody could be asked: it was not run.")
            async with self._asking:
                if not await self._answer(self._approve(served)):
                    raise NotRunError("The user did not allow this call: it was not run.")
        return arguments

    async def _answer(self, question: Awaitable[bool]) -> bool:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            return await question
        finally:
            self.waited += clock() - began


def _arguments(text: str) -> dict[str, Any]:
    """What a model wrote as arguments; nothing at all is none. Raises `NotRunError`."""
    if not text.strip():
        return {}
    raw = json.object_of(text)
    if raw is None:
        raise NotRunError("The arguments are not a JSON object: the call was not run.")
    arguments: dict[str, Any] = json.decode_frame(bytes(raw))
    return arguments
