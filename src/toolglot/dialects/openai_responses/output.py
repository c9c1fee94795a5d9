"""Items of a response's `output` <-> blocks.

The blocks of all items form one list. Each part of a message has notes on its item (`$output` is the item's position,
`$item` its other fields), so that the parts of one message can be put together again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from msgspec import UNSET

from toolglot.dialects.openai_responses.blocks import (
    carried_members,
    decode_content,
    default_members,
    encode_part,
    is_image_call,
    is_part,
    own_members,
    without_nulls,
)
from toolglot.dialects.openai_responses.items import (
    CALL_FIELDS,
    BlockGroup,
    arguments_text,
    check_unknown_item,
    decode_call,
    decode_image_call,
    decode_reasoning,
    encode_image_call,
    group_by_item,
    is_ambiguous,
    is_empty_text,
    is_generated_image,
    notes_of,
    summary_parts,
)
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.wire import CallItem, OutputItem, OutputMessage, ReasoningItem
from toolglot.ir import Block, Media, Native, Opaque, Text, Thinking, ToolCall, native_of, replace
from toolglot.receipt import Receipt, describe_block
from toolglot.wire.native import native_members
from toolglot.wire.structs import Unknown, as_json
from toolglot.wire.typed import ValueReader

read_output_item = ValueReader[OutputItem](OutputItem).read_value


def decode_output_item(item: OutputItem, place: int) -> list[Block]:
    """Decode one item of a response."""
    if isinstance(item, OutputMessage):
        return _decode_output_message(item, place)
    if isinstance(item, ReasoningItem):
        return [decode_reasoning(item)]
    if isinstance(item, Unknown):
        value = check_unknown_item(item)
        return [decode_image_call(value) if is_generated_image(value) else Opaque(NAME, value)]
    if isinstance(item, CallItem) and is_ambiguous(item):
        return [Opaque(NAME, as_json(item))]
    return [decode_call(item)]


def _decode_output_message(item: OutputMessage, place: int) -> list[Block]:
    if item.rest is UNSET and item.role == "assistant" and UNSET not in (item.id, item.status, item.content):
        named = {"id": item.id, "status": item.status}
        note = {"$output": place, "$item": named if item.phase is UNSET else {**named, "phase": item.phase}}
        return _decode_message_parts(item, place, note)
    fields = carried_members(item, "id", "status", "role", "phase")
    if item.rest is UNSET or not item.rest.is_implied:
        fields["type"] = "message"
    lacking = ["content"] if item.content is UNSET and "content" not in fields else []
    return _decode_message_parts(item, place, message_note(fields, place, lacking))


def _decode_message_parts(item: OutputMessage, place: int, note: dict[str, Any]) -> list[Block]:
    """Decode the parts of a message, and add the note on their item."""
    parts = decode_content(item.content, "assistant") if item.content is not UNSET else ()
    # A message without parts is still a message.
    blocks = [add_note(part, note) for part in parts] or [empty_message(note)]
    if place and isinstance(first := blocks[0], Text):
        blocks[0] = replace(first, new_message=True)
    return blocks


def message_note(item: dict[str, Any], place: int, lacking: list[str] | None = None) -> dict[str, Any]:
    """Create the note on the parts of a message. It includes `content` only if the content is empty."""
    absentees = [*(lacking or ()), *(key for key in ("id", "type", "status", "role") if key not in item)]
    fields = {key: value for key, value in item.items() if key != "content" or not value}
    if fields.get("type") != "":  # an empty type is written back
        fields.pop("type", None)
    if fields.get("role") == "assistant":
        del fields["role"]
    if fields.get("content") == []:
        del fields["content"]
    return {"$output": place, "$item": {**fields, **without_nulls(**{"$absent": absentees or None})}}


def add_note(block: Block, note: dict[str, Any]) -> Block:
    if isinstance(block, Opaque):
        return Opaque(NAME, {**block.value, **note})
    return replace(block, native=merge_note(block.native, note))


def merge_note(native: Native, note: dict[str, Any]) -> Native:
    return {**native, NAME: {**native.get(NAME, {}), **note}}


def empty_message(note: dict[str, Any]) -> Text:
    return Text(text="", native={NAME: {"$empty": True, **note}})


_INVALID_ID_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]")


class ItemIds:
    """Derives ids for items without one from the response's id and the item's position: never random."""

    __slots__ = ("_stem", "_used")

    def __init__(self, response_id: str) -> None:
        stem = _INVALID_ID_CHARACTERS.sub("_", response_id.removeprefix("resp_")) or "0"
        # The API allows 64 characters; the prefix and the position need some of them.
        self._stem = stem if len(stem) <= 48 else sha256(response_id.encode()).hexdigest()[:32]
        self._used: set[str] = set()

    def assign(self, wanted: Any, prefix: str, place: int) -> str:
        """Return the original id of the item if no earlier item has it, otherwise a derived one."""
        if isinstance(wanted, str) and wanted and wanted not in self._used:
            self._used.add(wanted)
            return wanted
        return f"{prefix}_{self._stem}_{place}"


def encode_output(blocks: tuple[Block, ...], ids: ItemIds, receipt: Receipt, *, cut: bool) -> list[dict[str, Any]]:
    """Encode all items. `cut`: the last one may have been cut; a cut message is incomplete."""
    if (plain := _encode_plain(blocks, ids, cut=cut)) is not None:
        return plain
    items: list[dict[str, Any]] = []
    paths = ((block, f"content[{index}]") for index, block in enumerate(blocks))
    for group in group_by_item(paths, join=False):
        item_id = ids.assign(original_item_id(group[0][0]), item_id_prefix(group[0][0]), len(items))
        last = group[-1][0] is blocks[-1]
        if (item := encode_output_item(group, item_id, receipt, cut=cut and last)) is not None:
            items.append(item)
    return items


def _encode_plain(blocks: tuple[Block, ...], ids: ItemIds, *, cut: bool) -> list[dict[str, Any]] | None:
    """Encode an answer of the usual form of other APIs: texts and calls, one item each. Returns None for any other
    form, and if a block has native members of this dialect."""
    items: list[dict[str, Any]] = []
    for block in blocks:
        if NAME in block.native:
            return None
        if type(block) is Text and block.cache is None and not block.citations and not block.logprobs:
            part = {"type": "output_text", "text": block.text, "annotations": [], "logprobs": []}
            status = "incomplete" if cut and block is blocks[-1] else "completed"
            head = {"id": ids.assign(None, "msg", len(items)), "type": "message", "status": status, "role": "assistant"}
            items.append({**head, "content": [part]})
        elif type(block) is ToolCall and block.kind == "function" and block.namespace is None:
            items.append(
                {
                    "id": ids.assign(None, "fc", len(items)),
                    "status": "completed" if block.complete else "incomplete",
                    "type": "function_call",
                    "call_id": block.id,
                    "name": block.name,
                    "arguments": arguments_text(block),
                }
            )
        else:
            return None
    return items


def original_item_id(block: Block) -> Any:
    """Return the id that the block's item had when it was received."""
    if is_part(block):
        note = notes_of(block).get("$item")
        return note.get("id") if isinstance(note, dict) else None
    return native_of(block, NAME).get("id")


