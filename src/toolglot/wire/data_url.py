"""Data URLs with media (RFC 2397): `data:image/png;base64,…` <-> a source.

Schemes, media types and `base64` may be in upper case, the media type may be absent or have parameters, and the data
may be percent-encoded. A comma in a parameter's quoted string (RFC 2045, section 5.1) does not begin the data. The
source has the media type as written, because the charset says how to read a text.
"""

from __future__ import annotations

import base64
import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from toolglot.ir import Source
from toolglot.wire.incremental_json import append_text
from toolglot.wire.media_types import QUOTED_STRING

_SCHEME = re.compile(r"data:", re.IGNORECASE)
_ANY_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BASE64 = re.compile(r";[ \t]*base64[ \t]*\Z", re.IGNORECASE)
_BEFORE_COMMA = re.compile(rf"(?:[^,\"]++|{QUOTED_STRING}|(?!))*+(?=,)")
_MAX_HEAD = 1024
"""Maximum length of the part before the comma. A longer one is not a media type."""


class _Head(NamedTuple):
    """The part of a data URL before its data."""

    media_type: str
    is_base64: bool
    end: int


def _read_head(url: str) -> _Head | None:
    if _SCHEME.match(url) is None:
        return None
    found = _BEFORE_COMMA.match(url, 0, _MAX_HEAD)
    # A quote without an end is not a quoted string.
    comma = url.find(",", 0, _MAX_HEAD) if found is None else found.end()
    if comma < 0:
        return None
    media_type, encoding = url[5:comma], _BASE64.search(url, 0, comma)
    if encoding is not None:
        media_type = url[5 : encoding.start()]
    return _Head(media_type.strip(), encoding is not None, comma + 1)


def read_url(url: str) -> tuple[Source, str | None]:
    """Read a URL: a data URL as a base64 source, any other as a URL source. The second value is a note for `write_url`
    if it would write the data URL in another way."""
    head = _read_head(url)
    if head is None:
        return Source("url", url), None
    media_type: str | None = head.media_type
    if head.media_type[:1] in ("", ";"):  # parameters without a type, or percent-encoded data, belong to a plain text
        is_text = bool(head.media_type) or not head.is_base64
        media_type = f"text/plain{head.media_type}" if is_text else None
    if not head.is_base64 or url.find("%", head.end) >= 0:
        data = unquote_to_bytes(url[head.end :].encode("utf-8", "surrogatepass"))
        encoded = data if head.is_base64 else base64.b64encode(data)
        return Source("base64", encoded.decode("latin-1"), media_type), url
    source = Source("base64", append_text("", url, head.end), media_type)
    spelled = url[: head.end]
    return source, None if spelled == f"data:{media_type};base64," else spelled


def read_file_data(text: str) -> tuple[Source, str | None]:
    """Read the data of a file: a URL, as `read_url` does, or base64 without a URL around it."""
    if _SCHEME.match(text) is None and _ANY_SCHEME.match(text) is None:
        return Source("base64", text), None
    return read_url(text)


def write_url(source: Source, default_type: str, spelled: object = None) -> str:
    """Write a base64 or URL source as a URL. `spelled` is the note of `read_url`: the whole data URL, or only the part
    before its data."""
    if source.kind == "url":
        return source.data
    if isinstance(spelled, str):
        head = _read_head(spelled)
        is_whole = head is None or not head.is_base64 or head.end < len(spelled)
        return spelled if is_whole else append_text(spelled, source.data)
    return append_text(f"data:{source.media_type or default_type};base64,", source.data)
