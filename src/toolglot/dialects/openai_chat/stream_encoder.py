"""Encode events as `chat.completion.chunk` streams for the strictest clients.

The role appears once, and so do the id, type and name of each call. Indices are dense, calls follow one another, and
usage comes last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolglot.dialects.openai_chat.annotations import encode_annotations
from toolglot.dialects.openai_chat.blocks import IMAGES, encode_image, is_thinking_part, own_members
from toolglot.dialects.openai_chat.messages import REASONING_FIELDS
from toolglot.dialects.openai_chat.native import NAME
from toolglot.dialects.openai_chat.reasoning_details import (
    REASONING_SUMMARY,
    THINKING_BLOCKS,
    details_of,
    function_state,
    merge_details,
)
from toolglot.dialects.openai_chat.request import is_legacy
from toolglot.dialects.openai_chat.response import (
    GAP_WHY,
    encode_logprobs,
    encode_stop,
    report_stop,
)
from toolglot.dialects.openai_chat.usage import encode_usage
from toolglot.events import HAS_DELTAS, Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Block, Media, Refusal, Request, Text, Thinking, TokenLogprob, ToolCall, native_of
from toolglot.receipt import Receipt, describe_block
from toolglot.wire import json, openai_error
from toolglot.wire.delta_template import DeltaTemplate
from toolglot.wire.native import native_members
from toolglot.wire.retry_after import name_wait
from toolglot.wire.sse import frame
from toolglot.wire.text_separator import separator_between

DONE = frame(b"[DONE]")


class ChatStreamEncoder:
    def __init__(self, request: Request | None, receipt: Receipt) -> None:
        options = native_of(request, NAME).get("stream_options") if request is not None else None
        self._receipt = receipt
        self._legacy = request is not None and is_legacy(request)
        self._wants_usage = request is None or (isinstance(options, dict) and bool(options.get("include_usage")))
        self._base: dict[str, Any] = {}
        self._head = self._tail = b""
        self._block: Block | None = None
        self._calls = -1  # index of the latest call
        self._delta_head, self._delta_tail = b"", b"}"
        self._wrote_arguments = False
        self._annotations: list[dict[str, Any]] = []
        self._details: dict[str, Any] = {}
        self._seen: list[Block] = []
        self._last_text = ""  # the latest piece of text
        self._length = 0  # characters of all text so far
        self._begin = 0  # offset where the latest block of text begins
        self._apart = False  # another block followed the latest text
        self._reasoned: tuple[bytes, ...] = ()  # starts of deltas with reasoning that were written
        self._reasoning_begins = False  # the open reasoning has no text yet

    def keepalive(self) -> bytes:
        return b": keepalive\n\n"

    @property
    def delta_template(self) -> DeltaTemplate | None:
        block = self._block
        if not isinstance(block, HAS_DELTAS) or self._legacy:
            return None
        if (type(block) is Text and self._apart) or (type(block) is Thinking and self._reasoning_begins):
            return None
        if type(block) is ToolCall and not self._wrote_arguments:
            return None
        before, after = self._head + self._delta_head + b'"', b'"' + self._delta_tail + self._tail
        return DeltaTemplate(before, after, on_written=self._count_text if type(block) is Text else None)

    def _count_text(self, text: str, number: int) -> None:
        self._last_text = text
        self._length += len(text)

    def feed(self, event: Event) -> bytes:
        match event:
            case Delta(text=text, logprobs=logprobs):
                return self._encode_delta(text) if not logprobs else self._with_logprobs(text, logprobs)
            case Open(block=block):
                return self._open_block(block)
            case Close():
                return self._close_block(event)
            case Start():
                return self._encode_start(event)
            case Finish():
                return self._encode_finish(event)
            case Fault(error=error):
                return frame(json.encode_frame({"error": openai_error.write_error(name_wait(error))}))

    def _encode_start(self, event: Start) -> bytes:
        self._base = {
            "id": event.id,
            "object": "chat.completion.chunk",
            "created": event.created or 0,
            "model": event.model,
        }
        self._set_head(event.service_tier)
        usage = b',"usage":null' if self._wants_usage else b""
        self._tail = b',"logprobs":null,"finish_reason":null}]' + usage + b"}\n\n"
        return self._frame(b'{"role":"assistant","content":""}')

    def _set_head(self, tier: str | None) -> None:
        """Encode the beginning that all chunks share."""
        if tier is not None:
            self._base["service_tier"] = tier
        self._head = b"data: " + json.encode_frame(self._base)[:-1] + b',"choices":[{"index":0,"delta":'

    def _frame(self, delta: bytes) -> bytes:
        return self._head + delta + self._tail

    def _open_block(self, block: Block) -> bytes:
        self._block = block
        self._apart = self._apart or ((not isinstance(block, Text) or block.new_message) and bool(self._last_text))
        self._delta_tail = b"}"
        match block:
            case ToolCall():
                return self._open_call(block)
            case Text():
                self._begin = self._length
                self._delta_head = b'{"content":'
            case Thinking() if is_thinking_part(block) and REASONING_SUMMARY not in native_of(block, NAME):
                self._reasoning_begins = False
                self._delta_head = b'{"content":[{"type":"thinking","thinking":[{"type":"text","text":'
                self._delta_tail = b"}]}]}"
            case Thinking():
                self._add_details(native_of(block, NAME))
                field = native_of(block, NAME).get("$field", REASONING_FIELDS[0])
                self._reasoning_begins = True
                self._delta_head = b'{"%b":' % (REASONING_FIELDS[0] if field == THINKING_BLOCKS else field).encode()
            case Refusal():
                self._seen.append(block)
                self._delta_head = b'{"refusal":'
            case Media():
                image = encode_image(block, "content", self._receipt)
                return self._frame(json.encode_frame({IMAGES: [image]})) if image is not None else b""
            case _:
                self._receipt.loss("content", describe_block(block), "a Chat stream has no place for it")
        return b""

    def _add_details(self, fields: Mapping[str, Any]) -> None:
        merge_details(self._details, details_of(fields), "content", self._receipt)
        if fields.get(REASONING_SUMMARY):
            self._receipt.loss("content", "the signature of reasoning", "a Chat stream has no field for it")

    def _open_call(self, call: ToolCall) -> bytes:
        self._calls += 1
        self._wrote_arguments = False
        if self._legacy:
            if self._calls:
                self._receipt.loss("content", f"call of {call.name}", "the deprecated form has room for one call")
                return b""
            self._delta_head, self._delta_tail = b'{"function_call":{"arguments":', b"}}"
            return self._frame(json.encode_frame({"function_call": {"name": call.name, "arguments": ""}}))
        member, field = ("custom", "input") if call.kind == "custom" else ("function", "arguments")
        self._delta_head = b'{"tool_calls":[{"index":%d,"%b":{"%b":' % (self._calls, member.encode(), field.encode())
        self._delta_tail = b"}}]}"
        if call.kind == "custom":
            self._receipt.note(
                "content", f"custom call {call.name}", "the accumulators of OpenAI's SDKs cannot read it"
            )
        extra = own_members(call)
        inner = {"name": call.name, field: "", **extra.pop(member, {}), **function_state(native_of(call, NAME))}
        first = {"index": self._calls, "id": call.id, "type": member, member: inner, **extra}
        return self._frame(json.encode_frame({"tool_calls": [first]}))

    def _encode_delta(self, text: str) -> bytes:
        block = self._block
        if type(block) is Text:
            if self._apart:
                return self._delta_after_gap(text)
            self._count_text(text, 0)
        elif type(block) is Thinking and self._reasoning_begins:
            text = self._first_reasoning(text)
        elif type(block) is ToolCall:
            self._wrote_arguments = self._wrote_arguments or not text.isspace()
            if self._legacy and self._calls:
                return b""
        return self._head + self._delta_head + json.encode_frame(text) + self._delta_tail + self._tail

    def _first_reasoning(self, text: str) -> str:
        """Encode the first text of a reasoning block. If its field already holds another block, a blank line goes
        before it, as in a whole answer.
        """
        if not text:
            return text
        self._reasoning_begins = False
        if self._delta_head in self._reasoned:
            return "\n\n" + text
        self._reasoned += (self._delta_head,)
        return text

    def _with_logprobs(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> bytes:
        """Encode text, which may be empty, with its tokens in the same chunk."""
        before = self._encode_gap(text) if self._apart and text else b""
        tail = self._tail
        self._tail = tail.replace(b'"logprobs":null', b'"logprobs":' + json.encode_frame(encode_logprobs(logprobs)), 1)
        written = self._encode_delta(text) if text else self._frame(b'{"content":""}')
        self._tail = tail
        return before + written

    def _delta_after_gap(self, text: str) -> bytes:
        """Encode the first text after another block."""
        return self._encode_gap(text) + self._encode_delta(text)

    def _encode_gap(self, text: str) -> bytes:
        self._apart = False
        gap = separator_between(self._last_text, text)
        if not gap:
            return b""
        self._receipt.note("content", "text separate from the text before", GAP_WHY)
        written = self._encode_delta(gap)
        self._begin = self._length
        return written

    def _close_block(self, event: Close) -> bytes:
        block, self._block = self._block, None
        if event.citations:
            length = self._length - self._begin
            self._annotations += encode_annotations(event.citations, self._begin, length, "content", self._receipt)
        if not isinstance(block, ToolCall):
            self._add_details(event.native.get(NAME, {}))
            return self._with_logprobs("", event.logprobs) if event.logprobs else b""
        written = b""
        if block.kind == "function" and not self._wrote_arguments and event.complete:
            self._block = block
            written = self._encode_delta("{}")
            self._block = None
        fields = event.native.get(NAME, {})
        extra = native_members(fields)
        if inner := function_state(fields):
            extra["custom" if block.kind == "custom" else "function"] = inner
        if extra and not self._legacy:
            written += self._frame(json.encode_frame({"tool_calls": [{"index": self._calls, **extra}]}))
        return written

    def _encode_finish(self, event: Finish) -> bytes:
        # Write each list once, completely: one of the official accumulators cannot merge a list in pieces,
        # and the other one keeps only the last piece.
        lists = {**self._details, "annotations": self._annotations}
        present = {name: entries for name, entries in lists.items() if entries}
        self._base |= {key: value for key, value in event.native.get(NAME, {}).items() if key == "system_fingerprint"}
        self._set_head(event.service_tier)
        written = self._frame(json.encode_frame(present)) if present else b""
        report_stop(event.stop, self._receipt)
        reason = encode_stop(event.stop, tuple(self._seen), self._legacy)
        tail = self._tail.replace(b'"finish_reason":null', b'"finish_reason":' + json.encode_frame(reason), 1)
        written += self._head + b"{}" + tail
        if self._wants_usage and event.usage is not None:
            written += frame(json.encode_frame({**self._base, "choices": [], "usage": encode_usage(event.usage)}))
        return written + DONE
