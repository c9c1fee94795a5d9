"""Events -> streams of `/api/chat` and `/api/generate`: one JSON document on each line."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.ollama.blocks import SEPARATOR_REASON, OllamaMessageWriter, report_citations
from toolglot.dialects.ollama.errors import write_error
from toolglot.dialects.ollama.native import NAME
from toolglot.dialects.ollama.request import is_generate
from toolglot.dialects.ollama.response import encode_stop, identity_members
from toolglot.dialects.ollama.usage import encode_usage
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start, closed
from toolglot.ir import Block, Refusal, Request, Text, Thinking, TokenLogprob
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.delta_template import DeltaTemplate
from toolglot.wire.native import native_members
from toolglot.wire.openai_logprobs import write_logprobs
from toolglot.wire.retry_after import name_wait
from toolglot.wire.text_separator import separator_between

_STREAMED = (Text, Refusal, Thinking)
"""Blocks whose text is written as it arrives."""


class OllamaStreamEncoder:
    """Encodes text and reasoning as they arrive, and all other blocks when they are whole.

    Official clients parse each line as JSON: a blank line or a comment makes them fail.
    """

    def __init__(self, request: Request | None, receipt: Receipt) -> None:
        self._receipt = receipt
        self._generates = is_generate(request)
        self._model = request.model if request is not None else ""
        self._identity: dict[str, Any] = identity_members(self._model, None)
        self._block: Block | None = None
        self._index = 0
        self._calls = 0  # the calls so far
        self._pieces: list[str] = []  # pieces of a block that is written whole
        self._last_text = ""  # the latest piece of text
        self._is_separate = False  # the next text is separate from the latest one
        self._wrote = False  # the open block has text
        self._text_template = b"", b""  # bytes before and after the open block's text; empty before its first text

    def keepalive(self) -> bytes:
        """Return a line without text, with every member that typed clients require. It is the same during a whole
        answer, so that recordings recognize it."""
        return self._encode_line("", {}, **identity_members(self._model, None))

    @property
    def delta_template(self) -> DeltaTemplate | None:
        block, (before, after) = self._block, self._text_template
        if block is None or (isinstance(block, _STREAMED) and not (before and self._wrote)):
            return None
        if not isinstance(block, _STREAMED):
            return DeltaTemplate(on_written=self._add_piece)
        on_written = None if isinstance(block, Thinking) else self._note_text
        return DeltaTemplate(before + b'"', b'"' + after, on_written=on_written)

    def _add_piece(self, text: str, number: int) -> None:
        self._pieces.append(text)

    def _note_text(self, text: str, number: int) -> None:
        self._last_text = text

    def feed(self, event: Event) -> bytes:
        match event:
            case Delta(text=text, logprobs=logprobs):
                return self._delta(text, logprobs)
            case Open(index=index, block=block):
                return self._open_block(index, block)
            case Close():
                return self._close_block(event)
            case Start():
                self._identity = identity_members(event.model or self._model, event.created)
                return b""
            case Finish():
                return self._finish(event)
            case Fault(error=error):
                return json.encode_frame(write_error(name_wait(error))) + b"\n"

    def _encode_line(self, content: str, members: dict[str, Any], **beside: Any) -> bytes:
        if self._generates:
            body = {**self._identity, "response": content, **members, "done": False, **beside}
        else:
            message = {"role": "assistant", "content": content, **members}
            body = {**self._identity, "message": message, "done": False, **beside}
        return json.encode_frame(body) + b"\n"

    def _open_block(self, index: int, block: Block) -> bytes:
        self._index, self._block, self._pieces, self._wrote, self._text_template = index, block, [], False, (b"", b"")
        self._is_separate = self._is_separate or not isinstance(block, Text) or block.new_message
        return self._delta(block.text, ()) if isinstance(block, (Text, Refusal, Thinking)) and block.text else b""

    def _delta(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> bytes:
        block, self._wrote = self._block, True
        if not isinstance(block, _STREAMED):
            self._pieces.append(text)
            return b""
        is_thinking = isinstance(block, Thinking)
        text = text if is_thinking else self._separate(text)
        if logprobs:
            beside = write_logprobs(logprobs)
            return self._encode_line(
                "" if is_thinking else text, {"thinking": text} if is_thinking else {}, logprobs=beside
            )
        if not self._text_template[0]:
            self._text_template = self._make_text_template(is_thinking)
        before, after = self._text_template
        return b"%b%b%b" % (before, json.encode_frame(text), after)

    def _make_text_template(self, is_thinking: bool) -> tuple[bytes, bytes]:
        """Return the bytes of a line before and after its text. No string can contain the searched quotes."""
        line = self._encode_line("", {"thinking": ""} if is_thinking else {})
        member = b'"thinking":' if is_thinking else b'"response":' if self._generates else b'"content":'
        before, _, after = line.partition(member + b'""')
        return before + member, after

    def _separate(self, text: str) -> str:
        gap = separator_between(self._last_text, text) if self._is_separate else ""
        if gap:
            self._receipt.note(f"content[{self._index}]", "text separate from the text before", SEPARATOR_REASON)
        self._is_separate, self._last_text = False, text
        return gap + text

    def _close_block(self, event: Close) -> bytes:
        block, self._block = self._block, None
        if isinstance(block, (Text, Refusal)):
            report_citations(len(event.citations), f"content[{self._index}]", self._receipt)
            return self._encode_line("", {}, logprobs=write_logprobs(event.logprobs)) if event.logprobs else b""
        if block is None or (isinstance(block, Thinking) and self._wrote):
            return b""
        writer = OllamaMessageWriter(self._receipt, calls_before=self._calls)
        writer.add(closed(block, "".join(self._pieces), event), f"content[{self._index}]")
        self._calls += len(writer.calls)
        if not writer.texts and not writer.members():
            return b""
        return self._encode_line(self._separate(writer.content) if writer.content else "", writer.members())

    def _finish(self, event: Finish) -> bytes:
        rest = native_members(event.native.get(NAME, {}))
        inside = rest.pop("message", {})
        last = {
            "done": True,
            **encode_stop(event.stop, self._receipt, is_own=NAME in event.native),
            **encode_usage(event.usage),
        }
        return self._encode_line("", {} if self._generates else inside, **{**last, **rest})
