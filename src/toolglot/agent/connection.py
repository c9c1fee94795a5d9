"""One session with an MCP server, from start to end.

`run_session` runs in one task from beginning to end, because the SDK's cancel scopes must be left where they were
entered; `call` may be called from any task. Exceptions of the SDK end here: as `ToolFailedError` for a call, as
`EndedError` for the session.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, cast

import anyio
import httpx2
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
from toolglot.agent.http_transport import HttpServerTransport
from toolglot.agent.result_envelope import open_envelope
from toolglot.agent.server_records import ToolFailedError
from toolglot.agent.stdio_transport import StdioServerTransport
from toolglot.agent.supervisor import EndedError, ProgressCallback, ServerSupervisor
from toolglot.agent.throttle import CountingWriter, PendingRequests, ThrottledReader
from toolglot.errors import DecodeError

MAX_TOOLS = 1_000
MAX_PAGES = 100
MAX_BYTES = 8_000_000
STATELESS = "2026-07-28"
_MODES = {"auto": "auto", "stateless": STATELESS, "handshake": "legacy"}

# The SDK logs tracebacks with the data that a server sent, and its HTTP client logs addresses, which may contain keys.
# Relevant errors reach us as exceptions. A level set by the user takes precedence.
_QUIET_LEVEL = {"client": logging.CRITICAL, "mcp.client": logging.CRITICAL, "mcp.shared": logging.CRITICAL}
for _name, _level in {**_QUIET_LEVEL, "httpx2": logging.WARNING, "httpcore2": logging.WARNING}.items():
    if logging.getLogger(_name).level == logging.NOTSET:
        logging.getLogger(_name).setLevel(_level)

_CONNECTION_CLOSED = (CONNECTION_CLOSED, "Connection closed")
"""The SDK's error for calls in flight when a connection ends; single calls may fail with the same code."""

_ANY: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
_MAX_NAMED = 5
"""Maximum number of skipped tools to name."""


