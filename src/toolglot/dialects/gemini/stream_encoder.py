"""Events -> streams of `streamGenerateContent`."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.gemini.blocks import own
from toolglot.dialects.gemini.errors import write_error
from toolglot.dialects.gemini.logprobs import AVERAGE, RESULT, average, write_logprobs
from toolglot.dialects.gemini.native import NAME
from toolglot.dialects.gemini.response import GAP_WHY, encode_citations, encode_part, encode_stop, identity
from toolglot.dialects.gemini.usage import encode_usage
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start, merge_native
from toolglot.ir import Block, Citation, Refusal, Request, Text, Thinking, TokenLogprob, ToolCall, replace
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.citation_spans import shift_span
from toolglot.wire.delta_template import DeltaTemplate
from toolglot.wire.sse import frame
from toolglot.wire.text_separator import separator_between

_HEAD = b'data: {"candidates":[{"content":{"parts":['


class GeminiStreamEncoder:
    """Events to frames: `data: {json}` and an empty line, never anything else.

    The official readers are not SSE parsers: a comment or an `event:` line makes the Python SDK raise and the
    JavaScript SDK lose everything.

    From the first call on, frames wait for the end of the answer. Gemini CLI runs calls only then, but it remembers
    those of a stream that failed, and would run them beside the same calls of the answer that it asks for next.
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
        self._said = ""  # the latest piece of text
        self._length = 0  # of all text so far
        self._begin = 0  # where the latest block of text begins in it
        self._apart = False  # another message begins with the next one
        self._citations: list[Citation] = []
        self._tokens: list[TokenLogprob] = []
        self._untold: list[TokenLogprob] = []  # those of them that no frame has brought
        self._held: list[bytes] = []  # the first call, and what came behind it

    def keepalive(self) -> bytes:
        return b"\n\n"

    @property
    def text_around(self) -> DeltaTemplate | None:
        if isinstance(self._block, ToolCall):
            return DeltaTemplate(on_written=self._add_arguments)
        if not self._is_text or self._block is None or self._apart or self._held:
            return None
        before, behind = _HEAD + b'{"text":"', b'"' + self._after_text + self._tail
        return DeltaTemplate(before, behind, on_written=self._add_said if type(self._block) is Text else None)

    def _add_said(self, text: str, number: int) -> None:
        self._said = text
        self._length += len(text)

    def _add_arguments(self, text: str, number: int) -> None:
        self._arguments.append(text)

    def feed(self, event: Event) -> bytes:
        called = type(event) is Close and isinstance(self._block, ToolCall)
        written = self._written(event)
        if not self._held and not called:
            return written
        if type(event) is Fault:
            self._held.clear()
            return written
        self._held.append(written)
        if type(event) is not Finish:
            return b""
        whole = b"".join(self._held)
        self._held.clear()
        return whole

    def _written(self, event: Event) -> bytes:
        match event:
            case Delta(text=text, logprobs=logprobs):
                return self._delta(text) if not logprobs else self._with_logprobs(text, logprobs)
            case Open(index=index, block=block):
                self._index = index
                return self._opened(block)
            case Close():
                return self._closed(event)
            case Start():
                return self._start(event)
            case Finish():
                return self._finish(event)
            case Fault(error=error):
                document = json.encode(write_error(error))
                return frame(document) + document + b"\n\n"

    def _start(self, event: Start) -> bytes:
        self._tier = event.service_tier
        self._identity = identity(event.model or self._model, event.id, event.created)
        rest = json.encode(self._identity)[1:-1]
        self._tail = b'],"role":"model"},"index":0}]' + (b"," + rest if rest else b"") + b"}\n\n"
        return b""

    def _opened(self, block: Block) -> bytes:
        self._block, self._wrote, self._arguments = block, False, []
        self._begin = self._length
        self._is_text = isinstance(block, (Text, Thinking, Refusal))
        if isinstance(block, (Text, Thinking, Refusal)):
            self._after_text = b',"thought":true}' if isinstance(block, Thinking) else b"}"
            self._apart = isinstance(block, Text) and block.new_message
            return self._delta(block.text) if block.text else b""
        if isinstance(block, ToolCall):
            return b""
        return self._part(block)

    def _delta(self, text: str) -> bytes:
        if self._is_text:
            self._wrote = True
            if type(self._block) is Text:
                text = self._with_gap(text) if self._apart else text
                self._add_said(text, 0)
            return _HEAD + b'{"text":' + json.encode(text) + self._after_text + self._tail
        self._arguments.append(text)
        return b""

    def _with_logprobs(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> bytes:
        """Text with its tokens in the same frame."""
        self._tokens += logprobs
        result = b',"%b":%b}]' % (RESULT.encode(), json.encode(write_logprobs(logprobs)))
        tail = self._tail
        self._tail = tail.replace(b'"index":0}]', b'"index":0' + result, 1)
        written = self._delta(text)
        self._tail = tail
        return written

    def _with_gap(self, text: str) -> str:
        """The first words of another message."""
        self._apart = False
        gap = separator_between(self._said, text)
        if gap:
            self._receipt.note(f"content[{self._index}]", "text apart from the text before", GAP_WHY)
            self._begin += len(gap)
        return gap + text

    def _part(self, block: Block) -> bytes:
        part = encode_part(block, f"content[{self._index}]", self._receipt)
        return _HEAD + json.encode(part) + self._tail if part is not None else b""

    def _closed(self, event: Close) -> bytes:
        block, self._block = self._block, None
        self._citations += [shift_span(citation, self._begin) for citation in event.citations]
        self._untold += event.logprobs
        if isinstance(block, ToolCall):
            arguments = block.arguments + "".join(self._arguments)
            complete, native = block.complete and event.complete, merge_native(block.native, event.native)
            return self._part(replace(block, arguments=arguments, complete=complete, native=native))
        if isinstance(block, (Text, Thinking, Refusal)):
            return self._close_text(replace(block, text="", native=merge_native(block.native, event.native)))
        return b""

    def _close_text(self, block: Text | Thinking | Refusal) -> bytes:
        """A signature comes last, on a part of the same kind without text, as the API itself sends it."""
        if own(block).keys() - {"thought"}:
            return self._part(block)
        if isinstance(block, Thinking) and not self._wrote:
            self._receipt.loss(f"content[{self._index}]", "reasoning without text", "only its owner can read it")
        return b""

    def _last_logprobs(self) -> dict[str, Any]:
        tokens = [*self._tokens, *self._untold]
        mean = {AVERAGE: average(tokens)} if tokens else {}
        return {**mean, RESULT: write_logprobs(self._untold)} if self._untold else mean

    def _finish(self, event: Finish) -> bytes:
        notes = event.native.get(NAME, {})
        candidate = dict(notes.get("candidate", {}))
        beside = candidate.pop("content", None) or {}
        usage = encode_usage(event.usage, event.service_tier or self._tier)
        body: dict[str, Any] = {
            "candidates": [
                {
                    # An empty list of parts would make chat sessions of the Python SDK throw the turn away.
                    "content": {"parts": [{"text": ""}], "role": "model", **beside},
                    **encode_stop(event.stop),
                    **encode_citations(self._citations, self._receipt),
                    **self._last_logprobs(),
                    "index": 0,
                    **candidate,
                }
            ],
            **({"usageMetadata": usage} if usage else {}),
            **self._identity,
        }
        rest = {key: value for key, value in notes.items() if not key.startswith("$") and key not in body}
        rest.pop("candidate", None)
        return frame(json.encode(body | rest))
