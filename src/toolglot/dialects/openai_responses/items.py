"""Items of `input` <-> messages, and helpers that items of `output` share.

In a request one item is one `Message`; this module decodes and encodes those. `output.py` does the same for responses,
where the blocks of all items form one list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import UNSET, UnsetType

from toolglot.dialects.openai_responses.blocks import (
    IMAGE_CALL,
    carried_members,
    decode_content,
    decode_parts,
    default_members,
    encode_cache,
    encode_part,
    encode_parts,
    is_image_call,
    is_part,
    is_plain_text,
    missing_members,
    none_if_unset,
    own_members,
    without_nulls,
)
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.wire import (
    CallItem,
    CustomCallItem,
    CustomResultItem,
    MessageItem,
    ReasoningItem,
    ResponsesItem,
    ResultItem,
    ToolSearchCall,
)
from toolglot.errors import expected
from toolglot.ir import (
    Block,
    Media,
    Message,
    Native,
    Opaque,
    Source,
    Text,
    Thinking,
    ToolCall,
    ToolKind,
    ToolResult,
    native_of,
    with_native,
)
from toolglot.receipt import UNREAD, Note, Receipt, describe_block
from toolglot.wire import json
from toolglot.wire.native import make_native, native_members
from toolglot.wire.structs import UNTAGGED, Unknown, Wire, as_json, count_members

BlockGroup = list[tuple[Block, str]]
"""Blocks of one item, each with its path."""

CALL_FIELDS = {"function_call": "arguments", "custom_tool_call": "input"}
"""The types of calls that the client runs, and the member that holds their arguments."""
PHASE = "$phase"
"""The note on a text's phase, if the text was returned without its item."""
_FROM_CLIENT = {"mcp_approval_response", "compaction_trigger", "configuration_update"}


def item_type(item: dict[str, Any], where: str) -> str:
    """Return the type of an item that may lack it; "" if its members do not imply one."""
    kind = item.get("type")
    if kind is not None and not isinstance(kind, str):
        raise expected(f"{where}.type", "a string", kind)
    if kind is not None:
        return kind
    found = [tag for tag, members in _IMPLIED_TYPES.items() if all(item.get(member) is not None for member in members)]
    return found[0] if len(found) == 1 else ""


_IMPLIED_TYPES = {
    "message": (MessageItem.implied_by,),
    "function_call": (CallItem.implied_by, "call_id"),
    "function_call_output": (ResultItem.implied_by, "call_id"),
}


def decode_input_item(item: ResponsesItem) -> Message:
    return _DECODERS[type(item)](item)


_SHAPES: dict[tuple[bool, str | None], Native] = {
    (False, None): {},
    (False, "string"): {NAME: {"$content": "string"}},
    (True, None): {NAME: {"$absent": ["type"]}},
    (True, "string"): {NAME: {"$absent": ["type"], "$content": "string"}},
}
"""`native` of messages that have only role and content: whether `type` is missing, and the form of the content."""


def _decode_message(item: MessageItem) -> Message:
    role, content, rest = item.role, item.content, item.rest
    shape = "absent" if content is UNSET else "string" if type(content) is str else None
    blocks = decode_content(content, role) if content is not UNSET else ()
    is_bare = item.id is item.status is item.phase is UNSET and (rest is UNSET or rest is UNTAGGED)
    if is_bare and shape != "absent":
        return Message(role=role, content=blocks, native=_SHAPES[rest is UNTAGGED, shape])
    members, lacking = carried_members(item, "id", "status", "phase"), missing_members(item) or None
    return Message(role=role, content=blocks, native=make_native(NAME, members, absent=lacking, content=shape))


def decode_reasoning(item: ReasoningItem) -> Thinking:
    """Decode a reasoning item. Summary and reasoning text stay in `native`, because joined text cannot be split into
    its parts."""
    summary, content = _part_texts(item.summary), _part_texts(item.content)
    members = carried_members(item, "id", "summary", "content", "encrypted_content", "status")
    lacking, slot = missing_members(item, "id", "summary") or None, text_member(summary, content)
    native = make_native(NAME, members, absent=lacking, text=slot)
    return Thinking(text="\n\n".join(summary + content), native=native)


def text_member(summary: Iterable[str], content: Iterable[str]) -> str:
    """Return the member of a reasoning item that holds the readable text."""
    return "content" if any(content) and not any(summary) else "summary"


def _part_texts(parts: list[Any] | UnsetType | None) -> list[str]:
    if not parts:
        return []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str) and text]


