"""`image` and `document` blocks <-> `Media`."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Literal

from msgspec import UNSET

from toolglot.dialects.anthropic.native import NAME, decode_cache, keep, read_note, restore_members, write_cache
from toolglot.dialects.anthropic.wire import DocumentBlock, ImageBlock, MediaSource, read_block
from toolglot.ir import Block, Media, Source, native_of, replace, with_native
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.structs import Unknown, members_without

_SourceKind = Literal["base64", "url", "file", "text"]

# type of source -> the field that has its content
_SOURCE_FIELDS: dict[_SourceKind, str] = {"base64": "data", "url": "url", "file": "file_id", "text": "data"}

_DEFAULT_TYPES = {"image": "image/png", "document": "application/pdf"}


def decode_image(block: ImageBlock) -> Media:
    given = _decode_source(block.source)
    others = members_without(block, "source", "cache_control")
    native = keep(others, **_source_shape(block.source, given))
    return Media(kind="image", source=given, cache=decode_cache(block.cache_control), native=native)


def decode_document(block: DocumentBlock) -> Media:
    given = _decode_source(block.source)
    others = members_without(block, "source", "title", "context", "cache_control")
    return Media(
        kind="document",
        source=given,
        name=None if block.title is UNSET else block.title,
        context=None if block.context is UNSET else block.context,
        cache=decode_cache(block.cache_control),
        native=keep(others, **_source_shape(block.source, given)),
    )


def _decode_source(source: MediaSource) -> Source:
    kind: _SourceKind = source.__struct_config__.tag  # type: ignore[assignment]
    data: str = getattr(source, _SOURCE_FIELDS[kind])
    return Source(kind, data, None if source.media_type is UNSET else source.media_type)


def _source_shape(source: MediaSource, given: Source) -> dict[str, Any]:
    return {
        "source": None if source.rest is UNSET else dict(source.rest),
        "untyped": True if source.media_type is UNSET else None,
        "encoded": True if _is_encoded_text(given) else None,
        "typed": True if given.kind == "text" and given.media_type not in (None, "text/plain") else None,
    }


def decode_text_document(block: Unknown) -> Block | None:
    """Decode a document made of text blocks to its text. None if it has other blocks."""
    value = block.verbatim.value
    source = value.get("source")
    if value.get("type") != "document" or not isinstance(source, dict) or source.get("type") != "content":
        return None
    content = source.get("content")
    text = joined_text(content)
    if text is None:
        return None
    plain = {**value, "source": {"type": "text", "data": text, "media_type": "text/plain"}}
    media = decode_document(read_block(json.encode(plain), block.verbatim.where))
    if isinstance(content, list) and any(item.keys() - {"type", "text"} for item in content):
        media = with_native(media, NAME, source=source)  # the receipt reports the members beside the texts
    return with_native(media, NAME, **{"$written": source})


def joined_text(content: Any) -> str | None:
    """Return the text of a string or a list of text blocks. None for other content."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for item in content if isinstance(content, list) else (None,):
        text = item.get("text") if isinstance(item, dict) and item.get("type") == "text" else None
        if not isinstance(text, str):
            return None
        texts.append(text)
    return "\n\n".join(texts)


def encode_media(media: Media, where: str, receipt: Receipt) -> dict[str, Any] | None:
    if media.kind not in _DEFAULT_TYPES or (media.kind == "image" and media.source.kind == "text"):
        receipt.loss(where, f"{media.kind} by {media.source.kind}", "Messages has no block for it")
        return None
    if media.detail not in (None, "auto"):
        receipt.loss(f"{where}.detail", f"detail {media.detail}", "Messages has no such setting for an image")
    if media.kind == "document" and NAME not in media.native and _is_encoded_text(media.source):
        text = _decode_base64_text(media.source)
        if text is None:
            receipt.loss(where, str(media.source.media_type), "it is not the text that it says it is")
            return write_cache({"type": "text", "text": "[document left out: it cannot be read]"}, media.cache)
        media = replace(media, source=Source("text", text, "text/plain"))
    wire: dict[str, Any] = {"type": media.kind, "source": _encode_source(media, where, receipt)}
    if media.name is not None and media.kind == "document":
        wire["title"] = media.name
    if media.context is not None:
        wire["context"] = media.context
    if media.name is not None and media.kind != "document":
        receipt.loss(f"{where}.name", media.name, "an image has no name in Messages")
    return restore_members(write_cache(wire, media.cache), media)


def _encode_source(media: Media, where: str, receipt: Receipt) -> dict[str, Any]:
    notes, source = native_of(media, NAME), media.source
    if (written := read_note(notes, "$written", dict)) is not None and joined_text(
        written.get("content")
    ) == source.data:
        return dict(written)
    wire = {"type": source.kind, _SOURCE_FIELDS[source.kind]: source.data}
    if source.media_type is not None and notes:
        wire["media_type"] = source.media_type
    elif notes.get("$untyped"):
        pass
    elif source.kind == "text":
        if source.media_type not in (None, "text/plain"):
            receipt.note(f"{where}.source", f"media type {source.media_type}", "the API takes text/plain only")
        wire["media_type"] = "text/plain"
    elif source.kind == "base64":
        if source.media_type is None:
            receipt.note(f"{where}.source", "media type", f"not given; {_DEFAULT_TYPES[media.kind]} is assumed")
        wire["media_type"] = source.media_type or _DEFAULT_TYPES[media.kind]
    return {**wire, **(read_note(notes, "$source", dict) or {})}


def _is_encoded_text(source: Source) -> bool:
    """Return whether this is a text file in base64. The API accepts base64 for PDF files, but not for text files."""
    return source.kind == "base64" and (source.media_type or "").startswith("text/")


def _decode_base64_text(source: Source) -> str | None:
    try:
        return base64.b64decode(source.data, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
