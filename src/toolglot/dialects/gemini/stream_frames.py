"""The frames of a stream that bring more text and nothing else. Nearly all do: these are read in one step, and whatever
does not fit goes the long way."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw, Struct


class TextPart(Struct, forbid_unknown_fields=True):
    text: str
    thought: bool = False


class TextContent(Struct, forbid_unknown_fields=True):
    parts: list[TextPart]
    role: str = "model"


class TextCandidate(Struct, forbid_unknown_fields=True):
    content: TextContent
    index: Literal[0] = 0


class TextFrame(Struct, forbid_unknown_fields=True):
    candidates: tuple[TextCandidate]
    usageMetadata: Raw = Raw(b"")  # noqa: N815
    modelVersion: str = ""  # noqa: N815
    responseId: str = ""  # noqa: N815
    createTime: str = ""  # noqa: N815


_text_frame_decoder = msgspec.json.Decoder(TextFrame)


def text_frame(raw: bytes) -> TextFrame | None:
    """A frame that holds text and nothing else; None for any other, readable or not."""
    try:
        return _text_frame_decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def text_of_frame(payload: bytes) -> str | None:
    """The text or reasoning of a frame that has nothing else to say, not even of its usage."""
    frame = text_frame(payload)
    if frame is None or bytes(frame.usageMetadata):
        return None
    parts = frame.candidates[0].content.parts
    return parts[0].text if len(parts) == 1 else None
