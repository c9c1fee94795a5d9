"""Streams of Messages events -> events.

The wire has nearly the grammar of `events.py`. Some servers deviate: a call's arguments may be in its start, the start
of a message may be repeated, the last event may be missing, and errors may have any form.

If code in Claude's container calls a tool (programmatic tool calling), `message_start` already has whole blocks and the
stop reason, and `message_stop` may follow at once.

The decoder holds two things back. A block that only this dialect understands has no deltas in the IR, so it is emitted
at its end. The end of a call waits for the next event, because only the stop reason shows whether the call was cut.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from msgspec import UNSET, Raw, Struct
from msgspec.json import Decoder

from toolglot.dialects.anthropic.blocks import decode_block, remove_required_members
from toolglot.dialects.anthropic.citations import decode_citation
from toolglot.dialects.anthropic.errors import read_error
from toolglot.dialects.anthropic.native import NAME, SIDE_MEMBERS, keep
from toolglot.dialects.anthropic.response import (
    CUT_NOTE,
    CUT_REASONS,
    decode_stop,
    foreign_stop_reason,
    native_members,
    stop_members,
)
from toolglot.dialects.anthropic.usage import decode_usage, merge_usage, tier_of
from toolglot.dialects.anthropic.wire import (
    ContentBlock,
    StartedMessage,
    read_block,
    read_citation,
    read_message_delta,
    read_started_message,
)
from toolglot.errors import ApiError, DecodeError, note_early_end, note_missing_stop, spliced, truncated, unreadable
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Block, Citation, Native, Opaque, Text, Thinking, ToolCall, native_of, replace
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.error_documents import find_error
from toolglot.wire.side_members import read_frame_again
from toolglot.wire.sse import STRAY, SseReader
from toolglot.wire.stray_lines import read_stray_error
from toolglot.wire.surrogates import SurrogateJoiner


class _FrameDelta(Struct):
    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None


class _Frame(Struct):
    type: str | None = None
    index: int | None = None
    delta: _FrameDelta | None = None


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


class _ReceivedBlock:
    """A block that is being received. Blocks of kind `whole` are emitted only at their end."""

    __slots__ = ("arguments", "block", "citations", "has_deltas", "index", "kind", "parts", "signature")

    def __init__(self, kind: _Kind, index: int, block: Block) -> None:
        self.kind = kind
        self.index = index
        self.block = block
        self.arguments = ""  # arguments in the start of a call, used if no deltas come
        self.has_deltas = False  # arguments of a call have come in deltas
        self.citations: list[Citation] = []
        self.signature: str | None = None
        self.parts: dict[str, list[str]] = {}  # pieces of each member of a whole block


class AnthropicStreamDecoder:
    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._sse = SseReader(keeps_stray=True)
        self._events: list[Event] = []
        self._started = self._ended = False
        self._has_finished = False  # it ended well, and nothing has followed
        self._next = 0
        self._open: dict[int, _ReceivedBlock] = {}  # by the wire's index
        self._latest = -1  # the wire's index of the latest start
        self._id = ""
        self._start_content: list[Raw] = []
        self._replayed = -1  # the wire's index of the latest block before a second message_start
        self._held_close: Close | None = None
        self._final: dict[str, Any] = {}
        self._stop_in_start: dict[str, Any] = {}  # stop members of message_start, valid until a block follows
        self._stop_extras: dict[str, Any] = {}  # other members of message_stop: Bedrock sends metrics there
        self._usage: dict[str, Any] = {}
        self._has_output_count = False  # a count of output has come after the start
        self._halves = SurrogateJoiner()

    def feed(self, data: bytes) -> list[Event]:
        if self._ended and not self._has_finished:
            return []
        try:
            for name, payload in self._sse.feed(data):
                self._read_frame(name, payload)
        except DecodeError as error:
            if not self._ended:
                self._fault(unreadable(error))
            self._has_finished = False
        return self._flush()

    def _report_late_content(self, payload: bytes) -> None:
        if self._has_finished and b'"content_block_' in payload:
            self._has_finished = False  # it is reported once
            self._receipt.loss("content", "content after message_stop", "the answer had ended")

    def close(self) -> list[Event]:
        if not self._ended:
            try:
                for name, payload in self._sse.close():
                    self._read_frame(name, payload)
            except DecodeError:
                pass  # the last event was cut, which does not matter if a stop reason has come
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

    def _read_frame(self, name: bytes, payload: bytes) -> None:
        """Read a frame, without side members of a wrong type."""
        begun = len(self._events)
        try:
            self._read(name, payload)
        except DecodeError as error:
            read = partial(self._read, name)
            read_frame_again(payload, error, read, SIDE_MEMBERS, self._receipt, self._events, begun)

    def _read(self, name: bytes, payload: bytes) -> None:
        if self._ended:
            self._report_late_content(payload)
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
                self._read_unknown_event(name, payload, error)
            return
        if wire.type == "content_block_delta":
            self._delta(wire, payload)
        elif wire.type in _HANDLERS:
            _HANDLERS[wire.type](self, wire, payload)
        elif wire.type != "ping":
            self._read_unknown_event(name, payload, None)

    def _read_unknown_event(self, name: bytes, payload: bytes, error: DecodeError | None) -> None:
        """Read an event that this API does not define: an error in any form, another API's end mark, a new type."""
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
        if error is not None and (kind is None or kind in ("content_block_delta", *_HANDLERS)):
            raise error
        self._receipt.loss("stream", f"event {kind}", "its type is unknown")

    def _message_start(self, wire: _Frame, payload: bytes) -> None:
        json.decode_frame(payload)  # raises if it is not JSON
        raw = json.decode_typed(payload, _messages).message
        message = read_started_message(b"{}" if raw == _NULL else raw, "$.message")
        if self._started:
            self._read_second_start(message)
            return
        self._id = "" if message.id is UNSET else message.id
        self._start_content = message.content or []
        usage = None if message.usage is UNSET else message.usage
        counted = decode_usage(usage, "$.message.usage") if usage is not None else None
        self._started = True
        self._usage = usage or {}
        # The stop members are null until the end, unless the message is already whole.
        others = {key: value for key, value in native_members(message).items() if key not in _STOP_MEMBERS}
        start = Start(
            id="" if message.id is UNSET else message.id,
            model="" if message.model is UNSET else message.model,
            usage=counted,
            service_tier=tier_of(counted),
            native=keep(_without_nulls(others)),
        )
        self._events.append(start)
        if message.content:
            self._read_whole_blocks(message.content)
            self._stop_in_start = stop_members(message)

    def _read_second_start(self, message: StartedMessage) -> None:
        """Read another message_start. Some gateways repeat the event (bifrost #4556, litellm #32478). One with another
        id after content is another answer: a proxy has lost its upstream and asked again (vercel/ai #18331)."""
        identity = "" if message.id is UNSET else message.id
        if self._next or self._open:
            if identity != self._id and identity and self._id:
                self._fault(spliced())
                return
            self._replayed = max(self._latest, self._replayed)
        usage = None if message.usage is UNSET else message.usage
        self._usage = self._usage if usage is None else merge_usage(self._usage, usage)
        if (message.content or []) == self._start_content:
            self._receipt.note("stream", "a second message_start", "the response continues")
        elif self._next or self._open:
            self._receipt.loss("stream", "content of a second message_start", "the response continues")
        elif message.content:
            self._receipt.note("stream", "a second message_start", "its content is read")
            self._read_whole_blocks(message.content)
            self._stop_in_start = stop_members(message)

    def _read_whole_blocks(self, content: list[Raw]) -> None:
        """Read the whole blocks in message_start. They have no later deltas."""
        for index, raw in enumerate(content):
            where = f"$.message.content[{index}]"
            block = _decode_block(read_block(raw, where))
            self._release_held_close()
            received = self._begin_block(index, block)
            if isinstance(block, ToolCall):
                received.arguments = block.arguments
            self._close(index)
        self._latest = len(content) - 1

    def _ensure_started(self) -> None:
        if not self._started:
            self._started = True
            self._events.append(Start())

    def _block_start(self, wire: _Frame, payload: bytes) -> None:
        self._ensure_started()
        self._release_held_close()
        value = json.decode_frame(payload).get("content_block")
        raw = json.decode_typed(payload, _starts).content_block
        index = self._latest + 1 if wire.index is None else wire.index
        if index <= self._replayed:
            self._fault(spliced())
            return
        before = self._open.get(index)
        if before is not None:
            if _is_same_call(before, value):
                self._receipt.note("stream", f"a second start of block {index}", "it belongs to the same call")
                return
            self._close(index, is_stopped=False)
        self._latest = index
        kind = value.get("type") if isinstance(value, dict) else None
        if kind in ("text", "thinking") and not value.get(kind) and value.get(kind) != "":
            raw = Raw(json.encode({**value, kind: ""}))
        block = read_block(raw, "$.content_block")
        remove_required_members((block,))
        self._begin_block(index, _decode_block(block))

    def _begin_block(self, index: int, block: Block) -> _ReceivedBlock:
        self._stop_in_start = {}  # the message continues
        received = _ReceivedBlock("whole", -1, block)
        match block:
            case Text(text=text, citations=citations):
                received = self._open_block("text", replace(block, text="", citations=()), text)
                received.citations += citations
            case Thinking(text=text) if not native_of(block, NAME).get("$redacted"):
                own = dict(native_of(block, NAME))
                signature = own.pop("signature", None)
                received = self._open_block("thinking", Thinking(native={NAME: own} if own else {}), text)
                received.signature = signature if isinstance(signature, str) else None
            case ToolCall(arguments=arguments):
                # Notes on the arguments in the start do not apply to the arguments in deltas.
                own = {key: value for key, value in native_of(block, NAME).items() if key not in ("$missing", "$twice")}
                received = self._open_block("call", replace(block, arguments="", native={NAME: own} if own else {}), "")
                # The start of a call has an empty object as a placeholder for arguments that follow or were cut.
                received.arguments = "" if arguments == "{}" else arguments
        self._open[index] = received
        return received

    def _open_block(self, kind: _Kind, block: Block, text: str) -> _ReceivedBlock:
        received = _ReceivedBlock(kind, self._next, block)
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
            received = self._begin_unannounced(wire, delta)
            if received is None:
                return
        kind = received.kind
        if delta.type not in _DELTAS and kind != "whole":  # an unknown block may have any delta
            self._receipt.loss("stream", f"delta {delta.type}", "its type is unknown")
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
            self._other_delta(received, delta, payload, empty=text is not None)

    def _begin_unannounced(self, wire: _Frame, delta: _FrameDelta) -> _ReceivedBlock | None:
        """Begin a block for a delta without a start. The kind of the delta implies the type of the block."""
        block = Text(text="") if delta.text else Thinking() if delta.thinking else None
        if delta.partial_json:
            self._fault_on_stray_arguments()
            return None
        if block is None:
            self._receipt.loss("stream", f"{delta.type} of no block", "the block it belongs to never started")
            return None
        self._ensure_started()
        self._release_held_close()
        self._latest = self._latest + 1 if wire.index is None else wire.index
        return self._begin_block(self._latest, block)

    def _fault_on_stray_arguments(self) -> None:
        """Fail, because it is unknown which call these arguments belong to, and a call without them must not run."""
        self._fault(unreadable(DecodeError("$.index", "arguments of a call that never started")))

    def _other_delta(self, received: _ReceivedBlock, delta: _FrameDelta, payload: bytes, empty: bool) -> None:
        """Read a delta without text: a signature, a citation, part of a whole block, an empty or unknown delta."""
        fields: dict[str, Any] = json.decode_frame(payload)["delta"]
        citation = fields.get("citation")
        if received.kind != "whole":
            self._report_unknown_members(fields)
        if received.kind == "thinking" and delta.signature is not None:
            received.signature = delta.signature
        elif empty:
            return
        elif delta.partial_json and received.kind in ("text", "thinking"):
            self._fault_on_stray_arguments()
        elif delta.text and received.kind == "call":
            self._fault(unreadable(DecodeError("$.delta.text", "text inside a call: its arguments are unknown")))
        elif received.kind == "text" and citation is not None:
            raw = json.decode_typed(payload, _citations).delta.citation
            received.citations.append(decode_citation(read_citation(raw, "$.delta.citation")))
        elif isinstance(received.block, Opaque):
            self._extend_opaque(received, received.block, fields)
        else:
            self._receipt.loss("stream", f"{delta.type} in {received.kind}", "this kind of block has no such delta")

    def _report_unknown_members(self, fields: dict[str, Any]) -> None:
        for key, value in fields.items():
            if key not in _MEMBERS and value not in (None, "", [], {}, False):
                self._receipt.loss("stream", f"{key} of a delta", "it is an unknown member")

    @staticmethod
    def _extend_opaque(received: _ReceivedBlock, block: Opaque, fields: dict[str, Any]) -> None:
        """Add a delta to an unknown block: strings are appended, other values replace the old ones."""
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
        """Close a block. A call without a `content_block_stop` is complete only if it has arguments: without them, it
        was cut before they arrived, and must not run.
        """
        received = self._open.pop(wire_index, None)
        if received is None:
            return
        complete = not is_cut and (is_stopped or received.has_deltas or bool(received.arguments))
        if received.kind == "whole":
            self._emit_whole_block(received)
        elif received.kind == "call":
            if received.arguments:
                self._events.append(Delta(received.index, received.arguments))
            self._release_held_close()
            self._held_close = Close(
                index=received.index, complete=complete, native={} if complete else {NAME: CUT_NOTE}
            )
        else:
            signed: Native = {NAME: {"signature": received.signature}} if received.signature is not None else {}
            self._events.append(Close(index=received.index, citations=tuple(received.citations), native=signed))

    def _emit_whole_block(self, received: _ReceivedBlock) -> None:
        """Emit a whole block with the pieces that arrived after its start."""
        if isinstance(received.block, Opaque):
            value = received.block.value
            for key, pieces in received.parts.items():
                text = "".join(pieces)
                if key == "partial_json":
                    if text.strip():
                        value["input"] = _parse_json_or_text(text)
                else:
                    before = value.get(key)
                    value[key] = before + text if isinstance(before, str) else text
        self._events += (Open(self._next, received.block), Close(index=self._next))
        self._next += 1

    def _release_held_close(self, complete: bool = True) -> None:
        """Emit the held-back end of a call."""
        if self._held_close is not None:
            self._events.append(
                self._held_close if complete else replace(self._held_close, complete=False, native={NAME: CUT_NOTE})
            )
            self._held_close = None

    def _message_delta(self, wire: _Frame, payload: bytes) -> None:
        self._ensure_started()
        json.decode_frame(payload)  # raises if it is not JSON
        frame = read_message_delta(payload, "$")
        decode_stop({} if frame.delta is UNSET else frame.delta, "$.delta")  # raises if a member has a wrong type
        for fields in (frame.rest, frame.delta):
            for key, item in fields.items() if fields is not UNSET else ():
                if item is not None or key not in self._final:
                    self._final[key] = item
        if frame.usage is not UNSET:
            self._usage = merge_usage(self._usage, frame.usage)
            self._has_output_count = self._has_output_count or frame.usage.get("output_tokens") is not None

    def _message_stop(self, wire: _Frame, payload: bytes) -> None:
        self._ensure_started()
        fields = json.decode_frame(payload) if len(payload) > _BARE_STOP else None
        self._stop_extras = {key: value for key, value in (fields or {}).items() if key != "type"}
        self._end()

    def _end_early(self) -> None:
        if self.settled:
            self._end()
        else:
            self._fault(truncated())

    def _end(self) -> None:
        late = {key: value for key, value in self._final.items() if value is not None or key not in self._stop_in_start}
        final = {**self._stop_in_start, **late}
        stop = decode_stop(final, "$.delta")
        if stop.raw is None:
            note_missing_stop(self._receipt, "stop_reason")
        others = {key: value for key, value in final.items() if key not in ("stop_reason", "stop_sequence")}
        cut = stop.reason in CUT_REASONS
        for wire_index in list(self._open):
            self._close(wire_index, is_cut=cut, is_stopped=False)
        if self._held_close is not None:
            self._release_held_close(complete=not (cut and self._held_close.index == self._next - 1))
        self._halves.report(self._receipt)
        if not self._has_output_count and not self._stop_in_start:
            # The count at the start is a placeholder (0 or 1), which some servers never correct (pi #6567: MiniMax).
            self._usage = {name: value for name, value in self._usage.items() if name != "output_tokens"}
        usage = decode_usage(self._usage) if self._usage else None
        native = keep(
            _without_nulls(others), stop_reason=foreign_stop_reason(stop), message_stop=self._stop_extras or None
        )
        self._ended = self._has_finished = True
        self._events.append(Finish(stop=stop, usage=usage, service_tier=tier_of(usage), native=native))

    def _fault(self, error: ApiError) -> None:
        self._release_held_close()
        self._ended = True
        self._events.append(Fault(error))


