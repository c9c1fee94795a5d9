"""Parts of a Gemini content <-> blocks.

A part has one data member (`text`, `functionCall`, `inlineData` …) and modifiers. `thought` marks a text as reasoning.
Any part may have a `thoughtSignature`. It stays in `native` of the part's block, because the API requires it back on
the same part. A part with an unknown data member is `Opaque`.
"""

from __future__ import annotations

import base64
from typing import Any, Literal

from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import astuple

from toolglot.dialects.gemini.native import NAME, SIGNED_APART
from toolglot.dialects.gemini.partial_arguments import join_pieces
from toolglot.dialects.gemini.results import read_response, usual_shape, write_response
from toolglot.dialects.gemini.wire import (
    Blob,
    Content,
    FileData,
    FunctionResponse,
    GeminiFunctionCall,
    MediaPart,
    Part,
    SystemInstruction,
)
from toolglot.errors import DecodeError, expected
from toolglot.ir import (
    CONTINUES,
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
    with_native,
)
from toolglot.receipt import Receipt, describe_block
from toolglot.wire.media_types import kind_of_media_type, media_type_of_url
from toolglot.wire.member_decode import is_null
from toolglot.wire.structs import as_json, count_members, members_without
from toolglot.wire.typed import sound_text

_VIDEO_PAGES = ("https://www.youtube.com/", "https://youtu.be/")
"""Web pages that Google's servers accept as the video on them."""

# Only Google's servers can open these URIs; for other APIs they are file ids.
_GOOGLE_FILES = ("files/", "gs://", "https://generativelanguage.googleapis.com/", *_VIDEO_PAGES)


# Decoding. Error paths are relative to the part; `decode_parts` adds the position of the part.


def decode_parts(parts: list[Part] | Part | UnsetType) -> tuple[Block, ...]:
    """Decode the parts of a content. Proto-JSON allows a single part without an array."""
    if type(parts) is not list:
        parts = [] if parts is UNSET else [parts]  # type: ignore[list-item]
    blocks: list[Block] = []
    for part in parts:
        try:
            blocks.append(_decode_usual_part(part) or decode_part(part))
        except DecodeError as error:
            raise DecodeError(f".parts[{len(blocks)}]{error.where}", error.what) from None
    return tuple(blocks)


def _decode_usual_part(part: Part) -> Block | None:
    """Decode a plain text, a plain call, or a result of one text: nearly all parts. None for others."""
    values = astuple(part)
    unset = values.count(UNSET)
    if unset == len(values) - 1:
        if part.text is not UNSET:
            return Text(text=part.text)
        if (result := part.function_response) is not UNSET:
            return _decode_usual_result(result)
        signature: Native = {}
    elif unset == len(values) - 2 and part.thought_signature is not UNSET:
        signature = {NAME: {"thoughtSignature": part.thought_signature}}
    else:
        return None
    call = part.function_call
    if call is UNSET or call.rest is not UNSET or call.will_continue is not UNSET or call.partial_args is not UNSET:
        return None
    if call.id == "" or not call.name or call.args is UNSET or bytes(memoryview(call.args)[:1]) != b"{":
        return None
    return ToolCall(id=call.id or "", name=call.name, arguments=sound_text(call.args), native=signature)


def _decode_usual_result(result: FunctionResponse) -> ToolResult | None:
    """Decode a result whose `response` is one text. None for others."""
    response = result.response
    others = 2 if result.id is UNSET else 3
    if result.id == "" or not result.name or response is UNSET or count_members(result) != others or len(response) != 1:
        return None
    text = response.get("output")
    if not isinstance(text, str) or usual_shape(text, None) != "output":
        return None
    return ToolResult(call_id=result.id or "", name=result.name, content=(Text(text=text),))


def parts_shape(content: Content | SystemInstruction) -> str | None:
    """Return the note on `parts` if it is not an array."""
    parts = content.parts
    return None if type(parts) is list else "absent" if parts is UNSET else "object"


def decode_part(part: Part) -> Block:
    if (call := part.function_call) is not UNSET:
        return _decode_call(part, call)
    if (result := part.function_response) is not UNSET:
        return _decode_result(part, result)
    if (media := _decode_media(part)) is not None:
        return media
    if part.text is not UNSET or part.thought is True or part.thought_signature not in (UNSET, None):
        return _decode_text(part)
    return Opaque(NAME, as_json(part))


def _decode_text(part: Part) -> Text | Thinking:
    text = part.text
    if part.thought is UNSET and part.thought_signature is UNSET and part.rest is UNSET and text is not UNSET:
        return Text(text=text)
    native = keep(members_without(part, "text"), text="absent" if text is UNSET else None)
    # `thought` stays in native: it marks this reasoning as Gemini's own.
    kind = Thinking if part.thought is True else Text
    return kind(text=text or "", native=native)