_NO_ID_AND_STATUS: Native = {NAME: {"$absent": ["id", "status"]}}


def decode_call(item: CallItem | CustomCallItem) -> ToolCall:
    if isinstance(item, CustomCallItem):
        return _decode_call(item, "custom", item.input, "input")
    arguments = item.arguments
    if isinstance(arguments, dict):
        call = _decode_call(item, "function", json.encode_text(arguments), "arguments", "parsed_arguments")
        return with_native(call, NAME, **{UNREAD: (_OBJECT_NOTE,)})
    if item.call_id is not UNSET and arguments and item.rest is UNSET:
        count = count_members(item)
        if count == 3:
            return ToolCall(id=item.call_id, name=item.name, arguments=arguments, native=_NO_ID_AND_STATUS)
        if count == 5 and item.id is not UNSET and item.status is not UNSET:
            native = {NAME: {"id": item.id, "status": item.status}}
            whole = item.status != "incomplete"
            return ToolCall(id=item.call_id, name=item.name, arguments=arguments, complete=whole, native=native)
    return _decode_call(item, "function", arguments, "arguments", "parsed_arguments")


_OBJECT_NOTE = Note("arguments", "an object", "the Responses API has arguments as text; it is read as the same JSON")


def _decode_call(
    item: CallItem | CustomCallItem, kind: ToolKind, arguments: str | UnsetType, field: str, *others: str
) -> ToolCall:
    members, lacking = (
        carried_members(item, "id", "status", *others),
        missing_members(item, "call_id", field, "id", "status"),
    )
    empty = True if arguments == "" else None
    return ToolCall(
        id=none_if_unset(item.call_id) or "",
        name=item.name,
        arguments=none_if_unset(arguments) or "",
        kind=kind,
        namespace=none_if_unset(item.namespace),
        complete=item.status != "incomplete",
        native=make_native(NAME, members, absent=lacking or None, empty=empty),
    )


def _decode_result(item: ResultItem | CustomResultItem) -> ToolResult:
    output, name = item.output, none_if_unset(item.name)
    if type(output) is str and output and item.call_id and count_members(item) == 2 and type(item) is ResultItem:
        return ToolResult(call_id=item.call_id, content=(Text(text=output),))
    content: tuple[Block, ...] = ()
    parts = named = None
    if isinstance(output, list):
        content, parts = decode_parts(output, "tool"), True
    elif output:
        content = (Text(text=output),)
    if name is not None:
        named = True
    members, lacking = carried_members(item, "id", "status"), missing_members(item, "call_id", "output") or None
    return ToolResult(
        call_id=none_if_unset(item.call_id) or "",
        content=content,
        name=name,
        kind="custom" if isinstance(item, CustomResultItem) else "function",
        native=make_native(NAME, members, absent=lacking, parts=parts, named=named),
    )


def is_ambiguous(item: CallItem | ResultItem) -> bool:
    """Return whether the item lacks both type and id, and so may be anything."""
    return item.call_id is UNSET and item.rest is not UNSET and item.rest.is_implied


def _decode_call_item(item: CallItem) -> Message:
    return opaque_item(as_json(item)) if is_ambiguous(item) else Message(role="assistant", content=(decode_call(item),))


def _decode_result_item(item: ResultItem) -> Message:
    return opaque_item(as_json(item)) if is_ambiguous(item) else Message(role="tool", content=(_decode_result(item),))


def _decode_unknown(item: Unknown) -> Message:
    value = check_unknown_item(item)
    if is_generated_image(value):
        return Message(role="assistant", content=(decode_image_call(value),))
    return opaque_item(value)


def check_unknown_item(item: Unknown) -> dict[str, Any]:
    """Return the members of an item of unknown type. Raises if its type is known but a member is missing, or if its
    type is not a string.
    """
    value: dict[str, Any] = item.verbatim.value
    kind = value.get("type")
    if item.verbatim.missing is not None and (kind or value.get("call_id") is not None):
        raise item.verbatim.missing
    if kind is not None and not isinstance(kind, str):
        raise expected(f"{item.verbatim.where}.type", "a string", kind)
    return value


def opaque_item(value: dict[str, Any]) -> Message:
    kind, role = value.get("type") or "", value.get("role")
    if not isinstance(role, str):
        role = "user" if kind.endswith("_output") or kind in _FROM_CLIENT else "assistant"
    return Message(role=role, content=(Opaque(NAME, value),))


