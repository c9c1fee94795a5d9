"""Messages of Chat Completions <-> messages of the IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard

from toolglot.dialects.openai_chat.annotations import ANNOTATIONS, encode_annotations, take_annotations
from toolglot.dialects.openai_chat.blocks import (
    IMAGES,
    arguments_text,
    content_shape,
    decode_call,
    decode_calls,
    decode_content,
    decode_images,
    encode_cache_control,
    encode_call,
    encode_image,
    encode_part,
    encode_repeated_call,
    is_call,
    is_thinking_part,
    take_cache_control,
    take_member,
)
from toolglot.dialects.openai_chat.messages_api_parts import encode_call_part, encode_result_part
from toolglot.dialects.openai_chat.native import NAME
from toolglot.dialects.openai_chat.other_forms import CALL, RESULT
from toolglot.dialects.openai_chat.reasoning_details import (
    THINKING_BLOCKS,
    add_details,
    fill_provider_fields,
    take_details,
    unwrap_reasoning,
)
from toolglot.dialects.openai_chat.wire import (
    AnyMessage,
    AssistantMessage,
    ContentMessage,
    DeveloperMessage,
    FunctionMessage,
    ModelMessage,
    OtherMessage,
    ResultMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from toolglot.ir import (
    Block,
    Cache,
    Media,
    Message,
    Native,
    Opaque,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    native_of,
    replace,
    with_native,
)
from toolglot.receipt import Receipt
from toolglot.wire.native import fill_members, make_native, native_members
from toolglot.wire.structs import count_members, members_without

LocatedBlock: TypeAlias = tuple[Block, str]
"""A block and its path."""

REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
_REPEATED = REASONING_FIELDS[:2]
"""The fields that newer versions of vLLM both write."""
_REASONING = frozenset(REASONING_FIELDS)

_ROLES: dict[type[ContentMessage], str] = {
    UserMessage: "user",
    SystemMessage: "system",
    DeveloperMessage: "developer",
    AssistantMessage: "assistant",
}
_NULL: Native = {NAME: {"$content": "null"}}


# Fast paths: nearly all messages of a long conversation have no optional members.


def _decode_simple_message(message: ContentMessage) -> Message:
    content = message.content
    if type(content) is str and content and count_members(message) == 1:
        return Message(role=_ROLES[type(message)], content=(Text(text=content),))
    return _decode_full_message(message)


def _decode_assistant(message: AssistantMessage) -> Message:
    content, listed = message.content, message.tool_calls
    if not listed:
        return _decode_simple_message(message)
    if count_members(message) == 2:
        if content is None:
            return Message(role="assistant", content=tuple([decode_call(call) for call in listed]), native=_NULL)
        if type(content) is str and content:
            calls = [decode_call(call) for call in listed]
            return Message(role="assistant", content=(Text(text=content), *calls))
    return _decode_full_message(message)


def _decode_tool(message: ToolMessage) -> Message:
    content, call_id = message.content, message.tool_call_id
    if type(content) is str and content and call_id and count_members(message) == 2:
        return Message(role="tool", content=(ToolResult(call_id=call_id, content=(Text(text=content),)),))
    return _decode_result(message)


def _decode_full_message(message: ContentMessage) -> Message:
    """Decode a message with optional members: reasoning, a refusal, deprecated calls, unknown members."""
    model = message if isinstance(message, ModelMessage) else None
    rest = members_without(message, "content", *(present_lists(model) if model else ()))
    role = _ROLES.get(type(message)) or rest.pop("role")
    blocks, reasoning = decode_content(message.content), take_reasoning(rest)
    shape: dict[str, Any] = {"content": content_shape(message.content)}
    if model and model.annotations:
        blocks = take_annotations(rest, blocks)
        are_taken = rest.get(ANNOTATIONS) != model.annotations
        if are_taken and (ANNOTATIONS in rest or len(blocks) > 1):
            shape[ANNOTATIONS] = model.annotations
    if message.refusal:
        blocks = (*blocks, take_refusal(rest))
    if model:
        reasoning = take_details(rest, reasoning)
        blocks = (*blocks, *decode_images(model), *decode_calls(model))
        if model.tool_calls == []:
            del rest["tool_calls"]
            shape["no_calls"] = True
    content = (*reasoning, *blocks)
    if "cache_control" in rest:
        cache, shape["cache_control"] = take_cache_control(rest)
        content = content if cache is None else _mark_last_block(content, cache)
    return Message(role=role, content=content, native=make_native(NAME, rest, **shape))


def present_lists(message: ModelMessage) -> list[str]:
    """Return the names of a message's non-empty members with calls and images. Nulls and empty lists are ignored."""
    return [name for name in _TYPED_LISTS if getattr(message, name)]


