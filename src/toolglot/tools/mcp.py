"""Convert MCP tool definitions and tool results from and to the IR.

MCP is not a dialect of a model's API: it has no conversation, only tools and their results. So it has no entry in
`DIALECTS`; `fragments.translate_tools` takes it as a source and a target by the name `mcp`, and a host that runs MCP
tools reads their results with `decode_result`.

A round trip is lossless: members without an equivalent in the IR (`title`, `outputSchema`, `annotations`, `icons`,
`_meta`, `execution`, and members of later revisions) are kept in `native["mcp"]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from msgspec import UNSET

from toolglot.capabilities import (
    CallCapabilities,
    Capabilities,
    MediaCapabilities,
    ReceiptRules,
    ToolCapabilities,
    ToolNameRules,
)
from toolglot.dialects import ByDialect
from toolglot.errors import DecodeError, expected
from toolglot.ir import (
    Block,
    Json,
    Media,
    MediaKind,
    Opaque,
    Source,
    Text,
    Tool,
    ToolResult,
    native_of,
    replace,
    with_native,
)
from toolglot.receipt import Receipt, describe_block
from toolglot.tools.mcp_wire import (
    RESULTS,
    TOOLS,
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    McpTextContent,
    McpToolDefinition,
    MediaContent,
    ResourceLink,
)
from toolglot.wire import json
from toolglot.wire.media_types import kind_of_media_type
from toolglot.wire.native import make_native, native_members
from toolglot.wire.structs import as_json, members_without

NAME = "mcp"

CAN = Capabilities(
    names=ToolNameRules(
        # "Tool names SHOULD be between 1 and 128 characters: letters, digits, underscore, dash and dot."
        pattern=r"[A-Za-z0-9._-]+",
        start=r"[A-Za-z0-9._-]",
        max_length=128,
    ),
    tools=ToolCapabilities(
        strict=False,
        schema="object",
    ),
    calls=CallCapabilities(result_errors=True),
    media=MediaCapabilities(
        in_result=frozenset({"image", "audio", "document", "video"}),
        source_kinds=frozenset({"base64", "url", "text"}),
    ),
    receipt=ReceiptRules(
        # Members that a host shows to users or needs itself. Models never see them.
        cosmetic=dict.fromkeys(("title", "icons", "execution", "resultType", "_meta"), "for hosts, and for no model"),
    ),
)
"""What an MCP tool definition and result can express."""

_COSMETIC = {
    "title": "people see it, a model never does",
    "icons": "people see it, a model never does",
    "execution": "a host needs it, a model never does",
    "_meta": "a host may need it, a model never does",
}
UNFINISHED = "input_required"
OUTPUT_SCHEMAS: Mapping[str, str] = ByDialect(lambda manifest: manifest.output_schema)
"""Names of the output schema in APIs that have one."""


def decode_tools(data: bytes | str, receipt: Receipt | None = None) -> tuple[Tool, ...]:
    """Decode the tools of a list, of a `tools/list` result, or of the JSON-RPC message around one.

    The receipt has a line if the list has another page (`nextCursor`).

    Raises:
        DecodeError: the value is not one of these.
    """
    return read_tools(json.decode(data), receipt)


def read_tools(value: Json, receipt: Receipt | None = None) -> tuple[Tool, ...]:
    """Same, for parsed JSON, which is consumed."""
    where = "$"
    if isinstance(value, dict) and isinstance(value.get("result"), dict):
        value, where = value["result"], "$.result"
    if isinstance(value, dict):
        if not isinstance(value.get("tools"), list):
            raise DecodeError(f"{where}.tools", "this array of tools is required")
        if receipt is not None and value.get("nextCursor"):
            receipt.loss("nextCursor", "nextCursor", "the list goes on: request the remaining tools from the server")
        value, where = value["tools"], f"{where}.tools"
    if not isinstance(value, list):
        raise expected(where, "an array of tools, or an object that holds one as `tools`", value)
    return tuple(_read_tool(tool) for tool in TOOLS.read_value(value, where))


def _read_tool(tool: McpToolDefinition) -> Tool:
    has_schema = tool.input_schema is not UNSET
    others = members_without(tool, "name", "description", "inputSchema")
    return Tool(
        name=tool.name,
        description=None if tool.description is UNSET else tool.description,
        parameters=tool.input_schema if has_schema else None,
        native=make_native(NAME, others, no_schema=None if has_schema else True),
    )


def note_cosmetic(tools: Iterable[Tool | Opaque], receipt: Receipt) -> None:
    """Note members that a host shows to users or needs itself, and that no model's API supports."""
    for index, tool in enumerate(tools):
        own = native_of(tool, NAME) if isinstance(tool, Tool) else {}
        for key in sorted(key for key in _COSMETIC if own.get(key)):
            receipt.note(f"tools[{index}].{key}", key, _COSMETIC[key])


def note_meta(result: ToolResult, receipt: Receipt) -> None:
    """Same, for a result and its blocks."""
    places = {"": result, **{f"content[{index}].": block for index, block in enumerate(result.content)}}
    for place, node in places.items():
        if native_of(node, NAME).get("_meta"):
            receipt.note(f"{place}_meta", "_meta", _COSMETIC["_meta"])