_DECODERS: dict[type[Wire], Callable[[Any], Message]] = {
    MessageItem: _decode_message,
    ReasoningItem: lambda item: Message(role="assistant", content=(decode_reasoning(item),)),
    CallItem: _decode_call_item,
    CustomCallItem: lambda item: Message(role="assistant", content=(decode_call(item),)),
    ResultItem: _decode_result_item,
    CustomResultItem: lambda item: Message(role="tool", content=(_decode_result(item),)),
    ToolSearchCall: lambda item: opaque_item(as_json(item)),
    Unknown: _decode_unknown,
}


_IMAGE_MEMBERS = ("action", "background", "output_format", "quality", "size", "status")
"""Members of an image item that only describe the image."""


def is_generated_image(item: dict[str, Any]) -> bool:
    """Return whether this is an item with an image. The API also accepts the id of one alone."""
    result = item.get("result")
    return item.get("type") == "image_generation_call" and isinstance(result, str) and bool(result)


def decode_image_call(item: dict[str, Any]) -> Media:
    shown = {key: item[key] for key in _IMAGE_MEMBERS if key in item}
    form = shown.get("output_format")
    source = Source("base64", item["result"], f"image/{form}" if isinstance(form, str) else "image/png")
    others = {key: value for key, value in item.items() if key not in _IMAGE_MEMBERS and key not in ("type", "result")}
    return Media(kind="image", source=source, native=make_native(NAME, others, image_call=shown))


def encode_image_call(block: Media) -> dict[str, Any]:
    """Encode an image that arrived as a separate item."""
    shown = native_of(block, NAME)[IMAGE_CALL]
    return {"type": "image_generation_call", "result": block.source.data, **shown, **own_members(block)}


def notes_of(block: Block) -> dict[str, Any]:
    notes = block.value if isinstance(block, Opaque) else native_of(block, NAME)
    return dict(notes) if is_part(block) else {}


def group_by_item(blocks: Iterable[tuple[Block, str]], *, join: bool) -> Iterator[BlockGroup]:
    """Group blocks by item. Parts with a note on the same item belong together; with `join`, so do parts without
    one."""
    group: BlockGroup = []
    for block, where in blocks:
        if group and is_part(block) and is_part(group[-1][0]):
            place = notes_of(block).get("$output")
            if place == notes_of(group[-1][0]).get("$output") and (join or place is not None):
                group.append((block, where))
                continue
        if group:
            yield group
        group = [(block, where)]
    if group:
        yield group


def encode_message(message: Message, where: str, receipt: Receipt, *, foreign: bool = False) -> list[dict[str, Any]]:
    """Encode one message as items. A message from this API is one item; others may be several, in order.

    `foreign`: the message comes from another dialect's client, so the server has not stored its reasoning.
    """
    paths = ((block, f"{where}.content[{index}]") for index, block in enumerate(message.content))
    groups = list(group_by_item(paths, join=True))
    if not groups:
        return [_encode_input_message(message, [], alone=True, receipt=receipt)]
    items: list[dict[str, Any]] = []
    for group in groups:
        block, path = group[0]
        if _is_foreign_text(message, group):
            items += [_encode_foreign_text(part) for part, _ in group if isinstance(part, Text)]
        elif is_part(block):
            items.append(_encode_input_message(message, group, alone=len(groups) == 1, receipt=receipt))
        elif (item := _encode_input_block(block, path, receipt)) is not None:
            if foreign and isinstance(block, Thinking) and not item.get("encrypted_content"):
                receipt.loss(path, "reasoning", "it has no encrypted content, and the server has not stored it")
            else:
                items.append(item)
    return items


def _is_foreign_text(message: Message, group: BlockGroup) -> bool:
    """Return whether these assistant texts come from another API. `output_text` is valid only in items with this API's
    ids."""
    foreign = message.role == "assistant" and not message.native.get(NAME)
    return foreign and all(is_plain_text(block) or _has_only_phase(block) for block, _ in group)


def _has_only_phase(block: Block) -> bool:
    """Return whether this is a text with no native member except its phase."""
    return isinstance(block, Text) and not block.citations and native_of(block, NAME).keys() == {PHASE}


def _encode_foreign_text(block: Text) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": block.text, **_phase_member(block)}


def _phase_member(block: Block) -> dict[str, Any]:
    return {"phase": native_of(block, NAME)[PHASE]} if PHASE in native_of(block, NAME) else {}