class McpSession:
    """A session that has begun."""

    def __init__(self, keeper: ServerSupervisor, client: Client, over: asyncio.Event, changed: asyncio.Event) -> None:
        self._keeper = keeper
        self._client = client
        self._over = over
        self._changed = changed
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls: set[asyncio.Task[dict[str, Any]]] = set()
        self._warned: set[str] = set()

    # Run by the owner's task.

    @property
    def protocol(self) -> str:
        return self._client.protocol_version

    async def run(self) -> None:
        """Follow the list of tools until the session ends."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen_for_changes)
                tasks.start_soon(self._follow_tool_list)
                await self._over.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._gone.set_result(None)
            for task in self._calls:
                task.cancel()

    async def tools(self) -> list[dict[str, Any]]:
        """Return the definitions of the whole list, page by page, up to the limits."""
        listed: list[dict[str, Any]] = []
        cursor: str | None = None
        size = 0
        for _ in range(MAX_PAGES):
            try:
                page = await self._client.list_tools(cursor=cursor)
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND and cursor is None:
                    return []  # a server that has only resources or prompts
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
        """Return the usable tools of a page. The SDK has removed those whose headers must not be sent."""
        carried = open_envelope(page.meta) or {}
        if carried.get("tools") is None:
            raise DecodeError("tools", "this array of tools is required")
        left_out: list[tuple[str, str]] = carried["left_out"]
        allowed = {tool.name for tool in page.tools}
        refused = [tool["name"] for tool in carried["tools"] if tool["name"] not in allowed]
        if wrong := [*left_out, *((name, "its x-mcp-header is not valid") for name in refused)]:
            named = [f"{name} ({why})" for name, why in wrong[:_MAX_NAMED]]
            more = [f"and {len(wrong) - _MAX_NAMED} more"] if len(wrong) > _MAX_NAMED else []
            self._warn_once("tools are left out", "; ".join([*named, *more]))
        return [tool for tool in carried["tools"] if tool["name"] in allowed]

    def _warn_once(self, what: str, why: str = "") -> None:
        if what not in self._warned:
            self._warned.add(what)
            self._keeper.warn(f"{what}: {why}" if why else what)

    async def _follow_tool_list(self) -> None:
        while True:
            await self._changed.wait()
            # One read for all simultaneous changes, and a limited rate for a server that changes constantly.
            await anyio.sleep(self._keeper.pace.settle)
            self._changed.clear()
            try:
                with anyio.fail_after(self._keeper.config.start_timeout):
                    self._keeper.set_tools(await self.tools())
            except (MCPError, ValidationError, DecodeError, TimeoutError) as error:
                if self._over.is_set():
                    return
                self._warn_once("its tools have changed, but cannot be listed", error_text(error))

    async def _listen_for_changes(self) -> None:
        """Since protocol version 2026-07-28, a server reports changes only to listening clients."""
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
                    pause = self._keeper.pace.relist  # the server does not support it
            except SubscriptionLost:
                pass
            await anyio.sleep(pause)
            self._changed.set()  # changes in the meantime are not repeated

    # Called from any task.

    async def call(self, name: str, arguments: dict[str, Any], on_progress: ProgressCallback | None) -> dict[str, Any]:
        """Return a tool's result as MCP's JSON. A caller that is canceled or times out returns at once: a separate task
        notifies the server.

        Raises:
            ToolFailedError: there is no result.
        """
        _check_writable(arguments)
        timeout = self._keeper.config.timeout
        task = asyncio.create_task(self._send(name, arguments, on_progress))
        self._calls.add(task)
        task.add_done_callback(self._discard_task)
        try:
            ends: set[asyncio.Future[Any]] = {task, self._gone}
            await asyncio.wait(ends, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # The SDK notifies the server when its request is canceled: with `notifications/cancelled`, or by closing
            # the request's stream if the transport requires that.
            if not task.done():
                task.cancel()
        if task.done() and not task.cancelled():
            if (error := task.exception()) is not None:
                raise self._failure(error) from None
            return self._complete(task.result())
        if self._gone.done() or task.cancelled():
            raise ToolFailedError(self._end_reason())
        raise ToolFailedError(f"MCP server {self._keeper.name} did not answer within {timeout:g} seconds")

    def _discard_task(self, task: asyncio.Task[dict[str, Any]]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # it was reported, or is no longer awaited

    async def _send(self, name: str, arguments: dict[str, Any], on_progress: ProgressCallback | None) -> dict[str, Any]:
        try:
            return await self._request(name, arguments, on_progress)
        except MCPError as error:
            if error.code != HEADER_MISMATCH:
                raise
        # The tool's schema says which arguments are repeated in headers, and ours is outdated.
        self._keeper.set_tools(await self.tools())
        return await self._request(name, arguments, on_progress)

    async def _request(
        self, name: str, arguments: dict[str, Any], on_progress: ProgressCallback | None
    ) -> dict[str, Any]:
        params = mcp_types.CallToolRequestParams(name=name, arguments=arguments)
        request = mcp_types.CallToolRequest(params=params)
        progress = None if on_progress is None else _as_progress_fn(on_progress, self._keeper.clean)
        # Not `call_tool`, which refuses results whose `structuredContent` does not match the tool's `outputSchema`: a
        # model can use them anyway.
        answer = await self._client.session.send_request(request, _ANY, progress_callback=progress)
        result = open_envelope(answer.get("_meta"))
        return cast(dict[str, Any], answer if result is None else result)

    def _complete(self, result: dict[str, Any]) -> dict[str, Any]:
        """Reject the server's requests for input: servers cannot ask a user or a model here."""
        kind = result.get("resultType", "complete")
        if not isinstance(result.get("content", []), list):
            raise ToolFailedError(f"MCP server {self._keeper.name}: it sent invalid MCP:  content: this is not a list")
        if kind == "complete":
            return self._keeper.redact(result)
        wanted = (
            "asks for input, but there is no user to provide it"
            if kind == "input_required"
            else "returned another kind of result"
        )
        raise ToolFailedError(self._keeper.clean(f"the tool of MCP server {self._keeper.name} {wanted} ({kind})"))

    def _failure(self, error: BaseException) -> ToolFailedError:
        closed = isinstance(error, MCPError) and (error.code, error.message) == _CONNECTION_CLOSED
        if closed or self._over.is_set():
            return ToolFailedError(self._end_reason())
        return ToolFailedError(self._keeper.clean(f"MCP server {self._keeper.name}: {error_text(error)}"))

    def _end_reason(self) -> str:
        return f"MCP server {self._keeper.name} ended before it had answered"


