"""Items of a response's `output` <-> blocks.

The blocks of all items stand in one row. A part of a message notes its item (`$output` is the item's place, `$item`
its other fields), so that the parts of one message find together again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from msgspec import UNSET

from toolglot.dialects.openai_responses.blocks import (
    carried,
    decode_content,
    encode_part,
    filled,
    is_image_call,
    is_part,
    own,
    present,
)
from toolglot.dialects.openai_responses.items import (
    CALL_FIELDS,
    Group,
    arguments_text,
    decode_call,
    decode_image_call,
    decode_reasoning,
    encode_image_call,
    grouped,
    is_doubtful,
    is_empty,
    is_made_image,
    known_item,
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
    """The blocks of one item of a response."""
    if isinstance(item, OutputMessage):
        return _decode_output_message(item, place)
    if isinstance(item, ReasoningItem):
        return [decode_reasoning(item)]
    if isinstance(item, Unknown):
        value = known_item(item)
        return [decode_image_call(value) if is_made_image(value) else Opaque(NAME, value)]
    if isinstance(item, CallItem) and is_doubtful(item):
        return [Opaque(NAME, as_json(item))]
    return [decode_call(item)]


def _decode_output_message(item: OutputMessage, place: int) -> list[Block]:
    if item.rest is UNSET and item.role == "assistant" and UNSET not in (item.id, item.status, item.content):
        named = {"id": item.id, "status": item.status}
        note = {"$output": place, "$item": named if item.phase is UNSET else {**named, "phase": item.phase}}
        return _with_parts(item, place, note)
    fields = carried(item, "id", "status", "role", "phase")
    if item.rest is UNSET or not item.rest.is_implied:
        fields["type"] = "message"
    lacking = ["content"] if item.content is UNSET and "content" not in fields else []
    return _with_parts(item, place, message_note(fields, place, lacking))


def _with_parts(item: OutputMessage, place: int, note: dict[str, Any]) -> list[Block]:
    """The parts of a message, with a note on it."""
    parts = decode_content(item.content, "assistant") if item.content is not UNSET else ()
    # A message without parts still is a message.
    blocks = [with_note(part, note) for part in parts] or [empty_message(note)]
    if place and isinstance(first := blocks[0], Text):
        blocks[0] = replace(first, new_message=True)
    return blocks


def message_note(item: dict[str, Any], place: int, lacking: list[str] | None = None) -> dict[str, Any]:
    """What the parts of a message note about it. Its content is theirs to say, if there is any."""
    absentees = [*(lacking or ()), *(key for key in ("id", "type", "status", "role") if key not in item)]
    fields = {key: value for key, value in item.items() if key != "content" or not value}
    if fields.get("type") != "":  # which is written again as it was
        fields.pop("type", None)
    if fields.get("role") == "assistant":
        del fields["role"]
    if fields.get("content") == []:
        del fields["content"]
    return {"$output": place, "$item": {**fields, **present(**{"$absent": absentees or None})}}


def with_note(block: Block, note: dict[str, Any]) -> Block:
    if isinstance(block, Opaque):
        return Opaque(NAME, {**block.value, **note})
    return replace(block, native=noted(block.native, note))


def noted(native: Native, note: dict[str, Any]) -> Native:
    return {**native, NAME: {**native.get(NAME, {}), **note}}


def empty_message(note: dict[str, Any]) -> Text:
    return Text(text="", native={NAME: {"$empty": True, **note}})


_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")


class ItemIds:
    """Ids for items that have none, derived from the response's id and the item's place: never random."""

    __slots__ = ("_stem", "_used")

    def __init__(self, response_id: str) -> None:
        stem = _NOT_IN_IDS.sub("_", response_id.removeprefix("resp_")) or "0"
        # The API allows 64 characters; the prefix and the place need some of them.
        self._stem = stem if len(stem) <= 48 else sha256(response_id.encode()).hexdigest()[:32]
        self._used: set[str] = set()

    def of(self, wanted: Any, prefix: str, place: int) -> str:
        """The id the item wants, if it has one that no earlier item took, or a derived one."""
        if isinstance(wanted, str) and wanted and wanted not in self._used:
            self._used.add(wanted)
            return wanted
        return f"{prefix}_{self._stem}_{place}"


def encode_output(blocks: tuple[Block, ...], ids: ItemIds, receipt: Receipt, *, cut: bool) -> list[dict[str, Any]]:
    """All items; `cut`: the last one may have been cut, and a message that was is incomplete."""
    if (plain := _encode_plain(blocks, ids, cut=cut)) is not None:
        return plain
    items: list[dict[str, Any]] = []
    paths = ((block, f"content[{index}]") for index, block in enumerate(blocks))
    for group in grouped(paths, join=False):
        item_id = ids.of(wanted_id(group[0][0]), prefix_of(group[0][0]), len(items))
        last = group[-1][0] is blocks[-1]
        if (item := encode_output_item(group, item_id, receipt, cut=cut and last)) is not None:
            items.append(item)
    return items


def _encode_plain(blocks: tuple[Block, ...], ids: ItemIds, *, cut: bool) -> list[dict[str, Any]] | None:
    """The items of an answer as nearly all of other APIs are, at once: texts and calls, an item each. None for others,
    and where this dialect has something of its own on a block."""
    items: list[dict[str, Any]] = []
    for block in blocks:
        if NAME in block.native:
            return None
        if type(block) is Text and block.cache is None and not block.citations and not block.logprobs:
            part = {"type": "output_text", "text": block.text, "annotations": [], "logprobs": []}
            status = "incomplete" if cut and block is blocks[-1] else "completed"
            head = {"id": ids.of(None, "msg", len(items)), "type": "message", "status": status, "role": "assistant"}
            items.append({**head, "content": [part]})
        elif type(block) is ToolCall and block.kind == "function" and block.namespace is None:
            items.append(
                {
                    "id": ids.of(None, "fc", len(items)),
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


def wanted_id(block: Block) -> Any:
    """The id that the block's item had when it came."""
    if is_part(block):
        note = notes_of(block).get("$item")
        return note.get("id") if isinstance(note, dict) else None
    return native_of(block, NAME).get("id")