_TYPED_LISTS = ("tool_calls", "function_call", "images")


def _mark_last_block(content: tuple[Block, ...], cache: Cache) -> tuple[Block, ...]:
    """Put the cache breakpoint of a message on its last block that can have one."""
    for index in range(len(content) - 1, -1, -1):
        block = content[index]
        if isinstance(block, (Text, Media, ToolCall)) and block.cache is None:
            marked = with_native(replace(block, cache=cache), NAME, **{"$marked_by_message": True})
            return (*content[:index], marked, *content[index + 1 :])
    return content


def _decode_result(message: ResultMessage) -> Message:
    content, call_id = message.content, message.tool_call_id
    rest = members_without(message, "content")
    cache, control = take_cache_control(rest)
    member = "name" if rest.get("name") is not None or not isinstance(rest.get("tool_name"), str) else "tool_name"
    name = take_member(rest, member)
    if rest.get("tool_name") == name and name is not None:
        member = "both"
        del rest["tool_name"]
    result = ToolResult(
        call_id=take_member(rest, "tool_call_id") or "", name=name, content=decode_content(content), cache=cache
    )
    notes = {
        "content": content_shape(content),
        "named": member if name is not None else None,
        "legacy": True if isinstance(message, FunctionMessage) else None,
        "no_id": True if not isinstance(call_id, str) else None,
        "cache_control": control,
    }
    return Message(role="tool", content=(result,), native=make_native(NAME, rest, **notes))


_DECODERS: dict[type[AnyMessage], Callable[[Any], Message]] = {
    UserMessage: _decode_simple_message,
    AssistantMessage: _decode_assistant,
    ToolMessage: _decode_tool,
    SystemMessage: _decode_simple_message,
    DeveloperMessage: _decode_simple_message,
    FunctionMessage: _decode_result,
    OtherMessage: _decode_full_message,
}


def decode_message(message: AnyMessage) -> Message:
    return _DECODERS[type(message)](message)


def encode_message(message: Message, where: str, receipt: Receipt) -> list[dict[str, Any]]:
    """Encode one message as wire messages. Each tool result becomes a separate message before the others."""
    results: list[dict[str, Any]] = []
    others: list[LocatedBlock] = []
    for index, block in enumerate(message.content):
        place = f"{where}.content[{index}]"
        if isinstance(block, ToolResult) and RESULT not in native_of(block, NAME):
            results.append(_encode_result(block, message, place, receipt))
        else:
            others.append((block, place))
    if results and not others:
        return results
    role = "user" if message.role == "tool" else message.role
    return [*results, _encode_full_message(role, others, message, receipt)]


def encode_simple_message(role: str, content: tuple[Block, ...]) -> dict[str, Any] | None:
    """Encode a message of the usual form: texts followed by calls, or one result with one text. Returns None for any
    other form, and if a block has native members of this dialect."""
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for block in content:
        if type(block) is Text:
            if calls or block.cache is not None or block.citations or NAME in block.native:
                return None
            texts.append(block.text)
        elif type(block) is ToolCall:
            if NAME in block.native or block.kind != "function" or not block.arguments:
                return None
            function = {"name": block.name, "arguments": block.arguments}
            calls.append({"id": block.id, "type": "function", "function": function})
        elif type(block) is ToolResult and len(content) == len(block.content) == 1:
            text = block.content[0]
            if type(text) is not Text or text.cache is not None or NAME in text.native:
                return None
            return {"role": "tool", "tool_call_id": block.call_id, "content": text.text}
        else:
            return None
    if not content or role == "tool":
        return None
    said: Any = [{"type": "text", "text": text} for text in texts] if len(texts) > 1 else texts[0] if texts else None
    return {"role": role, "content": said, "tool_calls": calls} if calls else {"role": role, "content": said}


