"""A `message` object <-> `Response`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Raw, Struct, field
from msgspec.json import Decoder

from toolglot.dialects.anthropic.blocks import decode_block, encode_blocks, take_required, with_required
from toolglot.dialects.anthropic.errors import read_error
from toolglot.dialects.anthropic.native import NAME, NO_INPUT, is_missing, note, with_kept
from toolglot.dialects.anthropic.usage import decode_usage, encode_usage, tier_of
from toolglot.errors import DecodeError, UpstreamError
from toolglot.ir import (
    Block,
    Refusal,
    Request,
    Response,
    Stop,
    StopReason,
    ToolCall,
    native_of,
    replace,
    with_native,
)
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.error_documents import find_error
from toolglot.wire.reader import Reader, keep

STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "context_full",
    "refusal": "refusal",
    "pause_turn": "pause",
}
STOP_NAMES: dict[StopReason, str] = {
    **{reason: name for name, reason in STOPS.items()},
    "filtered": "refusal",
    "malformed_call": "end_turn",
    "other": "end_turn",
}
_ALWAYS = ("id", "type", "role", "model", "stop_reason", "stop_sequence", "stop_details", "usage", "container")
CUTS: frozenset[StopReason] = frozenset({"length", "context_full"})
CUT = {"$cut": True}
"""The note on a call that this API cut, and whose clients know it by the stop reason."""


class _Block(Struct):
    input: Raw = NO_INPUT


class _Message(Struct):
    content: list[_Block] = field(default_factory=list)


_inputs = Decoder(_Message)


def decode_response(data: bytes) -> Response:
    value = json.decode_answer(data)
    if find_error(value) is not None and "content" not in value:
        raise UpstreamError(read_error(value))
    body = Reader(value)
    blocks = body.array("content")
    if blocks is None:
        raise DecodeError(body.at("content"), "this array is required")
    inputs, bare = _verbatim_inputs(data, len(blocks)), take_required(blocks)
    content = tuple(
        decode_block(Reader(block, f"{body.at('content')}[{index}]"), inputs[index])
        for index, block in enumerate(blocks)
    )
    absent = [key for key in _ALWAYS if key not in body.rest()]
    fields = message_fields(body)
    usage = decode_usage(counts) if (counts := body.take("usage")) is not None else None
    stop = take_stop(body)
    if stop.reason in CUTS and content and isinstance(last := content[-1], ToolCall):
        # The API closes the object of a call that the limit cut; only the stop reason tells.
        content = (*content[:-1], with_native(replace(last, complete=False), NAME, **CUT))
    return Response(
        content=content,
        stop=stop,
        usage=usage,
        service_tier=tier_of(usage),
        native=keep(NAME, body, stop_reason=unknown_stop(stop), missing=absent or None, bare=bare),
        **fields,
    )


def _verbatim_inputs(data: bytes, count: int) -> list[Raw]:
    found: list[_Block] = []
    if b'"tool_use"' in data:
        try:
            found = json.typed(data, _inputs).content
        except DecodeError:  # an element that is no object: the reading of the blocks tells
            found = []
    return [block.input for block in found] if len(found) == count else [NO_INPUT] * count


def message_fields(body: Reader) -> dict[str, Any]:
    """What names the message; its constant members are taken out."""
    for key, value in (("type", "message"), ("role", "assistant")):
        if body.peek(key) == value:
            body.take(key)
    return {"id": body.text("id") or "", "model": body.text("model") or ""}


def take_stop(body: Reader) -> Stop:
    """The stop reason. `stop_details` also stays with the rest, for this dialect."""
    raw, sequence = body.text("stop_reason"), body.text("stop_sequence")
    body.rest().pop("stop_sequence", None)  # it is always written, as null too
    details = body.peek("stop_details")
    detail = details.get("explanation") if isinstance(details, dict) else None
    reason: StopReason = "end" if raw is None else STOPS.get(raw, "other")
    return Stop(reason, raw, sequence, detail if isinstance(detail, str) else None)


def unknown_stop(stop: Stop) -> str | None:
    """The word for a reason that the IR does not know, to be noted."""
    return stop.raw if stop.reason == "other" else None


def encode_stop(stop: Stop, notes: Mapping[str, Any], refused: bool) -> dict[str, Any]:
    """`stop_reason`, `stop_sequence` and `stop_details`, which are null but for a refusal."""
    name = STOP_NAMES[stop.reason]
    if stop.reason == "other" and "$stop_reason" in notes:
        name = notes["$stop_reason"]
    elif refused and stop.reason == "end":
        name = "refusal"
    fields: dict[str, Any] = {"stop_reason": name, "stop_sequence": stop.sequence, "stop_details": None}
    if name == "refusal" and stop.detail is not None and not notes.get("stop_details"):
        fields["stop_details"] = {"type": "refusal", "category": None, "explanation": stop.detail}
    return fields


def encode_response(response: Response, request: Request | None, receipt: Receipt) -> bytes:
    notes = native_of(response, NAME)
    bare = note(notes, "$bare", list) or ()
    blocks = encode_blocks(response.content, "content", receipt, reply=True)
    content = [with_required(block, bare) for block in blocks]
    refused = any(isinstance(block, Refusal) for block in response.content)
    stop = _settled(response.stop, response.content, content)
    wire: dict[str, Any] = {
        "id": response.id,
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": content,
        **encode_stop(stop, notes, refused),
        # The SDKs' type has counts always.
        "usage": encode_usage(response.usage, response.service_tier),
        "container": None,
    }
    said: dict[str, Any] = {"id": response.id, "model": response.model, "usage": response.usage}
    said |= {"stop_sequence": stop.sequence, "stop_reason": stop.raw or stop.reason != "end"}
    said |= {"stop_details": wire["stop_details"]}
    for key in _ALWAYS:  # what an imitator left out, or wrote as null, and what still says nothing
        if not said.get(key) and key in notes:
            wire[key] = notes[key]
        elif not said.get(key) and is_missing(response, key):
            del wire[key]
    return json.encode(with_kept(wire, response))


def _settled(stop: Stop, blocks: Sequence[Block], content: Sequence[Mapping[str, Any]]) -> Stop:
    """A stop for calls, when the only calls had to be shown as text, is an end: there is nothing to run."""
    called = any(isinstance(block, ToolCall) for block in blocks)
    if stop.reason == "tool_calls" and called and not any(wire.get("type") == "tool_use" for wire in content):
        return replace(stop, reason="end")
    return stop
