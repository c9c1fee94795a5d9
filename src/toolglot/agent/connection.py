"""One session with an MCP server, from its first word to its last.

`live` runs in one task from beginning to end (the SDK's cancel scopes must be left where they were entered); `call`
may be called from any. What the SDK raises ends here: as `ToolFailedError` for a call, as `EndedError` for the session.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import mcp_types
from mcp import Client
from mcp.client import IncomingMessage
from mcp.client._transport import TransportStreams
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, HEADER_MISMATCH, METHOD_NOT_FOUND
from pydantic import TypeAdapter, ValidationError

from toolglot import __version__
from toolglot.agent.envelope import opened
from toolglot.agent.faults import FAULTS, NETWORK, leaf, told
from toolglot.agent.http import Http
from toolglot.agent.keeper import EndedError, Keeper, Progress
from toolglot.agent.sift import CountedWriting, Requests, SiftedReading
from toolglot.agent.stdio import Stdio
from toolglot.agent.tools import ToolFailedError
from toolglot.errors import DecodeError

MAX_TOOLS = 1_000
MAX_PAGES = 100
MAX_BYTES = 8_000_000
STATELESS = "2026-07-28"
_MODES = {"auto": "auto", "stateless": STATELESS, "handshake": "legacy"}

# What the SDK logs are tracebacks with whatever a server has sent, and what its HTTP client logs are addresses, which
# may hold keys. What matters comes to us as exceptions. Somebody who has set a level wants to see more.
_QUIET = {"client": logging.CRITICAL, "mcp.client": logging.CRITICAL, "mcp.shared": logging.CRITICAL}
for _name, _level in {**_QUIET, "httpx2": logging.WARNING, "httpcore2": logging.WARNING}.items():
    if logging.getLogger(_name).level == logging.NOTSET:
        logging.getLogger(_name).setLevel(_level)

_CLOSED = (CONNECTION_CLOSED, "Connection closed")
"""What the SDK makes of the calls in flight when a connection ends; single calls may fail with the same code."""

_ANY: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
_NAMED = 5
"""Of tools that are left out, so many are named."""


class Session:
    """A session that has begun."""

    def __init__(self, keeper: Keeper, client: Client, over: asyncio.Event, changed: asyncio.Event) -> None:
        self._keeper = keeper
        self._client = client
        self._over = over
        self._changed = changed
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls: set[asyncio.Task[dict[str, Any]]] = set()
        self._warned: set[str] = set()

    # What the owner's task runs.

    @property
    def protocol(self) -> str:
        return self._client.protocol_version

    async def run(self) -> None:
        """Follows the list of tools until the session is over."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen)
                tasks.start_soon(self._follow)
                await self._over.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._gone.set_result(None)
            for task in self._calls:
                task.cancel()

    async def tools(self) -> list[dict[str, Any]]:
        """The definitions of the whole list, page by page, as far as there may be more."""
        listed: list[dict[str, Any]] = []
        cursor: str | None = None
        size = 0
        for _ in range(MAX_PAGES):
            try:
                page = await self._client.list_tools(cursor=cursor)
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND and cursor is None:
                    return []  # a server that has resources or prompts alone
                raise
            found = self._definitions(page)
            cursor = page.next_cursor
            size += len(json.dumps(found))
            if size > MAX_BYTES:
                break
            listed += found
            if cursor is None or len(listed) > MAX_TOOLS:
                break
        if cursor is not None or len(listed) > MAX_TOOLS or size > MAX_BYTES:
            limits = f"{MAX_TOOLS:,} tools, {MAX_PAGES} pages or {MAX_BYTES:,} bytes"
            self._warn_once(f"its list of tools has more than {limits}; the rest is left out")
        return listed[:MAX_TOOLS]

    def _definitions(self, page: mcp_types.ListToolsResult) -> list[dict[str, Any]]:
        """The tools of a page that are fit for use. The SDK has left out those whose headers must not be sent."""
        carried = opened(page.meta) or {}
        if carried.get("tools") is None:
            raise DecodeError("tools", "this array of tools is required")
        left_out: list[tuple[str, str]] = carried["left_out"]
        allowed = {tool.name for tool in page.tools}
        refused = [tool["name"] for tool in carried["tools"] if tool["name"] not in allowed]
        if wrong := [*left_out, *((name, "its x-mcp-header is not valid") for name in refused)]:
            named = [f"{name} ({why})" for name, why in wrong[:_NAMED]]
            more = [f"and {len(wrong) - _NAMED} more"] if len(wrong) > _NAMED else []
            self._warn_once("tools are left out", "; ".join([*named, *more]))
        return [tool for tool in carried["tools"] if tool["name"] in allowed]

    def _warn_once(self, what: str, why: str = "") -> None:
        if what not in self._warned:
            self._warned.add(what)
            self._keeper.warn(f"{what}: {why}" if why else what)

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            # One reading for all that changes at once, and no more of them than this for a server that never rests.
            await anyio.sleep(self._keeper.pace.settle)
            self._changed.clear()
            try:
                with anyio.fail_after(self._keeper.config.start_timeout):
                    self._keeper.listed(await self.tools())
            except (MCPError, ValidationError, DecodeError, TimeoutError) as error:
                if self._over.is_set():
                    return
                self._warn_once("its tools have changed, but cannot be listed", told(error))

    async def _listen(self) -> None:
        """Since 2026-07-28 a server tells of changes to those alone who listen."""
        if self.protocol < STATELESS:
            return
        while True:
            pause = self._keeper.pace.relisten
            try:
                async with self._client.listen(tools_list_changed=True) as changes:
                    if not changes.honored.tools_list_changed:
                        pause = self._keeper.pace.relist
                    async for _ in changes:
                        self._changed.set()
            except MCPError as error:
                if error.code != CONNECTION_CLOSED:
                    pause = self._keeper.pace.relist  # it has no such thing
            except SubscriptionLost:
                pass
            await anyio.sleep(pause)
            self._changed.set()  # nobody repeats what was said meanwhile

    # What anybody calls.

    async def call(self, name: str, arguments: dict[str, Any], on_progress: Progress | None) -> dict[str, Any]:
        """The result of a tool as the wire has it. Whoever is cancelled, or has waited for long enough, is gone at
        once: the server is told by a task that nobody has to wait for.

        Raises:
            ToolFailedError: there is none.
        """
        _check(arguments)
        timeout = self._keeper.config.timeout
        task = asyncio.create_task(self._send(name, arguments, on_progress))
        self._calls.add(task)
        task.add_done_callback(self._forget)
        try:
            ends: set[asyncio.Future[Any]] = {task, self._gone}
            await asyncio.wait(ends, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # The SDK tells the server when its request is cancelled: with `notifications/cancelled`, or by closing the
            # request's stream where that is the way.
            if not task.done():
                task.cancel()
        if task.done() and not task.cancelled():
            if (error := task.exception()) is not None:
                raise self._failure(error) from None
            return self._complete(task.result())
        if self._gone.done() or task.cancelled():
            raise ToolFailedError(self._ended())
        raise ToolFailedError(f"MCP server {self._keeper.name} did not answer within {timeout:g} seconds")

    def _forget(self, task: asyncio.Task[dict[str, Any]]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # it was told, or nobody waits for it any more

    async def _send(self, name: str, arguments: dict[str, Any], on_progress: Progress | None) -> dict[str, Any]:
        try:
            return await self._request(name, arguments, on_progress)
        except MCPError as error:
            if error.code != HEADER_MISMATCH:
                raise
        # The tool's schema says which arguments are repeated in headers, and we have an old one.
        self._keeper.listed(await self.tools())
        return await self._request(name, arguments, on_progress)

    async def _request(self, name: str, arguments: dict[str, Any], on_progress: Progress | None) -> dict[str, Any]:
        params = mcp_types.CallToolRequestParams(name=name, arguments=arguments)
        request = mcp_types.CallToolRequest(params=params)
        progress = None if on_progress is None else _awaited(on_progress, self._keeper.clean)
        # Not `call_tool`, which refuses results whose `structuredContent` does not fit the tool's `outputSchema`: a
        # model can use them all the same.
        answer = await self._client.session.send_request(request, _ANY, progress_callback=progress)
        result = opened(answer.get("_meta"))
        return cast(dict[str, Any], answer if result is None else result)

    def _complete(self, result: dict[str, Any]) -> dict[str, Any]:
        """Nobody is here who could be asked, and no model is lent to servers."""
        kind = result.get("resultType", "complete")
        if not isinstance(result.get("content", []), list):
            raise ToolFailedError(f"MCP server {self._keeper.name}: what it sent is not MCP: content: this is no list")
        if kind == "complete":
            return self._keeper.kept_secret(result)
        wanted = "asks for input, which nobody here can give" if kind == "input_required" else "gives another result"
        raise ToolFailedError(self._keeper.clean(f"the tool of MCP server {self._keeper.name} {wanted} ({kind})"))

    def _failure(self, error: BaseException) -> ToolFailedError:
        closed = isinstance(error, MCPError) and (error.code, error.message) == _CLOSED
        if closed or self._over.is_set():
            return ToolFailedError(self._ended())
        return ToolFailedError(self._keeper.clean(f"MCP server {self._keeper.name}: {told(error)}"))

    def _ended(self) -> str:
        return f"MCP server {self._keeper.name} ended before it had answered"


def _check(arguments: dict[str, Any]) -> None:
    """What cannot be written (half of a surrogate pair, which models do make) must fail here: in the transport it would
    end the connection, and all other calls with it."""
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError):
        raise ToolFailedError("the arguments cannot be written as JSON") from None


def _awaited(on_progress: Progress, clean: Callable[[str], str]) -> ProgressFnT:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        on_progress(progress, total, None if message is None else clean(message))

    return report


async def live(keeper: Keeper) -> None:
    """Connects to a server and keeps the connection until it ends, which always raises.

    Raises:
        EndedError: why it has ended, or why there never was one.
    """
    over = asyncio.Event()
    transport = _transport(keeper, over)
    limit = keeper.config.start_timeout
    try:
        with anyio.CancelScope(deadline=anyio.current_time() + limit) as start:
            async with _session(keeper, transport, over) as session:
                keeper.listed(await session.tools())
                start.deadline = math.inf
                keeper.ready(session, session.protocol)
                await session.run()
    except FAULTS as error:
        raise _end(transport, error) from None
    except BaseExceptionGroup as group:
        if (cause := leaf(group)) is None:
            raise
        raise _end(transport, cause) from None
    if start.cancelled_caught:
        raise EndedError(f"it did not answer within {limit:g} seconds")
    raise EndedError(transport.why or "it ended the connection", by_itself=transport.ended)


def _end(transport: Stdio | Http, error: Exception) -> EndedError:
    """The transport knows more than the SDK's words for an end, and less than an error of the network."""
    why = told(error) if isinstance(error, NETWORK) else transport.why or told(error)
    return EndedError(why, by_itself=transport.ended)


def _transport(keeper: Keeper, over: asyncio.Event) -> Stdio | Http:
    if keeper.config.command is not None:
        return Stdio(keeper.name, keeper.config, keeper.tail, grace=keeper.pace.grace, shown=keeper.clean)
    return Http(keeper.config, over.set)


@asynccontextmanager
async def _session(keeper: Keeper, transport: Stdio | Http, over: asyncio.Event) -> AsyncIterator[Session]:
    requests, changed = Requests(), asyncio.Event()

    @asynccontextmanager
    async def streams() -> AsyncIterator[TransportStreams]:
        async with transport.streams() as (reading, writing):
            yield SiftedReading(reading, requests, over.set), CountedWriting(writing, requests)

    async def heard(message: IncomingMessage) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            changed.set()

    client = Client(
        streams(),
        mode=_MODES[keeper.protocol],
        message_handler=heard,
        client_info=mcp_types.Implementation(name="toolglot", version=__version__),
        cache=None,  # a list is asked for when it has changed
    )
    async with client:
        yield Session(keeper, client, over, changed)
