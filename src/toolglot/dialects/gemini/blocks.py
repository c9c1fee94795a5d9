"""Parts of a Gemini content <-> blocks.

A part has one data member (`text`, `functionCall`, `inlineData` …) and modifiers beside it. `thought` on a text makes
it reasoning; `thoughtSignature` may stand on any part and stays in `native` on the block that the part became,
because it must come back on that very part. A part whose data member is not known here is `Opaque`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from toolglot.dialects.gemini.native import NAME
from toolglot.dialects.gemini.partial import text_so_far
from toolglot.dialects.gemini.results import read_response, usual_shape, write_response
from toolglot.ir import (
    Block,
    Media,
    MediaKind,
    Native,
    Opaque,
    Refusal,
    Source,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    native_of,
)
from toolglot.receipt import Receipt, describe_block
from toolglot.wire import json, large
from toolglot.wire.reader import Reader, expected, keep

_MEDIA_KINDS: dict[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}

# Only Google's servers can open these; to everybody else they are the id of a file.
_GOOGLE_FILES = (
    "files/",
    "gs://",
    "https://generativelanguage.googleapis.com/",
    "https://www.youtube.com/",
    "https://youtu.be/",
)


# Arguments as text: the wire has them as an object, and the IR wants that object's own text.


class _Call(Struct):
    args: Raw = Raw(b"null")


class _Part(Struct):
    functionCall: _Call | None = None  # noqa: N815
    function_call: _Call | None = None


class _Content(Struct):
    parts: list[_Part] | _Part | None = None


class _Candidate(Struct):
    content: _Content | None = None


class _Request(Struct):
    contents: list[_Content] | _Content | None = None


class _Response(Struct):
    candidates: list[_Candidate] | None = None


_read_request = msgspec.json.Decoder(_Request)
_read_response = msgspec.json.Decoder(_Response)

Arguments = Sequence[str]
"""The text of the arguments of each part of a content, empty where there are none."""


def request_arguments(data: bytes) -> list[Arguments]:
    """The arguments of every call in a request, content by content. Empty when there are no calls."""
    if not _has_calls(data):
        return []
    contents = json.elements(data, "contents", _Content) or json.typed(data, _read_request).contents or []
    return [_arguments(content) for content in (contents if isinstance(contents, list) else [contents])]


def response_arguments(data: bytes) -> list[Arguments]:
    """The arguments of every call in a response, candidate by candidate. Empty when there are no calls."""
    if not _has_calls(data):
        return []
    candidates = json.typed(data, _read_response).candidates or []
    return [_arguments(candidate.content or _Content()) for candidate in candidates]


def _has_calls(data: bytes) -> bool:
    return large.contains(data, b'"functionCall"') or large.contains(data, b'"function_call"')


def _arguments(content: _Content) -> Arguments:
    parts = content.parts if isinstance(content.parts, list) else [content.parts or _Part()]
    texts = [bytes((part.functionCall or part.function_call or _Call()).args).decode() for part in parts]
    return ["" if text == "null" else text for text in texts]


# Reading


def listed(reader: Reader, key: str) -> tuple[list[Any], bool]:
    """A repeated member: its items, and whether it stood there bare, which proto-JSON allows for a single one."""
    value = reader.take(key)
    if isinstance(value, dict):
        return [value], True
    if value is not None and not isinstance(value, list):
        raise expected(reader.at(key), "an array", value)
    return value or [], False


def filled(reader: Reader, key: str) -> str | None:
    """A string that says something; an empty one is left in the rest, like a null."""
    return reader.text(key) if reader.peek(key) != "" else None


def decode_parts(parts: list[Any], where: str, arguments: Arguments = ()) -> tuple[Block, ...]:
    return tuple(
        _plain_text(part)
        or decode_part(Reader(part, f"{where}[{index}]"), arguments[index] if index < len(arguments) else "")
        for index, part in enumerate(parts)
    )


def _plain_text(part: Any) -> Text | None:
    """A part that is a text and nothing else, as most are."""
    if type(part) is dict and len(part) == 1 and type(text := part.get("text")) is str:
        return Text(text=text)
    return None


def decode_part(part: Reader, arguments: str = "") -> Block:
    """One part; `arguments` is the text of a call's arguments."""
    for member, decode in _DATA.items():
        if member in part:
            return decode(part, arguments)
    if "thoughtSignature" in part or part.peek("thought") is True:
        return _decode_text(part, arguments)
    return Opaque(NAME, part.rest())


