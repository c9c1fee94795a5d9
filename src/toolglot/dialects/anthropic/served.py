"""MCP tools that are run on the way, in the words of the Messages API: `mcp_servers` and `mcp_toolset` tools in a
request (beta `mcp-client-2025-11-20`; `mcp-client-2025-04-04` had no toolsets), and the blocks `mcp_tool_use` and
`mcp_tool_result` in its answer.

All calls of a round stand before its first result, so that rounds are told apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from toolglot.dialects.anthropic.native import NAME, take_cache
from toolglot.errors import DecodeError
from toolglot.events import Close, Open
from toolglot.ir import Block, Message, Opaque, Request, Text, Tool, ToolCall, ToolResult, native_of, replace
from toolglot.tools.served import Asked, AskedServer, Chosen, Piece, Restored, ServedCall, ServedForms
from toolglot.tools.told import CallIds, interrupted, texts_of, told_id
from toolglot.wire import json
from toolglot.wire.reader import Reader, expected

_PREFIX = "mcptoolu_"
_BLOCKS = ("mcp_tool_use", "mcp_tool_result", "mcp_tool_listing")


def asked(request: Request) -> Asked:
    """A server without a toolset is one as the older version knows them: all of its tools, or those that its own
    configuration allows."""
    listed = native_of(request, NAME).get("mcp_servers")
    toolsets = [
        (index, Reader(dict(tool.value), f"$.tools[{index}]"))
        for index, tool in enumerate(request.tools)
        if isinstance(tool, Opaque) and _type_of(tool) == "mcp_toolset"
    ]
    if listed is None and not toolsets:
        return Asked(request=request)
    if not isinstance(listed, list | None):
        raise expected("$.mcp_servers", "an array", listed)
    servers: dict[str, AskedServer] = {}
    for index, value in enumerate(listed or ()):
        server = _server(Reader(_copy(value), f"$.mcp_servers[{index}]"), f"mcp_servers[{index}]")
        if server.label in servers:
            raise DecodeError(f"$.{server.where}.name", f"there are two servers of the name {server.label}")
        servers[server.label] = server
    configured: set[str] = set()
    for _, toolset in toolsets:
        label = toolset.need_text("mcp_server_name")
        if label not in servers:
            raise DecodeError(toolset.at("mcp_server_name"), f"there is no MCP server {label} in mcp_servers")
        if label in configured:
            raise DecodeError(toolset.at("mcp_server_name"), f"there are two toolsets of the MCP server {label}")
        configured.add(label)
        servers[label] = _narrowed(servers[label], toolset)
    taken = {index for index, _ in toolsets}
    own = {key: value for key, value in native_of(request, NAME).items() if key != "mcp_servers"}
    native = {
        **{owner: fields for owner, fields in request.native.items() if owner != NAME},
        **({NAME: own} if own else {}),
    }
    tools = tuple(tool for index, tool in enumerate(request.tools) if index not in taken)
    return Asked(request=replace(request, tools=tools, native=native), servers=tuple(servers.values()))


def _type_of(block: Block | Tool) -> str | None:
    """The type of a block or a tool that only this dialect understands."""
    if not isinstance(block, Opaque) or block.dialect != NAME or not isinstance(block.value, dict):
        return None
    kind = block.value.get("type")
    return kind if isinstance(kind, str) else None


def _copy(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value


def _inside(holder: Reader, key: str) -> Reader | None:
    """An object to be read, while the original stays as it is."""
    value = holder.peek(key)
    return None if value is None else Reader(_copy(value), holder.at(key))


def _server(server: Reader, where: str) -> AskedServer:
    kind, label = server.need_text("type"), server.need_text("name")
    if kind != "url":
        raise DecodeError(server.at("type"), f"a server is of the type url, not {kind}")
    if not label:
        raise DecodeError(server.at("name"), "a server needs a name")
    allowed = Chosen()
    settings = _inside(server, "tool_configuration")
    if settings is not None:
        names = settings.array("allowed_tools")
        for index, name in enumerate(names or ()):
            if not isinstance(name, str):
                raise expected(f"{settings.at('allowed_tools')}[{index}]", "a string", name)
        if settings.flag("enabled") is False:
            names = []
        allowed = Chosen(names=None if names is None else tuple(names))
    return AskedServer(
        label=label,
        where=where,
        url=server.need_text("url"),
        allowed=allowed,
        credentials="authorization_token" in server,
    )


def _narrowed(server: AskedServer, toolset: Reader) -> AskedServer:
    """The server's tools as a toolset enables them, all at once and one by one."""
    default = _inside(toolset, "default_config")
    enabled = default.flag("enabled") if default is not None else None
    configs = _inside(toolset, "configs")
    said: dict[str, bool] = {}
    for name in configs.rest() if configs is not None else ():
        config = _inside(configs, name) if configs is not None else None
        flag = config.flag("enabled") if config is not None else None
        if flag is not None:
            said[name] = flag
    if enabled is not False:
        return replace(server, refused=tuple(name for name, flag in said.items() if not flag))
    before = server.allowed.names
    names = tuple(name for name, flag in said.items() if flag and (before is None or name in before))
    return replace(server, allowed=Chosen(names=names))