_PREFIXES: dict[type, str] = {Thinking: "rs", Media: "ig"}


def item_id_prefix(block: Block) -> str:
    if isinstance(block, ToolCall):
        return "ctc" if block.kind == "custom" else "fc"
    return _PREFIXES.get(type(block), "msg")


def encode_output_item(
    group: BlockGroup, item_id: str, receipt: Receipt, *, cut: bool = False
) -> dict[str, Any] | None:
    """Encode one item of `output`; None, with a loss in the receipt, if there is no item for the block."""
    block, where = group[0]
    encoder = _ITEM_ENCODERS.get(type(block))
    if isinstance(block, Opaque) and not is_part(block):
        if block.dialect == NAME and isinstance(block.value, dict):
            return block.value
        receipt.loss(where, describe_block(block), f"{NAME} has no known equivalent")
        return None
    if encoder is not None:
        return encoder(block, item_id)
    if is_part(block) and (not isinstance(block, Media) or "$output" in notes_of(block)):
        return _encode_output_message(group, item_id, receipt, "incomplete" if cut else "completed")
    if isinstance(block, Media) and is_image_call(block):
        return encode_image_call(block)
    if isinstance(block, Media) and block.kind == "image" and block.source.kind == "base64":
        if block.name is not None:
            receipt.loss(f"{where}.name", block.name, "an image of the Responses API has no name")
        result = block.source.data
        return {"id": item_id, "type": "image_generation_call", "status": "completed", "result": result}
    receipt.loss(where, describe_block(block), "a response of the Responses API has no item for it")
    return None


def _encode_output_message(group: BlockGroup, item_id: str, receipt: Receipt, status: str) -> dict[str, Any]:
    note = notes_of(group[0][0]).get("$item")
    fields: dict[str, Any] = note if isinstance(note, dict) else {}
    lacking = fields.get("$absent")
    content: list[dict[str, Any]] = []
    head = {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": content}
    without_nulls = {key: value for key, value in head.items() if not isinstance(lacking, list) or key not in lacking}
    for block, where in group:
        if is_empty_text(block) or (part := encode_part(block, "assistant", where, receipt)) is None:
            continue
        if isinstance(block, Text) and "logprobs" not in part:
            part = {**part, **default_members(block, logprobs=[]), **own_members(block)}
        content.append(part)
    listed = {"content": content} if content else {}
    return {**without_nulls, **native_members(fields), **listed}


def _encode_output_reasoning(block: Any, item_id: str) -> dict[str, Any]:
    return {
        **default_members(block, id=item_id),
        "type": "reasoning",
        **default_members(block, summary=summary_parts(block.text)),
        **own_members(block),
    }


def _encode_output_call(call: Any, item_id: str) -> dict[str, Any]:
    kind = "custom_tool_call" if call.kind == "custom" else "function_call"
    head = default_members(call, id=item_id, status="completed")
    text = arguments_text(call)
    item = {
        **head,
        **default_members(call, type=kind),
        **({"call_id": call.id} if call.id else default_members(call, call_id="")),
        "name": call.name,
        **without_nulls(namespace=call.namespace),
        **({CALL_FIELDS[kind]: text} if call.arguments else default_members(call, **{CALL_FIELDS[kind]: text})),
        **own_members(call),
    }
    if not call.complete:
        item["status"] = "incomplete"
    return item


_ITEM_ENCODERS: dict[type, Callable[[Any, str], dict[str, Any]]] = {
    Thinking: _encode_output_reasoning,
    ToolCall: _encode_output_call,
}
