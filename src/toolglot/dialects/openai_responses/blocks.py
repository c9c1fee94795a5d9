"""Content parts of Responses items <-> blocks, and the notes that the whole dialect shares.

Two notes appear everywhere. `$absent` lists the fields that the encoder would fill in and the original did not have.
`$part` wraps an unknown content part. An unknown *item* is an `Opaque` too, and the two must be distinguishable.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.wire import (
    Annotation,
    Breakpoint,
    InputFile,
    InputImage,
    InputText,
    OutputText,
    PlainText,
    ResponsesInputAudio,
    ResponsesPart,
    ResponsesRefusalPart,
)
from toolglot.ir import Block, Cache, Citation, Media, Native, Node, Opaque, Refusal, Source, Text, native_of
from toolglot.receipt import Loss, Receipt, describe_block
from toolglot.wire.citation_spans import span_of
from toolglot.wire.data_url import read_file_data, read_url, write_url
from toolglot.wire.native import make_native, native_members
from toolglot.wire.openai_fields import (
    AUDIO_TYPES,
    CACHE_LIFETIMES,
    audio_format,
    default_file_name,
    encode_cache_breakpoint,
)
from toolglot.wire.openai_logprobs import read_logprobs, unread_members, write_logprobs
from toolglot.wire.structs import Unknown, Wire, as_json, members_without

T = TypeVar("T")


def own_members(node: Node | Opaque) -> dict[str, Any]:
    """Return the native members of this dialect on a node, without notes."""
    return native_members(native_of(node, NAME))


def default_members(node: Node | Opaque, **defaults: Any) -> dict[str, Any]:
    """Return these defaults, without the fields that the original did not have."""
    lacking = native_of(node, NAME).get("$absent")
    return {key: value for key, value in defaults.items() if not isinstance(lacking, list) or key not in lacking}


def missing_members(node: Wire, *names: str) -> list[str]:
    """Return the given members, and the type, that the original does not have."""
    rest = node.rest
    if rest is UNSET:
        return [name for name in names if getattr(node, name) is UNSET]
    lacking = ["type"] if rest.is_implied and "type" not in rest else []
    return lacking + [name for name in names if getattr(node, name) is UNSET and name not in rest]


def carried_members(node: Wire, *names: str) -> dict[str, Any]:
    """Return the given members that are set, and the members that the type does not know."""
    fields = {name: value for name in names if (value := getattr(node, name)) is not UNSET}
    rest = node.rest
    if not rest:
        return fields
    fields.update(rest)
    return {name: fields[name] for name in rest.order if name in fields} if rest.order else fields


def none_if_unset(value: T | UnsetType) -> T | None:
    return None if value is UNSET else value


def without_nulls(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def text_part_type(role: str) -> str:
    """Texts of the model are output, also in requests. All others are input."""
    return "output_text" if role == "assistant" else "input_text"


def decode_parts(parts: list[ResponsesPart], role: str) -> tuple[Block, ...]:
    """Decode content parts of a message with this role, or of a tool's output, whose parts are input."""
    return tuple([_DECODERS[type(part)](part, role) for part in parts])


_NO_LISTS: Native = {NAME: {"$absent": ["annotations", "logprobs"]}}
_EMPTY_LISTS: Native = {NAME: {"$logprobs": []}}


def _decode_input_text(part: InputText, role: str) -> Block:
    cache = _decode_cache(part.prompt_cache_breakpoint)
    if role != "assistant" and part.rest is UNSET:
        return Text(text=part.text, cache=cache)
    noted = "input_text" if role == "assistant" else None
    native = make_native(NAME, members_without(part, *_INPUT_TEXT_MEMBERS), type=noted)
    return Text(text=part.text, cache=cache, native=native)


_INPUT_TEXT_MEMBERS = ("text", "prompt_cache_breakpoint")


