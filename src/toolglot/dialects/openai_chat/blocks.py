"""Content parts of Chat messages <-> blocks, and helpers that requests and responses share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeGuard

from msgspec import UNSET

from toolglot.dialects.openai_chat.messages_api_parts import (
    decode_call_part,
    decode_result_part,
    encode_source,
    read_source,
)
from toolglot.dialects.openai_chat.native import NAME
from toolglot.dialects.openai_chat.normalize_answer import nest_function, rename_parameters
from toolglot.dialects.openai_chat.other_forms import SOURCE
from toolglot.dialects.openai_chat.reasoning_details import (
    FUNCTION_STATE,
    PROVIDER_FIELDS,
    REASONING_SUMMARY,
    function_state,
    has_signature,
    is_details,
    summary_text,
)
from toolglot.dialects.openai_chat.wire import (
    CALLS,
    AudioPart,
    CallPart,
    ChatCall,
    ChatContent,
    ChatCustomCall,
    ChatFunction,
    ChatFunctionCall,
    ChatPart,
    ChatRefusalPart,
    ChatTextPart,
    DocumentPart,
    FilePart,
    ImageEntry,
    ImagePart,
    ImageUrl,
    ModelMessage,
    ReasoningPart,
    ResultPart,
    SourcePart,
    ThinkingPart,
    VideoPart,
    VideoUrl,
)
from toolglot.ir import (
    Block,
    Cache,
    Media,
    Node,
    Opaque,
    Refusal,
    Source,
    Text,
    Thinking,
    ToolCall,
    ToolKind,
    ToolResult,
    native_of,
    replace,
    with_native,
)
from toolglot.receipt import Receipt, describe_block
from toolglot.wire import json
from toolglot.wire.data_url import read_file_data, read_url, write_url
from toolglot.wire.native import make_native, native_members
from toolglot.wire.openai_fields import (
    AUDIO_TYPES,
    CACHE_LIFETIMES,
    audio_format,
    default_file_name,
    encode_cache_breakpoint,
)
from toolglot.wire.structs import Unknown, as_json, count_members, members_without

# Distinguishes an opaque entry of `tool_calls` from an opaque content part.
_CALL = "$call"

# cache_control.ttl <-> seconds
_CONTROL_LIFETIMES = {"5m": 300, "1h": 3600}
_SHORT_CONTROL = 300


def content_shape(content: ChatContent) -> str | None:
    """Return the original form of a message's content, if its blocks do not show it."""
    if content is UNSET:
        return "absent"
    return "null" if content is None else "empty" if content == "" else "parts" if isinstance(content, list) else None


def decode_content(content: ChatContent) -> tuple[Block, ...]:
    if type(content) is str:
        return (Text(text=content),) if content else ()
    return tuple([decode_part(part) for part in content]) if type(content) is list else ()


def decode_part(part: ChatPart) -> Block:
    if type(part) is ChatTextPart and count_members(part) == 1:
        return Text(text=part.text)
    block = _PART_DECODERS[type(part)](part)
    if part.rest is UNSET or not part.rest.is_implied or isinstance(block, Opaque):
        return block
    return with_native(block, NAME, **{"$typeless": True})


def take_member(members: dict[str, Any], name: str) -> Any:
    """Remove and return a member. A null counts as absent and stays, so that it is written back as null."""
    value = members.get(name)
    if value is not None:
        del members[name]
    return value


def _decode_text(part: ChatTextPart) -> Text:
    rest = members_without(part, "text")
    cache, notes = _take_cache(rest)
    return Text(text=part.text, cache=cache, native=make_native(NAME, rest, **notes))


def _decode_refusal(part: ChatRefusalPart) -> Refusal:
    return Refusal(text=part.refusal, native=make_native(NAME, members_without(part, "refusal")))


def _decode_unknown(part: Unknown) -> Opaque:
    return Opaque(NAME, part.verbatim.value)