def _decode_text(part: Reader, _: str) -> Block:
    text = part.text("text")
    shape = {"text": "absent" if text is None else None}
    if part.peek("thought") is True:  # left in place: it says that this reasoning is Gemini's own
        return Thinking(text=text or "", native=keep(NAME, part, **shape))
    return Text(text=text or "", native=keep(NAME, part, **shape))


def _decode_call(part: Reader, arguments: str) -> Block:
    call = _member(part, "functionCall")
    if "name" not in call:  # a piece of a streamed call, echoed by a client that did not assemble it
        return Opaque(NAME, {**part.rest(), "functionCall": call.rest()})
    args = call.take("args")
    if not isinstance(args, dict | None):
        raise expected(call.at("args"), "an object", args)
    # Outside a stream nothing continues a piece of a call, so what it says is all there is of it.
    cut = call.peek("willContinue") is True or (args is None and bool(call.peek("partialArgs")))
    if args is None:
        arguments = text_so_far(call.peek("partialArgs")) if cut else ""
    elif not arguments:
        arguments = json.encode_text(args)
    call_id = filled(call, "id")
    name = call.need_text("name")
    notes = {"args": "absent" if args is None else None, "cut": True if cut else None}
    native = _with_rest(keep(NAME, part, **notes), "functionCall", call)
    return ToolCall(id=call_id or "", name=name, arguments=arguments, complete=not cut, native=native)


def _decode_result(part: Reader, _: str) -> Block:
    result = _member(part, "functionResponse")
    response = result.object("response")
    text, is_error, shape = read_response(response.rest() if response is not None else None)
    call_id = filled(result, "id")
    name = result.text("name")
    nested, bare = listed(result, "parts") if result.peek("parts") != [] else ([], False)
    content: list[Block] = [] if text is None else [Text(text=text)]
    for index, item in enumerate(nested):
        content.append(_decode_result_part(Reader(item, f"{result.at('parts')}[{index}]")))
    noted = shape if shape != usual_shape(text, is_error) else None
    shapes = {"response": noted, "parts": "object" if bare else None, "name": "absent" if name is None else None}
    native = keep(NAME, part, **shapes)
    native = _with_rest(native, "functionResponse", result)
    return ToolResult(call_id=call_id or "", name=name, content=tuple(content), is_error=is_error, native=native)


def _decode_result_part(part: Reader) -> Block:
    for member in ("inlineData", "fileData"):
        if member in part:
            return _DATA[member](part, "")
    return Opaque(NAME, part.rest())


def _decode_inline(part: Reader, _: str) -> Block:
    blob = _member(part, "inlineData")
    # ProtoJSON allows the Base64 of URLs too, and Google's Python SDK writes it; no other dialect reads it.
    data = blob.need_text("data").replace("-", "+").replace("_", "/")
    source = Source("base64", data, blob.text("mimeType"))
    return _media(part, "inlineData", blob, source)


def _decode_file(part: Reader, _: str) -> Block:
    file = _member(part, "fileData")
    uri = file.need_text("fileUri")
    source = Source("file" if uri.startswith(_GOOGLE_FILES) else "url", uri, file.text("mimeType"))
    return _media(part, "fileData", file, source)


def _media(part: Reader, member: str, inner: Reader, source: Source) -> Media:
    kind = _MEDIA_KINDS.get((source.media_type or "").partition("/")[0], "document")
    name = inner.text("displayName")
    return Media(kind=kind, source=source, name=name, native=_with_rest(keep(NAME, part), member, inner))


def _member(part: Reader, member: str) -> Reader:
    inner = part.object(member)
    assert inner is not None  # the caller has looked
    return inner


def _with_rest(native: Native, member: str, inner: Reader) -> Native:
    """What is unknown inside a member stays under that member's name."""
    if rest := inner.rest():
        native.setdefault(NAME, {})[member] = rest
    return native


