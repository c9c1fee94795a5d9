"""Requests of `generateContent` and `streamGenerateContent` <-> `Request`.

The URL has the model and whether to stream, not the body: decoding leaves them empty for the caller to fill, and `path`
writes them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from msgspec import UNSET, UnsetType

from toolglot.dialects.gemini.blocks import (
    decode_part,
    decode_parts,
    encode_call,
    encode_media,
    encode_result,
    encode_text,
    encode_usual_result,
    is_own_cut_call,
    keep,
    parts_shape,
    split_signature,
)
from toolglot.dialects.gemini.native import NAME
from toolglot.dialects.gemini.settings import decode_settings, encode_settings
from toolglot.dialects.gemini.tools import NULL_TOOLS, decode_choice, decode_tools, encode_choice, encode_tools
from toolglot.dialects.gemini.wire import REQUESTS, Content, GeminiRequestBody, Part, SystemInstruction
from toolglot.errors import DecodeError, expected
from toolglot.ir import (
    Block,
    Media,
    Message,
    Opaque,
    Refusal,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    native_of,
    replace,
    with_native,
)
from toolglot.receipt import Receipt
from toolglot.tools.cached_settings import decode_with_cached_settings
from toolglot.wire import incremental_json, json
from toolglot.wire.bad_arguments import describe_bad_arguments, note_repeated_keys
from toolglot.wire.native import fill_members
from toolglot.wire.settings_cache import SettingsCache
from toolglot.wire.structs import field_reader, members_without
from toolglot.wire.typed import UnsoundError

_ROLES = {"model": "assistant", "function": "tool", "": "user"}
"""Roles with another name in the IR. A missing role means the user, unless the content has calls (`_role_of`)."""

_TIERS = {"standard": "default", "unspecified": "auto", "flex": "flex", "priority": "priority"}
"""Service tiers -> their names in the IR."""
_WIRE_TIERS = {tier: name for name, tier in _TIERS.items()}
_SAME_TIERS = {"fast": "priority"}
"""OpenAI has two names for this tier."""

# https://cloud.google.com/resource-manager/docs/labels-overview: lower case, at most 63 characters.
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")


def path(request: Request) -> str:
    """`/v1beta/models/{model}:generateContent`, or its streaming sibling.

    A name may have slashes (`tunedModels/mine`), so it must not contain `.` or `..` segments, which could reach another
    resource. Escaping does not help, because servers resolve `%2e` as a dot.
    """
    return _resource(request.model) + ("streamGenerateContent?alt=sse" if request.stream else "generateContent")


@lru_cache(256)
def _resource(model: str) -> str:
    """Return the path of a model, up to the name of the method."""
    if model and not {"", ".", ".."}.isdisjoint(model.split("/")):
        raise DecodeError("$.model", "a part of the name between its slashes is empty or only dots")
    quoted = quote(model, safe="/-._~@")
    return f"/v1beta/{quoted}:" if "/" in quoted else f"/v1beta/models/{quoted}:"


# Decoding


_SETTINGS_CACHE = SettingsCache[Request, Message]("contents")


def decode_request(data: bytes) -> Request:
    known = decode_with_cached_settings(_SETTINGS_CACHE, REQUESTS, data, _decode_contents, _with_history)
    if known is not None:
        return known
    try:
        body = REQUESTS.read(data)
        contents = body.contents
        messages = _decode_contents(contents if isinstance(contents, list) else [contents], data)
        settings = _decode_settings(body)
    except (DecodeError, UnsoundError) as error:
        json.decode(data)  # errors of the JSON itself come first
        if isinstance(error, UnsoundError):
            raise DecodeError("$", "the document cannot be read") from None
        raise
    if isinstance(contents, list):
        _SETTINGS_CACHE.add(data, lambda: settings)
    return _with_history(settings, messages)


def _with_history(settings: Request, messages: Sequence[Message]) -> Request:
    return replace(settings, messages=(*settings.messages, *_mark_pieces(messages)))


def _decode_settings(body: GeminiRequestBody) -> Request:
    contents = body.contents
    declared = decode_tools(body.tools)
    fields, nested = _decode_configs(body)
    labels, odd_labels = _decode_labels(body.labels)
    tier, own_tier = _decode_tier(body.service_tier)
    notes = {
        "bare_tools": declared.is_bare,
        "groups": declared.groups,
        "labels": odd_labels,
        "tier": own_tier,
        "contents": "object" if isinstance(contents, Content) else None,
    }
    members = members_without(body, *_READ_MEMBERS) | nested
    if tier is not None:
        del members["serviceTier"]
    if declared is NULL_TOOLS:
        members["tools"] = None
    native = keep(members, **notes)
    return Request(
        model="",
        messages=tuple(_decode_instruction(body.system_instruction)),
        tools=declared.tools,
        metadata=labels,
        service_tier=tier,
        store=None if body.store is UNSET else body.store,
        native=native,
        **fields,
    )


_READ_MEMBERS = ("contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "labels", "store")


def _decode_configs(body: GeminiRequestBody) -> tuple[dict[str, Any], dict[str, Any]]:
    """Decode `generationConfig` and `toolConfig`: fields of `Request`, and the unknown members of each object under its
    name. An empty object is kept too."""
    fields: dict[str, Any] = {}
    nested: dict[str, Any] = {}
    if (settings := body.generation_config) is not UNSET:
        fields, rest = decode_settings(settings, "$.generationConfig")
        if rest or not fields:
            nested["generationConfig"] = rest
    if (config := body.tool_config) is not UNSET:
        if (calling := config.function_calling_config) is not UNSET:
            fields["tool_choice"] = decode_choice(calling)
        if config.rest is not UNSET or calling is UNSET:
            nested["toolConfig"] = members_without(config, "functionCallingConfig")
    return fields, nested


def _decode_tier(spelling: Any) -> tuple[str | None, str | None]:
    """Decode the service tier, and its spelling if encoding would give another. (None, None) for an unknown tier."""
    tier = _TIERS.get(spelling.lower()) if isinstance(spelling, str) else None
    return tier, spelling if tier is not None and (tier == "auto" or spelling != _WIRE_TIERS[tier]) else None


def _decode_labels(labels: dict[str, Any] | UnsetType) -> tuple[dict[str, str] | None, bool | None]:
    """Decode the labels. The second value is True if some do not have the form of a Google label: they go back
    unchanged, while such metadata of other clients is dropped.
    """
    if labels is UNSET:
        return None, None
    for key, value in labels.items():
        if not isinstance(value, str):
            raise expected(f"$.labels.{key}", "a string", value)
    return labels, True if not all(_is_label(key, value) for key, value in labels.items()) else None


def _is_label(key: str, value: str) -> bool:
    return _LABEL_KEY.fullmatch(key) is not None and _LABEL_VALUE.fullmatch(value) is not None


def _decode_instruction(instruction: str | list[Part] | SystemInstruction | UnsetType) -> tuple[Message, ...]:
    """Decode `systemInstruction`: a content. Some clients send a string, a list of parts or a single part."""
    if instruction is UNSET:
        return ()
    try:
        return (_decode_system(instruction),)
    except DecodeError as error:
        where = error.where.removeprefix(".parts") if isinstance(instruction, list) else error.where
        raise DecodeError(f"$.systemInstruction{where}", error.what) from None


def _decode_system(instruction: str | list[Part] | SystemInstruction) -> Message:
    if isinstance(instruction, str):
        return Message(role="system", content=(Text(text=instruction),), native={NAME: {"$instruction": "string"}})
    if isinstance(instruction, list):
        return Message(role="system", content=decode_parts(instruction), native={NAME: {"$instruction": "list"}})
    if instruction.parts is UNSET and instruction.text is not UNSET:
        return Message(role="system", content=(decode_part(instruction),), native={NAME: {"$instruction": "part"}})
    role = None if instruction.role is UNSET else instruction.role
    native = keep(members_without(instruction, "role", "parts"), instruction_role=role, parts=parts_shape(instruction))
    return Message(role="system", content=decode_parts(instruction.parts), native=native)


def _decode_contents(contents: list[Content], data: bytes) -> list[Message]:
    messages: list[Message] = []
    for content in incremental_json.drain(contents):
        try:
            messages.append(_decode_content(content))
        except DecodeError as error:
            raise DecodeError(f"$.contents[{len(messages)}]{error.where}", error.what) from None
    return messages


def _decode_content(content: Content) -> Message:
    role, blocks, shape = content.role or "", decode_parts(content.parts), parts_shape(content)
    is_usual = role == "user" or role == "model"
    if is_usual and shape is None and content.rest is UNSET:
        return Message(role=_ROLES.get(role, role), content=blocks)
    rest = members_without(content, "parts", "role" if role else "")
    return Message(
        role=_role_of(role, blocks),
        content=blocks,
        native=keep(rest, role=None if is_usual else role, parts=shape),
    )


def _role_of(role: str, blocks: tuple[Block, ...]) -> str:
    """Return the role in the IR. Google's Python SDK may leave out the role, also of the model's calls."""
    if not role and ToolCall in map(type, blocks) and ToolResult not in map(type, blocks):
        return "assistant"
    return _ROLES.get(role, role)


def _mark_pieces(messages: Sequence[Message]) -> Sequence[Message]:
    """Mark texts of the model that may continue in the next part or content with a note.

    A chat of the JavaScript SDK keeps every chunk of a streamed answer as a separate content. Other clients put the
    parts of all chunks into one content. For other APIs, such texts are joined without a separator.
    """
    marked: list[Message] | None = None
    for at, message in enumerate(messages):
        if message.role == "assistant" and (_has_assistant_neighbor(messages, at) or _has_adjacent_texts(message)):
            marked = [*messages] if marked is None else marked
            marked[at] = _mark_message_pieces(message)
    return messages if marked is None else marked


def _has_assistant_neighbor(messages: Sequence[Message], at: int) -> bool:
    """Whether the message before or after this one is also from the model."""
    return (at > 0 and messages[at - 1].role == "assistant") or (
        at + 1 < len(messages) and messages[at + 1].role == "assistant"
    )


def _has_adjacent_texts(message: Message) -> bool:
    """Return whether two texts, or two thoughts, are adjacent."""
    before: type[Block] | None = None
    for block in message.content:
        kind = type(block)
        if kind is before and (kind is Text or kind is Thinking):
            return True
        before = kind
    return False


def _mark_message_pieces(message: Message) -> Message:
    return replace(message, content=tuple(_mark_piece(block) for block in message.content))


def _mark_piece(block: Block) -> Block:
    # The API does not require the signature of a text back, but that of a thought. Any other member is a boundary.
    beside = native_of(block, NAME).keys() - {"thought"}
    if (isinstance(block, Text) and beside <= {"thoughtSignature"}) or (isinstance(block, Thinking) and not beside):
        return with_native(block, NAME, **{"$piece": True})
    return block


# Encoding


def encode_request(request: Request, receipt: Receipt) -> bytes:
    native = native_of(request, NAME)
    leading = _count_leading_system(request)
    body: dict[str, Any] = {}
    writer = GeminiContentWriter(receipt)
    if leading:
        body["systemInstruction"] = writer.instruction(request.messages[:leading])
    messages = request.messages
    contents = [writer.content(messages[number], number) for number in range(leading, len(messages))]
    body["contents"] = contents[0] if native.get("$contents") == "object" and len(contents) == 1 else contents
    if (tools := encode_tools(request, receipt)) is not None:
        body["tools"] = tools
    if config := _encode_tool_config(request, receipt):
        body["toolConfig"] = config
    settings = encode_settings(request, receipt)
    if rest := native.get("generationConfig"):
        settings = {**rest, **settings}
    if settings:
        body["generationConfig"] = settings
    if request.metadata is not None:
        body |= _encode_labels(request, request.metadata, receipt)
    if request.service_tier is not None or native:
        body |= _encode_tier(request, receipt)
    if request.store is not None:
        body["store"] = request.store
    _report_unsupported(request, receipt)
    for key, value in native.items():
        if not key.startswith("$") and key not in body:
            body[key] = value
    return json.encode_document(body, used_up="contents")


def _count_leading_system(request: Request) -> int:
    """Return the number of leading messages that form the system instruction."""
    for index, message in enumerate(request.messages):
        if message.role not in ("system", "developer") or "$role" in native_of(message, NAME):
            return index
    return len(request.messages)


class GeminiContentWriter:
    """Encodes messages as contents. Remembers the name of every call, for results that do not name their tool."""

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._names: dict[str, str] = {}

    def instruction(self, messages: tuple[Message, ...]) -> Any:
        if len(messages) == 1 and not messages[0].native:
            return {"parts": self._parts(messages[0], 0)}
        notes = native_of(messages[0], NAME) if len(messages) == 1 else {}
        parts = [part for number, item in enumerate(messages) for part in self._parts(item, number)]
        match notes.get("$instruction"):
            case "string" if len(parts) == 1 and parts[0].keys() == {"text"}:
                return parts[0]["text"]
            case "list":
                return parts
            case "part" if len(parts) == 1:
                return parts[0]
        rest = {key: value for message in messages for key, value in _own_members(message).items()}
        role = notes.get("$instruction_role")
        return fill_members({**_encode_shape(parts, notes), **({"role": role} if role is not None else {})}, rest)

    def content(self, message: Message, number: int) -> dict[str, Any]:
        parts = self._parts(message, number)
        notes = native_of(message, NAME)
        if not notes:
            return {"role": self._role(message, number), "parts": parts}
        role = notes.get("$role")
        if role is None or _role_of(role, message.content) != message.role:
            role = self._role(message, number)
        written = {**({"role": role} if role else {}), **_encode_shape(parts, notes)}
        return fill_members(written, _own_members(message))

    def _role(self, message: Message, number: int) -> str:
        role = message.role
        if role == "assistant":
            return "model"
        if role not in ("user", "tool"):
            why = "within a conversation Gemini knows user and model only"
            self._receipt.loss(f"messages[{number}]", f"role {role}", why)
        return "user"

    def _parts(self, message: Message, number: int) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for index, block in enumerate(message.content):
            part = self._encode_usual_part(block) or self._part(block, f"messages[{number}].content[{index}]")
            if part is not None:
                parts += split_signature(block, part)
        return parts

    def _encode_usual_part(self, block: Block) -> dict[str, Any] | None:
        """Encode a plain text, a call with an object, or a result of one text: nearly all blocks. None for others, and
        if the receipt needs a line."""
        if type(block) is Text:
            is_bare = not block.native and not block.citations and block.cache is None
            return {"text": block.text} if is_bare else None
        if type(block) is ToolCall:
            is_usual = block.cache is None and block.namespace is None and block.complete
            args = json.plain_object(block.arguments) if is_usual else None
            if args is None:
                return None
            self._names[block.id] = block.name
            return encode_call(block, args)
        if type(block) is ToolResult:
            is_usual = block.cache is None and block.name is not None and NAME not in block.native
            return encode_usual_result(block) if is_usual and len(block.content) == 1 else None
        return None

    def _part(self, block: Block, where: str) -> dict[str, Any] | None:
        if getattr(block, "cache", None) is not None:
            self._receipt.loss(where, "cache breakpoint", "Gemini caches automatically or by cachedContent")
        match block:
            case Text():
                if block.citations:
                    self._receipt.loss(where, "citations", "Gemini accepts none in a request")
                return encode_text(block)
            case Refusal():
                self._receipt.note(where, "refusal", "Gemini has no refusals: it is written as text")
                return encode_text(block)
            case Thinking():
                if not native_of(block, NAME):
                    self._receipt.loss(where, "reasoning", "Gemini accepts only its own")
                    return None
                return encode_text(block)
            case ToolCall():
                return self._call(block, where)
            case ToolResult():
                return encode_result(block, self._name_of(block, where), where, self._receipt)
            case Media():
                return encode_media(block, where, self._receipt)
            case Opaque(dialect=dialect, value=value) if dialect == NAME:
                part: dict[str, Any] = value
                return part
        self._receipt.loss(where, "content of another API", "Gemini does not know its type")
        return None

    def _call(self, call: ToolCall, where: str) -> dict[str, Any]:
        if call.id:
            self._names[call.id] = call.name
        if call.namespace is not None:
            self._receipt.loss(where, f"namespace {call.namespace}", "Gemini has no namespaces")
        args = json.object_of(call.arguments, is_request=True)
        if args is None and not is_own_cut_call(call):
            why = f"{describe_bad_arguments(call.arguments)}; Gemini takes an object, so they are in `_raw` as text"
            self._receipt.loss(where, "arguments", why)
            return encode_call(call, {"_raw": call.arguments})
        note_repeated_keys(call.arguments, f"{where}.arguments", self._receipt)
        return encode_call(call, args)

    def _name_of(self, result: ToolResult, where: str) -> str:
        if result.name is not None or native_of(result, NAME).get("$name") == "absent":
            return result.name or ""
        if result.call_id in self._names:
            return self._names[result.call_id]
        self._receipt.loss(where, "name of the tool", "no call in the conversation has this result's id")
        return result.call_id or "unknown"


def _encode_shape(parts: list[dict[str, Any]], notes: Any) -> dict[str, Any]:
    shape = notes.get("$parts")
    if shape == "absent" and not parts:
        return {}
    return {"parts": parts[0] if shape == "object" and len(parts) == 1 else parts}


def _own_members(message: Message) -> dict[str, Any]:
    return {key: value for key, value in native_of(message, NAME).items() if not key.startswith("$")}


def _encode_tool_config(request: Request, receipt: Receipt) -> Any:
    choice = encode_choice(request.tool_choice, receipt) if request.tool_choice is not None else None
    if choice is None:
        return None
    return {**(native_of(request, NAME).get("toolConfig") or {}), "functionCallingConfig": choice}


def _encode_labels(request: Request, metadata: dict[str, str], receipt: Receipt) -> dict[str, Any]:
    labels = dict(metadata)
    if not native_of(request, NAME).get("$labels"):
        for key, value in metadata.items():
            if not _is_label(key, value):
                receipt.loss(f"metadata.{key}", "metadata", "it does not fit the form of a Google label")
                del labels[key]
    return {"labels": labels} if labels or not metadata else {}


def _encode_tier(request: Request, receipt: Receipt) -> dict[str, Any]:
    tier, spelling = request.service_tier, native_of(request, NAME).get("$tier")
    if spelling is not None and _TIERS[spelling.lower()] == tier:
        return {"serviceTier": spelling}
    if tier is None or tier == "auto":  # the API's default
        return {}
    tier = _SAME_TIERS.get(tier, tier)
    if tier not in _WIRE_TIERS:
        receipt.loss("service_tier", f"service tier {tier}", "Gemini has no such tier")
        return {}
    return {"serviceTier": _WIRE_TIERS[tier]}


def _report_unsupported(request: Request, receipt: Receipt) -> None:
    """Report fields that this API does not have."""
    if request.parallel_tool_calls is False:
        receipt.loss("parallel_tool_calls", "parallel_tool_calls", _NO_SETTING)
    for field, _ in _unsupported_of(request):
        receipt.loss(field, field, _NO_SETTING)


_NO_SETTING = "Gemini has no such setting"
_UNSUPPORTED = ("verbosity", "user", "cache")
_unsupported_of = field_reader(*_UNSUPPORTED)
