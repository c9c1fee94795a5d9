"""Streams of Messages events -> events.

The wire has the grammar of `events.py` nearly word for word; what needs care is the odd server. A call's arguments may
stand in its start; the start of a message may come twice; the last event may be missing; errors come in any shape.

Where code in Claude's container calls a tool (programmatic tool calling), `message_start` already holds whole blocks
and the stop reason, and `message_stop` may follow at once.

Two things are held back while decoding. A block that only this dialect understands has no deltas in the IR, so it
waits for its end. The end of a call waits for what follows, because only the stop reason tells whether it was cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import UNSET, Raw, Struct
from msgspec.json import Decoder

from toolglot.dialects.anthropic.blocks import WrongInputError, decode_block, take_required
from toolglot.dialects.anthropic.citations import decode_citation
from toolglot.dialects.anthropic.errors import read_error
from toolglot.dialects.anthropic.native import NAME, keep
from toolglot.dialects.anthropic.response import CUT, CUTS, decode_stop, others_of, stop_members, unknown_stop
from toolglot.dialects.anthropic.usage import decode_usage, merge_usage, tier_of
from toolglot.dialects.anthropic.wire import (
    ContentBlock,
    read_block,
    read_citation,
    read_message_delta,
    read_started_message,
)
from toolglot.errors import ApiError, DecodeError, expected, note_early_end, note_missing_stop, truncated, unreadable
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Block, Citation, Native, Opaque, Text, Thinking, ToolCall, native_of, replace
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.error_documents import find_error
from toolglot.wire.sse import STRAY, SseReader
from toolglot.wire.stray_lines import read_stray_error
from toolglot.wire.surrogates import SurrogateJoiner


class _Delta(Struct):
    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None


class _Frame(Struct):
    type: str | None = None
    index: int | None = None
    delta: _Delta | None = None


_BARE_STOP = len(b'{"type": "message_stop"}')


_NULL = Raw(b"null")


class _StartFrame(Struct, frozen=True):
    content_block: Raw = _NULL


class _MessageFrame(Struct, frozen=True):
    message: Raw = _NULL


class _CitationDelta(Struct, frozen=True):
    citation: Raw


class _CitationFrame(Struct, frozen=True):
    delta: _CitationDelta


_frames = Decoder(_Frame)
_starts = Decoder(_StartFrame)
_messages = Decoder(_MessageFrame)
_citations = Decoder(_CitationFrame)

_STOP_MEMBERS = ("stop_reason", "stop_sequence", "stop_details")

# Imitators leave the type out.
_DELTAS = frozenset({"text_delta", "input_json_delta", "thinking_delta", "signature_delta", "citations_delta", None})
_MEMBERS = frozenset({"type", "text", "partial_json", "thinking", "signature", "citation"})

_Kind = Literal["text", "thinking", "call", "whole"]


class _Received:
    """A block that is being received. `whole` blocks open only at their end."""

    __slots__ = ("arguments", "block", "citations", "has_deltas", "index", "kind", "parts", "signature")

    def __init__(self, kind: _Kind, index: int, block: Block) -> None:
        self.kind = kind
        self.index = index
        self.block = block
        self.arguments = ""  # given in the start; they count if no deltas come
        self.has_deltas = False  # of a call: arguments have come in deltas
        self.citations: list[Citation] = []
        self.signature: str | None = None
        self.parts: dict[str, list[str]] = {}  # of a whole block: field -> its pieces


class AnthropicStreamDecoder:
    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._sse = SseReader(keeps_stray=True)
        self._events: list[Event] = []
        self._started = self._ended = False
        self._next = 0
        self._open: dict[int, _Received] = {}  # by the wire's index
        self._latest = -1  # the wire's index of the latest start
        self._held: Close | None = None
        self._final: dict[str, Any] = {}
        self._stop_in_start: dict[str, Any] = {}  # stop members of message_start; they count until a block follows
        self._beside_stop: dict[str, Any] = {}  # what the last event says besides: Bedrock measures there
        self._usage: dict[str, Any] = {}
        self._halves = SurrogateJoiner()

    def feed(self, data: bytes) -> list[Event]:
        if self._ended:
            return []
        try:
            for name, payload in self._sse.feed(data):
                self._read(name, payload)
        except DecodeError as error:
            self._fault(unreadable(error))
        return self._flush()

    def close(self) -> list[Event]:
        if not self._ended:
            try:
                for name, payload in self._sse.close():
                    self._read(name, payload)
            except DecodeError:
                pass  # the last event was cut; whether that matters, the stop reason tells
        if not self._ended:
            if self.settled:
                note_early_end(self._receipt, "message_stop")
            try:
                self._end_early()
            except DecodeError as error:
                self._fault(unreadable(error))
        return self._flush()

    @property
    def settled(self) -> bool:
        return self._final.get("stop_reason") is not None or bool(self._stop_in_start.get("stop_reason"))

    def _flush(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _read(self, name: bytes, payload: bytes) -> None:
        if self._ended:
            return
        if name == STRAY:
            if (document := read_stray_error(payload, self._receipt)) is not None:
                self._fault(replace(read_error(document), in_foreign_form=True))
            return
        try:
            wire = json.decode_typed(payload, _frames)
        except DecodeError as error:
            if (mended := self._halves.join_halves(payload)) is not None:
                self._read(name, mended)
            else:
                self._read_foreign(name, payload, error)
            return
        if wire.type == "content_block_delta":
            self._delta(wire, payload)
        elif wire.type in _RARE:
            _RARE[wire.type](self, wire, payload)
        elif wire.type != "ping":
            self._read_foreign(name, payload, None)

    def _read_foreign(self, name: bytes, payload: bytes, error: DecodeError | None) -> None:
        """What is no event of this API: an error in some shape, another API's end mark, or something new."""
        if payload.strip() == b"[DONE]":
            self._end_early()
            return
        try:
            value = json.decode_frame(payload)
        except DecodeError:
            if name != b"error":
                raise
            value = payload.decode("utf-8", "replace")
        if name == b"error" or find_error(value) is not None:
            self._fault(read_error(value))
            return
        kind = value.get("type") if isinstance(value, dict) else None
        if error is not None and (kind is None or kind in ("content_block_delta", *_RARE)):
            raise error
        self._receipt.loss("stream", f"event {kind}", "it is of a type that is not known")

    def _message_start(self, wire: _Frame, payload: bytes) -> None:
        if self._started:
            self._receipt.loss("stream", "a second message_start", "the response goes on after what came before it")
            return
        json.decode_frame(payload)  # refuses what is no JSON
        raw = json.decode_typed(payload, _messages).message
        message = read_started_message(b"{}" if raw == _NULL else raw, "$.message")
        usage = None if message.usage is UNSET else message.usage
        self._started = True
        counted = decode_usage(usage, "$.message.usage") if usage is not None else None
        self._usage = usage or {}
        # Null until the end tells, unless the message is whole already.
        others = {key: value for key, value in others_of(message).items() if key not in _STOP_MEMBERS}
        start = Start(
            id="" if message.id is UNSET else message.id,
            model="" if message.model is UNSET else message.model,
            usage=counted,
            service_tier=tier_of(counted),
            native=keep(_without_nulls(others)),
        )
        self._events.append(start)
        if message.content:
            self._receive_whole(message.content)
            self._stop_in_start = stop_members(message)

    def _receive_whole(self, content: list[Raw]) -> None:
        """The blocks that message_start holds: nothing more comes of them."""
        for index, raw in enumerate(content):
            where = f"$.message.content[{index}]"
            block = _decode_block(read_block(raw, where), where)
            self._release()
            received = self._receive(index, block)
            if isinstance(block, ToolCall):
                received.arguments = block.arguments
            self._close(index)
        self._latest = len(content) - 1

    def _start_anyway(self) -> None:
        if not self._started:
            self._started = True
            self._events.append(Start())

    def _block_start(self, wire: _Frame, payload: bytes) -> None:
        self._start_anyway()
        self._release()
        value = json.decode_frame(payload).get("content_block")
        raw = json.decode_typed(payload, _starts).content_block
        index = self._latest + 1 if wire.index is None else wire.index
        before = self._open.get(index)
        if before is not None:
            if _is_same_call(before, value):
                self._receipt.note("stream", f"a second start of block {index}", "it is of the same call")
                return
            self._close(index, is_stopped=False)
        self._latest = index
        kind = value.get("type") if isinstance(value, dict) else None
        if kind in ("text", "thinking") and not value.get(kind) and value.get(kind) != "":
            raw = Raw(json.encode({**value, kind: ""}))
        block = read_block(raw, "$.content_block")
        take_required((block,))
        self._receive(index, _decode_block(block, "$.content_block"))

    def _receive(self, index: int, block: Block) -> _Received:
        self._stop_in_start = {}  # the message goes on
        received = _Received("whole", -1, block)
        match block:
            case Text(text=text, citations=citations):
                received = self._opened("text", replace(block, text="", citations=()), text)
                received.citations += citations
            case Thinking(text=text) if not native_of(block, NAME).get("$redacted"):
                own = dict(native_of(block, NAME))
                signature = own.pop("signature", None)
                received = self._opened("thinking", Thinking(native={NAME: own} if own else {}), text)
                received.signature = signature if isinstance(signature, str) else None
            case ToolCall(arguments=arguments):
                # How the arguments stood in the start says nothing about those to come.
                own = {key: value for key, value in native_of(block, NAME).items() if key not in ("$missing", "$twice")}
                received = self._opened("call", replace(block, arguments="", native={NAME: own} if own else {}), "")
                # The start of a call has an empty object in place of arguments that are to come, or were cut.
                received.arguments = "" if arguments == "{}" else arguments
        self._open[index] = received
        return received

    def _opened(self, kind: _Kind, block: Block, text: str) -> _Received:
        received = _Received(kind, self._next, block)
        self._next += 1
        self._events.append(Open(received.index, block))
        if text:
            self._events.append(Delta(received.index, text))
        return received

    def _delta(self, wire: _Frame, payload: bytes) -> None:
        delta = wire.delta
        if delta is None:
            self._receipt.loss("stream", "content_block_delta", "it has no delta")
            return
        received = self._open.get(self._latest if wire.index is None else wire.index)
        if received is None:
            received = self._receive_unannounced(wire, delta)
            if received is None:
                return
        kind = received.kind
        if delta.type not in _DELTAS and kind != "whole":  # a block that is not understood may have any
            self._receipt.loss("stream", f"delta {delta.type}", "it is of a type that is not known")
        if kind == "text":
            text = delta.text
        elif kind == "call":
            text = delta.partial_json
            if text:
                received.arguments = ""
                received.has_deltas = True
        else:
            text = delta.thinking if kind == "thinking" else None
        if text:
            self._events.append(Delta(received.index, text))
        else:
            self._rare_delta(received, delta, payload, empty=text is not None)

    def _receive_unannounced(self, wire: _Frame, delta: _Delta) -> _Received | None:
        """A delta of a block that never started: its kind tells what the start would have been."""
        block = Text(text="") if delta.text else Thinking() if delta.thinking else None
        if delta.partial_json:
            self._fault_on_stray_arguments()
            return None
        if block is None:
            self._receipt.loss("stream", f"{delta.type} of no block", "the block it belongs to never started")
            return None
        self._start_anyway()
        self._release()
        self._latest = self._latest + 1 if wire.index is None else wire.index
        return self._receive(self._latest, block)

    def _fault_on_stray_arguments(self) -> None:
        """No one can tell which call they belong to; without them, a call would run that the model did not make."""
        self._fault(unreadable(DecodeError("$.index", "arguments of a call that never started")))

    def _rare_delta(self, received: _Received, delta: _Delta, payload: bytes, empty: bool) -> None:
        """A delta that is no text: it ends thinking, cites, belongs to a whole block, or says nothing or new things."""
        fields: dict[str, Any] = json.decode_frame(payload)["delta"]
        citation = fields.get("citation")
        if received.kind != "whole":
            self._report_members(fields)
        if received.kind == "thinking" and delta.signature is not None:
            received.signature = delta.signature
        elif empty:
            return
        elif delta.partial_json and received.kind in ("text", "thinking"):
            self._fault_on_stray_arguments()
        elif delta.text and received.kind == "call":
            self._fault(unreadable(DecodeError("$.delta.text", "a text inside a call: its arguments are not known")))
        elif received.kind == "text" and citation is not None:
            raw = json.decode_typed(payload, _citations).delta.citation
            received.citations.append(decode_citation(read_citation(raw, "$.delta.citation")))
        elif isinstance(received.block, Opaque):
            self._grow(received, received.block, fields)
        else:
            self._receipt.loss("stream", f"{delta.type} in {received.kind}", "such a block has no such delta")

    def _report_members(self, fields: dict[str, Any]) -> None:
        for key, value in fields.items():
            if key not in _MEMBERS and value not in (None, "", [], {}, False):
                self._receipt.loss("stream", f"{key} of a delta", "it is a member that is not known")

    @staticmethod
    def _grow(received: _Received, block: Opaque, fields: dict[str, Any]) -> None:
        """More of a block that is not understood: strings go on, other values replace."""
        for key, value in fields.items():
            if key == "type":
                continue
            if isinstance(value, str):
                received.parts.setdefault(key, []).append(value)
            else:
                block.value[key] = value

    def _block_stop(self, wire: _Frame, payload: bytes) -> None:
        self._close(self._latest if wire.index is None else wire.index)

    def _close(self, wire_index: int, *, is_cut: bool = False, is_stopped: bool = True) -> None:
        """Close a block. A call that the wire has not stopped is whole only if its arguments show that it is: one
        without any was cut before they came, and must not be run without them."""
        received = self._open.pop(wire_index, None)
        if received is None:
            return
        complete = not is_cut and (is_stopped or received.has_deltas or bool(received.arguments))
        if received.kind == "whole":
            self._complete(received)
        elif received.kind == "call":
            if received.arguments:
                self._events.append(Delta(received.index, received.arguments))
            self._release()
            self._held = Close(index=received.index, complete=complete, native={} if complete else {NAME: CUT})
        else:
            signed: Native = {NAME: {"signature": received.signature}} if received.signature is not None else {}
            self._events.append(Close(index=received.index, citations=tuple(received.citations), native=signed))

    def _complete(self, received: _Received) -> None:
        """A whole block, with the pieces that came after its start."""
        if isinstance(received.block, Opaque):
            value = received.block.value
            for key, pieces in received.parts.items():
                text = "".join(pieces)
                if key == "partial_json":
                    if text.strip():
                        value["input"] = _parsed(text)
                else:
                    before = value.get(key)
                    value[key] = before + text if isinstance(before, str) else text
        self._events += (Open(self._next, received.block), Close(index=self._next))
        self._next += 1

    def _release(self, complete: bool = True) -> None:
        """The end of a call that was held back."""
        if self._held is not None:
            self._events.append(self._held if complete else replace(self._held, complete=False, native={NAME: CUT}))
            self._held = None

    def _message_delta(self, wire: _Frame, payload: bytes) -> None:
        self._start_anyway()
        json.decode_frame(payload)  # refuses what is no JSON
        frame = read_message_delta(payload, "$")
        for fields in (frame.rest, frame.delta):
            for key, item in fields.items() if fields is not UNSET else ():
                if item is not None or key not in self._final:
                    self._final[key] = item
        if frame.usage is not UNSET:
            self._usage = merge_usage(self._usage, frame.usage)

    def _message_stop(self, wire: _Frame, payload: bytes) -> None:
        self._start_anyway()
        fields = json.decode_frame(payload) if len(payload) > _BARE_STOP else None
        self._beside_stop = {key: value for key, value in (fields or {}).items() if key != "type"}
        self._end()

    def _end_early(self) -> None:
        if self.settled:
            self._end()
        else:
            self._fault(truncated())

    def _end(self) -> None:
        told = {key: value for key, value in self._final.items() if value is not None or key not in self._stop_in_start}
        final = {**self._stop_in_start, **told}
        stop = decode_stop(final, "$.delta")
        if stop.raw is None:
            note_missing_stop(self._receipt, "stop_reason")
        others = {key: value for key, value in final.items() if key not in ("stop_reason", "stop_sequence")}
        cut = stop.reason in CUTS
        for wire_index in list(self._open):
            self._close(wire_index, is_cut=cut, is_stopped=False)
        if self._held is not None:
            self._release(complete=not (cut and self._held.index == self._next - 1))
        self._halves.report(self._receipt)
        usage = decode_usage(self._usage) if self._usage else None
        native = keep(_without_nulls(others), stop_reason=unknown_stop(stop), message_stop=self._beside_stop or None)
        self._ended = True
        self._events.append(Finish(stop=stop, usage=usage, service_tier=tier_of(usage), native=native))

    def _fault(self, error: ApiError) -> None:
        self._release()
        self._ended = True
        self._events.append(Fault(error))