_DATA = {
    "functionCall": _decode_call,
    "functionResponse": _decode_result,
    "inlineData": _decode_inline,
    "fileData": _decode_file,
    "text": _decode_text,
}
"""The data members that have a block of their own, in the order they are looked for."""


# Writing


def own(block: Block, *nested: str) -> dict[str, Any]:
    """The fields of this dialect that ride on a block, without the notes on shape and the nested rests."""
    notes = native_of(block, NAME)
    if not notes:
        return {}
    return {
        key: value
        for key, value in notes.items()
        if not key.startswith("$") and not (key in nested and isinstance(value, dict))
    }


def nested_rest(block: Block, member: str) -> dict[str, Any]:
    rest = native_of(block, NAME).get(member)
    return rest if isinstance(rest, dict) else {}


def encode_text(block: Text | Thinking | Refusal) -> dict[str, Any]:
    """A text part; reasoning is marked as a thought."""
    if native_of(block, NAME).get("$text") == "absent" and not block.text:
        return own(block)
    fields = {"text": block.text, **own(block)}
    if isinstance(block, Thinking):
        fields["thought"] = True
    return fields


def came_cut(call: ToolCall) -> bool:
    """Whether this is a cut call of Gemini's own, which goes back as it came."""
    return not call.complete and "$cut" in native_of(call, NAME)


def encode_call(call: ToolCall, args: Raw | dict[str, Any] | None) -> dict[str, Any]:
    """A functionCall part with these arguments."""
    fields: dict[str, Any] = {"id": call.id} if call.id else {}
    fields["name"] = call.name
    if native_of(call, NAME).get("$args") != "absent" or (call.arguments and not came_cut(call)):
        fields["args"] = args
    return {"functionCall": {**nested_rest(call, "functionCall"), **fields}, **own(call, "functionCall")}


def encode_result(result: ToolResult, name: str, where: str, receipt: Receipt) -> dict[str, Any]:
    """A functionResponse part. `name` is the tool's; a result of a Gemini client that had none goes on without."""
    texts: list[str] = []
    parts: list[dict[str, Any]] = []
    for index, block in enumerate(result.content):
        match block:
            case Text(text=text) | Refusal(text=text):
                texts.append(text)
            case Media():
                parts.append(encode_media(block, f"{where}.content[{index}]", receipt))
            case Opaque(dialect=dialect, value=value) if dialect == NAME:
                parts.append(value)
            case _:
                receipt.loss(f"{where}.content[{index}]", describe_block(block), "a Gemini tool result cannot hold it")
    notes = native_of(result, NAME)
    response = write_response("\n".join(texts) if texts else None, result.is_error, notes.get("$response"))
    fields: dict[str, Any] = {"id": result.call_id} if result.call_id else {}
    if result.name is not None or notes.get("$name") != "absent":
        fields["name"] = name
    if response is not None:
        fields["response"] = response
    if parts:
        fields["parts"] = parts[0] if notes.get("$parts") == "object" and len(parts) == 1 else parts
    rest = nested_rest(result, "functionResponse")
    return {"functionResponse": {**rest, **fields}, **own(result, "functionResponse")}


def encode_media(media: Media, where: str, receipt: Receipt) -> dict[str, Any]:
    """An inlineData or fileData part."""
    source = media.source
    named: dict[str, Any] = {"displayName": media.name} if media.name is not None else {}
    if media.detail not in (None, "auto"):
        receipt.loss(where, f"detail {media.detail}", "Gemini sets the resolution of media in another way")
    if source.kind in ("url", "file"):
        typed = {"mimeType": source.media_type} if source.media_type is not None else {}
        file = {**nested_rest(media, "fileData"), **typed, "fileUri": source.data, **named}
        return {"fileData": file, **own(media, "fileData")}
    data, media_type = source.data, source.media_type
    if source.kind == "text":
        data, media_type = base64.b64encode(data.encode()).decode(), media_type or "text/plain"
    typed = {"mimeType": media_type} if media_type is not None else {}
    blob = {**nested_rest(media, "inlineData"), **typed, "data": data, **named}
    return {"inlineData": blob, **own(media, "inlineData")}