class BlockTeller:
    """All calls at once, then each result as it comes, in whole blocks."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._next = 0

    def begin(self, calls: Sequence[ServedCall]) -> list[Piece]:
        uses = [_use(call) for call in calls]
        self._waiting.extend(use["id"] for use in uses)
        return [piece for use in uses for piece in self._whole(use)]

    def progress(self, call: ServedCall, message: str) -> list[Piece]:
        return []

    def done(self, result: ToolResult) -> list[Piece]:
        return self._whole(
            {
                "type": "mcp_tool_result",
                "tool_use_id": self._waiting.popleft(),
                "is_error": bool(result.is_error),
                "content": [{"type": "text", "text": text} for text in texts_of(result.content)],
            }
        )

    def _whole(self, block: dict[str, Any]) -> list[Piece]:
        index, self._next = self._next, self._next + 1
        return [Open(index, Opaque(NAME, block)), Close(index=index)]


def _use(call: ServedCall) -> dict[str, Any]:
    """Arguments that are no object cannot stand as one: they are wrapped as they are."""
    arguments = json.object_of(call.arguments)
    given = {"_raw": call.arguments} if arguments is None else json.decode_frame(bytes(arguments))
    called = {"id": told_id(_PREFIX, call.id), "name": call.name, "server_name": call.server}
    return {"type": "mcp_tool_use", **called, "input": given}


def restored(request: Request, name: Callable[[str, str], str]) -> Restored:
    listed: dict[str, None] = {}
    if not any(_type_of(block) in _BLOCKS for message in request.messages for block in message.content):
        return Restored(request=request)
    history = _History(request, name)
    leading = sum(1 for message in request.messages[:1] if _is_leading(message))
    for index, message in enumerate(request.messages):
        for block in message.content:
            if _type_of(block) == "mcp_tool_listing" and isinstance(block, Opaque):
                listed[str(block.value.get("mcp_server_name"))] = None
        follows = request.messages[index + 1 : index + 2]
        is_last = not follows or follows[0].role != "assistant"
        history.add(message, f"$.messages[{index - leading}]", is_last=is_last)
    history.close()
    return Restored(request=replace(request, messages=tuple(history.messages)), listed=tuple(listed))


def _is_leading(message: Message) -> bool:
    return message.role == "system" and not native_of(message, NAME).get("$inline")


class _History:
    """The messages, written anew: where a round ends inside a message, the message is divided."""

    def __init__(self, request: Request, name: Callable[[str, str], str]) -> None:
        self._name = name
        self._ids = CallIds(request, (_PREFIX,))
        self._message = Message(role="assistant")  # the one that is being written
        self._said: list[Block] = []
        self._calls: dict[str, ToolCall] = {}  # of this round, by the id that the client knows
        self._results: dict[str, ToolResult] = {}
        self._held: tuple[Block, ...] = ()  # results that belong beside those of the client's own calls
        self.messages: list[Message] = []

    def add(self, message: Message, where: str, *, is_last: bool) -> None:
        """`is_last`: the turn ends here, so that no result of its calls can follow."""
        if message.role != "assistant" or not any(_type_of(block) in _BLOCKS for block in message.content):
            self._whole(message)
            return
        self._release()
        self._message = self._message if self._said else message
        for index, block in enumerate(message.content):
            kind = _type_of(block)
            if kind == "mcp_tool_result" and isinstance(block, Opaque):
                self._result(Reader(dict(block.value), f"{where}.content[{index}]"))
            elif kind != "mcp_tool_listing":
                if self._results:
                    self._end_round()
                self._said.append(
                    self._call(Reader(dict(block.value), f"{where}.content[{index}]"))
                    if kind == "mcp_tool_use" and isinstance(block, Opaque)
                    else block
                )
        if is_last or len(self._results) == len(self._calls):
            self._end_round(is_last=True)

    def _whole(self, message: Message) -> None:
        if self._said:
            self._end_round()
        if self._held and message.role == "user":
            # The API wants all results of a message's calls in the next one, before anything else.
            message, self._held = replace(message, content=(*self._held, *message.content)), ()
        self._release()
        self.messages.append(message)

    def close(self) -> None:
        self._release()

    def _release(self) -> None:
        if self._held:
            self.messages.append(Message(role="user", content=self._held))
            self._held = ()

    def _call(self, use: Reader) -> ToolCall:
        told, label, name = use.need_text("id"), use.need_text("server_name"), use.need_text("name")
        given = use.peek("input")
        if given is not None and not isinstance(given, dict):
            raise expected(use.at("input"), "an object", given)
        if told in self._calls:
            raise DecodeError(use.at("id"), f"there are two calls of the id {told}")
        call = self._calls[told] = ToolCall(
            id=self._ids.of(told),
            name=self._name(label, name),
            arguments=json.encode_text(given or {}),
            cache=take_cache(use.rest()),
        )
        return call

    def _result(self, result: Reader) -> None:
        told = result.need_text("tool_use_id")
        call = self._calls.get(told)
        if call is None or told in self._results:
            raise DecodeError(result.at("tool_use_id"), f"no call {told} stands before it that waits for a result")
        self._results[told] = ToolResult(
            call_id=call.id,
            name=call.name,
            content=_content(result.peek("content"), result.at("content")),
            is_error=bool(result.flag("is_error")),
            cache=take_cache(result.rest()),
        )

    def _end_round(self, *, is_last: bool = False) -> None:
        """Writes what was said, and the results of its calls. A call without one was interrupted."""
        if self._said:
            self.messages.append(replace(self._message, content=tuple(self._said)))
            # What was kept of the message is said once.
            self._message = Message(role="assistant")
        results = tuple(self._results.get(told) or interrupted(call) for told, call in self._calls.items())
        known = {call.id for call in self._calls.values()}
        owned = any(isinstance(block, ToolCall) and block.id not in known for block in self._said)
        self._held = results
        if not (is_last and owned):
            self._release()
        self._said, self._calls, self._results = [], {}, {}


def _content(value: Any, where: str) -> tuple[Block, ...]:
    if value is None or isinstance(value, str):
        return (Text(text=value),) if value else ()
    if not isinstance(value, list):
        raise expected(where, "a string or an array", value)
    return tuple(_part(block, f"{where}[{index}]") for index, block in enumerate(value))


def _part(value: Any, where: str) -> Block:
    """A part of a result: text, in all that the API knows of."""
    block = Reader(_copy(value), where)
    return Text(text=block.need_text("text")) if block.peek("type") == "text" else Opaque(NAME, value)


SERVED = ServedForms(asked=asked, teller=BlockTeller, restored=restored)