_PREFIXES: dict[type, str] = {Thinking: "rs", Media: "ig"}


def prefix_of(block: Block) -> str:
    if isinstance(block, ToolCall):
        return "ctc" if block.kind == "custom" else "fc"
    return _PREFIXES.get(type(block), "msg")


def encode_output_item(group: Group, item_id: str, receipt: Receipt, *, cut: bool = False) -> dict[str, Any] | None:
    """One item of `output`; None, with a line in the receipt, for what has no item here."""
    block, where = group[0]
    encoder = _OUTPUT.get(type(block))
    if isinstance(block, Opaque) and not is_part(block):
        if block.dialect == NAME and isinstance(block.value, dict):
            return block.value
        receipt.loss(where, describe_block(block), "only its own API understands it")
        return None
    if encoder is not None:
        return encoder(block, item_id)
    if is_part(block) and (not isinstance(block, Media) or "$output" in notes_of(block)):
        return _output_message(group, item_id, receipt, "incomplete" if cut else "completed")
    if isinstance(block, Media) and is_image_call(block):
        return encode_image_call(block)
    if isinstance(block, Media) and block.kind == "image" and block.source.kind == "base64":
        if block.name is not None:
            receipt.loss(f"{where}.name", block.name, "an image of the Responses API has no name")
        result = block.source.data
        return {"id": item_id, "type": "image_generation_call", "status": "completed", "result": result}
    receipt.loss(where, describe_block(block), "a response of the Responses API has no item for it")
    return None


def _output_message(group: Group, item_id: str, receipt: Receipt, status: str) -> dict[str, Any]:
    note = notes_of(group[0][0]).get("$item")
    fields: dict[str, Any] = note if isinstance(note, dict) else {}
    lacking = fields.get("$absent")
    content: list[dict[str, Any]] = []
    head = {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": content}
    present = {key: value for key, value in head.items() if not isinstance(lacking, list) or key not in lacking}
    for block, where in group:
        if is_empty(block) or (part := encode_part(block, "assistant", where, receipt)) is None:
            continue
        if isinstance(block, Text) and "logprobs" not in part:
            part = {**part, **filled(block, logprobs=[]), **own(block)}
        content.append(part)
    listed = {"content": content} if content else {}
    return {**present, **native_members(fields), **listed}


def _output_reasoning(block: Any, item_id: str) -> dict[str, Any]:
    return {
        **filled(block, id=item_id),
        "type": "reasoning",
        **filled(block, summary=summary_parts(block.text)),
        **own(block),
    }


def _output_call(call: Any, item_id: str) -> dict[str, Any]:
    kind = "custom_tool_call" if call.kind == "custom" else "function_call"
    head = filled(call, id=item_id, status="completed")
    text = arguments_text(call)
    item = {
        **head,
        **filled(call, type=kind),
        **({"call_id": call.id} if call.id else filled(call, call_id="")),
        "name": call.name,
        **present(namespace=call.namespace),
        **({CALL_FIELDS[kind]: text} if call.arguments else filled(call, **{CALL_FIELDS[kind]: text})),
        **own(call),
    }
    if not call.complete:
        item["status"] = "incomplete"
    return item


_OUTPUT: dict[type, Callable[[Any, str], dict[str, Any]]] = {Thinking: _output_reasoning, ToolCall: _output_call}
