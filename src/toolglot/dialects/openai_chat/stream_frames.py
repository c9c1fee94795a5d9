"""Reads the chunks of a stream.

The types in `wire.py` have all known fields, including those that are not used. A chunk with other fields is decoded
again without types, and unknown fields are reported and removed. Plain chunks pay nothing for that. Many servers have
such members in every chunk, where this is faster than decoding it member by member.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from toolglot.dialects.openai_chat import content_filters
from toolglot.dialects.openai_chat.normalize_answer import nest_function, normalize_answer, rename_parameters
from toolglot.dialects.openai_chat.wire import (
    CallDelta,
    ChatMessageDelta,
    Chunk,
    ChunkChoice,
    FunctionDelta,
    GroqExtension,
)
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.error_documents import find_error


class ErrorFrame(Struct, frozen=True):
    """The JSON value of a frame that is an error."""

    value: Any


_chunks: msgspec.json.Decoder[Chunk] = msgspec.json.Decoder(Chunk)


def read_chunk(payload: bytes, receipt: Receipt) -> Chunk | ErrorFrame:
    """Read one chunk, or an error in its place. The receipt lists unknown members.

    Raises:
        DecodeError: it is not a chunk.
    """
    try:
        chunk = _chunks.decode(payload)
        return chunk if not chunk.error and not chunk.type else _error_or_chunk(json.decode_frame(payload), chunk)
    except msgspec.ValidationError:
        pass  # an unknown field, or a value of a wrong type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise json.explain(payload, error) from None
    value = json.decode_frame(payload)
    if find_error(value) is not None:
        return ErrorFrame(value)
    _remove_unknown_members(value, receipt)
    try:
        return _convert(value, receipt)
    except (msgspec.ValidationError, RecursionError) as error:
        raise json.explain(payload, error) from None


def _convert(value: Any, receipt: Receipt) -> Chunk:
    try:
        return msgspec.convert(value, Chunk)
    except msgspec.ValidationError:
        lines = normalize_answer(value)
        if not lines:
            raise
        receipt.add(lines)
        return msgspec.convert(value, Chunk)


def _error_or_chunk(value: Any, chunk: Chunk) -> Chunk | ErrorFrame:
    return chunk if find_error(value) is None else ErrorFrame(value)


def _only_delta(payload: bytes) -> ChatMessageDelta | None:
    """Return the delta of a chunk that has no other content."""
    try:
        chunk = _chunks.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if not chunk.choices or len(chunk.choices) > 1 or chunk.usage or chunk.error or chunk.type:
        return None
    if chunk.x_groq is not None:
        return None
    choice = chunk.choices[0]
    if choice.index or choice.finish_reason or choice.logprobs or choice.message or choice.usage or choice.error:
        return None
    return choice.delta


def text_of_frame(payload: bytes) -> str | None:
    """Return the text, reasoning or arguments of a chunk that has no other content."""
    delta = _only_delta(payload)
    said = [] if delta is None else [name for name in delta.__struct_fields__ if getattr(delta, name)]
    if "role" in said:
        said.remove("role")
    if delta is None or len(said) != 1:
        return None
    if delta.tool_calls:
        return _only_arguments(delta.tool_calls)
    text = delta.content or delta.reasoning_content or delta.reasoning or delta.reasoning_text
    return text if isinstance(text, str) else None


def _only_arguments(calls: list[CallDelta]) -> str | None:
    """Return the arguments of an entry that only continues one call."""
    call, function = calls[0], calls[0].function
    if len(calls) > 1 or function is None or call.custom is not None or call.extra_content:
        return None
    if call.provider_specific_fields or function.provider_specific_fields:
        return None
    # A name without an id may begin another call, which depends on earlier chunks.
    begins = bool(function.name and not call.id) or function.input is not None
    return function.arguments if isinstance(function.arguments, str) and not begins else None


_KNOWN_MEMBERS: dict[type[Struct], frozenset[str]] = {
    kind: frozenset(kind.__struct_fields__) - {"rest"}
    for kind in (Chunk, GroqExtension, ChunkChoice, ChatMessageDelta, CallDelta, FunctionDelta)
}


def _remove_unknown_members(chunk: Any, receipt: Receipt) -> None:
    """Remove unknown fields from a chunk and report them. Nulls, empty values and false flags are not reported."""
    _remove_from_object(chunk, Chunk, "", receipt)
    _remove_from_object(chunk.get("x_groq") if isinstance(chunk, dict) else None, GroqExtension, "x_groq.", receipt)
    for choice in _objects(chunk, "choices"):
        where = f"choices[{choice.get('index') or 0}]"
        _remove_from_object(choice, ChunkChoice, f"{where}.", receipt)
        for name in ("delta", "message"):
            if isinstance(choice.get(name), dict):
                _remove_from_delta(choice[name], f"{where}.{name}.", receipt)


def _remove_from_delta(delta: dict[str, Any], where: str, receipt: Receipt) -> None:
    _remove_from_object(delta, ChatMessageDelta, where, receipt)
    _remove_from_object(delta.get("function_call"), FunctionDelta, f"{where}function_call.", receipt)
    if delta.get("tool_calls") and isinstance(delta["tool_calls"], dict):  # Text Generation Inference
        delta["tool_calls"] = [delta["tool_calls"]]
    for call in _objects(delta, "tool_calls"):
        nest_function(call)
        rename_parameters(call.get("function"))
        _remove_from_object(call, CallDelta, f"{where}tool_calls[].", receipt)
        for member in ("function", "custom"):
            _remove_from_object(call.get(member), FunctionDelta, f"{where}tool_calls[].{member}.", receipt)


def _objects(fields: Any, key: str) -> list[dict[str, Any]]:
    items = fields.get(key) if isinstance(fields, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _remove_from_object(fields: Any, kind: type[Struct], where: str, receipt: Receipt) -> None:
    if not isinstance(fields, dict) or fields.keys() <= _KNOWN_MEMBERS[kind]:
        return
    for key in [key for key in fields if key not in _KNOWN_MEMBERS[kind]]:
        value = fields.pop(key)
        if key in content_filters.MEMBERS:
            if not content_filters.is_default(value):
                receipt.note(f"{where}{key}", key, content_filters.REASON)
        elif value is not None and value is not False and value not in ("", [], {}):
            receipt.loss(f"{where}{key}", key, "its meaning in a stream is unknown")
