"""Content parts in the form of the Messages API: calls, results and images.

Cursor sends them to Chat endpoints if the model's name contains `claude` (router-for-me/CLIProxyAPI #3805), and some
gateways answer with them. Notes on their form allow writing them back unchanged.
"""

from __future__ import annotations

from typing import Any, Literal

from toolglot.dialects.openai_chat.native import NAME
from toolglot.dialects.openai_chat.other_forms import RESULT
from toolglot.dialects.openai_chat.wire import CallPart, ResultPart
from toolglot.ir import Block, Cache, Source, ToolCall, ToolResult, native_of
from toolglot.wire import json
from toolglot.wire.native import make_native, native_members


def decode_call_part(part: CallPart, cache: Cache | None, rest: dict[str, Any], control: Any) -> ToolCall:
    native = make_native(NAME, rest, tool_use=True, cache_control=control)
    return ToolCall(id=part.id, name=part.name, arguments=json.encode_text(part.input), cache=cache, native=native)


def decode_result_part(
    part: ResultPart, content: tuple[Block, ...], cache: Cache | None, rest: dict[str, Any], control: Any, shape: Any
) -> ToolResult:
    is_error = rest.pop("is_error") if isinstance(rest.get("is_error"), bool) else None
    native = make_native(NAME, rest, tool_result=shape or "text", cache_control=control)
    return ToolResult(call_id=part.tool_use_id, content=content, is_error=is_error, cache=cache, native=native)


_DATA_MEMBERS: dict[Any, Literal["data", "url"]] = {"base64": "data", "url": "url"}
"""The member that holds the image, by the type of its source."""


def read_source(source: dict[str, Any]) -> tuple[Source, dict[str, Any]] | None:
    """Read the source of an image; returns it with its other members. None for a source of another type."""
    kind = source.get("type")
    member = _DATA_MEMBERS.get(kind) if isinstance(kind, str) else None
    if member is None or not isinstance(source.get(member), str):
        return None
    rest = {name: value for name, value in source.items() if name not in ("type", member)}
    media_type = rest.pop("media_type") if isinstance(rest.get("media_type"), str) and kind == "base64" else None
    return Source("base64" if member == "data" else "url", source[member], media_type), rest


def encode_call_part(call: ToolCall) -> dict[str, Any]:
    arguments = json.object_of(call.arguments)
    return {
        "type": "tool_use",
        "id": call.id,
        "name": call.name,
        "input": {} if arguments is None else arguments,
        **_encode_cache_control(call),
        **native_members(native_of(call, NAME)),
    }


def encode_result_part(result: ToolResult, content: Any) -> dict[str, Any]:
    notes = native_of(result, NAME)
    said = {} if notes[RESULT] == "absent" and not content else {"content": content}
    failed = {} if result.is_error is None else {"is_error": result.is_error}
    return {
        "type": "tool_result",
        "tool_use_id": result.call_id,
        **said,
        **failed,
        **_encode_cache_control(result),
        **native_members(notes),
    }


def encode_source(source: Source, beside: dict[str, Any]) -> dict[str, Any]:
    if source.kind == "url":
        return {"type": "url", "url": source.data, **beside}
    typed = {} if source.media_type is None else {"media_type": source.media_type}
    return {"type": "base64", **typed, "data": source.data, **beside}


def _encode_cache_control(block: ToolCall | ToolResult) -> dict[str, Any]:
    control = native_of(block, NAME).get("$cache_control")
    return {"cache_control": control} if isinstance(control, dict) else {}
