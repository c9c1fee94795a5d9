"""Decode the event stream of a response to events.

Servers differ in the events that they send. Arguments may arrive in deltas, only in `…arguments.done`, only in
`output_item.done`, or only in `response.completed` (litellm #25321). So each later form *settles* a block: it adds the
text that the deltas left out, if any.

A block closes when its item is done, because only then the fields of the item are final.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from toolglot.dialects.openai_responses.errors import decode_failure
from toolglot.dialects.openai_responses.items import CALL_FIELDS, decode_call, item_type
from toolglot.dialects.openai_responses.native import NAME, SIDE_MEMBERS
from toolglot.dialects.openai_responses.output import decode_output_item, message_note, read_output_item
from toolglot.dialects.openai_responses.response import decode_envelope, decode_stop, has_no_answer
from toolglot.dialects.openai_responses.stream_state import (
    EMPTY_REFUSAL,
    EMPTY_TEXT,
    IGNORED_EVENTS,
    BlockWriter,
    OpenBlock,
    ResponsesFrame,
    StreamItem,
    delta_text,
    empty_part,
    read_annotation,
    read_frame,
    read_object,
)
from toolglot.dialects.openai_responses.wire import CallItem, CustomCallItem
from toolglot.errors import ApiError, DecodeError, spliced, truncated, unreadable
from toolglot.events import Event, Fault, Finish
from toolglot.ir import Refusal, Text, Thinking, replace
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.error_documents import find_error
from toolglot.wire.openai_logprobs import read_logprobs
from toolglot.wire.side_members import read_frame_again
from toolglot.wire.sse import STRAY, SseReader
from toolglot.wire.stray_lines import read_stray_error
from toolglot.wire.surrogates import SurrogateJoiner
from toolglot.wire.typed import ValueReader

_ITEM, _RESPONSE = "$.item", "$.response"
_OBJECTS = ValueReader(list[dict[str, Any]])
_IDS = ("id", "call_id")
ItemContent = tuple[str, ...] | None
"""The content of an item without its ids: its type, the name of a call, its texts. None if it is empty."""
_FAILURE_EVENTS = ("response.failed", "response.cancelled")


class ResponsesStreamDecoder:
    __slots__ = ("_all", "_blocks", "_ended", "_halves", "_id", "_items", "_known", "_receipt", "_sse", "_streamed")

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._sse = SseReader(keeps_stray=True)
        self._blocks = BlockWriter(receipt)
        self._all: list[StreamItem] = []
        self._items: dict[int | str | None, StreamItem] = {}  # by position, or by id if a server sends no position
        self._known: dict[tuple[str, str], StreamItem] = {}  # by item id and by call id
        self._streamed: dict[ItemContent, deque[StreamItem]] | None = None  # by content; built on first use
        self._halves = SurrogateJoiner()
        self._id = ""
        self._ended = False

    def feed(self, data: bytes) -> list[Event]:
        if not self._ended:
            try:
                for name, frame in self._sse.feed(data):
                    self._read_frame(name, frame)
            except DecodeError as error:
                self._fault(unreadable(error))
        return self._blocks.take_events()

    def close(self) -> list[Event]:
        if not self._ended:
            try:
                for name, frame in self._sse.close():
                    self._read_frame(name, frame)
            except DecodeError:
                pass  # cut in the middle of a frame: the fault below says so
            self._fault(truncated())
        return self._blocks.take_events()

    @property
    def settled(self) -> bool:
        return self._ended  # the last event has the stop reason

    def _fault(self, error: ApiError) -> None:
        if not self._ended:
            self._ended = True
            self._blocks.events.append(Fault(error))

    def _read_frame(self, name: bytes, payload: bytes) -> None:
        """Read a frame, without side members of a wrong type."""
        begun = len(self._blocks.events)
        try:
            self._read(name, payload)
        except DecodeError as error:
            read = partial(self._read, name)
            read_frame_again(payload, error, read, SIDE_MEMBERS, self._receipt, self._blocks.events, begun)

    def _read(self, name: bytes, data: bytes) -> None:
        if self._ended or data == b"[DONE]" or not data.strip():
            return
        if name == STRAY:
            if (document := read_stray_error(data, self._receipt)) is not None:
                self._fault(replace(decode_failure(document), in_foreign_form=True))
            return
        if data.startswith(b"[") and find_error(errors := json.decode_frame(data)) is not None:
            self._fault(decode_failure(errors))
            return
        frame = self._frame(data)
        kind = frame.type or name.decode("utf-8", "replace")
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, frame)
        elif not kind.startswith(IGNORED_EVENTS):
            self._handle_unknown(kind, json.decode_frame(data))

    def _frame(self, data: bytes) -> ResponsesFrame:
        return self._halves.read(data, read_frame)

    def _handle_unknown(self, kind: str, value: Any) -> None:
        if kind in ("error", "response.error") or find_error(value) is not None:
            self._fault(decode_failure(value))
        else:
            self._receipt.loss("stream", f"event {kind or 'without a type'}", "its meaning is not known")

    # The response as a whole

    def _created(self, frame: ResponsesFrame) -> None:
        if self._blocks.started and not self._all:
            return
        envelope = decode_envelope(read_object(frame.response, _RESPONSE), _RESPONSE)
        if self._id and envelope.id not in ("", self._id):
            self._fault(spliced())
            return
        self._id = envelope.id
        self._blocks.start(envelope.id, envelope.model, envelope.created)

    def _response_ended(self, frame: ResponsesFrame) -> None:
        body = read_object(frame.response, _RESPONSE)
        if has_no_answer(body) or frame.type in _FAILURE_EVENTS:
            self._fault(decode_failure({**body, "object": "response"}))
            return
        if frame.type == "response.incomplete" and not isinstance(body.get("status"), str):
            body["status"] = "incomplete"
        output = _OBJECTS.read_value(body.pop("output"), f"{_RESPONSE}.output") if body.get("output") else []
        envelope = decode_envelope(body, _RESPONSE)
        self._blocks.start(envelope.id, envelope.model, envelope.created)
        for place, fields in enumerate(output):
            where = f"{_RESPONSE}.output[{place}]"
            self._finish_item(self._match_output(fields, place, where), fields, where)
        for item in self._all:
            self._close_item(item, cut=envelope.status != "completed")
        self._halves.report(self._receipt)
        stop = decode_stop(envelope, called=self._blocks.called, refused=self._blocks.refused)
        tier = envelope.service_tier
        self._blocks.events.append(Finish(stop=stop, usage=envelope.usage, service_tier=tier, native=envelope.native))
        self._ended = True

    # Items

    def _item_added(self, frame: ResponsesFrame) -> None:
        fields = read_object(frame.item, _ITEM)
        key = frame.output_index if frame.output_index is not None else fields.get("id")
        before = self._items.get(key) if isinstance(key, (int, str)) else None
        if before is not None:
            same = not before.done and before.fields.get("id") == fields.get("id")
            if same and not _is_another_call(before, fields):
                return  # announced twice
            if _has_id(before.fields) and _has_id(fields):
                before.displaced = True  # its remaining events name it by id
            else:
                self._close_item(before, cut=False)
        item = self._add(fields, frame.output_index, _ITEM)
        name = fields.get("name")
        if item.kind in CALL_FIELDS and isinstance(name, str) and name and fields.get("call_id"):
            self._open_call(item)
            announced = fields.get("arguments")
            if isinstance(announced, str) and item.kind == "function_call":
                item.announced = announced

    def _open_call(self, item: StreamItem) -> None:
        call = read_output_item(item.fields, _ITEM)
        if isinstance(call, (CallItem, CustomCallItem)):
            self._blocks.open_call(item, decode_call(call))

    def _add(self, fields: dict[str, Any], place: int | None, where: str) -> StreamItem:
        """Register a new item."""
        self._blocks.budget.add_block()
        item = StreamItem(fields, item_type(fields, where), len(self._all) if place is None else place)
        self._all.append(item)
        item_id, call_id = fields.get("id"), fields.get("call_id")
        self._items[place if place is not None else item_id if isinstance(item_id, str) else item.place] = item
        if isinstance(item_id, str) and item_id:
            self._known["id", item_id] = item
        if isinstance(call_id, str) and call_id and item.kind in CALL_FIELDS:
            self._known["call", call_id] = item
        return item

    def _match_output(self, fields: dict[str, Any], place: int, where: str) -> StreamItem:
        """Find the item of an entry in the final output: by its ids, which some servers change, otherwise by its
        content, otherwise by its position, which shifts if a server leaves items out of its output."""
        given: tuple[tuple[str, Any], ...] = (("call", fields.get("call_id")), ("id", fields.get("id")))
        for key in given:
            known = self._known.get(key) if isinstance(key[1], str) else None
            if known is not None and not _is_another_call(known, fields):
                known.listed = True
                return known
        if self._streamed is None:
            self._streamed = _group_by_content(self._all)
        alike = self._streamed.get(_item_content(item_type(fields, where), fields))
        while alike:
            same = alike.popleft()
            if not same.listed:
                same.listed = True
                return same
        item = self._items.get(place)
        if item is not None and item.kind == item_type(fields, where) and not _is_another_call(item, fields):
            item.listed = True
            return item
        return self._add(fields, place if item is None else None, where)

    def _item_for(self, frame: ResponsesFrame, kind: str) -> StreamItem | None:
        """Return the item of a delta. An item that was never announced begins with its first delta."""
        item = self._items.get(frame.output_index if frame.output_index is not None else frame.item_id)
        if frame.output_index is None and not frame.item_id:
            item = self._latest(kind)
        if frame.item_id and (item is None or item.kind != kind or item.fields.get("id") != frame.item_id):
            named = self._known.get(("id", frame.item_id)) or self._known.get(("call", frame.item_id))
            item = named if named is not None and named.kind == kind else item
        if item is not None:
            if item.kind == kind:
                return item
            self._receipt.loss("stream", f"{frame.type} in an item of type {item.kind}", "it does not belong there")
            return None
        announced = {"type": kind} | ({"id": frame.item_id} if frame.item_id else {})
        return self._add(announced, frame.output_index, _ITEM)

    def _latest(self, kind: str) -> StreamItem | None:
        """Return the item of an event that names neither an id nor a position."""
        latest = self._all[-1] if self._all else None
        return latest if latest is not None and latest.kind == kind and not latest.done else None

    def _item_done(self, frame: ResponsesFrame) -> None:
        fields = read_object(frame.item, _ITEM)
        item = self._find_done_item(fields, frame.output_index)
        if item is None or (item.done and item.fields.get("id") != fields.get("id")):
            item = self._add(fields, frame.output_index, _ITEM)
        elif not item.done and _is_another_call(item, fields):
            self._close_item(item, cut=False)
            item = self._add(fields, frame.output_index, _ITEM)
        self._finish_item(item, fields, _ITEM)

    def _find_done_item(self, fields: dict[str, Any], place: int | None) -> StreamItem | None:
        """Find the item of a done event: by its position if its ids are the same, otherwise by one of its ids,
        otherwise by its position. llama.cpp sends no positions and no item ids of calls; others send the same position
        for all items."""
        item_id, call_id = (name if isinstance(name := fields.get(key), str) else "" for key in ("id", "call_id"))
        item = self._items.get(place if place is not None else item_id)
        if item is not None and not item.done and all(item.fields.get(key) == fields.get(key) for key in _IDS):
            return item
        for key in (("id", item_id), ("call", call_id)):
            known = self._known.get(key)
            if known is not None and not known.done and not _is_another_call(known, fields):
                return known
        return self._latest(item_type(fields, _ITEM)) if place is None and not item_id and not call_id else item

    def _finish_item(self, item: StreamItem, fields: dict[str, Any], where: str) -> None:
        """Settle and close the blocks of a complete item, and write the blocks that have not arrived."""
        if item.done:
            if fields.get("encrypted_content") and not item.fields.get("encrypted_content"):
                self._receipt.loss(f"{where}.encrypted_content", "reasoning state", "it came after the end of its item")
            return
        item.done = True
        item.fields = fields
        for place, block in enumerate(decode_output_item(read_output_item(fields, where), item.place)):
            piece = item.pieces.get(place)
            if piece is None:
                self._blocks.write_whole(item, place, block)
            else:
                self._blocks.settle(piece, delta_text(block))
                self._write_announced(item, piece)
                self._blocks.close(piece, block)
        self._close_item(item, cut=False)

    def _close_item(self, item: StreamItem, *, cut: bool) -> None:
        """Close the open blocks of an item that gets no further events."""
        if not item.done and not item.pieces and item.kind != "message":
            self._write_late_item(item)
        item.done = True
        for piece in item.pieces.values():
            if piece.open:
                self._write_announced(item, piece)
                whole = item.kind not in CALL_FIELDS
                whole = whole or ((item.displaced or not cut) and _is_whole_call(item, piece))
                self._blocks.close_early(piece, complete=whole)

    def _write_late_item(self, item: StreamItem) -> None:
        """Write the known part of an item that could not be written before."""
        if item.kind not in CALL_FIELDS:
            self._finish_item(item, item.fields, _ITEM)
        elif isinstance(item.fields.get("name"), str):
            self._open_call(item)
        else:
            self._receipt.loss("stream", f"a {item.kind} without a name", "it cannot be run")

    # Parts of messages

    def _open_part(self, frame: ResponsesFrame, empty: Text | Refusal) -> OpenBlock | None:
        item = self._item_for(frame, "message")
        if item is None:
            return None
        place = frame.content_index or 0
        piece = item.pieces.get(place)
        if piece is None:
            note = message_note(item.fields, item.place)
            block = replace(empty, native={NAME: note})
            if isinstance(block, Text) and item.place and not item.pieces:
                block = replace(block, new_message=True)
            piece = self._blocks.open(item, place, block)
        return piece

    def _part_added(self, frame: ResponsesFrame) -> None:
        empty = empty_part(read_object(frame.part, "$.part"))
        if empty is not None:
            self._open_part(frame, empty)

    def _part_done(self, frame: ResponsesFrame) -> None:
        part = read_object(frame.part, "$.part")
        empty = empty_part(part)
        if empty is not None:
            self._settle_part(frame, empty, part.get("refusal" if isinstance(empty, Refusal) else "text"))

    def _text_delta(self, frame: ResponsesFrame) -> None:
        self._part_delta(frame, EMPTY_TEXT)

    def _refusal_delta(self, frame: ResponsesFrame) -> None:
        self._part_delta(frame, EMPTY_REFUSAL)

    def _part_delta(self, frame: ResponsesFrame, empty: Text | Refusal) -> None:
        delta = frame.delta
        if type(delta) is str and delta:
            piece = self._open_part(frame, empty)
            if piece is not None and piece.open and piece.whole is None:
                # Unreadable log probabilities arrive again with the whole part.
                self._blocks.add_text(piece, delta, (read_logprobs(frame.logprobs) or ()) if frame.logprobs else ())

    def _text_done(self, frame: ResponsesFrame) -> None:
        self._settle_part(frame, EMPTY_TEXT, frame.text)

    def _refusal_done(self, frame: ResponsesFrame) -> None:
        self._settle_part(frame, EMPTY_REFUSAL, frame.refusal)

    def _settle_part(self, frame: ResponsesFrame, empty: Text | Refusal, text: Any) -> None:
        piece = self._open_part(frame, empty)
        if piece is not None and piece.open:
            self._blocks.settle(piece, text)

    def _annotation(self, frame: ResponsesFrame) -> None:
        piece = self._open_part(frame, EMPTY_TEXT)
        if piece is not None:
            piece.annotations.append(read_annotation(frame.annotation, "$.annotation"))

    # Reasoning

    def _summary_delta(self, frame: ResponsesFrame) -> None:
        self._add_reasoning(frame, ("summary", frame.summary_index or 0), frame.delta)

    def _reasoning_delta(self, frame: ResponsesFrame) -> None:
        self._add_reasoning(frame, ("content", frame.content_index or 0), frame.delta)

    def _summary_done(self, frame: ResponsesFrame) -> None:
        self._finish_reasoning_part(frame, ("summary", frame.summary_index or 0))

    def _reasoning_done(self, frame: ResponsesFrame) -> None:
        self._finish_reasoning_part(frame, ("content", frame.content_index or 0))

    def _finish_reasoning_part(self, frame: ResponsesFrame, slot: tuple[str, int]) -> None:
        """Write a reasoning part that had no deltas."""
        item = self._item_for(frame, "reasoning")
        if item is not None and slot not in item.slots:
            self._add_reasoning(frame, slot, frame.text)

    def _add_reasoning(self, frame: ResponsesFrame, slot: tuple[str, int], text: Any) -> None:
        if type(text) is not str or not text:
            return
        item = self._item_for(frame, "reasoning")
        if item is None:
            return
        piece = item.pieces.get(0)
        if piece is None:
            item_id = item.fields.get("id")
            named = {"id": item_id} if isinstance(item_id, str) else {}
            piece = self._blocks.open(item, 0, Thinking(native={NAME: {**named, "$text": slot[0]}}))
        elif item.slot is not None and item.slot != slot:
            text = f"\n\n{text}"
        item.slot = slot
        item.slots.add(slot)
        if piece.open and piece.whole is None:
            self._blocks.add_text(piece, text)

    # Calls

    def _arguments_delta(self, frame: ResponsesFrame) -> None:
        self._add_arguments(frame, "function_call", frame.delta, whole=False)

    def _arguments_done(self, frame: ResponsesFrame) -> None:
        self._add_arguments(frame, "function_call", frame.arguments, whole=True)

    def _input_delta(self, frame: ResponsesFrame) -> None:
        self._add_arguments(frame, "custom_tool_call", frame.delta, whole=False)

    def _input_done(self, frame: ResponsesFrame) -> None:
        self._add_arguments(frame, "custom_tool_call", frame.input, whole=True)

    def _add_arguments(self, frame: ResponsesFrame, kind: str, text: Any, *, whole: bool) -> None:
        if type(text) is not str or not text:
            return
        item = self._item_for(frame, kind)
        if item is None:
            return
        piece = item.pieces.get(0)
        if piece is None:
            if whole:
                self._blocks.take_held(item)
            self._blocks.hold(item, text)
        elif whole and piece.open:
            self._blocks.settle(piece, text)
        elif piece.open and piece.whole is None:
            if item.announced:
                self._write_announced_start(item, piece, text)
            self._blocks.add_text(piece, text)

    def _write_announced_start(self, item: StreamItem, piece: OpenBlock, text: str) -> None:
        """Write the start of arguments that arrived with the announcement of their call, if this first delta continues
        them, because it does not start an object. Most servers announce a call with empty or whole arguments.
        """
        announced, item.announced = item.announced, ""
        if announced.lstrip().startswith("{") and not text.lstrip().startswith("{") and not json.is_object(announced):
            self._blocks.add_text(piece, announced)

    def _write_announced(self, item: StreamItem, piece: OpenBlock) -> None:
        """Write the arguments of a call that arrived only with its announcement. `{}` is a placeholder."""
        announced, item.announced = item.announced, ""
        if announced and piece.open and piece.whole is None and json.is_object(announced) and announced.strip("{} \n"):
            self._blocks.add_text(piece, announced)


def _group_by_content(items: list[StreamItem]) -> dict[ItemContent, deque[StreamItem]]:
    found: dict[ItemContent, deque[StreamItem]] = {}
    for item in items:
        said = _item_content(item.kind, item.fields) if item.done else _streamed_content(item)
        if said is not None:
            found.setdefault(said, deque()).append(item)
    return found


def _item_content(kind: str, fields: dict[str, Any]) -> ItemContent:
    if kind in CALL_FIELDS:
        texts = [fields.get("name"), fields.get("arguments"), fields.get("input")]
    else:
        parts = [part for key in ("summary", "content") if isinstance(value := fields.get(key), list) for part in value]
        texts = [part.get("text") or part.get("refusal") for part in parts if isinstance(part, dict)]
    written = [text for text in texts if isinstance(text, str) and text]
    return (kind, *written) if written else None


def _streamed_content(item: StreamItem) -> ItemContent:
    """Return the streamed content of an item without a done event."""
    name = item.fields.get("name") if item.kind in CALL_FIELDS else None
    texts = [name, *(piece.buffer.text() for piece in item.pieces.values())]
    written = [text for text in texts if isinstance(text, str) and text]
    return (item.kind, *written) if written else None


def _has_id(fields: dict[str, Any]) -> bool:
    return isinstance(fields.get("id"), str) and bool(fields["id"])


def _is_another_call(item: StreamItem, fields: dict[str, Any]) -> bool:
    """Return whether these fields, which have the position or the id of an item, belong to another call. Some servers
    change ids, but not the name."""
    if item.kind not in CALL_FIELDS:
        return False
    known, name = item.fields.get("name"), fields.get("name")
    return bool(known and name) and known != name


def _is_whole_call(item: StreamItem, piece: OpenBlock) -> bool:
    """Return whether a call is complete although its item did not end. A call without arguments was cut before them."""
    if piece.whole is not None:
        return True
    said = piece.buffer.text()
    return item.kind == "function_call" and bool(said.strip()) and json.object_of(said) is not None


_D = ResponsesStreamDecoder
_HANDLERS: dict[str, Callable[[ResponsesStreamDecoder, ResponsesFrame], None]] = {
    "response.output_text.delta": _D._text_delta,
    "response.function_call_arguments.delta": _D._arguments_delta,
    "response.custom_tool_call_input.delta": _D._input_delta,
    "response.reasoning_summary_text.delta": _D._summary_delta,
    "response.reasoning_text.delta": _D._reasoning_delta,
    "response.reasoning.delta": _D._reasoning_delta,  # OpenRouter's name
    "response.refusal.delta": _D._refusal_delta,
    "response.created": _D._created,
    "response.output_item.added": _D._item_added,
    "response.content_part.added": _D._part_added,
    "response.output_text.annotation.added": _D._annotation,
    "response.output_text.done": _D._text_done,
    "response.refusal.done": _D._refusal_done,
    "response.content_part.done": _D._part_done,
    "response.reasoning_summary_part.added": lambda decoder, frame: None,
    "response.reasoning_summary_part.done": lambda decoder, frame: None,
    "response.reasoning_summary_text.done": _D._summary_done,
    "response.reasoning_text.done": _D._reasoning_done,
    "response.reasoning.done": _D._reasoning_done,
    "response.function_call_arguments.done": _D._arguments_done,
    "response.custom_tool_call_input.done": _D._input_done,
    "response.output_item.done": _D._item_done,
    "response.completed": _D._response_ended,
    "response.incomplete": _D._response_ended,
    "response.failed": _D._response_ended,
    "response.cancelled": _D._response_ended,
    "response.done": _D._response_ended,
}