def _is_same_call(received: _ReceivedBlock, value: Any) -> bool:
    """Return whether this start repeats the start of an open call without deltas."""
    call = received.block
    if not isinstance(call, ToolCall) or received.has_deltas or not isinstance(value, dict):
        return False
    return bool(call.id) and (call.id, call.name) == (value.get("id"), value.get("name"))


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    """Remove members that are null in nearly every answer. The encoder writes them in every stream."""
    for key in ("stop_details", "container"):
        if fields.get(key) is None:
            fields.pop(key, None)
    return fields


def _decode_block(block: ContentBlock) -> Block:
    """Decode a block of a frame that is valid JSON. Its `input` may have repeated keys."""
    return decode_block(block, lambda raw: bytes(raw).decode())


def _parse_json_or_text(text: str) -> Any:
    try:
        return json.decode_frame(text.encode())
    except DecodeError:
        return text


_HANDLERS: dict[str, Callable[[AnthropicStreamDecoder, _Frame, bytes], None]] = {
    "message_start": AnthropicStreamDecoder._message_start,
    "content_block_start": AnthropicStreamDecoder._block_start,
    "content_block_stop": AnthropicStreamDecoder._block_stop,
    "message_delta": AnthropicStreamDecoder._message_delta,
    "message_stop": AnthropicStreamDecoder._message_stop,
}
