"""Tool results in an input or in a history <-> `ToolResult`. Inputs and histories have the same field names with
different numbers.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.json_format import MessageToDict, SerializeToJsonError

from toolglot.dialects.warp.descriptors import parse, serialize
from toolglot.dialects.warp.fields import ReadFields, from_base64, make_native, remaining_fields, restore, to_base64
from toolglot.dialects.warp.json_form import to_json
from toolglot.dialects.warp.media import IMAGE, decode_media, encode_media
from toolglot.dialects.warp.native import NAME
from toolglot.ir import Block, Media, Opaque, Refusal, Text, ToolResult, native_of, with_native
from toolglot.receipt import Receipt, describe_block
from toolglot.wire import json
from toolglot.wire.media_types import kind_of_media_type

CANCELLED = "The tool call was cancelled."
BUILTIN = "$builtin"
_READ_FIELDS: dict[str, ReadFields] = {
    "call_mcp_tool": {"success": {"results": None}, "error": {"message": None}},
    "cancel": {},
}
"""The fields of these kinds of results that a `ToolResult` has. For other kinds, it has all of them."""


def to_dict(message: Any) -> dict[str, Any] | None:
    """Convert a message to JSON, for readers without protobuf. None if JSON cannot express it (NaN, infinity)."""
    try:
        value: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    except (SerializeToJsonError, ValueError):
        return None
    return value


# Decoding


def decode_result(outer: Any) -> ToolResult:
    """Decode the result in a message of the history or in an input. The other fields are kept as native."""
    result = outer.tool_call_result
    kind = result.WhichOneof("result")
    taken: ReadFields = {"tool_call_id": None, **({kind: _READ_FIELDS.get(kind)} if kind else {})}
    rest = remaining_fields(outer, {"tool_call_result": taken})
    content, is_error, note = _decode_content(result, kind)
    return ToolResult(
        call_id=result.tool_call_id, content=content, is_error=is_error, native=make_native({**rest, **note})
    )


def _decode_content(result: Any, kind: str | None) -> tuple[tuple[Block, ...], bool | None, dict[str, Any]]:
    cancelled = (Text(text=CANCELLED),)
    if kind is None or kind == "cancel":
        return cancelled, True, {"$cancelled": kind or "absent"}
    body = getattr(result, kind)
    if kind != "call_mcp_tool":
        value = to_dict(body)
        text = json.encode_text(to_json(body) if value is None else value)
        return (Text(text=text),), None, {BUILTIN: [kind, to_base64(serialize(body))]}
    outcome = body.WhichOneof("result")
    if outcome == "error":
        return (Text(text=body.error.message),) if body.error.message else (), True, {}
    if outcome is None:
        return cancelled, True, {"$cancelled": "empty"}
    return tuple(_decode_item(item) for item in body.success.results), None, {}


def _decode_item(item: Any) -> Block:
    kind = item.WhichOneof("result")
    if kind == "text":
        return Text(text=item.text.text, native=make_native(remaining_fields(item, {"text": {"text": None}})))
    if kind == "image":
        return _with_rest(decode_media(item.image), remaining_fields(item, {"image": None}))
    if kind == "resource":
        return _decode_resource(item)
    return Opaque(NAME, {"type": "tool result", "result": to_base64(serialize(item))})


def _decode_resource(item: Any) -> Block:
    kind = item.resource.WhichOneof("content_type")
    if kind == "text":
        rest = remaining_fields(item, {"resource": {"text": {"content": None}}})
        return Text(text=item.resource.text.content, native=make_native({**rest, "$resource": True}))
    if kind == "binary":
        media = decode_media(item.resource.binary, kind_of_media_type(item.resource.binary.mime_type))
        return _with_rest(media, {**remaining_fields(item, {"resource": {"binary": IMAGE}}), "$resource": True})
    return Opaque(NAME, {"type": "resource", "result": to_base64(serialize(item))})


def _with_rest(media: Media, rest: dict[str, Any]) -> Media:
    return with_native(media, NAME, **rest) if rest else media


# Encoding


def encode_result(result: ToolResult, outer: Any, where: str, receipt: Receipt) -> None:
    """Write a result into a message of the history or into an input."""
    own = native_of(result, NAME)
    body = outer.tool_call_result
    body.tool_call_id = result.call_id
    if not _encode_original(own, result, body):
        if result.is_error:
            body.call_mcp_tool.error.message = "\n".join(_error_texts(result, where, receipt))
        else:
            body.call_mcp_tool.success.SetInParent()
            for index, block in enumerate(result.content):
                _encode_item(block, body.call_mcp_tool.success.results, f"{where}.content[{index}]", receipt)
    restore(outer, own)


def _encode_original(own: Any, result: ToolResult, body: Any) -> bool:
    """Write the original of a built-in or cancelled result. Returns False if there is none, or if it was changed."""
    if BUILTIN in own:
        kind, data = own[BUILTIN]
        if kind in body.DESCRIPTOR.fields_by_name:
            restore(body, {kind: data})
            return True
    note = own.get("$cancelled")
    if note is None or result.content != (Text(text=CANCELLED),):
        return False
    if note == "cancel" and "cancel" in body.DESCRIPTOR.fields_by_name:
        body.cancel.SetInParent()
    elif note != "absent":
        body.call_mcp_tool.SetInParent()
    return True


def _error_texts(result: ToolResult, where: str, receipt: Receipt) -> list[str]:
    texts: list[str] = []
    for index, block in enumerate(result.content):
        if isinstance(block, (Text, Refusal)):
            texts.append(block.text)
        else:
            receipt.loss(f"{where}.content[{index}]", describe_block(block), "Warp's errors hold only text")
    return texts


def _encode_item(block: Block, results: Any, where: str, receipt: Receipt) -> None:
    own = native_of(block, NAME)
    match block:
        case Text(text=text) | Refusal(text=text):
            item = results.add()
            if own.get("$resource"):
                item.resource.text.content = text
            else:
                item.text.text = text
            restore(item, own)
        case Media(source=source) if source.kind == "base64":
            item = results.add()
            if own.get("$resource") or block.kind != "image":
                encode_media(block, item.resource.binary, where, receipt)
            else:
                encode_media(block, item.image, where, receipt)
            restore(item, own)
        case Opaque(dialect=dialect, value={"result": str(data)}) if dialect == NAME:
            results.add().CopyFrom(parse("MCPResult", from_base64(data, where), where))
        case _:
            receipt.loss(where, describe_block(block), "a result of a tool cannot hold it")