def _decode_output_text(part: OutputText, role: str) -> Block:
    if role == "assistant" and part.rest is UNSET and part.parsed is UNSET:
        if part.annotations is UNSET and part.logprobs is UNSET:
            return Text(text=part.text, native=_NO_LISTS)
        if part.annotations == [] and part.logprobs == []:
            return Text(text=part.text, native=_EMPTY_LISTS)
    return _decode_model_text(part, None if role == "assistant" else "output_text")


def _decode_plain_text(part: PlainText, role: str) -> Block:
    """Decode a text part. Without a type, the role determines whether it is input or output."""
    is_untyped = part.rest is not UNSET and part.rest.is_implied
    if is_untyped and role == "assistant":
        return _decode_model_text(part, None)
    members = members_without(part, *_INPUT_TEXT_MEMBERS)
    native = make_native(NAME, members, type=None if is_untyped else "text", absent=missing_members(part) or None)
    return Text(text=part.text, cache=_decode_cache(part.prompt_cache_breakpoint), native=native)


def _decode_model_text(part: OutputText | PlainText, noted: str | None) -> Text:
    """Decode a text of the model. Unreadable log probabilities stay with its native members."""
    lacking = missing_members(part, "annotations", "logprobs")
    members = members_without(part, "text", "annotations")
    listed = members.get("logprobs")
    tokens = read_logprobs(listed)
    if tokens is not None:
        del members["logprobs"]
    annotations = part.annotations if part.annotations is not UNSET else ()
    noted_list = listed if tokens is not None else None
    names = {key for entry in unread_members(noted_list) for key in entry}
    unread = tuple([Loss(f"logprobs.{name}", name, "its meaning is unknown") for name in sorted(names)])
    return Text(
        text=part.text,
        citations=tuple([decode_annotation(annotation) for annotation in annotations]),
        logprobs=tokens or (),
        native=make_native(
            NAME, members, type=noted, absent=lacking or None, logprobs=noted_list, unread=unread or None
        ),
    )


def _decode_refusal(part: ResponsesRefusalPart, role: str) -> Block:
    return Refusal(text=part.refusal, native=make_native(NAME, members_without(part, "refusal")))


def _decode_image(part: InputImage, role: str) -> Block:
    taken, spelled = ["detail", "prompt_cache_breakpoint"], None
    if part.image_url is not UNSET:
        source, spelled = read_url(part.image_url)
        taken.append("image_url")
    elif part.file_id is not UNSET:
        source = Source("file", part.file_id)
        taken.append("file_id")
    else:
        return _opaque_part(as_json(part))
    return Media(
        kind="image",
        source=source,
        detail=none_if_unset(part.detail),
        cache=_decode_cache(part.prompt_cache_breakpoint),
        native=make_native(
            NAME, members_without(part, *taken), absent=missing_members(part, "detail") or None, url=spelled
        ),
    )


def _decode_file(part: InputFile, role: str) -> Block:
    taken, spelled, is_data = ["filename", "detail", "prompt_cache_breakpoint"], None, None
    if part.file_data is not UNSET:
        source, spelled = read_file_data(part.file_data)
        is_data = True if source.kind == "url" else None
        taken.append("file_data")
    elif part.file_id is not UNSET:
        source = Source("file", part.file_id)
        taken.append("file_id")
    elif part.file_url is not UNSET:
        source = Source("url", part.file_url)
        taken.append("file_url")
    else:
        return _opaque_part(as_json(part))
    return Media(
        kind="document",
        source=source,
        name=none_if_unset(part.filename),
        detail=none_if_unset(part.detail),
        cache=_decode_cache(part.prompt_cache_breakpoint),
        native=make_native(
            NAME,
            members_without(part, *taken),
            absent=missing_members(part, "filename") or None,
            file_data=is_data,
            url=spelled,
        ),
    )


def _decode_audio(part: ResponsesInputAudio, role: str) -> Block:
    audio = part.input_audio
    if audio is UNSET or audio.rest is not UNSET:
        return _opaque_part(as_json(part))
    source = Source("base64", audio.data, AUDIO_TYPES.get(audio.format, f"audio/{audio.format}"))
    cache = _decode_cache(part.prompt_cache_breakpoint)
    members = members_without(part, "input_audio", "prompt_cache_breakpoint")
    return Media(kind="audio", source=source, cache=cache, native=make_native(NAME, members))