def _decode_call_part(part: CallPart) -> ToolCall:
    rest = members_without(part, "id", "name", "input")
    return decode_call_part(part, *_split_cache_control(rest))


def _decode_result_part(part: ResultPart) -> ToolResult:
    rest = members_without(part, "tool_use_id", "content")
    content: Any = part.content
    return decode_result_part(part, decode_content(content), *_split_cache_control(rest), content_shape(content))


def _split_cache_control(rest: dict[str, Any]) -> tuple[Cache | None, dict[str, Any], Any]:
    cache, control = take_cache_control(rest)
    return cache, rest, control


def _decode_source(part: SourcePart) -> Block:
    found = read_source(part.source)
    if found is None:
        return Opaque(NAME, as_json(part))
    source, beside = found
    rest = members_without(part, "source")
    cache, notes = _take_cache(rest)
    if beside:
        rest["source"] = beside
    return Media(kind="image", source=source, cache=cache, native=make_native(NAME, rest, **notes, source=True))


# Mistral's parts: reasoning as a list of texts, and a document by URL.


def is_thinking_list(value: Any) -> bool:
    return isinstance(value, list)


def thinking_list_text(items: list[Any]) -> str:
    texts = (item.get("text") for item in items if isinstance(item, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _decode_thinking(part: ThinkingPart) -> Block:
    items = part.thinking
    text = thinking_list_text(items)
    usual = items == _thinking_items(text)
    beside = {str(item.get("type")): item for item in items if isinstance(item, dict) and item.get("type") != "text"}
    rest = members_without(part, "thinking")
    return Thinking(text=text, native=make_native(NAME, rest, part=True if usual else items, thinking=beside or None))


def _decode_reasoning(part: ReasoningPart) -> Block:
    if not is_details(part.summary):
        return Opaque(NAME, as_json(part))
    rest = members_without(part, "summary")
    return Thinking(text=summary_text(part.summary), native={NAME: {**rest, REASONING_SUMMARY: part.summary}})


def _decode_document(part: DocumentPart) -> Media:
    rest = members_without(part, "document_url")
    name = take_member(rest, "document_name")
    native = make_native(NAME, rest, document_url=True)
    return Media(kind="document", source=Source("url", part.document_url), name=name, native=native)


def _thinking_items(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def _encode_thinking(block: Thinking) -> dict[str, Any]:
    members = own_members(block)
    if (entries := members.pop(REASONING_SUMMARY, None)) is not None:
        same = not block.text or summary_text(entries) == block.text
        summary = entries if same else [{"type": "summary_text", "text": block.text}]
        return {"type": "reasoning", "summary": summary, **members}
    noted = native_of(block, NAME)["$part"]
    same = isinstance(noted, list) and thinking_list_text(noted) == block.text
    return {"type": "thinking", "thinking": noted if same else _thinking_items(block.text), **own_members(block)}


def is_thinking_part(block: Block) -> bool:
    """Return whether this reasoning is a content part, as in Mistral's and Databricks' messages."""
    notes = native_of(block, NAME) if isinstance(block, Thinking) else {}
    return bool(notes.get("$part") or notes.get(REASONING_SUMMARY))


IMAGES = "images"
"""OpenRouter's and LiteLLM's field of an assistant message for images that the model generated."""


def decode_images(message: ModelMessage) -> tuple[Block, ...]:
    return tuple([decode_image(entry) for entry in message.images or ()])


def decode_image(entry: ImageEntry) -> Block:
    """Decode one entry of `images`. Its index only repeats its position in the list."""
    beside = {} if entry.index is UNSET else {"index": entry.index}
    image = _decode_image(entry.image_url, members_without(entry, "type", "image_url", "index"))
    return with_native(image, NAME, **{"$entry": beside})


def encode_image(block: Media, where: str, receipt: Receipt) -> dict[str, Any] | None:
    """Encode one entry of `images`; None, with a loss in the receipt, for other media."""
    if block.kind != "image":
        receipt.loss(where, block.kind, "a Chat response has no place for it")
        return None
    if block.name is not None:
        receipt.loss(f"{where}.name", block.name, "an image of a Chat response has no name")
    beside = native_of(block, NAME).get("$entry")
    entry = encode_part(block, where, receipt)
    if beside is None and entry is not None:
        receipt.note(where, "image", "it is in `images`, a field that OpenRouter and LiteLLM have introduced")
    return None if entry is None else {**entry, **(beside or {})}


def _decode_image(image: str | ImageUrl, rest: dict[str, Any]) -> Media:
    url, inner, bare = _read_url(image)
    detail, (cache, notes) = take_member(inner, "detail"), _take_cache(rest)
    source, spelled = read_url(url)
    native = make_native(NAME, rest, image_url=inner or None, bare=bare, url=spelled, **notes)
    return Media(kind="image", source=source, detail=detail, cache=cache, native=native)


def _decode_video(part: VideoPart) -> Media:
    url, inner, bare = _read_url(part.video_url)
    rest = members_without(part, "video_url")
    cache, notes = _take_cache(rest)
    source, spelled = read_url(url)
    native = make_native(NAME, rest, video_url=inner or None, bare=bare, url=spelled, **notes)
    return Media(kind="video", source=source, cache=cache, native=native)


def _read_url(value: str | ImageUrl | VideoUrl) -> tuple[str, dict[str, Any], bool | None]:
    """Return the URL, the members next to it, and whether it was a plain string."""
    if isinstance(value, str):
        return value, {}, True
    return value.url, members_without(value, "url"), None


def _decode_audio(part: AudioPart) -> Media:
    audio, rest = part.input_audio, members_without(part, "input_audio")
    inner = members_without(audio, "data")
    name = take_member(inner, "format") or ""
    source = Source("base64", audio.data, AUDIO_TYPES.get(name, f"audio/{name}" if name else None))
    cache, notes = _take_cache(rest)
    native = make_native(NAME, rest, input_audio=inner or None, **notes)
    return Media(kind="audio", source=source, cache=cache, native=native)


def _decode_file(part: FilePart) -> Block:
    inner, rest = members_without(part.file), members_without(part, "file")
    data, file_id = take_member(inner, "file_data"), take_member(inner, "file_id")
    if data is None and file_id is None:
        return Opaque(NAME, as_json(part))  # neither data nor an id
    name = take_member(inner, "filename")
    source, spelled = (Source("file", file_id or ""), None) if data is None else read_file_data(data)
    shape = {
        "file": inner or None,
        "file_id": file_id if data is not None else None,
        "nameless": _note_if(name is None),
        "file_data": _note_if(source.kind == "url"),
        "url": spelled,
    }
    cache, notes = _take_cache(rest)
    native = make_native(NAME, rest, **shape, **notes)
    return Media(kind="document", source=source, name=name, cache=cache, native=native)


_PART_DECODERS: dict[type[ChatPart], Callable[[Any], Block]] = {
    ChatTextPart: _decode_text,
    ChatRefusalPart: _decode_refusal,
    ImagePart: lambda part: _decode_image(part.image_url, members_without(part, "image_url")),
    VideoPart: _decode_video,
    AudioPart: _decode_audio,
    FilePart: _decode_file,
    DocumentPart: _decode_document,
    ThinkingPart: _decode_thinking,
    ReasoningPart: _decode_reasoning,
    CallPart: _decode_call_part,
    ResultPart: _decode_result_part,
    SourcePart: _decode_source,
    Unknown: _decode_unknown,
}


def _take_cache(rest: dict[str, Any]) -> tuple[Cache | None, dict[str, Any]]:
    """Take the cache breakpoint out of a part's members. Returns it with a note on `cache_control`, if it was in that
    form.
    """
    cache = _take_breakpoint(rest)
    if cache is not None:
        return cache, {}
    cache, control = take_cache_control(rest)
    return cache, {"cache_control": control}


def take_cache_control(members: dict[str, Any]) -> tuple[Cache | None, dict[str, Any] | None]:
    """Take `cache_control` out of the members. Returns the breakpoint and the original value. An unknown form stays."""
    control = members.get("cache_control")
    if not isinstance(control, dict) or control.get("type") != "ephemeral" or not control.keys() <= {"type", "ttl"}:
        return None, None
    lifetime = control.get("ttl")
    if "ttl" in control and (not isinstance(lifetime, str) or lifetime not in _CONTROL_LIFETIMES):
        return None, None
    del members["cache_control"]
    return Cache(None if lifetime is None else _CONTROL_LIFETIMES[lifetime], by_control=True), control


def _take_breakpoint(members: dict[str, Any]) -> Cache | None:
    """Take `prompt_cache_breakpoint` out of the members, if it can be written back exactly."""
    hint = members.get("prompt_cache_breakpoint")
    if not isinstance(hint, dict) or hint.get("mode") != "explicit" or not hint.keys() <= {"mode", "ttl"}:
        return None
    seconds = None
    if "ttl" in hint:
        seconds = CACHE_LIFETIMES.get(hint["ttl"]) if isinstance(hint["ttl"], str) else None
        if seconds is None:
            return None
    del members["prompt_cache_breakpoint"]
    return Cache(seconds)


def encode_cache_control(node: Node) -> dict[str, Any]:
    """Return the member `cache_control` of a node that was received with it."""
    control = native_of(node, NAME).get("$cache_control")
    return {"cache_control": control} if isinstance(control, dict) else {}


def encode_cache(block: Text | Media) -> dict[str, Any]:
    cache, notes = block.cache, native_of(block, NAME)
    if cache is None or notes.get("$marked_by_message"):
        return {}
    if control := encode_cache_control(block):
        return control
    if cache.by_control:
        lifetime = {} if cache.seconds is None else {"ttl": "5m" if cache.seconds <= _SHORT_CONTROL else "1h"}
        return {"cache_control": {"type": "ephemeral", **lifetime}}
    return encode_cache_breakpoint(cache)


def own_members(block: Block) -> dict[str, Any]:
    """Return the native members of this dialect on a block, without notes."""
    return native_members(native_of(block, NAME))


def encode_part(block: Block, where: str, receipt: Receipt) -> dict[str, Any] | None:
    """Encode one content part; None, with a loss in the receipt, if Chat has no part for the block."""
    part = _encode_part(block, where, receipt)
    if part is not None and native_of(block, NAME).get("$typeless"):
        del part["type"]
    return part


def _encode_part(block: Block, where: str, receipt: Receipt) -> dict[str, Any] | None:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text, **encode_cache(block), **own_members(block)}
        case Refusal(text=text):
            return {"type": "refusal", "refusal": text, **own_members(block)}
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
    notes, extra = native_of(block, NAME), {**encode_cache(block), **own_members(block)}
    source = block.source
    if notes.get("$document_url") and source.kind == "url":
        named = {"document_name": block.name} if block.name is not None else {}
        return {"type": "document_url", "document_url": source.data, **named, **extra}
    if SOURCE in notes and source.kind in ("base64", "url"):
        return {"type": "image", "source": encode_source(source, extra.pop("source", {})), **extra}
    if block.kind == "image" and source.kind in ("base64", "url"):
        url = write_url(source, "image/png", notes.get("$url"))
        if notes.get("$bare"):
            return {"type": "image_url", "image_url": url, **extra}
        image = {"url": url, **({"detail": block.detail} if block.detail else {}), **notes.get("$image_url", {})}
        return {"type": "image_url", "image_url": image, **extra}
    if block.kind == "video" and source.kind in ("base64", "url"):
        url = write_url(source, "video/mp4", notes.get("$url"))
        video = url if notes.get("$bare") else {"url": url, **notes.get("$video_url", {})}
        return {"type": "video_url", "video_url": video, **extra}
    if block.kind == "audio" and source.kind == "base64":
        audio = {"data": source.data, **({"format": audio_format(source.media_type)} if source.media_type else {})}
        return {"type": "input_audio", "input_audio": {**audio, **notes.get("$input_audio", {})}, **extra}
    if source.kind in ("base64", "file") or notes.get("$file_data"):
        file = block.name
        body: dict[str, Any] = {"file_id": source.data}
        if source.kind != "file":
            file = file if file is not None or notes.get("$nameless") else default_file_name(source.media_type)
            is_url = source.media_type or "$url" in notes
            body = {"file_data": write_url(source, "", notes.get("$url")) if is_url else source.data}
            if "$file_id" in notes:
                body["file_id"] = notes["$file_id"]
        named = {"filename": file} if file is not None else {}
        return {"type": "file", "file": {**body, **named, **notes.get("$file", {})}, **extra}
    receipt.loss(where, f"{block.kind} by {source.kind}", "Chat Completions cannot refer to it that way")
    return None


def decode_calls(message: ModelMessage) -> tuple[Block, ...]:
    """Decode `tool_calls` and the deprecated `function_call` of a model's message."""
    calls: list[Block] = [decode_call(call) for call in message.tool_calls or ()]
    if legacy := message.function_call:
        rest = members_without(legacy, "name")
        arguments = take_member(rest, "arguments")
        place = _find_repeated_call(calls, legacy.name, arguments)
        if place is not None and not rest:
            calls[place] = _with_note(calls[place], "$repeated")
            return tuple(calls)
        native = make_native(NAME, rest, legacy=True, empty=_note_if(arguments == ""))
        calls.append(ToolCall(id="", name=legacy.name, arguments=arguments or "", native=native))
    return tuple(calls)


def _find_repeated_call(calls: list[Block], name: str, arguments: str | None) -> int | None:
    """Find the call that `function_call` repeats. llama-cpp-python writes the first call in both forms."""
    for place, call in enumerate(calls):
        if isinstance(call, ToolCall) and (call.name, call.arguments) == (name, arguments):
            return place
    return None


def _with_note(block: Block, note: str) -> Block:
    return replace(block, native={**block.native, NAME: {**native_of(block, NAME), note: True}})


def encode_repeated_call(calls: Iterable[ToolCall | Opaque]) -> dict[str, Any]:
    """Return the member `function_call`, if it came next to `tool_calls` and repeated one of them."""
    for call in calls:
        if isinstance(call, ToolCall) and native_of(call, NAME).get("$repeated"):
            return {"function_call": {"name": call.name, "arguments": arguments_text(call)}}
    return {}


def decode_call(call: ChatCall) -> Block:
    """Decode one entry of `tool_calls`."""
    if type(call) is ChatFunctionCall:
        function, call_id = call.function, call.id
        name, arguments = function.name, function.arguments
        if type(arguments) is str and arguments and name and call_id and _is_minimal(call, function):
            return ToolCall(id=call_id, name=name, arguments=arguments)
        return _decode_call(call, "function", members_without(function), "arguments")
    if isinstance(call, Unknown):
        return _decode_unknown_call(call.verbatim.value, call.verbatim.where)
    assert isinstance(call, ChatCustomCall)
    return _decode_call(call, "custom", members_without(call.custom), "input")


def _decode_unknown_call(value: dict[str, Any], where: str) -> Block:
    """Decode an entry of another `type`, or without one. Its members determine what it is: calls of Moonshot's own
    tools have the type `builtin_function`."""
    kind = next((name for name in ("function", "custom") if isinstance(value.get(name), dict)), None)
    if kind is not None and value.get("type") not in (None, "", kind):
        call = decode_call(CALLS.read_value({**value, "type": kind}, where))
        return replace(call, native={NAME: {**native_of(call, NAME), "$type": value["type"]}})
    nested = dict(value)
    if isinstance(value.get("name"), str) and nest_function(nested):
        return decode_call(CALLS.read_value({**nested, "type": "function"}, where))
    return Opaque(NAME, {"type": value.get("type"), _CALL: value})


def _is_minimal(call: ChatFunctionCall, function: ChatFunction) -> bool:
    """Return whether the call has only an id, a name and arguments."""
    return count_members(call) == 2 and count_members(function) == 2


def _decode_call(
    call: ChatFunctionCall | ChatCustomCall, kind: ToolKind, inner: dict[str, Any], field: str
) -> ToolCall:
    rest = members_without(call, kind)
    rename_parameters(inner if kind == "function" else None)
    no_id = rest.get("id") is None
    call_id, name, arguments = take_member(rest, "id"), take_member(inner, "name"), take_member(inner, field)
    typeless = call.rest is not UNSET and call.rest.is_implied and rest.get("type") is None
    # In a list the index only repeats the position.
    is_number = type(call.index) is int or (isinstance(call.index, str) and call.index.isdecimal())
    index = take_member(rest, "index") if is_number else None
    shape = {"typeless": _note_if(typeless), "no_id": _note_if(no_id), "empty": _note_if(arguments == "")}
    native = make_native(NAME, rest, **shape, index=index)
    if has_signature(inner.get(PROVIDER_FIELDS)):
        native.setdefault(NAME, {})[FUNCTION_STATE] = inner.pop(PROVIDER_FIELDS)
    if inner:
        native.setdefault(NAME, {})[kind] = inner
    # Arguments that arrive as an object become the text that the API requires, without loss.
    text = json.encode_text(arguments) if isinstance(arguments, dict) else arguments or ""
    return ToolCall(id=call_id or "", name=name or "", arguments=text, kind=kind, native=native)


def _note_if(condition: bool) -> bool | None:
    """Return the value of a note that is stored only if it is true."""
    return condition or None


def is_call(block: Block) -> TypeGuard[ToolCall | Opaque]:
    """Return whether this is a call, or another entry of `tool_calls`."""
    if isinstance(block, Opaque):
        return block.dialect == NAME and isinstance(block.value, dict) and _CALL in block.value
    return isinstance(block, ToolCall)


def is_blank_entry(value: Any) -> bool:
    """Return whether this is the value of an opaque entry of `tool_calls` that names no other kind of call."""
    return isinstance(value, dict) and _CALL in value and value.get("type") in (None, "", "function", "custom")


def has_no_call(block: Block) -> bool:
    """Return whether this is an entry of `tool_calls` without id, name and arguments. Some servers send one if the
    model made no call."""
    if isinstance(block, Opaque):
        return is_blank_entry(block.value) and not block.value[_CALL].get("id")
    return isinstance(block, ToolCall) and not (block.id or block.name or block.arguments)


def encode_call(call: ToolCall | Opaque) -> dict[str, Any]:
    """Encode one entry of `tool_calls`."""
    if isinstance(call, Opaque):
        return dict(call.value[_CALL])
    notes, extra = native_of(call, NAME), own_members(call)
    member, field = ("custom", "input") if call.kind == "custom" else ("function", "arguments")
    inner = {**extra.pop(member, {}), **function_state(notes)}
    identity = {} if notes.get("$no_id") and not call.id else {"id": call.id}
    typed = {} if notes.get("$typeless") else {"type": notes.get("$type", member)}
    numbered = {"index": notes["$index"]} if "$index" in notes else {}
    return {**numbered, **identity, **typed, member: {"name": call.name, field: arguments_text(call), **inner}, **extra}


def arguments_text(call: ToolCall) -> str:
    """Return the arguments as JSON text, which the wire requires.

    Empty arguments become the empty object, unless they came as \"\" or the call was cut before them.
    """
    is_empty = not call.arguments.strip() and call.kind == "function" and call.complete
    return "{}" if is_empty and not native_of(call, NAME).get("$empty") else call.arguments
