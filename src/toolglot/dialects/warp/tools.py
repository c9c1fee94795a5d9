"""Tools: `mcp_context`, flat or by server <-> `Tool`."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.warp.descriptors import Struct, serialize
from toolglot.dialects.warp.fields import ReadFields, from_base64, make_native, remaining_fields, restore, to_base64
from toolglot.dialects.warp.integers import restore_integers
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.unknown_fields import MAX_LINES
from toolglot.dialects.warp.values import drop_unreadable, is_exact, read_struct, write_struct
from toolglot.errors import DecodeError
from toolglot.ir import Opaque, Request, Tool, native_of
from toolglot.receipt import UNREAD, Loss, Receipt
from toolglot.tools.declared import DECLARED
from toolglot.wire import json

_ANYTHING: dict[str, Any] = {"type": "object", "properties": {}}
_TOOL: ReadFields = {"name": None, "description": None, "input_schema": None}
SERVER = "$server"
"""The note on a tool with the index of the server that offers it."""
TOOL_SERVER = "tool_server"
"""The member of a request's native data with the server that offers all tools: `{"name": …, "id": …}`. Without it, the
tools go into the flat list, which Warp calls deprecated and still reads."""


def decode_tools(context: Any) -> tuple[tuple[Tool, ...], dict[str, Any]]:
    """Decode the tools of the flat list and of all servers. Also returns the other fields of the context."""
    tools = [_decode_known_tool(tool) for tool in context.tools]
    servers = []
    for index, server in enumerate(context.servers):
        tools += [_decode_known_tool(tool, index) for tool in server.tools]
        servers.append(remaining_fields(server, {"tools": None}))
    rest = remaining_fields(context, {"tools": None, "servers": None})
    return tuple(tools), {**rest, **({"servers": servers} if servers else {})}


def _decode_known_tool(tool: Any, server: int | None = None) -> Tool:
    notes = {} if server is None else {SERVER: server}
    return DECLARED.read(f"{NAME} {server}", serialize(tool), lambda _: _decode_tool(tool, notes), lambda read: (read,))


def _decode_tool(tool: Any, notes: dict[str, Any]) -> Tool:
    parameters, dropped = None, list[str]()
    if tool.HasField("input_schema"):
        parameters = restore_integers(drop_unreadable(read_struct(tool.input_schema), "input_schema", dropped))
    rest = remaining_fields(tool, _TOOL) | notes | {"$tool": True}
    if dropped:
        rest[UNREAD] = tuple(Loss(where, "a value that is not JSON", "it is left out") for where in dropped[:MAX_LINES])
    if parameters is not None and not is_exact(text := json.encode_text(parameters), tool.input_schema):
        rest["$schema"] = [text, to_base64(serialize(tool.input_schema))]
    description = tool.description if tool.HasField("description") else None
    return Tool(name=tool.name, description=description, parameters=parameters, native=make_native(rest))


def encode_tools(request: Request, context: Any, receipt: Receipt) -> None:
    """Write the tools, each to its server or to the flat list, and restore the other fields of the context."""
    left = native_of(request, NAME).get("mcp_context")
    left = left if isinstance(left, dict) else {}
    for rest in left.get("servers", ()):
        restore(context.servers.add(), rest)
    restore(context, {key: value for key, value in left.items() if key != "servers"})
    offering = native_of(request, NAME).get(TOOL_SERVER)
    flat = context.tools
    if isinstance(offering, dict):
        context.servers.add()
        restore(context.servers[-1], offering)
        flat = context.servers[-1].tools
    for index, tool in enumerate(request.tools):
        where = f"tools[{index}]"
        if isinstance(tool, Opaque):
            receipt.loss(where, "a tool of another API", "Warp does not know its type")
            continue
        server = native_of(tool, NAME).get(SERVER)
        if isinstance(server, int) and 0 <= server < len(context.servers):
            _encode_tool(tool, context.servers[server].tools.add(), where, receipt)
        else:
            _encode_tool(tool, flat.add(), where, receipt)


def server_ids(request: Request) -> dict[str, str]:
    """Return the ids of the servers that offer each tool, by tool name."""
    own = native_of(request, NAME)
    offering, left = own.get(TOOL_SERVER), own.get("mcp_context")
    servers = left.get("servers", ()) if isinstance(left, dict) else ()
    usual = offering.get("id", "") if isinstance(offering, dict) else ""
    ids = {
        tool.name: servers[place].get("id", "") if isinstance(place, int) and 0 <= place < len(servers) else usual
        for tool in request.tools
        if isinstance(tool, Tool)
        for place in [native_of(tool, NAME).get(SERVER)]
    }
    return {name: server for name, server in ids.items() if server}


def set_server_id(message: Any, servers: dict[str, str]) -> None:
    """Set the server of a call, if it is known and not set yet."""
    if message.tool_call.HasField("call_mcp_tool"):
        call = message.tool_call.call_mcp_tool
        if call.name in servers and not call.HasField("server_id"):
            call.server_id = servers[call.name]


def _encode_tool(tool: Tool, wire: Any, where: str, receipt: Receipt) -> None:
    own = native_of(tool, NAME)
    wire.name = tool.name
    if tool.description is not None:
        wire.description = tool.description
    _report_unsupported(tool, where, receipt)
    text, data = own.get("$schema", ("", None))
    if data is not None and isinstance(tool.parameters, dict) and json.encode_text(tool.parameters) == text:
        wire.input_schema.CopyFrom(Struct.FromString(from_base64(data, where)))
    elif isinstance(tool.parameters, dict):
        schema = tool.parameters
        if (known := DECLARED.derive_from_schema(schema, NAME, lambda: _exact_schema_bytes(schema))) is not None:
            wire.input_schema.SetInParent()
            wire.input_schema.MergeFromString(known)
        else:
            _encode_schema(schema, wire.input_schema, where, receipt)
    elif tool.parameters is not None or "$tool" not in own:
        # Warp's client drops tools whose schema is not an object, and its server may do so too.
        write_struct(_ANYTHING, wire.input_schema, where)
    restore(wire, own)


def _exact_schema_bytes(schema: dict[str, Any]) -> bytes | None:
    """Return the bytes of a schema as a Struct. None if a Struct cannot express it exactly."""
    struct = Struct()
    try:
        return serialize(struct) if write_struct(schema, struct, "") else None
    except DecodeError:
        return None


def _encode_schema(schema: dict[str, Any], struct: Any, where: str, receipt: Receipt) -> None:
    try:
        if not write_struct(schema, struct, where):
            receipt.loss(where, "a large whole number", "the numbers of a Struct are doubles: it is rounded")
    except DecodeError as error:
        receipt.loss(where, "parameters", f"{error.what}: the tool takes any object")
        struct.Clear()
        write_struct(_ANYTHING, struct, where)


def _report_unsupported(tool: Tool, where: str, receipt: Receipt) -> None:
    unsupported = {
        "strict": (tool.strict, "Warp does not validate arguments"),
        "namespace": (tool.namespace, "Warp has no namespaces"),
        "format": (tool.format, "Warp has no custom tools"),
        "cache": (tool.cache, "Warp caches automatically"),
        "deferred": (tool.deferred, "Warp offers every tool"),
    }
    for name, (value, why) in unsupported.items():
        if value:
            receipt.loss(f"{where}.{name}", name, why)
