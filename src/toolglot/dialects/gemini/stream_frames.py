"""Read stream frames that only add text, as nearly all do, in one typed decode. Other frames are decoded in full."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw, Struct


class TextFramePart(Struct, forbid_unknown_fields=True):
    text: str
    thought: bool = False


class TextContent(Struct, forbid_unknown_fields=True):
    parts: list[TextFramePart]
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
    """Read a frame that has only text. None for any other frame, valid or not."""
    try:
        return _text_frame_decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def text_of_frame(payload: bytes) -> str | None:
    """Return the text or reasoning of a frame with nothing else, not even usage. None for any other frame."""
    frame = text_frame(payload)
    if frame is None or bytes(frame.usageMetadata):
        return None
    parts = frame.candidates[0].content.parts
    return parts[0].text if len(parts) == 1 else None
