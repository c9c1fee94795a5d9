"""Run the calls of one round concurrently, within their limits, each to a result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from toolglot.agent.server_records import HostTimings, ToolFailedError
from toolglot.agent.tool_results import failed_result, make_result, value_size
from toolglot.agent.toolbox import OfferedTool
from toolglot.config.schema import McpConfig
from toolglot.ir import ToolCall, ToolResult
from toolglot.tools.served import ServedCall
from toolglot.upstream.offload import offload
from toolglot.wire import json

log = logging.getLogger("toolglot.agent")

MAX_PROGRESS = 500
"""Maximum number of progress reports of one call."""
PACE = HostTimings().progress

OnProgress: TypeAlias = Callable[[float, float | None, str | None], None]


class ToolCaller(Protocol):
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


class ServedToolCall(Struct, frozen=True):
    """A call of the model to a served tool."""

    call: ToolCall
    offered: OfferedTool
    approval: str | None = None
    """The approval request that the client answered, if there was one."""

    @property
    def as_served_call(self) -> ServedCall:
        """Convert the call to the form that is reported to the client."""
        return ServedCall(
            id=self.call.id,
            server=self.offered.label,
            name=self.offered.tool.name,
            arguments=self.call.arguments,
            approval=self.approval,
        )


class CallProgress(Struct, frozen=True):
    """Progress that a running tool reports."""

    served: ServedToolCall
    message: str


class CallOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a call. `ran`: its tool was actually called."""

    position: int
    served: ServedToolCall
    result: ToolResult
    ran: bool
    seconds: float


Approve: TypeAlias = Callable[[ServedToolCall], Awaitable[bool]]


class RunWatcher(Protocol):
    """Observes the output of tools before it is converted."""

    def on_progress(self, served: ServedToolCall, done: float, total: float | None, message: str | None) -> None:
        """Pass on the progress that a tool reported."""
        ...

    async def on_result(self, served: ServedToolCall, value: dict[str, Any]) -> None:
        """Handle the value that a tool returned. The caller consumes it afterwards."""
        ...

    def on_failure(self, served: ServedToolCall, why: Exception) -> None:
        """Handle a call without a result: a `ToolFailedError`, a `TimeoutError`, or an unexpected error."""
        ...


class ProgressPacer:
    """Limits how often a call reports progress, so that a reader can follow."""

    def __init__(self, clock: Callable[[], float], seconds: float = PACE) -> None:
        self._clock = clock
        self._seconds = seconds
        self._left = MAX_PROGRESS
        self._next = 0.0

    def may_report(self) -> bool:
        if self._left == 0 or self._clock() < self._next:
            return False
        self._left -= 1
        self._next = self._clock() + self._seconds
        return True


class CallNotRunError(Exception):
    """The call is not run; the model gets the reason."""


