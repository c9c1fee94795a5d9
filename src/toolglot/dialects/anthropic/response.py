"""A `message` object <-> `Response`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec import UNSET

from toolglot.dialects.anthropic.blocks import (
    DIRECT,
    add_required_members,
    decode_blocks,
    encode_blocks,
    remove_required_members,
)
from toolglot.dialects.anthropic.errors import read_error
from toolglot.dialects.anthropic.native import NAME, keep, read_note, restore_members
from toolglot.dialects.anthropic.usage import decode_usage, encode_usage, tier_of
from toolglot.dialects.anthropic.wire import ANSWERS, AnswerEnvelope, AnthropicMessage
from toolglot.errors import DecodeError, UpstreamError, expected
from toolglot.ir import (
    Block,
    Native,
    Refusal,
    Request,
    Response,
    Stop,
    StopReason,
    Text,
    ToolCall,
    native_of,
    replace,
    with_native,
)
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.error_documents import find_error
from toolglot.wire.structs import member_reader, members_without
from toolglot.wire.typed import UnsoundError

STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "context_full",
    "refusal": "refusal",
    "pause_turn": "pause",
}
_FOREIGN_STOPS: dict[str, StopReason] = {
    "stop": "end",
    "length": "length",
    "max_output_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
}
"""Stop reasons from gateways that forward those of an OpenAI-compatible server (new-api and others)."""
STOP_NAMES: dict[StopReason, str] = {
    **{reason: name for name, reason in STOPS.items()},
    "filtered": "refusal",
    "malformed_call": "tool_use",  # without a call: Claude Code asks again, as it does for its own models
    "other": "end_turn",
}
_REQUIRED_MEMBERS = (
    "id",
    "type",
    "role",
    "model",
    "stop_reason",
    "stop_sequence",
    "stop_details",
    "usage",
    "container",
)
CUT_REASONS: frozenset[StopReason] = frozenset({"length", "context_full"})
CUT_NOTE = {"$cut": True}
"""The note on a call that this API cut. Its clients recognize such a call by the stop reason."""


def decode_response(data: bytes) -> Response:
    try:
        message = ANSWERS.read(data, factor=json.ANSWER_FACTOR)
    except DecodeError:
        _raise_error(data)
        raise
    if message.content is UNSET:
        _raise_error(data)
        raise DecodeError("$.content", "this array is required")
    bare = remove_required_members(message.content)
    try:
        content = decode_blocks(message.content)
    except UnsoundError:
        json.decode_answer(data)  # raises an error with the position
        raise DecodeError("$", json.TOO_DEEP) from None
    usage = None if message.usage is UNSET or message.usage is None else decode_usage(message.usage)
    stop = _decode_stop(message.stop_reason, message.stop_sequence, message.stop_details, "$")
    if stop.reason in CUT_REASONS and content and isinstance(last := content[-1], ToolCall):
        # The API closes the object of a call that the limit cut. Only the stop reason shows the cut.
        content = (*content[:-1], with_native(replace(last, complete=False), NAME, **CUT_NOTE))
    return Response(
        id="" if message.id is UNSET else message.id,
        model="" if message.model is UNSET else message.model,
        content=content,
        stop=stop,
        usage=usage,
        service_tier=tier_of(usage),
        native=_native_of(message, stop, bare),
    )


def _native_of(message: AnthropicMessage, stop: Stop, bare: list[str] | None) -> Native:
    others, word = _native_members_of_whole(message), foreign_stop_reason(stop)
    absent = _missing_members(message) if UNSET in _required_members_of(message) else None
    if word is None and absent is None and bare is None and message.rest is UNSET:
        return {NAME: others} if others else {}
    return keep(others, stop_reason=word, missing=absent, bare=bare)


def _raise_error(data: bytes) -> None:
    """Raise `UpstreamError` if these bytes are an error document."""
    value = json.decode_answer(data)
    if find_error(value) is not None and "content" not in value:
        raise UpstreamError(read_error(value))


def _missing_members(message: AnthropicMessage) -> list[str] | None:
    rest = {} if message.rest is UNSET else message.rest
    return [key for key in _REQUIRED_MEMBERS if getattr(message, key) is UNSET and key not in rest] or None


_required_members_of = attrgetter(*_REQUIRED_MEMBERS)
_READ_MEMBERS = ("content", "id", "type", "role", "model", "stop_sequence")
_native_members_of_whole = member_reader(AnthropicMessage, *_READ_MEMBERS, unless_null=("usage", "stop_reason"))


def native_members(message: AnswerEnvelope) -> dict[str, Any]:
    """Return the members that only this dialect understands, and nulls. `Stop` also has `stop_details`."""
    read = [name for name in ("usage", "stop_reason") if getattr(message, name) is not None]
    return members_without(message, *_READ_MEMBERS, *read)


def decode_stop(fields: Mapping[str, Any], where: str) -> Stop:
    """Decode the stop members of a message. `where` is the path of the object that has them."""
    return _decode_stop(fields.get("stop_reason"), fields.get("stop_sequence"), fields.get("stop_details"), where)


def _decode_stop(reason: Any, stop_sequence: Any, details: Any, where: str) -> Stop:
    raw = reason if type(reason) is str else _text_of(reason, where, "stop_reason")
    sequence = None if stop_sequence is None else _text_of(stop_sequence, where, "stop_sequence")
    detail = details.get("explanation") if type(details) is dict else None
    return Stop(STOPS.get(raw or "") or _reason_of(raw), raw, sequence, detail if type(detail) is str else None)


def _reason_of(word: str | None) -> StopReason:
    return "end" if word is None else STOPS.get(word) or _FOREIGN_STOPS.get(word, "other")


def _text_of(value: Any, where: str, name: str) -> str | None:
    if type(value) is str:
        return value
    if value is None or value is UNSET:
        return None
    raise expected(f"{where}.{name}", "a string", value)


def stop_members(message: AnswerEnvelope) -> dict[str, Any]:
    values = ((name, getattr(message, name)) for name in ("stop_reason", "stop_sequence", "stop_details"))
    return {name: value for name, value in values if value is not UNSET}


def foreign_stop_reason(stop: Stop) -> str | None:
    """Return a stop reason that this API does not define, to keep as a note. None if it is one of its own."""
    return None if stop.raw in STOPS else stop.raw


def encode_stop(stop: Stop, notes: Mapping[str, Any], refused: bool) -> dict[str, Any]:
    """Encode `stop_reason`, `stop_sequence` and `stop_details`. The details are null except for a refusal."""
    name = STOP_NAMES[stop.reason]
    came = read_note(notes, "$stop_reason", str) if notes else None
    if came is not None and _reason_of(came) == stop.reason:
        name = came
    elif refused and stop.reason == "end":
        name = "refusal"
    fields: dict[str, Any] = {"stop_reason": name, "stop_sequence": stop.sequence, "stop_details": None}
    if name == "refusal" and stop.detail is not None and not notes.get("stop_details"):
        fields["stop_details"] = {"type": "refusal", "category": None, "explanation": stop.detail}
    return fields


def encode_response(response: Response, request: Request | None, receipt: Receipt) -> bytes:
    notes = native_of(response, NAME)
    bare = (read_note(notes, "$bare", list) or ()) if notes else ()
    content = _encode_plain(response.content) if not bare else None
    if content is None:
        blocks = encode_blocks(response.content, "content", receipt, reply=True)
        content = [add_required_members(block, bare) for block in blocks]
    refused = Refusal in map(type, response.content)
    stop = response.stop
    if stop.reason == "tool_calls":
        stop = _settle_stop(stop, response.content, content)
    wire: dict[str, Any] = {
        "id": response.id,
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": content,
        **encode_stop(stop, notes, refused),
        # The SDKs' type requires usage.
        "usage": encode_usage(response.usage, response.service_tier),
        "container": None,
    }
    if not notes:
        return json.encode(wire)
    known: dict[str, Any] = {"id": response.id, "model": response.model, "usage": response.usage}
    known |= {"stop_sequence": stop.sequence, "stop_reason": stop.raw or stop.reason != "end"}
    known |= {"stop_details": wire["stop_details"]}
    missing = read_note(notes, "$missing", list) or ()
    for key in _REQUIRED_MEMBERS:  # an imitator left it out or wrote null, and there is still no value
        if (key in notes or key in missing) and not known.get(key):
            if key in notes:
                wire[key] = notes[key]
            else:
                del wire[key]
    return json.encode(restore_members(wire, response))


def _encode_plain(content: tuple[Block, ...]) -> list[dict[str, Any]] | None:
    """Encode an answer that has only plain texts and complete calls with valid arguments.

    This is the fast path for nearly all answers. None if a block is of another form, or needs a line in the receipt.
    """
    encoded: list[dict[str, Any]] = []
    for block in content:
        if NAME in block.native:
            return None
        if type(block) is Text and block.cache is None and not block.citations and not block.logprobs:
            encoded.append({"type": "text", "text": block.text, "citations": None})
        elif type(block) is ToolCall and block.cache is None and block.complete:
            arguments = json.object_of(block.arguments)
            if arguments is None or json.has_repeated_key(block.arguments):
                return None
            call = {"type": "tool_use", "id": block.id, "name": block.name, "input": arguments, "caller": DIRECT}
            encoded.append(call)
        else:
            return None
    return encoded


def _settle_stop(stop: Stop, blocks: Sequence[Block], content: Sequence[Mapping[str, Any]]) -> Stop:
    """Change a stop for tool calls to an end if every call was encoded as text: there is nothing to run."""
    if ToolCall not in map(type, blocks):
        return stop
    if not any(wire.get("type") == "tool_use" for wire in content):
        return replace(stop, reason="end")
    return stop