def _decode_call(part: Part, call: GeminiFunctionCall) -> Block:
    name = call.name
    if name is UNSET:  # a piece of a streamed call, echoed by a client that did not assemble it
        return Opaque(NAME, as_json(part))
    args, pieces = whole_arguments(call), partial_args(call)
    # Outside a stream, no further pieces follow: this one has everything there is of the call.
    cut = call.will_continue is True or (args is None and bool(pieces))
    text = sound_text(args) if args is not None else join_pieces(pieces) if cut else ""
    notes = {"args": "absent" if args is None else None, "cut": True if cut else None}
    rest = rest_of_call(call)
    if call.id == "":
        rest["id"] = ""
    native = add_nested_rest(keep(other_members(part, "functionCall"), **notes), "functionCall", rest)
    return ToolCall(id=call.id or "", name=name, arguments=text, complete=not cut, native=native)


def other_members(part: MediaPart, taken: str) -> dict[str, Any]:
    """Return the members of a part other than `taken`, its data member: usually none, or a signature."""
    values = astuple(part)
    present = len(values) - values.count(UNSET)
    if present == 1:
        return {}
    if present == 2 and isinstance(part, Part) and part.thought_signature is not UNSET:
        return {"thoughtSignature": part.thought_signature}
    return members_without(part, taken)


def whole_arguments(call: GeminiFunctionCall) -> Raw | None:
    """Return the bytes of `args`. None if it is absent or null."""
    args = call.args
    if args is UNSET or is_null(args):
        return None
    if bytes(memoryview(args)[:1]) != b"{":
        raise expected(".functionCall.args", "an object", as_json(args))
    return args


def partial_args(call: GeminiFunctionCall) -> Any:
    """Return the pieces of streamed arguments: typed, or as untyped JSON if they do not fit the type."""
    if call.partial_args is not UNSET:
        return call.partial_args
    return None if call.rest is UNSET else call.rest.get("partialArgs")


def rest_of_call(call: GeminiFunctionCall, *taken: str) -> dict[str, Any]:
    """Return the members of a call that the IR does not have, without `taken`."""
    is_plain = call.will_continue is UNSET and call.partial_args is UNSET and call.rest is UNSET
    rest = {} if is_plain else members_without(call, "id", "name", "args", *taken)
    if call.args is not UNSET and is_null(call.args):
        rest["args"] = None
    return rest


def _decode_result(part: Part, result: FunctionResponse) -> ToolResult:
    response, nested, name = result.response, result.parts, result.name
    text, is_error, shape = read_response(None if response is UNSET else response)
    texts = () if text is None else (Text(text=text),)
    nested_parts = nested if isinstance(nested, list) else () if nested is UNSET else (nested,)
    is_plain = result.will_continue is UNSET and result.scheduling is UNSET and result.rest is UNSET
    rest = {} if is_plain else members_without(result, "id", "name", "response", "parts")
    if result.id == "":
        rest["id"] = ""
    if nested == []:
        rest["parts"] = []
    notes = {
        "response": shape if shape != usual_shape(text, is_error) else None,
        "parts": "object" if isinstance(nested, MediaPart) else None,
        "name": "absent" if name is UNSET else None,
    }
    native = add_nested_rest(keep(other_members(part, "functionResponse"), **notes), "functionResponse", rest)
    if result.will_continue is True:
        native = {**native, **CONTINUES}
    content = (*texts, *map(_decode_result_part, nested_parts))
    return ToolResult(call_id=result.id or "", name=_or_none(name), content=content, is_error=is_error, native=native)


def _decode_result_part(part: MediaPart) -> Block:
    return _decode_media(part) or Opaque(NAME, as_json(part))


def _decode_media(part: MediaPart) -> Media | None:
    if (blob := part.inline_data) is not UNSET:
        # ProtoJSON also allows URL-safe Base64, and Google's Python SDK writes it; no other dialect reads it.
        data = blob.data.replace("-", "+").replace("_", "/")
        return _make_media(part, "inlineData", blob, Source("base64", data, _or_none(blob.mime_type)))
    if (file := part.file_data) is not UNSET:
        kind: Literal["file", "url"] = "file" if file.file_uri.startswith(_GOOGLE_FILES) else "url"
        return _make_media(part, "fileData", file, Source(kind, file.file_uri, _or_none(file.mime_type)))
    return None


def _make_media(part: MediaPart, member: str, inner: Blob | FileData, source: Source) -> Media:
    rest = members_without(inner, "data", "fileUri", "mimeType", "displayName")
    untyped = True if source.media_type is None and source.kind != "file" else None
    native = add_nested_rest(keep(other_members(part, member), untyped=untyped), member, rest)
    kind = kind_of_media_type(source.media_type or _implied_type(source))
    return Media(kind=kind, source=source, name=_or_none(inner.display_name), native=native)


def _implied_type(source: Source) -> str | None:
    """Return the media type that a file's URI implies."""
    if source.data.startswith(_VIDEO_PAGES):
        return "video/*"
    return None if source.kind == "base64" else media_type_of_url(source.data)


def _or_none(text: str | UnsetType) -> str | None:
    return None if text is UNSET else text