class ToolRunner:
    """Runs the calls of one request, up to `limits.calls` in all. `approve` asks the user about a call that needs
    approval, one call at a time. Progress of a call is reported at most every `pace` seconds.
    """

    def __init__(
        self,
        servers: ToolCaller,
        limits: McpConfig,
        approve: Approve | None = None,
        *,
        watch: RunWatcher | None = None,
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
        self._tasks: list[asyncio.Task[None]] = []
        self.waited = 0.0
        """Seconds that users took to answer, which do not count as the tools' time."""

    async def run(
        self, calls: Sequence[ServedToolCall], deadline: float
    ) -> AsyncGenerator[CallProgress | CallOutcome, None]:
        """Yield the calls' progress while they run, and their outcomes in the order of the calls."""
        heard: asyncio.Queue[CallProgress | CallOutcome] = asyncio.Queue()
        self._tasks = tasks = [
            asyncio.create_task(self._run_call(number, call, deadline, heard)) for number, call in enumerate(calls)
        ]
        ended: dict[int, CallOutcome] = {}
        following = 0
        try:
            while following < len(calls):
                told = await heard.get()
                if isinstance(told, CallProgress):
                    yield told
                    continue
                ended[told.position] = told
                while following in ended:
                    yield ended.pop(following)
                    following += 1
        finally:
            self.cancel()
            if tasks:
                await asyncio.wait(tasks)

    def cancel(self) -> None:
        """Cancel the calls that are running."""
        for task in self._tasks:
            task.cancel()

    async def _run_call(
        self, position: int, served: ServedToolCall, deadline: float, heard: asyncio.Queue[CallProgress | CallOutcome]
    ) -> None:
        loop = asyncio.get_running_loop()
        began, ran, value = loop.time(), False, None
        told = ProgressPacer(loop.time, self._pace)

        def on_progress(done: float, total: float | None, message: str | None) -> None:
            if told.may_report():
                if self._watch is not None:
                    self._watch.on_progress(served, done, total, message)
                share = f"{done:g}" if total is None else f"{done:g}/{total:g}"
                heard.put_nowait(CallProgress(served, f"{share} {message}" if message else share))

        try:
            arguments = await self._checked_arguments(served)
            tool = served.offered.tool
            async with self._places, asyncio.timeout_at(deadline + self.waited):
                ran = True
                value = await self._servers.call(
                    tool.server, tool.name, arguments, on_progress=on_progress, generation=tool.generation
                )
            if self._watch is not None:
                await self._watch.on_result(served, value)
            # A tool's result may be large, and other requests must not wait while it is processed.
            result = await offload(value_size(value), make_result, value, served.call, self._limits.result_bytes)
        except Exception as error:  # of any kind: a call always ends with a result
            result = failed_result(served.call, self._failure_reason(served, error))
            if ran and value is None and self._watch is not None:
                self._watch.on_failure(served, error)
        seconds = loop.time() - began
        heard.put_nowait(CallOutcome(position=position, served=served, result=result, ran=ran, seconds=seconds))

    def _failure_reason(self, served: ServedToolCall, error: Exception) -> str:
        """Return why there is no result, for the model to read."""
        if isinstance(error, (CallNotRunError, ToolFailedError)):
            return str(error)
        if isinstance(error, TimeoutError):
            return f"The time limit of {self._limits.seconds:g} seconds for all calls is reached."
        # The loop must continue in any case, and every call needs a result for the model.
        log.error("a call to %s of %s failed", served.offered.tool.name, served.offered.tool.server, exc_info=error)
        return "The tool could not be run."

    async def _checked_arguments(self, served: ServedToolCall) -> dict[str, Any]:
        """Return the arguments of a call that may be run. Raises `CallNotRunError`."""
        call = served.call
        if served.offered.policy == "missing":
            raise CallNotRunError(f"There is no tool {call.name}: nothing was run.")
        if not call.complete:
            raise CallNotRunError("The call was cut off, or its arguments are not JSON: it was not run.")
        arguments = _parse_arguments(call.arguments)
        self._left -= 1
        if self._left < 0:
            raise CallNotRunError(f"{self._limits.calls} calls may be run for one request: this one was not run.")
        if served.offered.policy == "ask":
            if self._approve is None:
                raise CallNotRunError("This tool needs approval, and there was no user to give it: it was not run.")
            async with self._asking:
                if not await self._ask_approval(self._approve(served)):
                    raise CallNotRunError("The user did not allow this call: it was not run.")
        return arguments

    async def _ask_approval(self, question: Awaitable[bool]) -> bool:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            return await question
        finally:
            self.waited += clock() - began


def _parse_arguments(text: str) -> dict[str, Any]:
    """Parse a model's text of arguments; empty text is an empty object. Raises `CallNotRunError`."""
    if not text.strip():
        return {}
    arguments = json.object_value(text)
    if arguments is None:
        raise CallNotRunError("The arguments are not a JSON object: the call was not run.")
    return arguments
