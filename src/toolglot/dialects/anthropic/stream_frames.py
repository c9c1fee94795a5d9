"""The events of a stream that bring more text and nothing else."""

from __future__ import annotations

import msgspec
from msgspec import Struct


class _TextDelta(Struct, tag="text_delta", tag_field="type", forbid_unknown_fields=True):
    text: str


class _TextFrame(Struct, tag="content_block_delta", tag_field="type", forbid_unknown_fields=True):
    index: int
    delta: _TextDelta


_texts = msgspec.json.Decoder(_TextFrame)


def text_of_frame(payload: bytes) -> str | None:
    """The text of an event that has nothing else to say."""
    try:
        return _texts.decode(payload).delta.text
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