def _opaque_part(value: dict[str, Any]) -> Opaque:
    return Opaque(NAME, {"type": value.get("type"), "$part": value})


_DECODERS: dict[type[Wire], Callable[[Any, str], Block]] = {
    InputText: _decode_input_text,
    OutputText: _decode_output_text,
    PlainText: _decode_plain_text,
    ResponsesRefusalPart: _decode_refusal,
    InputImage: _decode_image,
    InputFile: _decode_file,
    ResponsesInputAudio: _decode_audio,
    Unknown: lambda part, role: _opaque_part(part.verbatim.value),
}


def _decode_cache(hint: Breakpoint | UnsetType) -> Cache | None:
    """Decode `prompt_cache_breakpoint`. The types leave one that could not be written back exactly in `rest`."""
    if hint is UNSET:
        return None
    return Cache(CACHE_LIFETIMES[hint.ttl] if hint.ttl is not UNSET else None)


def encode_cache(cache: Cache | None) -> dict[str, Any]:
    return {} if cache is None else encode_cache_breakpoint(cache)


def decode_annotation(annotation: Annotation) -> Citation:
    """Decode an annotation. A note on its type distinguishes it from citations of other dialects."""
    if isinstance(annotation, Unknown):
        value = annotation.verbatim.value
        name = value.get("filename")
        return Citation(title=name if isinstance(name, str) else None, native=make_native(NAME, dict(value)))
    return Citation(
        url=none_if_unset(annotation.url),
        title=none_if_unset(annotation.title),
        start=none_if_unset(annotation.start_index),
        end=none_if_unset(annotation.end_index),
        native=make_native(NAME, members_without(annotation, *_CITATION_MEMBERS), type="url_citation"),
    )


_CITATION_MEMBERS = ("url", "title", "start_index", "end_index")


def encode_annotations(text: Text, where: str, receipt: Receipt) -> list[dict[str, Any]]:
    encoded = (
        _encode_annotation(item, len(text.text), f"{where}.citations[{n}]", receipt)
        for n, item in enumerate(text.citations)
    )
    return [annotation for annotation in encoded if annotation is not None]


def _encode_annotation(citation: Citation, length: int, where: str, receipt: Receipt) -> dict[str, Any] | None:
    fields, kind = own_members(citation), native_of(citation, NAME).get("$type")
    if kind is not None:
        span = without_nulls(start_index=citation.start, end_index=citation.end)
        return {"type": kind, **without_nulls(url=citation.url, title=citation.title), **span, **fields}
    if fields:
        return fields
    if citation.url is None:
        receipt.loss(where, "citation", "the Responses API can cite only URLs and its own files")
        return None
    if citation.quote is not None:
        receipt.loss(f"{where}.quote", "quoted text", "an annotation marks a span of the answer and quotes no source")
    start, end = span_of(citation, length)
    return {
        "type": "url_citation",
        "url": citation.url,
        "title": citation.title or citation.url,
        "start_index": start,
        "end_index": end,
    }


IMAGE_CALL = "$image_call"
"""The note on an image that was a separate item. It holds the members that describe the image."""


def is_image_call(block: Block) -> bool:
    return isinstance(block, Media) and IMAGE_CALL in native_of(block, NAME)


def is_part(block: Block) -> bool:
    """Return whether this block is a part of a message, not a separate item."""
    if isinstance(block, Opaque):
        return block.dialect == NAME and isinstance(block.value, dict) and "$part" in block.value
    return isinstance(block, (Text, Media, Refusal)) and not is_image_call(block)


