"""Estimate the cost of media: image sizes from the first bytes of their base64 text, and the vendors' published
formulas.

Nothing is fetched and no image is decoded. If a value is unknown (the size of an image at a URL, for example), a
typical one is assumed.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from typing import TypeAlias

from toolglot.ir import Media, Source
from toolglot.tokens.text import count_text

Size: TypeAlias = tuple[int, int]
ImageTokens: TypeAlias = Callable[[int, int, str | None], int]
"""Tokens of an image by its width and height in pixels and the requested detail."""

USUAL_SIZE: Size = (1024, 1024)
_MAX_SIDE = 1 << 16


def tokens_by_area(width: int, height: int, detail: str | None = None) -> int:
    """Anthropic: pixels / 750, after scaling the longer side down to 1568 and the whole to about 1600 tokens."""
    scale = min(1.0, 1568 / max(width, height))
    return max(min(math.ceil(width * scale * height * scale / 750), 1600), 1)


def tokens_by_tiles(width: int, height: int, detail: str | None = None) -> int:
    """OpenAI: 85, and 170 per square of 512 after scaling to fit 2048 x 2048 and a shorter side of at most 768."""
    if detail == "low":
        return 85
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    return 85 + 170 * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


def tokens_by_crops(width: int, height: int, detail: str | None = None) -> int:
    """Gemini: 258 for a small image, otherwise per crop, whose side is two thirds of the shorter one, 256 to 768."""
    if width <= 384 and height <= 384:
        return 258
    side = max(256.0, min(768.0, min(width, height) / 1.5))
    return 258 * math.ceil(width / side) * math.ceil(height / side)


class _Base64:
    """Random access to the bytes of a base64 text, decoding no more than needed."""

    def __init__(self, text: str) -> None:
        # Some clients break lines as in mail, which would shift every position.
        self._text = "".join(text.split()) if any(mark in text[:200] for mark in "\r\n ") else text

    def read(self, start: int, length: int) -> bytes:
        first, skip = divmod(start, 3)
        piece = self._text[first * 4 : -(-(start + length) // 3) * 4]
        piece = piece.rstrip("=").replace("-", "+").replace("_", "/")
        try:
            return base64.b64decode(piece + "=" * (-len(piece) % 4))[skip : skip + length]
        except (binascii.Error, ValueError):
            return b""


def image_size(text: str) -> Size | None:
    """Return width and height of a PNG, JPEG, GIF or WebP image given as base64; None if the bytes do not say."""
    data = _Base64(text)
    head = data.read(0, 30)
    for magic, read in _FORMATS:
        if head.startswith(magic):
            width, height = read(head, data) or (0, 0)
            return (width, height) if 0 < width <= _MAX_SIDE and 0 < height <= _MAX_SIDE else None
    return None


def _png(head: bytes, data: _Base64) -> Size | None:
    return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])


def _gif(head: bytes, data: _Base64) -> Size | None:
    return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")


def _webp(head: bytes, data: _Base64) -> Size | None:
    kind = head[12:16]
    if kind == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF
    return None


_MAX_SEGMENTS = 500
# Frame headers are C0 to CF except for three that define tables.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def _jpeg(head: bytes, data: _Base64) -> Size | None:
    place = 2
    for _ in range(_MAX_SEGMENTS):
        segment = data.read(place, 9)
        if len(segment) < 9 or segment[0] != 0xFF:
            return None
        if segment[1] in _FRAMES:
            return int.from_bytes(segment[7:9]), int.from_bytes(segment[5:7])
        # A marker may be padded with any number of FF bytes, which are skipped one by one.
        place += 1 if segment[1] == 0xFF else 2 + int.from_bytes(segment[2:4])
    return None


_FORMATS: tuple[tuple[bytes, Callable[[bytes, _Base64], Size | None]], ...] = (
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"\xff\xd8", _jpeg),
    (b"GIF8", _gif),
    (b"RIFF", _webp),
)

_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_BYTES_PER_PAGE = 50_000
_TOKENS_PER_PAGE = 2000
_USUAL_DOCUMENT = 5 * _TOKENS_PER_PAGE

_AUDIO_TOKENS = 32
_VIDEO_TOKENS = 290
"""Per second of sound, and of video with sound, as Gemini counts them."""
_BYTES_PER_SECOND = {"audio/wav": 48_000, "audio/x-wav": 48_000, "audio/pcm": 48_000}
_BYTES_OF_AUDIO = 16_000
_BYTES_OF_VIDEO = 250_000
_USUAL_SECONDS = 60


def media_tokens(media: Media, image_tokens: ImageTokens, counter: Callable[[str], int] = count_text) -> int:
    """Estimate the tokens of this image, document, sound or video."""
    source = media.source
    if source.kind == "text":
        return counter(source.data)
    match media.kind:
        case "image":
            size = image_size(source.data) if source.kind == "base64" else None
            return image_tokens(*(size or USUAL_SIZE), media.detail)
        case "document":
            return _document(source, counter)
        case "audio":
            return _seconds(source, _BYTES_PER_SECOND.get(source.media_type or "", _BYTES_OF_AUDIO)) * _AUDIO_TOKENS
        case _:
            return _seconds(source, _BYTES_OF_VIDEO) * _VIDEO_TOKENS


def _seconds(source: Source, bytes_of_a_second: int) -> int:
    if source.kind != "base64":
        return _USUAL_SECONDS
    return max(round(len(source.data) * 3 / 4 / bytes_of_a_second), 1)


def _document(source: Source, counter: Callable[[str], int]) -> int:
    if source.kind != "base64":
        return _USUAL_DOCUMENT
    data = _Base64(source.data).read(0, len(source.data))
    if (source.media_type or "").startswith("text/"):
        return counter(data.decode("utf-8", "replace"))
    # Newer files keep their pages in compressed objects, which cannot be counted without decompression.
    pages = len(_PAGE.findall(data)) or round(len(data) / _BYTES_PER_PAGE)
    return max(pages, 1) * _TOKENS_PER_PAGE
