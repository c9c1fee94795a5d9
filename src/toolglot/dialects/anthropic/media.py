"""`image` and `document` blocks <-> `Media`."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Literal

from toolglot.dialects.anthropic.native import NAME, note, take_cache, with_kept, write_cache
from toolglot.ir import Block, Media, Opaque, Source, native_of, replace
from toolglot.receipt import Receipt
from toolglot.wire.reader import Reader, keep

_SourceKind = Literal["base64", "url", "file", "text"]

# type of source <-> the field that has its content
_SOURCE_FIELDS: dict[_SourceKind, str] = {"base64": "data", "url": "url", "file": "file_id", "text": "data"}
_SOURCE_KINDS: dict[str, _SourceKind] = {kind: kind for kind in _SOURCE_FIELDS}

_DEFAULT_TYPES = {"image": "image/png", "document": "application/pdf"}


def decode_media(block: Reader) -> Block:
    kind, value = block.peek("type"), block.peek("source")
    source_type = value.get("type") if isinstance(value, dict) else None
    if kind == "document" and source_type == "content":
        return _decode_written_document(block, value)
    source_kind = _SOURCE_KINDS.get(source_type) if isinstance(source_type, str) else None
    if source_kind is None or (kind == "image" and source_kind == "text"):
        return Opaque(NAME, block.rest())
    block.take("type")
    source = Reader(block.take("source"), block.at("source"))
    source.take("type")
    untyped = True if "media_type" not in source else None
    given = Source(source_kind, source.need_text(_SOURCE_FIELDS[source_kind]), source.text("media_type"))
    encoded = True if _is_encoded_text(given) else None
    return Media(
        kind=kind,
        source=given,
        name=block.text("title") if kind == "document" else None,
        context=block.text("context") if kind == "document" else None,
        cache=take_cache(block),
        native=keep(NAME, block, source=source.rest() or None, untyped=untyped, encoded=encoded),
    )


def _decode_written_document(block: Reader, source: dict[str, Any]) -> Block:
    """A document given as text blocks is its text; with other blocks in it only this dialect understands it."""
    text = text_of(source.get("content"))
    if text is None:
        return Opaque(NAME, block.rest())
    block.take("type")
    block.take("source")
    content = source["content"]
    if not isinstance(content, str) and any(item.keys() - {"type", "text"} for item in content):
        block.rest()["source"] = source  # told as what stands beside the texts
    return Media(
        kind="document",
        source=Source("text", text, "text/plain"),
        name=block.text("title"),
        context=block.text("context"),
        cache=take_cache(block),
        native=keep(NAME, block, written=source),
    )


def text_of(content: Any) -> str | None:
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
        text = _decoded(media.source)
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
    return with_kept(write_cache(wire, media.cache), media)


def _encode_source(media: Media, where: str, receipt: Receipt) -> dict[str, Any]:
    notes, source = native_of(media, NAME), media.source
    if (written := note(notes, "$written", dict)) is not None and text_of(written.get("content")) == source.data:
        return dict(written)
    wire = {"type": source.kind, _SOURCE_FIELDS[source.kind]: source.data}
    if source.media_type is not None and notes:
        wire["media_type"] = source.media_type
    elif notes.get("$untyped"):
        pass
    elif source.kind == "text":
        wire["media_type"] = source.media_type or "text/plain"
    elif source.kind == "base64":
        if source.media_type is None:
            receipt.note(f"{where}.source", "media type", f"not given; {_DEFAULT_TYPES[media.kind]} is assumed")
        wire["media_type"] = source.media_type or _DEFAULT_TYPES[media.kind]
    return {**wire, **(note(notes, "$source", dict) or {})}


def _is_encoded_text(source: Source) -> bool:
    """Is this a text file in base64? The API takes PDF so, and plain text as itself."""
    return source.kind == "base64" and (source.media_type or "").startswith("text/")


def _decoded(source: Source) -> str | None:
    try:
        return base64.b64decode(source.data, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