def encode_part(block: Block, role: str, where: str, receipt: Receipt) -> dict[str, Any] | None:
    """Encode one content part; None, with a loss in the receipt, if there is no part for the block."""
    match block:
        case Text():
            return _encode_text(block, role, where, receipt)
        case Refusal(text=text):
            return {"type": "refusal", "refusal": text, **own_members(block)}
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
    typed = default_members(block, type=kind)
    if kind == "output_text":
        if block.cache is not None:
            receipt.loss(f"{where}.cache", "cache breakpoint", "the model's own text cannot have one")
        annotations = encode_annotations(block, where, receipt)
        listed = {"annotations": annotations} if annotations else default_members(block, annotations=[])
        probabilities = _encode_logprobs(block)
        return {**typed, "text": block.text, **listed, **probabilities, **own_members(block)}
    if block.citations:
        receipt.loss(f"{where}.citations", "citations", "only the model's own text can have annotations")
    return {**typed, "text": block.text, **encode_cache(block.cache), **own_members(block)}


def _encode_logprobs(block: Text) -> dict[str, Any]:
    """Return the original list if it is unchanged, otherwise a new one from the tokens."""
    noted = native_of(block, NAME).get("$logprobs")
    if isinstance(noted, list) and read_logprobs(noted) == block.logprobs:
        return {"logprobs": noted}
    return {"logprobs": write_logprobs(block.logprobs)} if block.logprobs else {}


def _encode_media(block: Media, where: str, receipt: Receipt) -> dict[str, Any] | None:
    encoder = _MEDIA_ENCODERS.get((block.kind, block.source.kind))
    if encoder is None:
        receipt.loss(where, f"{block.kind} by {block.source.kind}", "the Responses API has no content part for it")
        return None
    return {**encoder(block), **encode_cache(block.cache), **own_members(block)}


def _encode_image(block: Media) -> dict[str, Any]:
    if block.source.kind == "file":
        reference = {"file_id": block.source.data}
    else:
        reference = {"image_url": write_url(block.source, "image/png", native_of(block, NAME).get("$url"))}
    return {
        "type": "input_image",
        **reference,
        **(without_nulls(detail=block.detail) or default_members(block, detail="auto")),
    }


def _encode_file(block: Media) -> dict[str, Any]:
    source, name, notes = block.source, block.name, native_of(block, NAME)
    if source.kind == "text":
        source = Source("base64", base64.b64encode(source.data.encode()).decode(), source.media_type or "text/plain")
    if source.kind == "base64" or notes.get("$file_data"):
        is_url = source.media_type or "$url" in notes
        reference = {"file_data": write_url(source, "", notes.get("$url")) if is_url else source.data}
        # The API refuses file data without a name.
        named = (
            {"filename": name}
            if name is not None
            else default_members(block, filename=default_file_name(source.media_type))
        )
    else:
        reference = {"file_id" if source.kind == "file" else "file_url": source.data}
        named = without_nulls(filename=name)
    return {"type": "input_file", **named, **reference, **without_nulls(detail=block.detail)}


def _encode_audio(block: Media) -> dict[str, Any]:
    audio = {"data": block.source.data, "format": audio_format(block.source.media_type)}
    return {"type": "input_audio", "input_audio": audio}


_MEDIA_ENCODERS: dict[tuple[str, str], Callable[[Media], dict[str, Any]]] = {
    ("image", "base64"): _encode_image,
    ("image", "url"): _encode_image,
    ("image", "file"): _encode_image,
    ("document", "base64"): _encode_file,
    ("document", "url"): _encode_file,
    ("document", "file"): _encode_file,
    ("document", "text"): _encode_file,
    ("audio", "base64"): _encode_audio,
}


def is_plain_text(block: Block) -> bool:
    """Return whether this is a text that a plain string can carry completely."""
    return isinstance(block, Text) and block.cache is None and not block.citations and not native_of(block, NAME)


def decode_content(content: str | list[ResponsesPart], role: str) -> tuple[Block, ...]:
    """Decode message content: a string or a list of parts."""
    return (Text(text=content),) if isinstance(content, str) else decode_parts(content, role)
