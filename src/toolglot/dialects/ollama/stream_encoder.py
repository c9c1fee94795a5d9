"""Events -> streams of `/api/chat` and `/api/generate`: one JSON document on each line."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.ollama.blocks import GAP_WHY, MessageWriter, tell_citations
from toolglot.dialects.ollama.errors import write_error
from toolglot.dialects.ollama.native import NAME
from toolglot.dialects.ollama.request import is_generate
from toolglot.dialects.ollama.response import encode_stop, identity
from toolglot.dialects.ollama.usage import encode_usage
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start, closed
from toolglot.ir import Block, Refusal, Request, Text, Thinking, TokenLogprob
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.native import kept
from toolglot.wire.openai_logprobs import write_logprobs
from toolglot.wire.text_separator import separator_between


class OllamaStreamEncoder:
    """Text and reasoning go out as they come, everything else when it is whole.

    Official clients read each line as JSON: a blank line or a comment makes them fail.
    """

    text_around: tuple[bytes, bytes] | None = None

    def __init__(self, request: Request | None, receipt: Receipt) -> None:
        self._receipt = receipt
        self._generates = is_generate(request)
        self._model = request.model if request is not None else ""
        self._identity: dict[str, Any] = identity(self._model, None)
        self._block: Block | None = None
        self._index = 0
        self._pieces: list[str] = []  # of a block that is written whole
        self._said = ""  # the latest piece of text
        self._apart = False  # something else has come since
        self._wrote = False  # the open block has said something

    def keepalive(self) -> bytes:
        """A line without text, with every member that typed clients require of a line. The same for a whole answer, so
        that recordings know it."""
        return self._line("", {}, **identity(self._model, None))

    def feed(self, event: Event) -> bytes:
        match event:
            case Delta(text=text, logprobs=logprobs):
                return self._delta(text, logprobs)
            case Open(index=index, block=block):
                return self._opened(index, block)
            case Close():
                return self._closed(event)
            case Start():
                self._identity = identity(event.model or self._model, event.created)
                return b""
            case Finish():
                return self._finish(event)
            case Fault(error=error):
                return json.encode(write_error(error)) + b"\n"

    def _line(self, content: str, members: dict[str, Any], **beside: Any) -> bytes:
        if self._generates:
            body = {**self._identity, "response": content, **members, "done": False, **beside}
        else:
            message = {"role": "assistant", "content": content, **members}
            body = {**self._identity, "message": message, "done": False, **beside}
        return json.encode(body) + b"\n"

    def _opened(self, index: int, block: Block) -> bytes:
        self._index, self._block, self._pieces, self._wrote = index, block, [], False
        self._apart = self._apart or not isinstance(block, Text) or block.new_message
        return self._delta(block.text, ()) if isinstance(block, (Text, Refusal, Thinking)) and block.text else b""

    def _delta(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> bytes:
        self._wrote = True
        beside = {"logprobs": write_logprobs(logprobs)} if logprobs else {}
        match self._block:
            case Text() | Refusal():
                return self._line(self._with_gap(text), {}, **beside)
            case Thinking():
                return self._line("", {"thinking": text}, **beside)
        self._pieces.append(text)
        return b""

    def _with_gap(self, text: str) -> str:
        gap = separator_between(self._said, text) if self._apart else ""
        if gap:
            self._receipt.note(f"content[{self._index}]", "text apart from the text before", GAP_WHY)
        self._apart, self._said = False, text
        return gap + text

    def _closed(self, event: Close) -> bytes:
        block, self._block = self._block, None
        if isinstance(block, (Text, Refusal)):
            tell_citations(len(event.citations), f"content[{self._index}]", self._receipt)
            return self._line("", {}, logprobs=write_logprobs(event.logprobs)) if event.logprobs else b""
        if block is None or (isinstance(block, Thinking) and self._wrote):
            return b""
        writer = MessageWriter(self._receipt)
        writer.add(closed(block, "".join(self._pieces), event), f"content[{self._index}]")
        if not writer.texts and not writer.members():
            return b""
        return self._line(self._with_gap(writer.content) if writer.content else "", writer.members())

    def _finish(self, event: Finish) -> bytes:
        rest = kept(event.native.get(NAME, {}))
        inside = rest.pop("message", {})
        last = {
            "done": True,
            **encode_stop(event.stop, self._receipt, is_own=NAME in event.native),
            **encode_usage(event.usage),
        }
        return self._line("", {} if self._generates else inside, **{**last, **rest})
