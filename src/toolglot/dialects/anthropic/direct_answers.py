"""Plain answers of Messages, read and written without the IR (see `toolglot.direct`)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from toolglot.dialects.anthropic.models import CAPABILITIES
from toolglot.dialects.anthropic.response import STOP_NAMES, STOPS
from toolglot.dialects.anthropic.usage import decode_usage, encode_usage, tier_of
from toolglot.direct.plain import UNREADABLE, PlainAnswer, PlainCall, has_all, object_text, spliced
from toolglot.errors import DecodeError

_encode = msgspec.json.Encoder().encode


class _Thinking(Struct, tag="thinking", tag_field="type", forbid_unknown_fields=True, gc=False):
    thinking: str
    signature: str


class _Redacted(Struct, tag="redacted_thinking", tag_field="type", forbid_unknown_fields=True, gc=False):
    data: str


class _Said(Struct, tag="text", tag_field="type", forbid_unknown_fields=True, gc=False):
    text: str
    citations: UnsetType | None = UNSET


class _Called(Struct, tag="tool_use", tag_field="type", forbid_unknown_fields=True, gc=False):
    id: str
    name: str
    input: Raw
    caller: Raw | UnsetType = UNSET


class _Answer(Struct, forbid_unknown_fields=True, gc=False):
    """The members stand in the order in which Anthropic sends them (see `has_all`)."""

    model: str
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    content: list[_Said | _Called | _Thinking | _Redacted]
    stop_reason: str
    stop_sequence: str | None
    usage: dict[str, Any]
    stop_details: UnsetType | None = UNSET
    container: UnsetType | None = UNSET
    context_management: dict[str, Any] | UnsetType | None = UNSET


_answers = msgspec.json.Decoder(_Answer)
_DIRECT_CALLER = b'{"type":"direct"}'
_PLAIN_STOPS = frozenset({"end_turn", "tool_use", "max_tokens"})


_NOTHING_CLEARED = CAPABILITIES.assumed["context_management"]


def read_answer(data: bytes) -> PlainAnswer | None:
    try:
        answer = _answers.decode(data)
        written = _encode(answer)
    except UNREADABLE:
        return None
    if not has_all(written, data):
        return None
    text, calls, whole = "", list[PlainCall](), answer.stop_reason in _PLAIN_STOPS and answer.stop_sequence is None
    block: Any
    for block in answer.content:
        kind = type(block)
        if kind is _Said:
            whole = whole and not (text or calls or not block.text)
            text = block.text
        elif kind is _Called:
            arguments = object_text(block.input)
            if arguments is None or not block.name:
                return None
            calls.append(PlainCall(block.id, block.name, arguments))
            if block.caller is not UNSET and bytes(block.caller) != _DIRECT_CALLER:
                whole = False
                if object_text(block.caller) is None:
                    return None
        else:
            whole = False
    if answer.context_management and answer.context_management not in _NOTHING_CLEARED:
        whole = False
    stop = STOPS.get(answer.stop_reason)
    if stop is None:
        return None
    try:
        usage = decode_usage(answer.usage)
    except DecodeError:
        return None
    return PlainAnswer(answer.id, answer.model, None, text, calls, stop, usage, whole, tier_of(usage))


class _Written(Struct, gc=False):
    id: str
    type: str
    role: str
    model: str
    content: list[Any]
    stop_reason: str
    stop_sequence: None
    stop_details: None
    usage: dict[str, Any]
    container: None


def write_answer(answer: PlainAnswer) -> bytes:
    content: list[Any] = [_Said(answer.text, None)] if answer.text else []
    if answer.calls:
        content += [_Called(call.id, call.name, spliced(call.arguments), _DIRECT) for call in answer.calls]
    usage, stop = encode_usage(answer.usage, answer.service_tier), STOP_NAMES[answer.stop]
    return _encode(_Written(answer.id, "message", "assistant", answer.model, content, stop, None, None, usage, None))


_DIRECT = Raw(_DIRECT_CALLER)
