"""Content parts of Responses items <-> blocks, and the notes on shape that the whole dialect shares.

Two notes appear everywhere. `$absent` lists the fields that the writer would fill in and the original did not have.
`$part` wraps an unknown content part, because an unknown *item* is an `Opaque` too and the two must stay apart.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.plain import plain_text
from toolglot.ir import Block, Cache, Citation, Media, Node, Opaque, Refusal, Source, Text, TokenLogprob, native_of
from toolglot.receipt import Receipt, describe_block
from toolglot.wire.data_url import parse_data_url, write_data_url
from toolglot.wire.openai_fields import file_name
from toolglot.wire.openai_logprobs import read_logprobs, write_logprobs
from toolglot.wire.reader import Reader, expected, implied_type, keep, kept

# prompt_cache_breakpoint.ttl <-> seconds
_LIFETIMES = {"30m": 1800, "12h": 43200}

_TYPED_BY = {"text": "text"}
"""The member of a part that tells its type where `type` is left out."""

_AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_AUDIO_FORMATS = {media_type: name for name, media_type in _AUDIO_TYPES.items()} | {"audio/mp3": "mp3"}


def own(node: Node | Opaque) -> dict[str, Any]:
    """The fields of this dialect that ride on a node, without the notes on shape."""
    return kept(native_of(node, NAME))


def absent(reader: Reader, *keys: str) -> list[str] | None:
    """Which of these fields the original lacks altogether; ask before anything is taken."""
    return [key for key in keys if key not in reader.rest()] or None


def filled(node: Node | Opaque, **defaults: Any) -> dict[str, Any]:
    """These defaults, without the fields that the original did not have."""
    lacking = native_of(node, NAME).get("$absent")
    return {key: value for key, value in defaults.items() if not isinstance(lacking, list) or key not in lacking}


def present(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def text_part_type(role: str) -> str:
    """The model's words are output wherever they stand; everybody else's are input."""
    return "output_text" if role == "assistant" else "input_text"


def decode_part(part: Reader, role: str) -> Block:
    """One content part of a message of this role (or of a tool's output, whose parts are input)."""
    kind = part.peek("type") or implied_type(part, _TYPED_BY)
    decoder = _DECODERS.get(kind) if isinstance(kind, str) else None
    block = decoder(part, role) if decoder is not None else None
    return block if block is not None else Opaque(NAME, {"type": kind, "$part": part.rest()})


def decode_parts(parts: list[Any], where: str, role: str) -> tuple[Block, ...]:
    return tuple(
        plain_text(part, role) or decode_part(Reader(part, f"{where}[{index}]"), role)
        for index, part in enumerate(parts)
    )


def _decode_text(part: Reader, role: str) -> Block | None:
    if "text" not in part:
        return None
    kind = part.peek("type") or text_part_type(role)
    lacking = absent(part, "type", *(("annotations", "logprobs") if kind == "output_text" else ()))
    part.take("type")
    text = part.need_text("text")
    citations: tuple[Citation, ...] = ()
    cache: Cache | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    listed: Any = None
    if kind == "output_text":
        citations = tuple(decode_annotation(item) for item in part.objects("annotations"))
        if (tokens := read_logprobs(part.peek("logprobs"))) is not None:
            logprobs, listed = tokens, part.take("logprobs")
    else:
        cache = _take_cache(part)
    noted = kind if kind != text_part_type(role) else None
    shape = {"type": noted, "absent": lacking, "logprobs": listed}
    return Text(text=text, citations=citations, cache=cache, logprobs=logprobs, native=keep(NAME, part, **shape))


def _decode_refusal(part: Reader, role: str) -> Block | None:
    if "refusal" not in part:
        return None
    part.take("type")
    return Refusal(text=part.need_text("refusal"), native=keep(NAME, part))


def _decode_image(part: Reader, role: str) -> Block | None:
    if "image_url" not in part and "file_id" not in part:
        return None
    lacking = absent(part, "detail")
    part.take("type")
    url = part.text("image_url")
    source = parse_data_url(url) if url is not None else Source("file", part.need_text("file_id"))
    detail, cache = part.text("detail"), _take_cache(part)
    return Media(kind="image", source=source, detail=detail, cache=cache, native=keep(NAME, part, absent=lacking))


def _decode_file(part: Reader, role: str) -> Block | None:
    source: Source
    if "file_data" in part:
        data = part.need_text("file_data")
        source = parse_data_url(data)
        if source.kind == "url":  # bare base64, without the data: prefix
            source = Source("base64", data)
    elif "file_id" in part:
        source = Source("file", part.need_text("file_id"))
    elif "file_url" in part:
        source = Source("url", part.need_text("file_url"))
    else:
        return None
    lacking = absent(part, "filename")
    part.take("type")
    return Media(
        kind="document",
        source=source,
        name=part.text("filename"),
        detail=part.text("detail"),
        cache=_take_cache(part),
        native=keep(NAME, part, absent=lacking),
    )


def _decode_audio(part: Reader, role: str) -> Block | None:
    inner = part.peek("input_audio")
    if not isinstance(inner, dict) or set(inner) != {"data", "format"}:
        return None
    part.take("type")
    audio = Reader(part.take("input_audio"), part.at("input_audio"))
    name = audio.need_text("format")
    source = Source("base64", audio.need_text("data"), _AUDIO_TYPES.get(name, f"audio/{name}"))
    return Media(kind="audio", source=source, cache=_take_cache(part), native=keep(NAME, part))


_DECODERS: dict[str, Callable[[Reader, str], Block | None]] = {
    "input_text": _decode_text,
    "output_text": _decode_text,
    "text": _decode_text,
    "refusal": _decode_refusal,
    "input_image": _decode_image,
    "input_file": _decode_file,
    "input_audio": _decode_audio,
}


def _take_cache(part: Reader) -> Cache | None:
    """`prompt_cache_breakpoint`, when it is one that can be written again exactly; any other rides along."""
    hint = part.peek("prompt_cache_breakpoint")
    if not isinstance(hint, dict) or hint.get("mode") != "explicit" or not hint.keys() <= {"mode", "ttl"}:
        return None
    lifetime = hint.get("ttl")
    if "ttl" in hint and (not isinstance(lifetime, str) or lifetime not in _LIFETIMES):
        return None
    part.take("prompt_cache_breakpoint")
    return Cache(_LIFETIMES[lifetime] if isinstance(lifetime, str) else None)


def encode_cache(cache: Cache | None) -> dict[str, Any]:
    if cache is None:
        return {}
    hint: dict[str, Any] = {"mode": "explicit"}
    if cache.seconds is not None:
        hint["ttl"] = "30m" if cache.seconds <= _LIFETIMES["30m"] else "12h"
    return {"prompt_cache_breakpoint": hint}


def decode_annotation(annotation: Reader) -> Citation:
    """Its type is noted: that tells our own annotations from other dialects' citations."""
    if annotation.peek("type") != "url_citation":
        name = annotation.peek("filename")
        return Citation(title=name if isinstance(name, str) else None, native=keep(NAME, annotation))
    kind = annotation.take("type")
    return Citation(
        url=annotation.text("url"),
        title=annotation.text("title"),
        start=annotation.integer("start_index"),
        end=annotation.integer("end_index"),
        native=keep(NAME, annotation, type=kind),
    )


def encode_annotations(citations: tuple[Citation, ...], where: str, receipt: Receipt) -> list[dict[str, Any]]:
    encoded = (_encode_annotation(item, f"{where}.citations[{n}]", receipt) for n, item in enumerate(citations))
    return [annotation for annotation in encoded if annotation is not None]


def _encode_annotation(citation: Citation, where: str, receipt: Receipt) -> dict[str, Any] | None:
    fields, kind = own(citation), native_of(citation, NAME).get("$type")
    if kind is not None:
        span = present(start_index=citation.start, end_index=citation.end)
        return {"type": kind, **present(url=citation.url, title=citation.title), **span, **fields}
    if fields:
        return fields
    if citation.url is None:
        receipt.loss(where, "citation", "the Responses API can cite only URLs and its own files")
        return None
    if citation.quote is not None:
        receipt.loss(f"{where}.quote", "quoted text", "an annotation marks a span of the answer and quotes no source")
    return {
        "type": "url_citation",
        "url": citation.url,
        "title": citation.title or citation.url,
        "start_index": citation.start or 0,
        "end_index": citation.end or 0,
    }


IMAGE_CALL = "$image_call"
"""The note on an image that stood in an item of its own; it holds what the picture itself shows."""


def is_image_call(block: Block) -> bool:
    return isinstance(block, Media) and IMAGE_CALL in native_of(block, NAME)


def is_part(block: Block) -> bool:
    """Does this block stand inside a message, rather than as an item of its own?"""
    if isinstance(block, Opaque):
        return block.dialect == NAME and isinstance(block.value, dict) and "$part" in block.value
    return isinstance(block, Text | Media | Refusal) and not is_image_call(block)


def encode_part(block: Block, role: str, where: str, receipt: Receipt) -> dict[str, Any] | None:
    """One content part; None, with a line in the receipt, for what has no part here."""
    match block:
        case Text():
            return _encode_text(block, role, where, receipt)
        case Refusal(text=text):
            return {"type": "refusal", "refusal": text, **own(block)}
        case Media():
            return _encode_media(block, where, receipt)
        case Opaque(value=value) if is_part(block):
            return dict(value["$part"])
        case _:
            receipt.loss(where, describe_block(block), "the Responses API has no content part for it")
            return None


def encode_parts(blocks: tuple[Block, ...], role: str, where: str, receipt: Receipt) -> list[dict[str, Any]]:
    encoded = (encode_part(block, role, f"{where}[{n}]", receipt) for n, block in enumerate(blocks))
    return [part for part in encoded if part is not None]


def _encode_text(block: Text, role: str, where: str, receipt: Receipt) -> dict[str, Any]:
    noted = native_of(block, NAME).get("$type")
    kind = noted if isinstance(noted, str) else text_part_type(role)
    typed = filled(block, type=kind)
    if kind == "output_text":
        if block.cache is not None:
            receipt.loss(f"{where}.cache", "cache breakpoint", "the model's own words cannot carry one")
        annotations = encode_annotations(block.citations, where, receipt)
        listed = {"annotations": annotations} if annotations else filled(block, annotations=[])
        probabilities = _encode_logprobs(block)
        return {**typed, "text": block.text, **listed, **probabilities, **own(block)}
    if block.citations:
        receipt.loss(f"{where}.citations", "citations", "only the model's own words carry annotations")
    return {**typed, "text": block.text, **encode_cache(block.cache), **own(block)}


def _encode_logprobs(block: Text) -> dict[str, Any]:
    """The list as it came, or one of the tokens."""
    noted = native_of(block, NAME).get("$logprobs")
    if isinstance(noted, list) and read_logprobs(noted) == block.logprobs:
        return {"logprobs": noted}
    return {"logprobs": write_logprobs(block.logprobs)} if block.logprobs else {}


def _encode_media(block: Media, where: str, receipt: Receipt) -> dict[str, Any] | None:
    encoder = _MEDIA.get((block.kind, block.source.kind))
    if encoder is None:
        receipt.loss(where, f"{block.kind} by {block.source.kind}", "the Responses API has no content part for it")
        return None
    return {**encoder(block), **encode_cache(block.cache), **own(block)}


def _image(block: Media) -> dict[str, Any]:
    reference = {"image_url": write_data_url(block.source, "image/png")}
    if block.source.kind == "file":
        reference = {"file_id": block.source.data}
    return {"type": "input_image", **reference, **(present(detail=block.detail) or filled(block, detail="auto"))}


def _file(block: Media) -> dict[str, Any]:
    source, name = block.source, block.name
    if source.kind == "text":
        source = Source("base64", base64.b64encode(source.data.encode()).decode(), source.media_type or "text/plain")
    if source.kind == "base64":
        reference = {"file_data": write_data_url(source, "") if source.media_type else source.data}
        # The API refuses file data without a name.
        named = {"filename": name} if name is not None else filled(block, filename=file_name(source.media_type))
    else:
        reference = {"file_id" if source.kind == "file" else "file_url": source.data}
        named = present(filename=name)
    return {"type": "input_file", **named, **reference, **present(detail=block.detail)}


def _audio(block: Media) -> dict[str, Any]:
    media_type = block.source.media_type or "audio/wav"
    name = _AUDIO_FORMATS.get(media_type, media_type.partition("/")[2])
    return {"type": "input_audio", "input_audio": {"data": block.source.data, "format": name}}


_MEDIA: dict[tuple[str, str], Callable[[Media], dict[str, Any]]] = {
    ("image", "base64"): _image,
    ("image", "url"): _image,
    ("image", "file"): _image,
    ("document", "base64"): _file,
    ("document", "url"): _file,
    ("document", "file"): _file,
    ("document", "text"): _file,
    ("audio", "base64"): _audio,
}


def is_plain(block: Block) -> bool:
    """A text that a bare string says in full."""
    return isinstance(block, Text) and block.cache is None and not block.citations and not native_of(block, NAME)


def decode_content(value: Any, where: str, role: str) -> tuple[Block, ...]:
    """Message content: a string or a list of parts."""
    if isinstance(value, str):
        return (Text(text=value),)
    if not isinstance(value, list):
        raise expected(where, "a string or an array", value)
    return decode_parts(value, where, role)
