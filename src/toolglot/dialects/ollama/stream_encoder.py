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
from toolglot.wire.delta_template import DeltaTemplate
from toolglot.wire.native import native_members
from toolglot.wire.openai_logprobs import write_logprobs
from toolglot.wire.text_separator import separator_between

_IN_LINES = (Text, Refusal, Thinking)
"""Blocks whose text is written as it comes."""


class OllamaStreamEncoder:
    """Text and reasoning go out as they come, everything else when it is whole.

    Official clients read each line as JSON: a blank line or a comment makes them fail.
    """

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
        self._around = b"", b""  # the JSON of the open block's text; empty before its first words

    def keepalive(self) -> bytes:
        """A line without text, with every member that typed clients require of a line. The same for a whole answer, so
        that recordings know it."""
        return self._line("", {}, **identity(self._model, None))

    @property
    def text_around(self) -> DeltaTemplate | None:
        block, (before, behind) = self._block, self._around
        if block is None or (isinstance(block, _IN_LINES) and not (before and self._wrote)):
            return None
        if not isinstance(block, _IN_LINES):
            return DeltaTemplate(on_written=self._add_piece)
        said = None if isinstance(block, Thinking) else self._add_said
        return DeltaTemplate(before + b'"', b'"' + behind, on_written=said)

    def _add_piece(self, text: str, number: int) -> None:
        self._pieces.append(text)

    def _add_said(self, text: str, number: int) -> None:
        self._said = text

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
        self._index, self._block, self._pieces, self._wrote, self._around = index, block, [], False, (b"", b"")
        self._apart = self._apart or not isinstance(block, Text) or block.new_message
        return self._delta(block.text, ()) if isinstance(block, (Text, Refusal, Thinking)) and block.text else b""

    def _delta(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> bytes:
        block, self._wrote = self._block, True
        if not isinstance(block, _IN_LINES):
            self._pieces.append(text)
            return b""
        is_thinking = isinstance(block, Thinking)
        text = text if is_thinking else self._with_gap(text)
        if logprobs:
            beside = write_logprobs(logprobs)
            return self._line("" if is_thinking else text, {"thinking": text} if is_thinking else {}, logprobs=beside)
        if not self._around[0]:
            self._around = self._around_text(is_thinking)
        before, behind = self._around
        return b"%b%b%b" % (before, json.encode(text), behind)

    def _around_text(self, is_thinking: bool) -> tuple[bytes, bytes]:
        """What a line has before and behind the JSON of its text. No string can have these quotes inside."""
        line = self._line("", {"thinking": ""} if is_thinking else {})
        member = b'"thinking":' if is_thinking else b'"response":' if self._generates else b'"content":'
        before, _, behind = line.partition(member + b'""')
        return before + member, behind

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
        rest = native_members(event.native.get(NAME, {}))
        inside = rest.pop("message", {})
        last = {
            "done": True,
            **encode_stop(event.stop, self._receipt, is_own=NAME in event.native),
            **encode_usage(event.usage),
        }
        return self._line("", {} if self._generates else inside, **{**last, **rest})
