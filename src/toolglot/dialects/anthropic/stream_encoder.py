"""Events -> streams of Messages events, such as the strictest of the real clients accept.

Blocks stand strictly one after another with dense indices, every event has its `event:` line, and usage stands both in
the first event and in `message_delta`: without these one or another of the official SDKs fails.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from toolglot.dialects.anthropic.blocks import NO_LOGPROBS, is_redacted, with_required
from toolglot.dialects.anthropic.citations import encode_citations
from toolglot.dialects.anthropic.errors import write_error
from toolglot.dialects.anthropic.native import NAME, kept_fields, note, with_kept
from toolglot.dialects.anthropic.response import encode_stop
from toolglot.dialects.anthropic.usage import encode_last_usage, encode_usage
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Block, Citation, Opaque, Refusal, Request, Text, Thinking, ToolCall, native_of
from toolglot.receipt import Receipt, describe_block
from toolglot.wire import json
from toolglot.wire.delta_template import DeltaTemplate
from toolglot.wire.sse import frame

_PING = frame(b'{"type":"ping"}', b"ping")
MESSAGE_STOP = frame(b'{"type":"message_stop"}', b"message_stop")
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
_TEXT, _THINKING = (b"text_delta", b"text"), (b"thinking_delta", b"thinking")
_ARGUMENTS, _SIGNATURE = (b"input_json_delta", b"partial_json"), (b"signature_delta", b"signature")

# These stand in the delta of `message_delta`; whatever else is known at the end stands beside it.
_IN_DELTA = ("stop_details", "container")


@lru_cache(maxsize=64)
def _delta_head(index: int, kind: tuple[bytes, bytes]) -> bytes:
    """How each delta of a block begins. All streams have the same ones."""
    return _DELTA % (index, *kind)


@lru_cache(maxsize=64)
def _around(head: bytes) -> DeltaTemplate:
    return DeltaTemplate(head + b'"', b'"}}\n\n')


class AnthropicStreamEncoder:
    __slots__ = (
        "_blank",
        "_block",
        "_head",
        "_held",
        "_index",
        "_output_tokens",
        "_receipt",
        "_refused",
        "_tier",
        "_told",
        "_waiting",
    )

    def __init__(self, request: Request | None, receipt: Receipt) -> None:
        self._receipt = receipt
        self._index = -1  # the wire's index of the latest block: blocks that are left out have none
        self._block: Block | None = None
        self._waiting: Thinking | None = None  # reasoning that has shown nothing yet
        self._head = b""  # of a delta of the open block; empty while there is none on the wire
        self._blank = True  # no arguments have been written
        self._held = ""  # the beginning of arguments that may turn out to be `null`, which are none
        self._refused = False
        self._told: tuple[str, ...] = ()  # keys that stood in the first event
        self._output_tokens = 0
        self._tier: str | None = None  # that the first event told

    def keepalive(self) -> bytes:
        return _PING

    @property
    def text_around(self) -> DeltaTemplate | None:
        return _around(self._head) if self._head and self._waiting is None and not self._blank else None

    def feed(self, event: Event) -> bytes:
        match event:
            case Delta(text=text, logprobs=logprobs):
                if logprobs:
                    self._receipt.loss(f"content[{self._index}]", "log probabilities", NO_LOGPROBS)
                return self._delta(text)
            case Open(block=block):
                return self._opened(block)
            case Close(logprobs=logprobs):
                if logprobs:
                    self._receipt.loss(f"content[{self._index}]", "log probabilities", NO_LOGPROBS)
                return self._closed(event)
            case Start():
                return self._start(event)
            case Finish():
                return self._finish(event)
            case Fault(error=error):
                return frame(json.encode(write_error(error)), b"error")

    def _start(self, event: Start) -> bytes:
        own = event.native.get(NAME, {})
        self._told = tuple(own)
        self._tier = event.service_tier
        if event.usage is not None:
            self._output_tokens = event.usage.output_tokens or 0
        message = {
            "id": event.id,
            "type": "message",
            "role": "assistant",
            "model": event.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "stop_details": None,
            "usage": encode_usage(event.usage, event.service_tier),
            "container": None,
            **kept_fields(own),
        }
        return frame(json.encode({"type": "message_start", "message": message}), b"message_start")

    def _opened(self, block: Block) -> bytes:
        self._block = block
        match block:
            case Text():
                return self._begin(with_required(with_kept({"type": "text", "text": ""}, block)), _TEXT, block.text)
            case ToolCall():
                self._blank, self._held = True, ""
                # Claude Code takes arguments from deltas alone, so the start has none.
                start: dict[str, Any] = {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
                return self._begin(with_required(with_kept(start, block)), _ARGUMENTS, block.arguments)
            case Thinking():
                if is_redacted(native_of(block, NAME)):
                    return self._begin(with_kept({"type": "redacted_thinking"}, block), _THINKING)
                self._waiting = block
                return self._delta(block.text) if block.text else b""
            case Refusal():
                self._refused = True
                return self._begin(with_required({"type": "text", "text": ""}), _TEXT, block.text)
            case Opaque(dialect=dialect, value=value) if dialect == NAME:
                return self._begin_own(value)
            case _:
                self._receipt.loss("content", describe_block(block), "a Messages response has no block for it")
                return b""

    def _begin(self, block: Any, kind: tuple[bytes, bytes], text: str = "") -> bytes:
        self._index += 1
        self._head = _delta_head(self._index, kind)
        start = {"type": "content_block_start", "index": self._index, "content_block": block}
        return frame(json.encode(start), b"content_block_start") + (self._delta(text) if text else b"")

    def _begin_own(self, value: dict[str, Any]) -> bytes:
        """A block of this dialect. The input of a server's tool comes in a delta, as the accumulators want it; but that
        of an MCP server's in the start, where all of them read it: Claude Code refuses a delta there, and the AI SDK
        and Anthropic's SDK, unless it is asked for the beta, leave it out."""
        if value.get("type") != "server_tool_use" or not isinstance(value.get("input"), dict):
            return self._begin(value, _TEXT)
        return self._begin({**value, "input": {}}, _ARGUMENTS, json.encode_text(value["input"]))

    def _delta(self, text: str) -> bytes:
        written = self._begin_thinking(self._waiting) if self._waiting is not None else b""
        if self._blank and (self._held or not text.isspace()):
            if isinstance(self._block, ToolCall) and "null".startswith((self._held + text).strip()):
                self._held += text
                return written
            text, self._held, self._blank = self._held + text, "", False
        return b"%b%b%b}}\n\n" % (written, self._head, json.encode(text))

    def _begin_thinking(self, block: Thinking) -> bytes:
        self._waiting = None
        # The SDKs' type has a signature from the start; the real one comes at the end.
        return self._begin(with_kept({"type": "thinking", "thinking": "", "signature": ""}, block), _THINKING)

    def _closed(self, event: Close) -> bytes:
        block, self._block = self._block, None
        written = b""
        if isinstance(block, Thinking):
            written = self._end_thinking(block, event)
        elif isinstance(block, ToolCall) and self._blank:
            written = self._end_arguments(event)
        elif isinstance(block, Text):
            written = self._cite(block.citations + event.citations)
        if not self._head:
            return written
        self._head = b""
        return written + frame(b'{"type":"content_block_stop","index":%d}' % self._index, b"content_block_stop")

    def _end_arguments(self, event: Close) -> bytes:
        """Of a call that has none so far. Those of a call that was cut are nobody's to make up."""
        held, self._held = self._held, ""
        if event.complete and held.strip() in ("", "null"):
            return self._delta("{}")
        return self._delta(held) if held else b""

    def _end_thinking(self, block: Thinking, event: Close) -> bytes:
        """The signature, once and last. Reasoning with neither text nor signature has not been begun, and never is."""
        own = {**native_of(block, NAME), **event.native.get(NAME, {})}
        if is_redacted(own):
            return b""
        written = self._begin_thinking(block) if self._waiting is not None and "signature" in own else b""
        self._waiting = None
        if own.get("signature"):
            written += b"%b%b}}\n\n" % (_DELTA % (self._index, *_SIGNATURE), json.encode(own["signature"]))
        return written

    def _cite(self, citations: tuple[Citation, ...]) -> bytes:
        pieces = []
        for citation in encode_citations(citations, "content.citations", self._receipt, reply=True):
            delta = {"type": "citations_delta", "citation": citation}
            wire = {"type": "content_block_delta", "index": self._index, "delta": delta}
            pieces.append(frame(json.encode(wire), b"content_block_delta"))
        return b"".join(pieces)

    def _finish(self, event: Finish) -> bytes:
        own = event.native.get(NAME, {})
        rest = kept_fields(own)
        delta = {"container": None, **encode_stop(event.stop, own, self._refused)}
        delta |= {key: rest.pop(key) for key in _IN_DELTA if key in rest}
        beside = {key: value for key, value in rest.items() if key not in self._told}
        tier = event.service_tier if event.service_tier != self._tier else None
        usage = encode_last_usage(event.usage, self._output_tokens, tier)
        wire = {"type": "message_delta", "delta": delta, "usage": usage, **beside}
        last = MESSAGE_STOP
        if measured := note(own, "$message_stop", dict):
            last = frame(json.encode({"type": "message_stop", **measured}), b"message_stop")
        return frame(json.encode(wire), b"message_delta") + last