def is_read_only(tool: Tool) -> bool:
    """Return whether the tool declares itself read-only. This is a hint: servers can claim anything."""
    return _hints(tool).get("readOnlyHint") is True


def is_destructive(tool: Tool) -> bool:
    """Return whether the tool may be destructive. A tool that changes data is, unless it declares otherwise."""
    return not is_read_only(tool) and _hints(tool).get("destructiveHint") is not False


def title_of(tool: Tool) -> str:
    """Return the tool's display name."""
    named = (native_of(tool, NAME).get("title"), _hints(tool).get("title"))
    return next((title for title in named if isinstance(title, str) and title), tool.name)


def output_schema_of(tool: Tool) -> Json:
    """Return the schema of the tool's structured content; None if it has none."""
    return native_of(tool, NAME).get("outputSchema")


def _hints(tool: Tool) -> Mapping[str, Any]:
    hints = native_of(tool, NAME).get("annotations")
    return hints if isinstance(hints, dict) else {}


def carry_output_schemas(tools: Iterable[Tool | Opaque], target: str) -> tuple[Tool | Opaque, ...]:
    """Put the tools' output schemas where the target, a dialect or MCP, expects them, if it has a place."""
    places = {NAME: "outputSchema", **OUTPUT_SCHEMAS}
    return tuple(_with_output_schema(tool, target, places) if isinstance(tool, Tool) else tool for tool in tools)


def _with_output_schema(tool: Tool, target: str, places: Mapping[str, str]) -> Tool:
    owner = next((owner for owner, key in places.items() if native_of(tool, owner).get(key) is not None), None)
    if owner in (None, target) or target not in places:
        return tool
    left = {key: value for key, value in tool.native[owner].items() if key != places[owner]}
    moved = replace(tool, native={**tool.native, owner: left})
    return with_native(moved, target, **{places[target]: tool.native[owner][places[owner]]})


def encode_tools(tools: Iterable[Tool | Opaque], receipt: Receipt) -> list[dict[str, Any]]:
    """Encode tool definitions for the `tools` member of a `tools/list` result."""
    written: list[dict[str, Any]] = []
    for index, tool in enumerate(tools):
        if isinstance(tool, Tool):
            written.append(_write_tool(tool, f"tools[{index}]", receipt))
        elif tool.dialect == NAME:
            written.append(tool.value)
        else:
            receipt.loss(f"tools[{index}]", "tool of another API", "MCP does not know its type")
    return written


def _write_tool(tool: Tool, where: str, receipt: Receipt) -> dict[str, Any]:
    if tool.kind != "function":
        receipt.loss(where, f"{tool.kind} tool {tool.name}", "MCP has functions only")
    if tool.namespace is not None:
        receipt.loss(f"{where}.namespace", tool.namespace, "MCP names have no namespace")
    own = native_of(tool, NAME)
    fields: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        fields["description"] = tool.description
    if tool.parameters is not None:
        fields["inputSchema"] = tool.parameters
    elif not own.get("$no_schema"):
        fields["inputSchema"] = {"type": "object"}  # MCP requires one
    return {**fields, **native_members(own)}


def decode_result(data: bytes | str, call_id: str, name: str | None = None) -> ToolResult:
    """Decode the result of a `tools/call`, with or without its JSON-RPC message, as the result of the model's call.

    A JSON-RPC error becomes an error result, so that the model learns of it.

    Raises:
        DecodeError: it is not a tool result.
    """
    return read_result(json.decode(data), call_id, name)


def read_result(value: Json, call_id: str, name: str | None = None) -> ToolResult:
    """Same, for parsed JSON, which is consumed."""
    where = "$"
    if isinstance(value, dict) and isinstance(value.get("error"), dict) and "content" not in value:
        message = value["error"].get("message")
        text = message if message and isinstance(message, str) else json.encode_text(value["error"])
        return ToolResult(call_id=call_id, name=name, content=(Text(text=text),), is_error=True)
    if isinstance(value, dict) and isinstance(value.get("result"), dict):
        value, where = value["result"], "$.result"
    result = RESULTS.read_value(value, where)
    if result.result_type == UNFINISHED:
        raise DecodeError(f"{where}.resultType", "the server asks for something first: this is not a result yet")
    content = tuple(_read_block(block) for block in result.content or ())
    rest = members_without(result, "content", "isError")
    shape: dict[str, Any] = {"no_content": True if result.content is UNSET else None}
    structured = rest.get("structuredContent")
    if structured is not None and not content:
        content = (Text(text=json.encode_text(structured)),)
        shape["structured_only"] = rest.pop("structuredContent")
    elif structured is not None and _is_in_content(structured, content):
        shape["structured"] = rest.pop("structuredContent")
    is_error = None if result.is_error is UNSET else result.is_error
    native = make_native(NAME, rest, **shape)
    return ToolResult(call_id=call_id, name=name, content=content, is_error=is_error, native=native)


