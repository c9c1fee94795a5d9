"""Events -> streams of Messages events that the strictest real clients accept.

Blocks come strictly one after another with dense indices, every event has an `event:` line, and both the first event
and `message_delta` have usage. Without each of these, one of the official SDKs fails.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from toolglot.dialects.anthropic.blocks import NO_LOGPROBS, add_required_members, is_redacted
from toolglot.dialects.anthropic.citations import encode_citations
from toolglot.dialects.anthropic.errors import write_error
from toolglot.dialects.anthropic.native import NAME, kept_fields, read_note, restore_members
from toolglot.dialects.anthropic.response import encode_stop
from toolglot.dialects.anthropic.usage import encode_final_usage, encode_usage
from toolglot.errors import ApiError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Block, Citation, Opaque, Refusal, Request, Text, Thinking, ToolCall, native_of, replace
from toolglot.receipt import Receipt, describe_block
from toolglot.wire import json
from toolglot.wire.delta_template import DeltaTemplate
from toolglot.wire.retry_after import name_wait
from toolglot.wire.sse import frame

_PING = frame(b'{"type":"ping"}', b"ping")
MESSAGE_STOP = frame(b'{"type":"message_stop"}', b"message_stop")
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
_TEXT, _THINKING = (b"text_delta", b"text"), (b"thinking_delta", b"thinking")
_ARGUMENTS, _SIGNATURE = (b"input_json_delta", b"partial_json"), (b"signature_delta", b"signature")

# Members inside the delta of `message_delta`. Other final members are next to the delta.
_IN_DELTA = ("stop_details", "container")


@lru_cache(maxsize=64)
def _delta_head(index: int, kind: tuple[bytes, bytes]) -> bytes:
    """Return the first bytes of each delta of a block. They are the same in all streams."""
    return _DELTA % (index, *kind)


@lru_cache(maxsize=64)
def _delta_template(head: bytes) -> DeltaTemplate:
    return DeltaTemplate(head + b'"', b'"}}\n\n')


class AnthropicStreamEncoder:
    __slots__ = (
        "_arguments_blank",
        "_block",
        "_head",
        "_held_arguments",
        "_index",
        "_output_tokens",
        "_pending_thinking",
        "_receipt",
        "_refused",
        "_start_keys",
        "_tier",
    )

    def __init__(self, request: Request | None, receipt: Receipt) -> None:
        self._receipt = receipt
        self._index = -1  # the wire's index of the latest block; blocks that are left out have none
        self._block: Block | None = None
        self._pending_thinking: Thinking | None = None  # reasoning without text so far
        self._head = b""  # first bytes of a delta of the open block; empty if no block is open on the wire
        self._arguments_blank = True  # no arguments have been written yet
        self._held_arguments = ""  # the start of arguments that may turn out to be `null`, which means no arguments
        self._refused = False
        self._start_keys: tuple[str, ...] = ()  # native members in the first event
        self._output_tokens = 0
        self._tier: str | None = None  # the service tier in the first event

    def keepalive(self) -> bytes:
        return _PING

    @property
    def delta_template(self) -> DeltaTemplate | None:
        return (
            _delta_template(self._head)
            if self._head and self._pending_thinking is None and not self._arguments_blank
            else None
        )

    def feed(self, event: Event) -> bytes:
        match event:
            case Delta(text=text, logprobs=logprobs):
                if logprobs:
                    self._receipt.loss(f"content[{self._index}]", "log probabilities", NO_LOGPROBS)
                return self._delta(text)
            case Open(block=block):
                return self._open_block(block)
            case Close(logprobs=logprobs):
                if logprobs:
                    self._receipt.loss(f"content[{self._index}]", "log probabilities", NO_LOGPROBS)
                return self._close_block(event)
            case Start():
                return self._start(event)
            case Finish():
                return self._finish(event)
            case Fault(error=error):
                return frame(json.encode_frame(write_error(_fit_stream(name_wait(error)))), b"error")

    def _start(self, event: Start) -> bytes:
        own = event.native.get(NAME, {})
        self._start_keys = tuple(own)
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
        return frame(json.encode_frame({"type": "message_start", "message": message}), b"message_start")

    def _open_block(self, block: Block) -> bytes:
        self._block = block
        match block:
            case Text():
                return self._begin(
                    add_required_members(restore_members({"type": "text", "text": ""}, block)), _TEXT, block.text
                )
            case ToolCall():
                self._arguments_blank, self._held_arguments = True, ""
                # Claude Code reads arguments from deltas only, so the start has none.
                start: dict[str, Any] = {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
                return self._begin(add_required_members(restore_members(start, block)), _ARGUMENTS, block.arguments)
            case Thinking():
                if is_redacted(native_of(block, NAME)):
                    return self._begin(restore_members({"type": "redacted_thinking"}, block), _THINKING)
                self._pending_thinking = block
                return self._delta(block.text) if block.text else b""
            case Refusal():
                self._refused = True
                return self._begin(add_required_members({"type": "text", "text": ""}), _TEXT, block.text)
            case Opaque(dialect=dialect, value=value) if dialect == NAME:
                return self._begin_opaque(value)
            case _:
                self._receipt.loss("content", describe_block(block), "a Messages response has no block for it")
                return b""

    def _begin(self, block: Any, kind: tuple[bytes, bytes], text: str = "") -> bytes:
        self._index += 1
        self._head = _delta_head(self._index, kind)
        start = {"type": "content_block_start", "index": self._index, "content_block": block}
        return frame(json.encode_frame(start), b"content_block_start") + (self._delta(text) if text else b"")

    def _begin_opaque(self, value: dict[str, Any]) -> bytes:
        """Begin a block that only this dialect has.

        The input of a server tool is in a delta, because the SDKs' accumulators expect that. The input of an MCP
        tool is in the start, where all clients read it: Claude Code refuses a delta there. The AI SDK and Anthropic's
        SDK ignore it, except in the SDK's beta.
        """
        if value.get("type") != "server_tool_use" or not isinstance(value.get("input"), dict):
            return self._begin(value, _TEXT)
        return self._begin({**value, "input": {}}, _ARGUMENTS, json.encode_text(value["input"]))

    def _delta(self, text: str) -> bytes:
        written = self._begin_thinking(self._pending_thinking) if self._pending_thinking is not None else b""
        if self._arguments_blank and (self._held_arguments or not text.isspace()):
            if isinstance(self._block, ToolCall) and "null".startswith((self._held_arguments + text).strip()):
                self._held_arguments += text
                return written
            text, self._held_arguments, self._arguments_blank = self._held_arguments + text, "", False
        return b"%b%b%b}}\n\n" % (written, self._head, json.encode_frame(text))

    def _begin_thinking(self, block: Thinking) -> bytes:
        self._pending_thinking = None
        # The SDKs' type requires a signature in the start; the actual one follows at the end.
        return self._begin(restore_members({"type": "thinking", "thinking": "", "signature": ""}, block), _THINKING)

    def _close_block(self, event: Close) -> bytes:
        block, self._block = self._block, None
        written = b""
        if isinstance(block, Thinking):
            written = self._end_thinking(block, event)
        elif isinstance(block, ToolCall) and self._arguments_blank:
            written = self._end_arguments(event)
        elif isinstance(block, Text):
            written = self._encode_citations(block.citations + event.citations)
        if not self._head:
            return written
        self._head = b""
        return written + frame(b'{"type":"content_block_stop","index":%d}' % self._index, b"content_block_stop")

    def _end_arguments(self, event: Close) -> bytes:
        """End a call without arguments so far: `{}` is written, unless the call was cut."""
        held, self._held_arguments = self._held_arguments, ""
        if event.complete and held.strip() in ("", "null"):
            return self._delta("{}")
        return self._delta(held) if held else b""

    def _end_thinking(self, block: Thinking, event: Close) -> bytes:
        """Write the signature, once and last. Reasoning with neither text nor signature is omitted."""
        own = {**native_of(block, NAME), **event.native.get(NAME, {})}
        if is_redacted(own):
            return b""
        written = self._begin_thinking(block) if self._pending_thinking is not None and "signature" in own else b""
        self._pending_thinking = None
        if own.get("signature"):
            written += b"%b%b}}\n\n" % (_DELTA % (self._index, *_SIGNATURE), json.encode_frame(own["signature"]))
        return written

    def _encode_citations(self, citations: tuple[Citation, ...]) -> bytes:
        pieces = []
        for citation in encode_citations(citations, "content.citations", self._receipt, reply=True):
            delta = {"type": "citations_delta", "citation": citation}
            wire = {"type": "content_block_delta", "index": self._index, "delta": delta}
            pieces.append(frame(json.encode_frame(wire), b"content_block_delta"))
        return b"".join(pieces)

    def _finish(self, event: Finish) -> bytes:
        own = event.native.get(NAME, {})
        rest = kept_fields(own)
        delta = {"container": None, **encode_stop(event.stop, own, self._refused)}
        delta |= {key: rest.pop(key) for key in _IN_DELTA if key in rest}
        beside = {key: value for key, value in rest.items() if key not in self._start_keys}
        tier = event.service_tier if event.service_tier != self._tier else None
        usage = encode_final_usage(event.usage, self._output_tokens, tier)
        wire = {"type": "message_delta", "delta": delta, "usage": usage, **beside}
        last = MESSAGE_STOP
        if measured := read_note(own, "$message_stop", dict):
            last = frame(json.encode_frame({"type": "message_stop", **measured}), b"message_stop")
        return frame(json.encode_frame(wire), b"message_delta") + last


def _fit_stream(error: ApiError) -> ApiError:
    """Convert an error to this API's form inside a stream. Its servers limit rates only before an answer begins. Claude
    Code gives up after a rate limit in a stream, but retries after an overload.
    """
    is_own = NAME in error.native
    return replace(error, kind="overloaded") if error.kind == "rate_limit" and not is_own else error
