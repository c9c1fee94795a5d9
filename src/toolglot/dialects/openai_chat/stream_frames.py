"""The chunks of a stream: what is read of them, and what is in them besides.

The fields that are known are those of the types in `wire.py`, whether they are read or say nothing. A chunk that has
others is read a second time, without types: what is strange is told and left out. Plain chunks cost nothing for that,
and many servers have such members in every chunk, where this is faster than to split it along the types.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from toolglot.dialects.openai_chat import content_filters
from toolglot.dialects.openai_chat.loose_members import put_right
from toolglot.dialects.openai_chat.sloppy_calls import nest_function, rename_parameters
from toolglot.dialects.openai_chat.wire import (
    CallDelta,
    Chunk,
    ChunkChoice,
    FunctionDelta,
    GroqExtension,
    MessageDelta,
)
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.error_documents import find_error


class ErrorFrame(Struct, frozen=True):
    """The JSON value of a frame that is an error."""

    value: Any


_chunks: msgspec.json.Decoder[Chunk] = msgspec.json.Decoder(Chunk)


def read_chunk(payload: bytes, receipt: Receipt) -> Chunk | ErrorFrame:
    """One chunk, or the error that came in the place of one. The receipt lists members that are not known.

    Raises:
        DecodeError: it is not a chunk.
    """
    try:
        chunk = _chunks.decode(payload)
        return chunk if not chunk.error and not chunk.type else _error_or_chunk(json.decode_frame(payload), chunk)
    except msgspec.ValidationError:
        pass  # a field that is not known, or a value of a wrong type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise json.explain(payload, error) from None
    value = json.decode_frame(payload)
    if find_error(value) is not None:
        return ErrorFrame(value)
    _take_strange(value, receipt)
    try:
        return _convert(value, receipt)
    except (msgspec.ValidationError, RecursionError) as error:
        raise json.explain(payload, error) from None


def _convert(value: Any, receipt: Receipt) -> Chunk:
    try:
        return msgspec.convert(value, Chunk)
    except msgspec.ValidationError:
        lines = put_right(value)
        if not lines:
            raise
        receipt.add(lines)
        return msgspec.convert(value, Chunk)


def _error_or_chunk(value: Any, chunk: Chunk) -> Chunk | ErrorFrame:
    return chunk if find_error(value) is None else ErrorFrame(value)


def _lone_delta(payload: bytes) -> MessageDelta | None:
    """The delta of a chunk that has nothing else to say."""
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
    """The text, reasoning or arguments of a chunk that has nothing else to say."""
    delta = _lone_delta(payload)
    said = [] if delta is None else [name for name in delta.__struct_fields__ if getattr(delta, name)]
    if "role" in said:
        said.remove("role")
    if delta is None or len(said) != 1:
        return None
    if delta.tool_calls:
        return _lone_arguments(delta.tool_calls)
    text = delta.content or delta.reasoning_content or delta.reasoning
    return text if isinstance(text, str) else None


def _lone_arguments(calls: list[CallDelta]) -> str | None:
    """The arguments of an entry that goes on with one call."""
    call, function = calls[0], calls[0].function
    if len(calls) > 1 or function is None or call.custom is not None or call.extra_content:
        return None
    # A name without an id may begin another call, which depends on what has come before.
    begins = bool(function.name and not call.id) or function.input is not None
    return function.arguments if isinstance(function.arguments, str) and not begins else None


_KNOWN: dict[type[Struct], frozenset[str]] = {
    kind: frozenset(kind.__struct_fields__) - {"rest"}
    for kind in (Chunk, GroqExtension, ChunkChoice, MessageDelta, CallDelta, FunctionDelta)
}


def _take_strange(chunk: Any, receipt: Receipt) -> None:
    """Take the fields that nobody knows out of a chunk. Nobody misses nulls, empty things and flags that are off."""
    _take(chunk, Chunk, "", receipt)
    _take(chunk.get("x_groq") if isinstance(chunk, dict) else None, GroqExtension, "x_groq.", receipt)
    for choice in _objects(chunk, "choices"):
        where = f"choices[{choice.get('index') or 0}]"
        _take(choice, ChunkChoice, f"{where}.", receipt)
        for name in ("delta", "message"):
            if isinstance(choice.get(name), dict):
                _take_from_delta(choice[name], f"{where}.{name}.", receipt)


def _take_from_delta(delta: dict[str, Any], where: str, receipt: Receipt) -> None:
    _take(delta, MessageDelta, where, receipt)
    _take(delta.get("function_call"), FunctionDelta, f"{where}function_call.", receipt)
    if delta.get("tool_calls") and isinstance(delta["tool_calls"], dict):  # Text Generation Inference
        delta["tool_calls"] = [delta["tool_calls"]]
    for call in _objects(delta, "tool_calls"):
        nest_function(call)
        rename_parameters(call.get("function"))
        _take(call, CallDelta, f"{where}tool_calls[].", receipt)
        for member in ("function", "custom"):
            _take(call.get(member), FunctionDelta, f"{where}tool_calls[].{member}.", receipt)


def _objects(fields: Any, key: str) -> list[dict[str, Any]]:
    items = fields.get(key) if isinstance(fields, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _take(fields: Any, kind: type[Struct], where: str, receipt: Receipt) -> None:
    if not isinstance(fields, dict) or fields.keys() <= _KNOWN[kind]:
        return
    for key in [key for key in fields if key not in _KNOWN[kind]]:
        value = fields.pop(key)
        if key in content_filters.MEMBERS:
            if not content_filters.is_default(value):
                receipt.note(f"{where}{key}", key, content_filters.REASON)
        elif value is not None and value is not False and value not in ("", [], {}):
            receipt.loss(f"{where}{key}", key, "its meaning in a stream is not known")