def _is_plain_text(block: Block) -> TypeGuard[Text]:
    """Return whether this is a text that a string can carry completely."""
    if not isinstance(block, Text):
        return False
    notes = native_of(block, NAME)
    return (block.cache is None and not notes) or notes.keys() == {"$marked_by_message"}


def _encode_full_message(role: str, blocks: list[LocatedBlock], message: Message, receipt: Receipt) -> dict[str, Any]:
    notes = native_of(message, NAME)
    wire: dict[str, Any] = {"role": role}
    parts: list[LocatedBlock] = []
    calls: list[ToolCall | Opaque] = []
    for block, place in blocks:
        if is_call(block) and CALL not in native_of(block, NAME):
            calls.append(block)
            continue
        match block:
            case Thinking() if not is_thinking_part(block):
                _add_reasoning(wire, block, place, receipt)
            case Media() if "$entry" in native_of(block, NAME):
                if (image := encode_image(block, place, receipt)) is not None:
                    wire.setdefault(IMAGES, []).append(image)
            case Refusal(text=text) if native_of(block, NAME).get("$field"):
                wire["refusal"] = text
            case _:
                if calls:
                    receipt.note(place, "text after a call", "Chat has the text before the calls")
                parts.append((block, place))
    shape = notes.get("$content")
    if parts or shape != "absent":
        missing = None if calls or "refusal" in wire else ""
        wire["content"] = _encode_content(parts, shape, missing, receipt)
    _add_calls(wire, calls)
    if notes.get("$no_calls") and not calls:
        wire["tool_calls"] = []
    wire = fill_members(wire, native_members(notes))
    fill_provider_fields(wire, notes)
    if annotations := _encode_citations(role, parts, receipt):
        wire[ANNOTATIONS] = notes.get(f"${ANNOTATIONS}", annotations)
    return wire | encode_cache_control(message)


def _encode_citations(role: str, parts: list[LocatedBlock], receipt: Receipt) -> list[dict[str, Any]]:
    annotations: list[dict[str, Any]] = []
    offset = 0
    for block, place in parts:
        if not isinstance(block, Text):
            continue
        if block.citations and role == "assistant":
            annotations += encode_annotations(block.citations, offset, len(block.text), place, receipt)
        elif block.citations:
            receipt.loss(f"{place}.citations", "citations", "only the model's own text can have annotations")
        offset += len(block.text)
    return annotations


def _add_reasoning(wire: dict[str, Any], block: Thinking, place: str, receipt: Receipt) -> None:
    if not add_details(wire, block, place, receipt) and not block.text:
        receipt.loss(place, "reasoning without text", "Chat Completions has no place for it")
    for field in reasoning_field_names(block):
        wire[field] = f"{wire[field]}\n\n{block.text}" if field in wire else block.text


def take_reasoning(members: dict[str, Any]) -> list[Thinking]:
    """Take the reasoning out of a message's members. Newer versions of vLLM repeat it in both fields."""
    if _REASONING.isdisjoint(members):
        return []
    texts = {field: members.pop(field) for field in REASONING_FIELDS if isinstance(members.get(field), str)}
    found = {field: text for field, text in texts.items() if text}
    if (*found,) == _REPEATED and len(set(found.values())) == 1:
        field = REASONING_FIELDS[0]
        return [Thinking(text=found[field], native={NAME: {"$field": field, "$twice": True}})]
    return [Thinking(text=text, native={NAME: {"$field": field}}) for field, text in found.items()]


