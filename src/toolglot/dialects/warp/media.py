"""Images: `{data, mime_type}`. `data` is bytes that contain base64 text. Some clients put the raw image there. It is
also read, and written back in the same way.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Any

from toolglot.dialects.warp.fields import ReadFields, make_native, remaining_fields, restore
from toolglot.dialects.warp.native import NAME
from toolglot.ir import Media, MediaKind, Source, native_of
from toolglot.receipt import Receipt

IMAGE: ReadFields = {"data": None, "mime_type": None}
_BASE64 = re.compile(rb"[A-Za-z0-9+/]*={0,2}|[A-Za-z0-9_-]*={0,2}")


def decode_media(image: Any, kind: MediaKind = "image") -> Media:
    rest = remaining_fields(image, IMAGE)
    if _BASE64.fullmatch(image.data):
        data = image.data.decode()
    else:
        data, rest["$raw"] = b64encode(image.data).decode(), True
    return Media(kind=kind, source=Source("base64", data, image.mime_type or None), native=make_native(rest))


def encode_media(media: Media, image: Any, where: str, receipt: Receipt) -> None:
    """Write base64 media. The caller must report any other kind of source."""
    if media.detail not in (None, "auto"):
        receipt.loss(f"{where}.detail", f"detail {media.detail}", "Warp has no setting for image resolution")
    if media.name is not None:
        receipt.loss(f"{where}.name", "name", "Warp's images have no names")
    own = native_of(media, NAME)
    image.data = _decode_or_encode(media.source.data) if own.get("$raw") else media.source.data.encode()
    image.mime_type = media.source.media_type or ""
    if not own and not image.mime_type:
        image.ClearField("mime_type")
    restore(image, own)


def _decode_or_encode(data: str) -> bytes:
    try:
        return b64decode(data)
    except (Base64Error, ValueError):
        return data.encode()