def _check_writable(arguments: dict[str, Any]) -> None:
    """Fail for text that cannot be encoded (a lone surrogate, which models do write). In the transport it would
    end the connection, and all other calls with it."""
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError):
        raise ToolFailedError("the arguments cannot be written as JSON") from None


def _as_progress_fn(on_progress: ProgressCallback, clean: Callable[[str], str]) -> ProgressFnT:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        on_progress(progress, total, None if message is None else clean(message))

    return report


async def run_session(keeper: ServerSupervisor) -> None:
    """Connect to a server and keep the connection until it ends, which always raises.

    Raises: EndedError: the reason why it has ended or could not be made.
    """
    over = asyncio.Event()
    transport = _make_transport(keeper, over)
    limit = keeper.config.start_timeout
    try:
        with anyio.CancelScope(deadline=anyio.current_time() + limit) as start:
            async with _open_session(keeper, transport, over) as session:
                keeper.set_tools(await session.tools())
                start.deadline = math.inf
                keeper.ready(session, session.protocol)
                await session.run()
    except SERVER_ERRORS as error:
        raise _end_error(transport, error) from None
    except BaseExceptionGroup as group:
        if (cause := first_error(group)) is None:
            raise
        raise _end_error(transport, cause) from None
    if start.cancelled_caught:
        raise EndedError(f"it did not answer within {limit:g} seconds")
    raise EndedError(transport.why or "it ended the connection", by_itself=transport.ended)


def _end_error(transport: StdioServerTransport | HttpServerTransport, error: Exception) -> EndedError:
    """Return the best reason: a network error, otherwise the transport's reason, otherwise the SDK's generic one."""
    why = error_text(error) if isinstance(error, NETWORK_ERRORS) else transport.why or error_text(error)
    return EndedError(why, by_itself=transport.ended)


def _make_transport(keeper: ServerSupervisor, over: asyncio.Event) -> StdioServerTransport | HttpServerTransport:
    if keeper.config.command is not None:
        return StdioServerTransport(
            keeper.name, keeper.config, keeper.tail, grace=keeper.pace.grace, shown=keeper.clean
        )
    return HttpServerTransport(keeper.config, over.set)


@asynccontextmanager
async def _open_session(
    keeper: ServerSupervisor, transport: StdioServerTransport | HttpServerTransport, over: asyncio.Event
) -> AsyncIterator[McpSession]:
    requests, changed = PendingRequests(), asyncio.Event()

    @asynccontextmanager
    async def streams() -> AsyncIterator[TransportStreams]:
        async with transport.streams() as (reading, writing):
            yield ThrottledReader(reading, requests, over.set), CountingWriter(writing, requests)

    async def heard(message: IncomingMessage) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            changed.set()

    client = Client(
        streams(),
        mode=_MODES[keeper.protocol],
        message_handler=heard,
        client_info=mcp_types.Implementation(name="toolglot", version=__version__),
        cache=None,  # a list is requested when it has changed
    )
    async with client:
        yield McpSession(keeper, client, over, changed)


ErrorTypes: TypeAlias = tuple[type[Exception], ...]

NETWORK_ERRORS: ErrorTypes = (httpx2.HTTPError, OSError)

SERVER_ERRORS: ErrorTypes = (
    *(MCPError, ValidationError, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, DecodeError),
    *(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, RuntimeError, ValueError),
)
"""Caused by a server. Anything else is a bug in the SDK or in this program."""


def first_error(error: BaseException) -> Exception | None:
    """Return the first real error in a group, which may contain groups; None if there are only cancellations."""
    if isinstance(error, BaseExceptionGroup):
        found = (first_error(part) for part in error.exceptions)
        return next((part for part in found if part is not None), None)
    return error if isinstance(error, Exception) else None


def error_text(error: BaseException) -> str:
    """Describe an error. The text may contain secrets, and any characters that a server has sent."""
    match first_error(error):
        case ValidationError() as invalid:
            first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            return f"it sent invalid MCP:  {where}: {first['msg']}"
        case DecodeError() as wrong:
            return f"it sent invalid MCP:  {wrong}"
        case MCPError() as failed:
            return failed.error.message or f"error {failed.error.code}"
        case httpx2.HTTPError() as failed:
            return f"it cannot be reached: {failed or type(failed).__name__}"
        case OSError() as failed:
            return f"it cannot be started: {failed}"
        case None:
            return "cancelled"
        case other:
            return f"{type(other).__name__}: {other}"