def take_wrapped_reasoning(members: dict[str, Any]) -> list[Thinking]:
    """Take reasoning that is an object out of an answer's members. Its other members stay with it."""
    for field in REASONING_FIELDS:
        if (found := unwrap_reasoning(members.get(field))) is not None and found[0]:
            del members[field]
            return [Thinking(text=found[0], native={NAME: {"$field": field, **found[1]}})]
    return []


def take_refusal(members: dict[str, Any]) -> Refusal:
    return Refusal(text=members.pop("refusal"), native={NAME: {"$field": True}})


def reasoning_field_names(block: Thinking) -> tuple[str, ...]:
    """Return the fields that hold the text of this reasoning."""
    notes = native_of(block, NAME)
    field = notes.get("$field", REASONING_FIELDS[0])
    if not block.text or field == THINKING_BLOCKS:  # the entries of `thinking_blocks` hold the text
        return ()
    return _REPEATED if notes.get("$twice") else (field,)


def _add_calls(wire: dict[str, Any], calls: list[ToolCall | Opaque]) -> None:
    listed: list[dict[str, Any]] = []
    for call in calls:
        notes = native_of(call, NAME)
        if isinstance(call, ToolCall) and notes.get("$legacy"):
            wire["function_call"] = {"name": call.name, "arguments": arguments_text(call), **native_members(notes)}
        else:
            listed.append(encode_call(call))
    if listed:
        wire["tool_calls"] = listed
    wire |= encode_repeated_call(calls)


_EMPTY: dict[str | None, Any] = {"empty": "", "parts": [], "null": None}


def _encode_content(parts: list[LocatedBlock], shape: str | None, missing: str | None, receipt: Receipt) -> Any:
    """Encode content as a string for one plain text, otherwise as a list of parts. Empty content becomes `missing`,
    unless its original form is known."""
    if not parts:
        return _EMPTY.get(shape, missing)
    first = parts[0][0]
    if len(parts) == 1 and shape != "parts" and _is_plain_text(first):
        return first.text
    encoded = [_encode_part(part, place, receipt) for part, place in parts]
    return [part for part in encoded if part is not None]


def _encode_part(block: Block, place: str, receipt: Receipt) -> dict[str, Any] | None:
    """Encode one content part. Calls and results are parts if they were in the form of the Messages API."""
    match block:
        case ToolCall():
            return encode_call_part(block)
        case ToolResult():
            parts = [(part, f"{place}.content[{index}]") for index, part in enumerate(block.content)]
            shape = native_of(block, NAME)[RESULT]
            return encode_result_part(block, _encode_content(parts, shape, "", receipt))
    return encode_part(block, place, receipt)


_NAME_MEMBERS: dict[str | None, tuple[str, ...]] = {
    "name": ("name",),
    "tool_name": ("tool_name",),
    "both": ("name", "tool_name"),
}
"""The members that name the tool of a result, by their notes."""


def _encode_result(result: ToolResult, message: Message, where: str, receipt: Receipt) -> dict[str, Any]:
    # Native members of the message belong to its single result; a message with more results is from another wire.
    notes = native_of(message, NAME) if len(message.content) == 1 else {}
    legacy = bool(notes.get("$legacy"))
    identity: dict[str, Any] = {}
    # The deprecated role refers to the call by name only, even if an id has been derived since.
    if not notes.get("$no_id") or (result.call_id and not legacy):
        identity["tool_call_id"] = result.call_id
    if result.name is not None:
        identity |= dict.fromkeys(_NAME_MEMBERS.get(notes.get("$named"), ("name",) if legacy else ()), result.name)
    role = "function" if legacy else "tool"
    shape = notes.get("$content")
    parts = [(part, f"{where}.content[{index}]") for index, part in enumerate(result.content)]
    content = _encode_content(parts, shape, "", receipt)
    mark = encode_cache_control(message) if notes else {}
    return {
        "role": role,
        **identity,
        **({} if shape == "absent" else {"content": content}),
        **native_members(notes),
        **mark,
    }
