"""Events -> streams of `streamGenerateContent`."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.gemini.blocks import own_members
from toolglot.dialects.gemini.errors import write_error
from toolglot.dialects.gemini.grounding import ORIGINAL, restore_grounding, write_grounding
from toolglot.dialects.gemini.logprobs import AVERAGE, RESULT, average_logprob, write_logprobs
from toolglot.dialects.gemini.native import NAME
from toolglot.dialects.gemini.response import (
    SEPARATOR_REASON,
    encode_part,
    encode_stop,
    identity_members,
)
from toolglot.dialects.gemini.usage import encode_usage
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start, merge_native
from toolglot.ir import Block, Citation, Refusal, Request, Text, Thinking, TokenLogprob, ToolCall, replace
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.citation_spans import shift_span, with_span
from toolglot.wire.delta_template import DeltaTemplate
from toolglot.wire.retry_after import name_wait
from toolglot.wire.sse import frame
from toolglot.wire.text_separator import separator_between

_HEAD = b'data: {"candidates":[{"content":{"parts":['


class GeminiStreamEncoder:
    """Encodes events as frames: `data: {json}` and an empty line, and nothing else.

    The official readers are not SSE parsers: a comment or an `event:` line makes the Python SDK raise, and the
    JavaScript SDK loses everything.

    From the first call on, frames are held until the end of the answer. Gemini CLI runs calls only then, but it
    remembers the calls of a failed stream, and would run them together with the same calls of its next request.
    """

    def __init__(self, request: Request | None, receipt: Receipt) -> None:
        self._receipt = receipt
        self._model = request.model if request is not None else ""
        self._identity: dict[str, Any] = {}
        self._tier: str | None = None
        self._tail = b""
        self._index = 0
        self._block: Block | None = None
        self._is_text = False
        self._after_text = b""
        self._arguments: list[str] = []
        self._wrote = False
        self._last_text = ""  # the latest piece of text
        self._length = 0  # length of all text so far
        self._texts: list[str] = []  # all text so far, which sources are counted in
        self._block_start = 0  # start of the latest text block in the text of the answer
        self._is_new_message = False  # the next text begins a new message
        self._citations: list[Citation] = []
        self._tokens: list[TokenLogprob] = []
        self._pending_logprobs: list[TokenLogprob] = []  # tokens that no frame has carried yet
        self._held_frames: list[bytes] = []  # frames from the first call on

    def keepalive(self) -> bytes:
        return b"\n\n"

    @property
    def delta_template(self) -> DeltaTemplate | None:
        if isinstance(self._block, ToolCall):
            return DeltaTemplate(on_written=self._add_arguments)
        if not self._is_text or self._block is None or self._is_new_message or self._held_frames:
            return None
        before, after = _HEAD + b'{"text":"', b'"' + self._after_text + self._tail
        return DeltaTemplate(before, after, on_written=self._count_text if type(self._block) is Text else None)

    def _count_text(self, text: str, number: int) -> None:
        self._last_text = text
        self._length += len(text)
        self._texts.append(text)

    def _add_arguments(self, text: str, number: int) -> None:
        self._arguments.append(text)

    def feed(self, event: Event) -> bytes:
        called = type(event) is Close and isinstance(self._block, ToolCall)
        written = self._encode(event)
        if not self._held_frames and not called:
            return written
        if type(event) is Fault:
            self._held_frames.clear()
            return written
        self._held_frames.append(written)
        if type(event) is not Finish:
            return b""
        whole = b"".join(self._held_frames)
        self._held_frames.clear()
        return whole

    def _encode(self, event: Event) -> bytes:
        match event:
            case Delta(text=text, logprobs=logprobs):
                return self._delta(text) if not logprobs else self._delta_with_logprobs(text, logprobs)
            case Open(index=index, block=block):
                self._index = index
                return self._open_block(block)
            case Close():
                return self._close_block(event)
            case Start():
                return self._start(event)
            case Finish():
                return self._finish(event)
            case Fault(error=error):
                document = json.encode_frame(write_error(name_wait(error)))
                return frame(document) + document + b"\n\n"

    def _start(self, event: Start) -> bytes:
        self._tier = event.service_tier
        self._identity = identity_members(event.model or self._model, event.id, event.created)
        rest = json.encode_frame(self._identity)[1:-1]
        self._tail = b'],"role":"model"},"index":0}]' + (b"," + rest if rest else b"") + b"}\n\n"
        return b""

    def _open_block(self, block: Block) -> bytes:
        self._block, self._wrote, self._arguments = block, False, []
        self._block_start = self._length
        self._is_text = isinstance(block, (Text, Thinking, Refusal))
        if isinstance(block, (Text, Thinking, Refusal)):
            self._after_text = b',"thought":true}' if isinstance(block, Thinking) else b"}"
            self._is_new_message = isinstance(block, Text) and block.new_message
            return self._delta(block.text) if block.text else b""
        if isinstance(block, ToolCall):
            return b""
        return self._encode_part(block)

    def _delta(self, text: str) -> bytes:
        if self._is_text:
            self._wrote = True
            if type(self._block) is Text:
                text = self._separate_message(text) if self._is_new_message else text
                self._count_text(text, 0)
            return _HEAD + b'{"text":' + json.encode_frame(text) + self._after_text + self._tail
        self._arguments.append(text)
        return b""

    def _delta_with_logprobs(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> bytes:
        """Encode text and its log probabilities in one frame."""
        self._tokens += logprobs
        result = b',"%b":%b}]' % (RESULT.encode(), json.encode_frame(write_logprobs(logprobs)))
        tail = self._tail
        self._tail = tail.replace(b'"index":0}]', b'"index":0' + result, 1)
        written = self._delta(text)
        self._tail = tail
        return written

    def _separate_message(self, text: str) -> str:
        """Add a separator before the first text of a new message."""
        self._is_new_message = False
        gap = separator_between(self._last_text, text)
        if gap:
            self._receipt.note(f"content[{self._index}]", "text separate from the text before", SEPARATOR_REASON)
            self._block_start += len(gap)
        return gap + text

    def _encode_part(self, block: Block) -> bytes:
        part = encode_part(block, f"content[{self._index}]", self._receipt)
        return _HEAD + json.encode_frame(part) + self._tail if part is not None else b""

    def _close_block(self, event: Close) -> bytes:
        block, self._block = self._block, None
        if event.citations:
            start, length = self._block_start, self._length - self._block_start
            self._citations += [shift_span(with_span(citation, length), start) for citation in event.citations]
        self._pending_logprobs += event.logprobs
        if isinstance(block, ToolCall):
            arguments = block.arguments + "".join(self._arguments)
            complete, native = block.complete and event.complete, merge_native(block.native, event.native)
            return self._encode_part(replace(block, arguments=arguments, complete=complete, native=native))
        if isinstance(block, (Text, Thinking, Refusal)):
            return self._close_text(replace(block, text="", native=merge_native(block.native, event.native)))
        return b""

    def _close_text(self, block: Text | Thinking | Refusal) -> bytes:
        """Write the signature on a final part of the same kind without text, as the API itself does."""
        if own_members(block).keys() - {"thought"}:
            return self._encode_part(block)
        if isinstance(block, Thinking) and not self._wrote:
            self._receipt.loss(f"content[{self._index}]", "reasoning without text", "only its owner can read it")
        return b""

    def _final_logprobs(self) -> dict[str, Any]:
        tokens = [*self._tokens, *self._pending_logprobs]
        mean = {AVERAGE: average_logprob(tokens)} if tokens else {}
        return {**mean, RESULT: write_logprobs(self._pending_logprobs)} if self._pending_logprobs else mean

    def _finish(self, event: Finish) -> bytes:
        notes = event.native.get(NAME, {})
        candidate = dict(notes.get("candidate", {}))
        beside = candidate.pop("content", None) or {}
        cited = [] if ORIGINAL in candidate else self._citations
        sources = write_grounding(cited, "".join(self._texts) if cited else "", self._receipt)
        usage = encode_usage(event.usage, event.service_tier or self._tier)
        body: dict[str, Any] = {
            "candidates": [
                {
                    # With an empty list of parts, chat sessions of the Python SDK would discard the turn.
                    "content": {"parts": [{"text": ""}], "role": "model", **beside},
                    **encode_stop(event.stop),
                    **sources,
                    **self._final_logprobs(),
                    "index": 0,
                    **restore_grounding(candidate),
                }
            ],
            **({"usageMetadata": usage} if usage else {}),
            **self._identity,
        }
        rest = {key: value for key, value in notes.items() if not key.startswith("$") and key not in body}
        rest.pop("candidate", None)
        return frame(json.encode_frame(body | rest))