def _encode_input_message(message: Message, group: BlockGroup, *, alone: bool, receipt: Receipt) -> dict[str, Any]:
    notes = native_of(message, NAME)
    item_note = notes_of(group[0][0]).get("$item") if group else None
    extra = own_members(message) if alone else {}
    if isinstance(item_note, dict):
        extra = native_members(item_note)
    elif group:
        extra = {**_phase_member(group[0][0]), **extra}
    blocks = [block for block, _ in group]
    # Text next to tool results belongs to the user.
    role = "user" if message.role == "tool" and not alone else message.role
    content: dict[str, Any] = {}
    if notes.get("$content") == "string" and len(blocks) == 1 and is_plain_text(blocks[0]):
        content["content"] = blocks[0].text if isinstance(blocks[0], Text) else ""
    elif blocks or notes.get("$content") != "absent":
        parts = (encode_part(block, role, path, receipt) for block, path in group if not is_empty_text(block))
        content["content"] = [part for part in parts if part is not None]
    return {**default_members(message, type="message"), "role": role, **content, **extra}


def is_empty_text(block: Block) -> bool:
    return isinstance(block, Text) and not block.text and bool(native_of(block, NAME).get("$empty"))


def _encode_input_block(block: Block, where: str, receipt: Receipt) -> dict[str, Any] | None:
    match block:
        case ToolCall():
            return _encode_call(block, where, receipt)
        case ToolResult():
            return _encode_result(block, where, receipt)
        case Thinking() if native_of(block, NAME):
            _report_cache(block, where, receipt)
            return {
                "type": "reasoning",
                **default_members(block, summary=summary_parts(block.text)),
                **own_members(block),
            }
        case Thinking():
            receipt.loss(where, "reasoning", "the Responses API accepts only its own reasoning items")
        case Opaque(dialect=dialect, value=value) if dialect == NAME and isinstance(value, dict):
            return value
        case Media() if is_image_call(block):
            return encode_image_call(block)
        case _:
            receipt.loss(where, describe_block(block), "the Responses API has no item for it")
    return None


def summary_parts(text: str) -> list[dict[str, Any]]:
    return [{"type": "summary_text", "text": text}] if text else []


def _report_cache(block: ToolCall | Thinking, where: str, receipt: Receipt) -> None:
    if block.cache is not None:
        receipt.loss(f"{where}.cache", "cache breakpoint", "only content parts of the Responses API carry one")


def arguments_text(call: ToolCall) -> str:
    """Return the arguments as text. Empty ones become the empty object, unless they came as \"\" or the call was cut
    before them.
    """
    empty = not call.arguments.strip() and call.kind == "function" and call.complete
    return "{}" if empty and not native_of(call, NAME).get("$empty") else call.arguments


def _encode_call(call: ToolCall, where: str, receipt: Receipt) -> dict[str, Any]:
    _report_cache(call, where, receipt)
    kind = "custom_tool_call" if call.kind == "custom" else "function_call"
    text = arguments_text(call)
    named = {"name": call.name, **without_nulls(namespace=call.namespace)}
    identity = {"call_id": call.id} if call.id else default_members(call, call_id="")
    arguments = {CALL_FIELDS[kind]: text} if call.arguments else default_members(call, **{CALL_FIELDS[kind]: text})
    item = {**default_members(call, type=kind), **identity, **named, **arguments, **own_members(call)}
    if not call.complete:
        item["status"] = "incomplete"
    return item


def _encode_result(result: ToolResult, where: str, receipt: Receipt) -> dict[str, Any]:
    notes = native_of(result, NAME)
    if result.is_error:
        receipt.loss(f"{where}.is_error", "error flag", "a tool output of the Responses API has none")
    output: Any = None
    if not notes.get("$parts") and result.cache is None and _is_plain_content(result.content):
        output = "".join(block.text for block in result.content if isinstance(block, Text))
    else:
        output = encode_parts(result.content, "tool", f"{where}.content", receipt)
        if result.cache is not None and output:
            # The breakpoint follows the result, so it belongs to the last part.
            output[-1] = {**output[-1], **encode_cache(result.cache)}
    return {
        **default_members(
            result, type="custom_tool_call_output" if result.kind == "custom" else "function_call_output"
        ),
        **({"call_id": result.call_id} if result.call_id else default_members(result, call_id="")),
        **(without_nulls(name=result.name) if notes.get("$named") else {}),
        **({"output": output} if output else default_members(result, output=output)),
        **own_members(result),
    }


def _is_plain_content(content: tuple[Block, ...]) -> bool:
    return not content or (len(content) == 1 and is_plain_text(content[0]))
