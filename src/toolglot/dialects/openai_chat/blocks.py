"""Content parts of Chat messages <-> blocks, and the pieces that requests and responses share."""

from __future__ import annotations

from typing import Any, TypeGuard

from toolglot.dialects.openai_chat.native import NAME
from toolglot.dialects.openai_chat.plain import plain_call
from toolglot.ir import (
    Block,
    Cache,
    Citation,
    Media,
    Node,
    Opaque,
    Refusal,
    Source,
    Text,
    Thinking,
    ToolCall,
    native_of,
    with_native,
)
from toolglot.receipt import Receipt, describe_block
from toolglot.wire import json
from toolglot.wire.data_url import parse_data_url, write_data_url
from toolglot.wire.openai_fields import file_name
from toolglot.wire.reader import Reader, expected, implied_type, keep, kept

# Tells an opaque entry of `tool_calls` from an opaque part of the content.
_CALL = "$call"

# prompt_cache_breakpoint.ttl <-> seconds
_LIFETIMES = {"30m": 1800, "12h": 43200}
_LIFETIME_NAMES = {seconds: name for name, seconds in _LIFETIMES.items()}

# cache_control.ttl <-> seconds
_CONTROL_LIFETIMES = {"5m": 300, "1h": 3600}

AUDIO_FORMATS = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_AUDIO_NAMES = {media_type: name for name, media_type in AUDIO_FORMATS.items()} | {"audio/mp3": "mp3"}


def decode_content(value: Any, where: str) -> tuple[Block, ...]:
    """Message content: a string, a list of parts, or null."""
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (Text(text=value),)
    if not isinstance(value, list):
        raise expected(where, "a string or an array", value)
    return tuple(decode_part(Reader(part, f"{where}[{index}]")) for index, part in enumerate(value))


_TYPED_BY = {
    "text": "text",
    "image_url": "image_url",
    "input_audio": "input_audio",
    "file": "file",
    "video_url": "video_url",
}
"""The member of a part that tells its type where `type` is left out."""


def decode_part(part: Reader) -> Block:
    implied = implied_type(part, _TYPED_BY)
    block = _decode_part(part, implied or part.peek("type"))
    return block if implied is None or isinstance(block, Opaque) else with_native(block, NAME, **{"$typeless": True})


def _decode_part(part: Reader, kind: Any) -> Block:
    match kind:
        case "text" if "text" in part:
            part.take("type")
            text, (cache, control) = part.need_text("text"), _take_mark(part)
            return Text(text=text, cache=cache, native=keep(NAME, part, cache_control=control))
        case "refusal" if "refusal" in part:
            part.take("type")
            return Refusal(text=part.need_text("refusal"), native=keep(NAME, part))
        case "image_url" if isinstance(part.peek("image_url"), dict | str):
            return _decode_image(part)
        case "input_audio" if isinstance(part.peek("input_audio"), dict):
            return _decode_audio(part)
        case "file" if isinstance(part.peek("file"), dict):
            return _decode_file(part)
        case "document_url" if isinstance(part.peek("document_url"), str):
            return _decode_document(part)
        case "video_url" if isinstance(part.peek("video_url"), dict | str):
            return _decode_video(part)
        case "thinking" if is_thinking(part.peek("thinking")):
            return _decode_thinking(part)
        case _:
            return Opaque(NAME, part.rest())


# Mistral's parts: reasoning that holds texts, and a document by its URL.


def is_thinking(value: Any) -> bool:
    return isinstance(value, list)