def keep(members: dict[str, Any], **notes: Any) -> Native:
    """Make `native` of a node from these members and notes on its shape (prefix `$`)."""
    for name, value in notes.items():
        if value is not None:
            members[f"${name}"] = value
    return {NAME: members} if members else {}


def add_nested_rest(native: Native, member: str, rest: dict[str, Any]) -> Native:
    """Add the unknown members inside `member` to `native`, under its name."""
    if rest:
        native.setdefault(NAME, {})[member] = rest
    return native


# Encoding


def own_members(block: Block, *nested: str) -> dict[str, Any]:
    """Return the members of this dialect on a block, without notes on shape and without the nested rests."""
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
    """Encode a text part. Reasoning is marked as a thought."""
    if native_of(block, NAME).get("$text") == "absent" and not block.text:
        return own_members(block)
    if isinstance(block, Thinking):
        return {"text": block.text, "thought": True, **{**own_members(block), "thought": True}}
    return {"text": block.text, **own_members(block)}


def join_signatures(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Move a signature that came on an empty text to the text before it, as in a stream. Other APIs would show the
    empty text as a message of its own."""
    joined: list[Block] = []
    for block in blocks:
        before = joined[-1] if joined else None
        if type(block) is Text and type(before) is Text and not block.text:
            own = native_of(block, NAME)
            if own.keys() == _SIGNATURE and before.text and not native_of(before, NAME):
                joined[-1] = with_native(before, NAME, **own, **{SIGNED_APART: True})
                continue
        joined.append(block)
    return tuple(joined)


def split_signature(block: Block, part: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a block. Google advises against merging a part with a signature and one without."""
    if type(block) is Text and SIGNED_APART in native_of(block, NAME):
        return [{"text": part.pop("text")}, {"text": "", **part}]
    return [part]


def is_own_cut_call(call: ToolCall) -> bool:
    """Return whether this is a cut call that Gemini itself sent. It goes back unchanged."""
    return not call.complete and "$cut" in native_of(call, NAME)


def encode_call(call: ToolCall, args: Raw | dict[str, Any] | None) -> dict[str, Any]:
    """Encode a functionCall part with these arguments."""
    fields: dict[str, Any] = {"id": call.id} if call.id else {}
    fields["name"] = call.name
    notes = native_of(call, NAME)
    if notes.keys() <= _SIGNATURE:
        fields["args"] = args
        return {"functionCall": fields, **notes}
    if notes.get("$args") != "absent" or (call.arguments and not is_own_cut_call(call)):
        fields["args"] = args
    return {"functionCall": {**nested_rest(call, "functionCall"), **fields}, **own_members(call, "functionCall")}


_SIGNATURE = {"thoughtSignature"}


def encode_usual_result(result: ToolResult) -> dict[str, Any] | None:
    """Encode a functionResponse part for a named result of another API with one text. None for others."""
    text = result.content[0]
    if type(text) is not Text:
        return None
    fields: dict[str, Any] = {"id": result.call_id} if result.call_id else {}
    fields["name"] = result.name
    fields["response"] = write_response(text.text, result.is_error, None)
    return {"functionResponse": fields}


def encode_result(result: ToolResult, name: str, where: str, receipt: Receipt) -> dict[str, Any]:
    """Encode a functionResponse part. `name` is the tool's name; it stays absent if a Gemini client sent none."""
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
    return {"functionResponse": {**rest, **fields}, **own_members(result, "functionResponse")}


_DEFAULT_TYPES: dict[MediaKind, str] = {
    "image": "image/png",
    "document": "application/pdf",
    "audio": "audio/wav",
    "video": "video/mp4",
}
"""Types for media of other APIs without one: Gemini refuses data without a type."""


def encode_media(media: Media, where: str, receipt: Receipt) -> dict[str, Any]:
    """Encode an inlineData or fileData part."""
    source = media.source
    named: dict[str, Any] = {"displayName": media.name} if media.name is not None else {}
    if media.detail not in (None, "auto"):
        receipt.loss(where, f"detail {media.detail}", "Gemini sets the resolution of media in another way")
    if source.kind in ("url", "file"):
        media_type = source.media_type
        if media_type is None and source.kind == "url" and "$untyped" not in native_of(media, NAME):
            media_type = media_type_of_url(source.data)
        typed = {"mimeType": media_type} if media_type is not None else {}
        file = {**nested_rest(media, "fileData"), **typed, "fileUri": source.data, **named}
        return {"fileData": file, **own_members(media, "fileData")}
    data, media_type = source.data, source.media_type
    if source.kind == "text":
        data, media_type = base64.b64encode(data.encode()).decode(), media_type or "text/plain"
    if media_type is None and "$untyped" not in native_of(media, NAME):
        media_type = _DEFAULT_TYPES[media.kind]
        receipt.note(f"{where}.source", "media type", f"not given; {media_type} is assumed")
    typed = {"mimeType": media_type} if media_type is not None else {}
    blob = {**nested_rest(media, "inlineData"), **typed, "data": data, **named}
    return {"inlineData": blob, **own_members(media, "inlineData")}