def _is_in_content(structured: Json, content: tuple[Block, ...]) -> bool:
    """Return whether a text of the content has the same JSON. "A tool SHOULD also return the serialized JSON in a text
    block"."""
    for block in content:
        if isinstance(block, Text):
            try:
                if json.decode_frame(block.text.encode("utf-8", "surrogatepass")) == structured:
                    return True
            except DecodeError:
                continue
    return False


def _read_block(block: ContentBlock) -> Block:
    match block:
        case McpTextContent(text=text):
            return Text(text=text, native=make_native(NAME, members_without(block, "text")))
        case ImageContent():
            return _read_media(block, "image")
        case AudioContent():
            return _read_media(block, "audio")
        case EmbeddedResource() if block.resource.text is not UNSET or block.resource.blob is not UNSET:
            return _read_resource(block)
        case ResourceLink():
            return _read_link(as_json(block))
    return Opaque(NAME, as_json(block))


def _read_media(block: MediaContent, kind: MediaKind) -> Media:
    media_type = None if block.mime_type is UNSET else block.mime_type
    untyped = True if media_type is None else None
    native = make_native(NAME, members_without(block, "data", "mimeType"), untyped=untyped)
    return Media(kind=kind, source=Source("base64", block.data, media_type), native=native)


def _read_resource(block: EmbeddedResource) -> Media:
    resource = block.resource
    media_type = None if resource.mime_type is UNSET else resource.mime_type
    kind: MediaKind = "document"
    if resource.text is not UNSET:
        source, taken = Source("text", resource.text, media_type), "text"
    else:
        source, taken = Source("base64", resource.blob or "", media_type), "blob"
        kind = kind_of_media_type(media_type)
    rest = members_without(resource, "mimeType", taken)
    native = make_native(NAME, members_without(block, "resource"), resource=rest)
    name = resource.uri if isinstance(resource.uri, str) else None
    return Media(kind=kind, source=source, name=name, native=native)


def _read_link(link: dict[str, Any]) -> Text:
    """Read a link as text: no model's API has such a block, and the model needs the address to request the resource."""
    title = link.get("title") or link.get("name")
    described = [str(title)] if title else []
    described += [link["uri"] + (f" ({link['mimeType']})" if link.get("mimeType") else "")]
    described += [str(link["description"])] if link.get("description") else []
    return Text(text=f"[resource: {', '.join(described)}]", native={NAME: {"$link": link}})


def encode_result(result: ToolResult, receipt: Receipt) -> dict[str, Any]:
    """Encode a tool result as `tools/call` returns it."""
    own = native_of(result, NAME)
    fields: dict[str, Any] = {}
    structured = own.get("$structured_only")
    if structured is not None and result.content == (Text(text=json.encode_text(structured)),):
        fields["structuredContent"] = structured
        content = []
    else:
        content = [_write_block(block, index, receipt) for index, block in enumerate(result.content)]
    if not own.get("$no_content"):
        fields["content"] = [block for block in content if block is not None]
    if "$structured" in own:
        fields["structuredContent"] = own["$structured"]
    if result.is_error is not None:
        fields["isError"] = result.is_error
    return {**fields, **native_members(own)}


def _write_block(block: Block, index: int, receipt: Receipt) -> dict[str, Any] | None:
    where = f"content[{index}]"
    own = native_of(block, NAME)
    match block:
        case Text() if "$link" in own:
            link: dict[str, Any] = own["$link"]
            return link
        case Text(text=text):
            return {"type": "text", "text": text, **native_members(own)}
        case Media():
            return _write_media(block, index, receipt)
        case Opaque(dialect=dialect, value=value) if dialect == NAME:
            opaque: dict[str, Any] = value
            return opaque
    receipt.loss(where, describe_block(block), "an MCP result has no place for it")
    return None


def _write_media(media: Media, index: int, receipt: Receipt) -> dict[str, Any]:
    own, source = native_of(media, NAME), media.source
    typed = {"mimeType": source.media_type} if source.media_type is not None else {}
    if source.kind == "file":
        receipt.loss(f"content[{index}]", media.kind, "only the API that issued a file id knows it")
        return {"type": "text", "text": f"[{media.kind} left out: it is known by a file id only]"}
    if source.kind == "url":
        return {"type": "resource_link", "uri": source.data, "name": media.name or source.data, **typed}
    if source.kind == "base64" and media.kind in ("image", "audio") and "$resource" not in own:
        usual = {} if own.get("$untyped") else {"mimeType": _ANY_TYPE}  # MCP requires one
        return {"type": media.kind, "data": source.data, **usual, **typed, **native_members(own)}
    member = "text" if source.kind == "text" else "blob"
    rest = own.get("$resource", {"uri": _uri(media.name, index)})
    return {"type": "resource", "resource": {**rest, **typed, member: source.data}, **native_members(own)}


_ANY_TYPE = "application/octet-stream"
_HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:\S+")


def _uri(name: str | None, index: int) -> str:
    """Return a resource's address: its name if that is an address, otherwise an invented one."""
    if name is not None and _HAS_SCHEME.fullmatch(name):
        return name
    return f"attachment:///{quote(name or str(index))}"