def thinking_of(items: list[Any]) -> str:
    texts = (item.get("text") for item in items if isinstance(item, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _decode_thinking(part: Reader) -> Block:
    part.take("type")
    items = part.array("thinking") or []
    text = thinking_of(items)
    usual = items == _thinking_items(text)
    beside = {str(item.get("type")): item for item in items if isinstance(item, dict) and item.get("type") != "text"}
    native = keep(NAME, part, part=True if usual else items, thinking=beside or None)
    return Thinking(text=text, native=native)


def _thinking_items(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def _encode_thinking(block: Thinking) -> dict[str, Any]:
    noted = native_of(block, NAME)["$part"]
    same = isinstance(noted, list) and thinking_of(noted) == block.text
    return {"type": "thinking", "thinking": noted if same else _thinking_items(block.text), **own(block)}


def is_thinking_part(block: Block) -> bool:
    """Does this reasoning stand among the parts of the content, as Mistral has it?"""
    return isinstance(block, Thinking) and bool(native_of(block, NAME).get("$part"))


def _decode_document(part: Reader) -> Block:
    part.take("type")
    source, name = Source("url", part.need_text("document_url")), part.text("document_name")
    return Media(kind="document", source=source, name=name, native=keep(NAME, part, document_url=True))


IMAGES = "images"
"""The field of an assistant's message that OpenRouter and LiteLLM have for images that a model made."""


def take_images(message: Reader) -> tuple[Block, ...]:
    """The images of a message. What is no list of them stays with the message."""
    entries = message.peek(IMAGES)
    if not isinstance(entries, list) or not entries or not all(map(is_image, entries)):
        return ()
    where = message.at(IMAGES)
    message.take(IMAGES)
    return tuple(decode_image(entry, f"{where}[{index}]") for index, entry in enumerate(entries))


def decode_image(entry: dict[str, Any], where: str) -> Block:
    """One entry of `images`. Its number says no more than its place in the list."""
    entry = dict(entry)
    beside = {"index": entry.pop("index")} if "index" in entry else {}
    return with_native(_decode_image(Reader(entry, where)), NAME, **{"$entry": beside})


def is_image(entry: Any) -> bool:
    image = entry.get("image_url") if isinstance(entry, dict) else None
    url = image.get("url") if isinstance(image, dict) else image
    return isinstance(url, str) and entry.get("type", "image_url") == "image_url"


def encode_image(block: Media, where: str, receipt: Receipt) -> dict[str, Any] | None:
    """One entry of `images`; None, with a line in the receipt, for what cannot be one."""
    if block.kind != "image":
        receipt.loss(where, block.kind, "a Chat response has no place for it")
        return None
    if block.name is not None:
        receipt.loss(f"{where}.name", block.name, "an image of a Chat response has no name")
    beside = native_of(block, NAME).get("$entry")
    entry = encode_part(block, where, receipt)
    if beside is None and entry is not None:
        receipt.note(where, "image", "it stands in `images`, a field that OpenRouter and LiteLLM have brought in")
    return None if entry is None else {**entry, **(beside or {})}


def _decode_image(part: Reader) -> Media:
    part.take("type")
    # Some clients write the URL as a plain string; the API itself wants an object.
    bare = part.text("image_url") if isinstance(part.peek("image_url"), str) else None
    image = Reader({"url": bare}) if bare is not None else part.object("image_url")
    assert image is not None
    source = parse_data_url(image.need_text("url"))
    detail, (cache, control) = image.text("detail"), _take_mark(part)
    shape = {"image_url": image.rest() or None, "bare": True if bare is not None else None, "cache_control": control}
    return Media(kind="image", source=source, detail=detail, cache=cache, native=keep(NAME, part, **shape))


def _decode_video(part: Reader) -> Block:
    """A video by its URL, as vLLM, OpenRouter, Z.ai and others take it."""
    part.take("type")
    bare = part.text("video_url") if isinstance(part.peek("video_url"), str) else None
    video = Reader({"url": bare}) if bare is not None else part.object("video_url")
    assert video is not None
    source, (cache, control) = parse_data_url(video.need_text("url")), _take_mark(part)
    shape = {"video_url": video.rest() or None, "bare": _noted(bare is not None), "cache_control": control}
    return Media(kind="video", source=source, cache=cache, native=keep(NAME, part, **shape))


def _decode_audio(part: Reader) -> Block:
    part.take("type")
    audio = part.object("input_audio")
    assert audio is not None
    name = audio.text("format") or ""
    source = Source("base64", audio.need_text("data"), AUDIO_FORMATS.get(name, f"audio/{name}" if name else None))
    cache, control = _take_mark(part)
    shape = {"input_audio": audio.rest() or None, "cache_control": control}
    return Media(kind="audio", source=source, cache=cache, native=keep(NAME, part, **shape))


def _decode_file(part: Reader) -> Block:
    file = part.object("file")
    assert file is not None
    data, file_id, name = file.text("file_data"), file.text("file_id"), file.text("filename")
    if data is None and file_id is None:
        # Nothing to read: keep it as it came.
        rest = file.rest() | ({"filename": name} if name is not None else {})
        return Opaque(NAME, {**part.rest(), "file": rest})
    part.take("type")
    source = Source("file", file_id or "") if data is None else parse_data_url(data)
    if source.kind == "url":  # bare base64, without the data: prefix that the API asks for
        source = Source("base64", source.data)
    shape = {
        "file": file.rest() or None,
        "file_id": file_id if data is not None else None,
        "nameless": _noted(name is None),
    }
    cache, control = _take_mark(part)
    native = keep(NAME, part, **shape, cache_control=control)
    return Media(kind="document", source=source, name=name, cache=cache, native=native)


def _take_mark(part: Reader) -> tuple[Cache | None, dict[str, Any] | None]:
    """The breakpoint of a part, and its `cache_control` if it stands in that."""
    cache = _take_cache(part)
    return take_control(part) if cache is None else (cache, None)


def take_control(node: Reader) -> tuple[Cache | None, dict[str, Any] | None]:
    """`cache_control`, which gateways to Claude (OpenRouter, LiteLLM) have taken over from Anthropic: the breakpoint,
    and how it came. What cannot be read stays with the rest."""
    control = node.peek("cache_control")
    if not isinstance(control, dict) or control.get("type") != "ephemeral" or not control.keys() <= {"type", "ttl"}:
        return None, None
    lifetime = control.get("ttl")
    if "ttl" in control and (not isinstance(lifetime, str) or lifetime not in _CONTROL_LIFETIMES):
        return None, None
    node.take("cache_control")
    return Cache(None if lifetime is None else _CONTROL_LIFETIMES[lifetime]), control


def _take_cache(part: Reader) -> Cache | None:
    """`prompt_cache_breakpoint`, when it is one that we can write again exactly."""
    hint = part.peek("prompt_cache_breakpoint")
    if not isinstance(hint, dict) or hint.get("mode") != "explicit" or not hint.keys() <= {"mode", "ttl"}:
        return None
    if "ttl" not in hint:
        part.take("prompt_cache_breakpoint")
        return Cache()
    seconds = _LIFETIMES.get(hint["ttl"]) if isinstance(hint["ttl"], str) else None
    if seconds is None:
        return None
    part.take("prompt_cache_breakpoint")
    return Cache(seconds)


def control_of(node: Node) -> dict[str, Any]:
    """The member `cache_control` of a node that came with it."""
    control = native_of(node, NAME).get("$cache_control")
    return {"cache_control": control} if isinstance(control, dict) else {}


def encode_cache(block: Text | Media) -> dict[str, Any]:
    cache, notes = block.cache, native_of(block, NAME)
    if cache is None or notes.get("$marked_by_message"):
        return {}
    if control := control_of(block):
        return control
    breakpoint_: dict[str, Any] = {"mode": "explicit"}
    if cache.seconds is not None:
        breakpoint_["ttl"] = nearest_lifetime(cache.seconds)
    return {"prompt_cache_breakpoint": breakpoint_}


def nearest_lifetime(seconds: int) -> str:
    return _LIFETIME_NAMES.get(seconds, "30m" if seconds <= 1800 else "12h")


def own(block: Block) -> dict[str, Any]:
    """The fields of this dialect that ride on a block, without the notes on shape."""
    return kept(native_of(block, NAME))


def encode_part(block: Block, where: str, receipt: Receipt) -> dict[str, Any] | None:
    """One content part; None, with a line in the receipt, for what Chat has no part for."""
    part = _encode_part(block, where, receipt)
    if part is not None and native_of(block, NAME).get("$typeless"):
        del part["type"]
    return part


def _encode_part(block: Block, where: str, receipt: Receipt) -> dict[str, Any] | None:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text, **encode_cache(block), **own(block)}
        case Refusal(text=text):
            return {"type": "refusal", "refusal": text, **own(block)}
        case Media():
            return _encode_media(block, where, receipt)
        case Thinking() if is_thinking_part(block):
            return _encode_thinking(block)
        case Opaque(dialect=dialect, value=value) if dialect == NAME:
            return dict(value)
        case _:
            receipt.loss(where, describe_block(block), "Chat Completions has no content part for it")
            return None


def _encode_media(block: Media, where: str, receipt: Receipt) -> dict[str, Any] | None:
    notes, extra = native_of(block, NAME), {**encode_cache(block), **own(block)}
    source = block.source
    if notes.get("$document_url") and source.kind == "url":
        named = {"document_name": block.name} if block.name is not None else {}
        return {"type": "document_url", "document_url": source.data, **named, **extra}
    if block.kind == "image" and source.kind in ("base64", "url"):
        url = write_data_url(source, "image/png")
        if notes.get("$bare"):
            return {"type": "image_url", "image_url": url, **extra}
        image = {"url": url, **({"detail": block.detail} if block.detail else {}), **notes.get("$image_url", {})}
        return {"type": "image_url", "image_url": image, **extra}
    if block.kind == "video" and source.kind in ("base64", "url"):
        url = write_data_url(source, "video/mp4")
        video = url if notes.get("$bare") else {"url": url, **notes.get("$video_url", {})}
        return {"type": "video_url", "video_url": video, **extra}
    if block.kind == "audio" and source.kind == "base64":
        name = _AUDIO_NAMES.get(source.media_type or "", (source.media_type or "audio/wav").partition("/")[2])
        audio = {"data": source.data, **({"format": name} if source.media_type else {})}
        return {"type": "input_audio", "input_audio": {**audio, **notes.get("$input_audio", {})}, **extra}
    if source.kind in ("base64", "file"):
        file = block.name
        body: dict[str, Any] = {"file_id": source.data}
        if source.kind == "base64":
            file = file if file is not None or notes.get("$nameless") else file_name(source.media_type)
            body = {"file_data": write_data_url(source, "application/pdf") if source.media_type else source.data}
            if "$file_id" in notes:
                body["file_id"] = notes["$file_id"]
        named = {"filename": file} if file is not None else {}
        return {"type": "file", "file": {**body, **named, **notes.get("$file", {})}, **extra}
    receipt.loss(where, f"{block.kind} by {source.kind}", "Chat Completions cannot refer to it that way")
    return None


def decode_calls(message: Reader) -> tuple[Block, ...]:
    """`tool_calls` and the deprecated `function_call` of an assistant message."""
    where = message.at("tool_calls")
    calls: list[Block] = [
        plain_call(call) or _decode_call(Reader(call, f"{where}[{index}]"))
        for index, call in enumerate(message.array("tool_calls") or ())
    ]
    if (legacy := message.object("function_call")) is not None:
        name, arguments = legacy.need_text("name"), legacy.text("arguments")
        native = keep(NAME, legacy, legacy=True, empty=_noted(arguments == ""))
        calls.append(ToolCall(id="", name=name, arguments=arguments or "", native=native))
    return tuple(calls)


def _decode_call(call: Reader) -> Block:
    kind = call.peek("type")
    member = "custom" if kind == "custom" else "function"
    if kind not in (None, "", "function", "custom") or not isinstance(call.peek(member), dict):
        return Opaque(NAME, {"type": kind, _CALL: call.rest()})
    if kind == member:
        call.take("type")
    inner = call.object(member)
    assert inner is not None
    no_id = "id" not in call
    call_id, name = call.text("id") or "", inner.text("name") or ""
    # Sloppy servers send the arguments as an object; nothing is lost by writing them as the text they should be.
    loose = inner.take("arguments") if isinstance(inner.peek("arguments"), dict) else None
    arguments = inner.text("input" if kind == "custom" else "arguments")
    text = json.encode_text(loose) if loose is not None else arguments or ""
    # Streams number calls; in a list the number says no more than the place.
    index = call.take("index") if type(call.peek("index")) is int else None
    shape = {"typeless": _noted(kind is None), "no_id": _noted(no_id), "empty": _noted(arguments == "")}
    native = keep(NAME, call, **shape, index=index)
    if rest := inner.rest():
        native.setdefault(NAME, {})[member] = rest
    return ToolCall(
        id=call_id,
        name=name,
        arguments=text,
        kind="custom" if kind == "custom" else "function",
        native=native,
    )


def _noted(condition: bool) -> bool | None:
    """A note on shape that is written only when it is true."""
    return condition or None


def is_call(block: Block) -> TypeGuard[ToolCall | Opaque]:
    """A call, or what else stood in `tool_calls`."""
    if isinstance(block, Opaque):
        return block.dialect == NAME and isinstance(block.value, dict) and _CALL in block.value
    return isinstance(block, ToolCall)


def encode_call(call: ToolCall | Opaque) -> dict[str, Any]:
    """One entry of `tool_calls`."""
    if isinstance(call, Opaque):
        return dict(call.value[_CALL])
    notes, extra = native_of(call, NAME), own(call)
    member, field = ("custom", "input") if call.kind == "custom" else ("function", "arguments")
    inner = extra.pop(member, {})
    identity = {} if notes.get("$no_id") and not call.id else {"id": call.id}
    typed = {} if notes.get("$typeless") else {"type": member}
    numbered = {"index": notes["$index"]} if "$index" in notes else {}
    return {**numbered, **identity, **typed, member: {"name": call.name, field: arguments_text(call), **inner}, **extra}


def arguments_text(call: ToolCall) -> str:
    """The arguments as the wire wants them: JSON text.

    No arguments are the empty object, unless they came as \"\" or the call was cut before them.
    """
    if call.arguments or call.kind == "custom" or not call.complete or native_of(call, NAME).get("$empty"):
        return call.arguments
    return "{}"


_OF_CITATION = frozenset({"url", "title", "start_index", "end_index", "content"})


def decode_annotations(items: list[Any]) -> tuple[tuple[Citation, ...], list[Any]]:
    """`annotations` of a message: URL citations, and whatever else stands there."""
    citations: list[Citation] = []
    others: list[Any] = []
    for item in items:
        inner = item.get("url_citation") if isinstance(item, dict) and item.get("type") == "url_citation" else None
        if not isinstance(inner, dict) or not isinstance(inner.get("url"), str):
            others.append(item)
            continue
        start, end, title = inner.get("start_index"), inner.get("end_index"), inner.get("title")
        quote = inner.get("content")  # what OpenRouter found there
        others_of = {key: value for key, value in inner.items() if key not in _OF_CITATION}
        citations.append(
            Citation(
                url=inner["url"],
                title=title if isinstance(title, str) else None,
                start=start if type(start) is int else None,
                end=end if type(end) is int else None,
                quote=quote if isinstance(quote, str) and quote else None,
                native={NAME: {**others_of, "$annotation": item}},
            )
        )
    return tuple(citations), others


def encode_annotation(citation: Citation) -> dict[str, Any] | None:
    """An annotation; None for a citation without a URL, which Chat cannot express."""
    if (original := native_of(citation, NAME).get("$annotation")) is not None:
        return dict(original)
    if citation.url is None:
        return None
    inner = {
        "start_index": citation.start or 0,
        "end_index": citation.end or 0,
        "url": citation.url,
        "title": citation.title or citation.url,
    }
    return {"type": "url_citation", "url_citation": inner}