def _is_same_call(received: _Received, value: Any) -> bool:
    """Is this the start of a call that has started already, and of which nothing else has come?"""
    call = received.block
    if not isinstance(call, ToolCall) or received.has_deltas or not isinstance(value, dict):
        return False
    return bool(call.id) and (call.id, call.name) == (value.get("id"), value.get("name"))


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    """Without the members that are null in nearly every answer. The encoder writes them in every stream."""
    for key in ("stop_details", "container"):
        if fields.get(key) is None:
            fields.pop(key, None)
    return fields


def _decode_block(block: ContentBlock, where: str) -> Block:
    """A block of a frame that is known to be JSON; a key may stand twice in its `input`."""
    try:
        return decode_block(block, lambda raw: bytes(raw).decode())
    except WrongInputError as wrong:
        raise expected(f"{where}.input", "an object", wrong.value) from None


def _parsed(text: str) -> Any:
    try:
        return json.decode_frame(text.encode())
    except DecodeError:
        return text


_RARE: dict[str, Callable[[AnthropicStreamDecoder, _Frame, bytes], None]] = {
    "message_start": AnthropicStreamDecoder._message_start,
    "content_block_start": AnthropicStreamDecoder._block_start,
    "content_block_stop": AnthropicStreamDecoder._block_stop,
    "message_delta": AnthropicStreamDecoder._message_delta,
    "message_stop": AnthropicStreamDecoder._message_stop,
}
