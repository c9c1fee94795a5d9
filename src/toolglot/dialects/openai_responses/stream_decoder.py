"""The event stream of a response -> events.

Servers differ in which events they send: argument text may come in deltas, only in `…arguments.done`, only in
`output_item.done`, or only in `response.completed` (litellm #25321). Every later form therefore *settles* a block: it
adds what the deltas have not said yet, and nothing when they said it all.

A block closes when its item is done, because only then the fields of the item are final.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from toolglot.dialects.openai_responses.errors import decode_failure
from toolglot.dialects.openai_responses.items import CALL_FIELDS, decode_call, item_type
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.output import decode_output_item, message_note, read_output_item
from toolglot.dialects.openai_responses.response import decode_envelope, decode_stop, is_no_answer
from toolglot.dialects.openai_responses.stream_state import (
    EMPTY_REFUSAL,
    EMPTY_TEXT,
    SILENT,
    Blocks,
    Frame,
    Item,
    Piece,
    empty_part,
    read_annotation,
    read_frame,
    read_object,
    text_of,
)
from toolglot.dialects.openai_responses.wire import CallItem, CustomCallItem
from toolglot.errors import ApiError, DecodeError, truncated, unreadable
from toolglot.events import Event, Fault, Finish
from toolglot.ir import Refusal, Text, Thinking, replace
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.error_documents import find_error
from toolglot.wire.openai_logprobs import read_logprobs
from toolglot.wire.sse import STRAY, SseReader
from toolglot.wire.stray_lines import read_stray_error
from toolglot.wire.surrogates import SurrogateJoiner
from toolglot.wire.typed import ValueReader

_ITEM, _RESPONSE = "$.item", "$.response"
_OBJECTS = ValueReader(list[dict[str, Any]])
_IDS = ("id", "call_id")
Meaning = tuple[str, ...] | None
"""What an item says, whatever its ids: its type, the name of a call, its texts. None where it says nothing."""
_NO_ANSWERS = ("response.failed", "response.cancelled")


class ResponsesStreamDecoder:
    __slots__ = ("_all", "_blocks", "_ended", "_halves", "_items", "_known", "_receipt", "_sse", "_streamed")

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._sse = SseReader(keeps_stray=True)
        self._blocks = Blocks(receipt)
        self._all: list[Item] = []
        self._items: dict[int | str | None, Item] = {}  # by place, or by id where a server tells no place
        self._known: dict[tuple[str, str], Item] = {}  # by item id and by call id
        self._streamed: dict[Meaning, deque[Item]] | None = None  # by what they say, once somebody asks
        self._halves = SurrogateJoiner()
        self._ended = False

    def feed(self, data: bytes) -> list[Event]:
        if not self._ended:
            try:
                for name, frame in self._sse.feed(data):
                    self._read(name, frame)
            except DecodeError as error:
                self._fault(unreadable(error))
        return self._blocks.take()

    def close(self) -> list[Event]:
        if not self._ended:
            try:
                for name, frame in self._sse.close():
                    self._read(name, frame)
            except DecodeError:
                pass  # cut in the middle of a frame: the fault below says so
            self._fault(truncated())
        return self._blocks.take()

    @property
    def settled(self) -> bool:
        return self._ended  # the event that tells the reason is the last

    def _fault(self, error: ApiError) -> None:
        if not self._ended:
            self._ended = True
            self._blocks.events.append(Fault(error))

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
        elif not kind.startswith(SILENT):
            self._unknown(kind, json.decode_frame(data))

    def _frame(self, data: bytes) -> Frame:
        return self._halves.read(data, read_frame)

    def _unknown(self, kind: str, value: Any) -> None:
        if kind in ("error", "response.error") or find_error(value) is not None:
            self._fault(decode_failure(value))
        else:
            self._receipt.loss("stream", f"event {kind or 'without a type'}", "its meaning is not known")

    # The response as a whole

    def _created(self, frame: Frame) -> None:
        if not self._blocks.started:
            envelope = decode_envelope(read_object(frame.response, _RESPONSE), _RESPONSE)
            self._blocks.start(envelope.id, envelope.model, envelope.created)

    def _ending(self, frame: Frame) -> None:
        body = read_object(frame.response, _RESPONSE)
        if is_no_answer(body) or frame.type in _NO_ANSWERS:
            self._fault(decode_failure({**body, "object": "response"}))
            return
        if frame.type == "response.incomplete" and not isinstance(body.get("status"), str):
            body["status"] = "incomplete"
        output = _OBJECTS.read_value(body.pop("output"), f"{_RESPONSE}.output") if body.get("output") else []
        envelope = decode_envelope(body, _RESPONSE)
        self._blocks.start(envelope.id, envelope.model, envelope.created)
        for place, fields in enumerate(output):
            where = f"{_RESPONSE}.output[{place}]"
            self._finish_item(self._match(fields, place, where), fields, where)
        for item in self._all:
            self._abandon(item, cut=envelope.status != "completed")
        self._halves.report(self._receipt)
        stop = decode_stop(envelope, called=self._blocks.called, refused=self._blocks.refused)
        tier = envelope.service_tier
        self._blocks.events.append(Finish(stop=stop, usage=envelope.usage, service_tier=tier, native=envelope.native))
        self._ended = True

    # Items

    def _item_added(self, frame: Frame) -> None:
        fields = read_object(frame.item, _ITEM)
        key = frame.output_index if frame.output_index is not None else fields.get("id")
        before = self._items.get(key) if isinstance(key, (int, str)) else None
        if before is not None:
            same = not before.done and before.fields.get("id") == fields.get("id")
            if same and not _is_another_call(before, fields):
                return  # told twice
            if _has_id(before.fields) and _has_id(fields):
                before.displaced = True  # what is still to be said of it names it by its id
            else:
                self._abandon(before, cut=False)
        item = self._add(fields, frame.output_index, _ITEM)
        name = fields.get("name")
        if item.kind in CALL_FIELDS and isinstance(name, str) and name and fields.get("call_id"):
            self._open_call(item)

    def _open_call(self, item: Item) -> None:
        call = read_output_item(item.fields, _ITEM)
        if isinstance(call, (CallItem, CustomCallItem)):
            self._blocks.open_call(item, decode_call(call))

    def _add(self, fields: dict[str, Any], place: int | None, where: str) -> Item:
        """Note a new item."""
        self._blocks.budget.add_block()
        item = Item(fields, item_type(fields, where), len(self._all) if place is None else place)
        self._all.append(item)
        item_id, call_id = fields.get("id"), fields.get("call_id")
        self._items[place if place is not None else item_id if isinstance(item_id, str) else item.place] = item
        if isinstance(item_id, str) and item_id:
            self._known["id", item_id] = item
        if isinstance(call_id, str) and call_id and item.kind in CALL_FIELDS:
            self._known["call", call_id] = item
        return item

    def _match(self, fields: dict[str, Any], place: int, where: str) -> Item:
        """The item that an entry of the final output is: by its ids, which some servers change, or else by what it
        says, or else by place, which changes where a server leaves items out of its output."""
        given: tuple[tuple[str, Any], ...] = (("call", fields.get("call_id")), ("id", fields.get("id")))
        for key in given:
            known = self._known.get(key) if isinstance(key[1], str) else None
            if known is not None and not _is_another_call(known, fields):
                known.listed = True
                return known
        if self._streamed is None:
            self._streamed = _by_meaning(self._all)
        alike = self._streamed.get(_meaning(item_type(fields, where), fields))
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

    def _item_of(self, frame: Frame, kind: str) -> Item | None:
        """The item that a delta belongs to. One that was never announced begins with its first delta."""
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

    def _latest(self, kind: str) -> Item | None:
        """What an event speaks of that names neither an id nor a place."""
        latest = self._all[-1] if self._all else None
        return latest if latest is not None and latest.kind == kind and not latest.done else None

    def _item_done(self, frame: Frame) -> None:
        fields = read_object(frame.item, _ITEM)
        item = self._announced(fields, frame.output_index)
        if item is None or (item.done and item.fields.get("id") != fields.get("id")):
            item = self._add(fields, frame.output_index, _ITEM)
        elif not item.done and _is_another_call(item, fields):
            self._abandon(item, cut=False)
            item = self._add(fields, frame.output_index, _ITEM)
        self._finish_item(item, fields, _ITEM)

    def _announced(self, fields: dict[str, Any], place: int | None) -> Item | None:
        """The item that is done: by its place where its ids are the same, or else by one of its ids (llama.cpp tells no
        places, and of calls no item ids; others tell the same place of all items), or else by its place."""
        item_id, call_id = (name if isinstance(name := fields.get(key), str) else "" for key in ("id", "call_id"))
        item = self._items.get(place if place is not None else item_id)
        if item is not None and not item.done and all(item.fields.get(key) == fields.get(key) for key in _IDS):
            return item
        for key in (("id", item_id), ("call", call_id)):
            known = self._known.get(key)
            if known is not None and not known.done and not _is_another_call(known, fields):
                return known
        return self._latest(item_type(fields, _ITEM)) if place is None and not item_id and not call_id else item

    def _finish_item(self, item: Item, fields: dict[str, Any], where: str) -> None:
        """The item is whole: settle and close its blocks, and write those that have not come at all."""
        if item.done:
            return
        item.done = True
        item.fields = fields
        for place, block in enumerate(decode_output_item(read_output_item(fields, where), item.place)):
            piece = item.pieces.get(place)
            if piece is None:
                self._blocks.whole(item, place, block)
            else:
                self._blocks.settle(piece, text_of(block))
                self._blocks.close(piece, block)
        self._abandon(item, cut=False)

    def _abandon(self, item: Item, *, cut: bool) -> None:
        """Close what is still open of an item about which nothing more will be said."""
        if not item.done and not item.pieces and item.kind != "message":
            self._emerge(item)
        item.done = True
        for piece in item.pieces.values():
            if piece.open:
                whole = item.kind not in CALL_FIELDS
                whole = whole or ((item.displaced or not cut) and _is_whole_call(item, piece))
                self._blocks.abandon(piece, complete=whole)

    def _emerge(self, item: Item) -> None:
        """Write an item of which nothing could be written before, as far as it is known."""
        if item.kind not in CALL_FIELDS:
            self._finish_item(item, item.fields, _ITEM)
        elif isinstance(item.fields.get("name"), str):
            self._open_call(item)
        else:
            self._receipt.loss("stream", f"a {item.kind} without a name", "nobody can run it")

    # Parts of messages

    def _part(self, frame: Frame, empty: Text | Refusal) -> Piece | None:
        item = self._item_of(frame, "message")
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

    def _part_added(self, frame: Frame) -> None:
        empty = empty_part(read_object(frame.part, "$.part"))
        if empty is not None:
            self._part(frame, empty)

    def _part_done(self, frame: Frame) -> None:
        part = read_object(frame.part, "$.part")
        empty = empty_part(part)
        if empty is not None:
            self._part_settled(frame, empty, part.get("refusal" if isinstance(empty, Refusal) else "text"))

    def _text_delta(self, frame: Frame) -> None:
        self._part_delta(frame, EMPTY_TEXT)

    def _refusal_delta(self, frame: Frame) -> None:
        self._part_delta(frame, EMPTY_REFUSAL)

    def _part_delta(self, frame: Frame, empty: Text | Refusal) -> None:
        delta = frame.delta
        if type(delta) is str and delta:
            piece = self._part(frame, empty)
            if piece is not None and piece.open and piece.whole is None:
                # What cannot be read here comes once more with the whole part.
                self._blocks.say(piece, delta, (read_logprobs(frame.logprobs) or ()) if frame.logprobs else ())

    def _text_done(self, frame: Frame) -> None:
        self._part_settled(frame, EMPTY_TEXT, frame.text)

    def _refusal_done(self, frame: Frame) -> None:
        self._part_settled(frame, EMPTY_REFUSAL, frame.refusal)

    def _part_settled(self, frame: Frame, empty: Text | Refusal, text: Any) -> None:
        piece = self._part(frame, empty)
        if piece is not None and piece.open:
            self._blocks.settle(piece, text)

    def _annotation(self, frame: Frame) -> None:
        piece = self._part(frame, EMPTY_TEXT)
        if piece is not None:
            piece.annotations.append(read_annotation(frame.annotation, "$.annotation"))

    # Reasoning

    def _summary_delta(self, frame: Frame) -> None:
        self._reason(frame, ("summary", frame.summary_index or 0), frame.delta)

    def _reasoning_delta(self, frame: Frame) -> None:
        self._reason(frame, ("content", frame.content_index or 0), frame.delta)

    def _summary_done(self, frame: Frame) -> None:
        self._reason_done(frame, ("summary", frame.summary_index or 0))

    def _reasoning_done(self, frame: Frame) -> None:
        self._reason_done(frame, ("content", frame.content_index or 0))

    def _reason_done(self, frame: Frame, slot: tuple[str, int]) -> None:
        """A part that came in deltas has been said; one that comes only now has not."""
        item = self._item_of(frame, "reasoning")
        if item is not None and slot not in item.slots:
            self._reason(frame, slot, frame.text)

    def _reason(self, frame: Frame, slot: tuple[str, int], text: Any) -> None:
        if type(text) is not str or not text:
            return
        item = self._item_of(frame, "reasoning")
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
            self._blocks.say(piece, text)

    # Calls

    def _arguments_delta(self, frame: Frame) -> None:
        self._argue(frame, "function_call", frame.delta, whole=False)

    def _arguments_done(self, frame: Frame) -> None:
        self._argue(frame, "function_call", frame.arguments, whole=True)

    def _input_delta(self, frame: Frame) -> None:
        self._argue(frame, "custom_tool_call", frame.delta, whole=False)

    def _input_done(self, frame: Frame) -> None:
        self._argue(frame, "custom_tool_call", frame.input, whole=True)

    def _argue(self, frame: Frame, kind: str, text: Any, *, whole: bool) -> None:
        if type(text) is not str or not text:
            return
        item = self._item_of(frame, kind)
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
            self._blocks.say(piece, text)


def _by_meaning(items: list[Item]) -> dict[Meaning, deque[Item]]:
    found: dict[Meaning, deque[Item]] = {}
    for item in items:
        said = _meaning(item.kind, item.fields) if item.done else _said(item)
        if said is not None:
            found.setdefault(said, deque()).append(item)
    return found


def _meaning(kind: str, fields: dict[str, Any]) -> Meaning:
    if kind in CALL_FIELDS:
        texts = [fields.get("name"), fields.get("arguments"), fields.get("input")]
    else:
        parts = [part for key in ("summary", "content") if isinstance(value := fields.get(key), list) for part in value]
        texts = [part.get("text") or part.get("refusal") for part in parts if isinstance(part, dict)]
    written = [text for text in texts if isinstance(text, str) and text]
    return (kind, *written) if written else None


def _said(item: Item) -> Meaning:
    """What has been streamed of an item whose end did not come."""
    name = item.fields.get("name") if item.kind in CALL_FIELDS else None
    texts = [name, *(piece.said.text() for piece in item.pieces.values())]
    written = [text for text in texts if isinstance(text, str) and text]
    return (item.kind, *written) if written else None


def _has_id(fields: dict[str, Any]) -> bool:
    return isinstance(fields.get("id"), str) and bool(fields["id"])


def _is_another_call(item: Item, fields: dict[str, Any]) -> bool:
    """Do these fields, which have the place or the id of an item, belong to another call? Some servers change ids; the
    name stays."""
    if item.kind not in CALL_FIELDS:
        return False
    known, name = item.fields.get("name"), fields.get("name")
    return bool(known and name) and known != name


def _is_whole_call(item: Item, piece: Piece) -> bool:
    """Is a call whole whose item was never done? Without arguments it was cut before they came."""
    if piece.whole is not None:
        return True
    said = piece.said.text()
    return item.kind == "function_call" and bool(said.strip()) and json.object_of(said) is not None


_D = ResponsesStreamDecoder
_HANDLERS: dict[str, Callable[[ResponsesStreamDecoder, Frame], None]] = {
    "response.output_text.delta": _D._text_delta,
    "response.function_call_arguments.delta": _D._arguments_delta,
    "response.custom_tool_call_input.delta": _D._input_delta,
    "response.reasoning_summary_text.delta": _D._summary_delta,
    "response.reasoning_text.delta": _D._reasoning_delta,
    "response.reasoning.delta": _D._reasoning_delta,  # OpenRouter's word
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
    "response.completed": _D._ending,
    "response.incomplete": _D._ending,
    "response.failed": _D._ending,
    "response.cancelled": _D._ending,
    "response.done": _D._ending,
}
