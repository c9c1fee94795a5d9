"""Stream events that only add text to an open block."""

from __future__ import annotations

import msgspec
from msgspec import Struct


class _TextDelta(Struct, tag="text_delta", tag_field="type", forbid_unknown_fields=True):
    text: str


class _ThinkingDelta(Struct, tag="thinking_delta", tag_field="type", forbid_unknown_fields=True):
    text: str = msgspec.field(name="thinking")


class _ArgumentsDelta(Struct, tag="input_json_delta", tag_field="type", forbid_unknown_fields=True):
    text: str = msgspec.field(name="partial_json")


class _DeltaFrame(Struct, tag="content_block_delta", tag_field="type", forbid_unknown_fields=True):
    index: int
    delta: _TextDelta | _ThinkingDelta | _ArgumentsDelta


_deltas = msgspec.json.Decoder(_DeltaFrame)


def text_of_frame(payload: bytes) -> str | None:
    """Return the text, reasoning or arguments of a plain delta event. None for any other event."""
    try:
        return _deltas.decode(payload).delta.text
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
