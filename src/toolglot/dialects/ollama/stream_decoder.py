"""Streams of `/api/chat` and `/api/generate` -> events.

Every line is a JSON document. Text and reasoning arrive in increments, calls arrive whole, and a line with `done` ends
the stream. An error is a separate line.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from msgspec import UNSET

from toolglot.dialects.ollama.blocks import decode_call, decode_images
from toolglot.dialects.ollama.native import NAME, SIDE_MEMBERS
from toolglot.dialects.ollama.response import READ_MEMBERS, decode_stop, parse_created_at, read_answer
from toolglot.dialects.ollama.usage import decode_usage
from toolglot.dialects.ollama.wire import OllamaAnswer, OllamaCall, OllamaMessage
from toolglot.errors import ApiError, DecodeError, UpstreamError, truncated, unreadable
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Block, Native, Text, Thinking, TokenLogprob, replace
from toolglot.receipt import Receipt
from toolglot.wire.native import make_native
from toolglot.wire.openai_logprobs import read_logprobs, write_logprobs
from toolglot.wire.side_members import read_document
from toolglot.wire.sse import BYTE_ORDER_MARK, MAX_EVENT_BYTES
from toolglot.wire.stream_budget import StreamBudget
from toolglot.wire.structs import members_without
from toolglot.wire.surrogates import SurrogateJoiner

MAX_ERROR_LINES = 100
MAX_ERROR_BYTES = 64 * 1024
"""Limits for an error document of several lines: it is parsed again with each line."""
_MAX_MEMBERS = 10_000
"""The limit for top-level members of the answer. Real servers send only a few."""


def _read_line(line: bytes) -> OllamaAnswer:
    return read_answer(line, is_line=True)


class OllamaStreamDecoder:
    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._partial_line: list[bytes] = []  # pieces of an unfinished line
        self._size = 0
        self._events: list[Event] = []
        self._started = False
        self._ended = False
        self._next = 0  # index of the next block
        self._open: type[Text] | type[Thinking] | None = None
        self._called = False
        self._calls: dict[str, bytes] = {}  # digests of the calls of earlier lines, by id
        self._logprobs: list[TokenLogprob] = []  # tokens that are not yet attached to a text
        self._broken: list[bytes] = []  # invalid lines that may form one document together
        self._broken_size = 0
        self._budget = StreamBudget()
        self._rest: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._halves = SurrogateJoiner()

    def feed(self, data: bytes) -> list[Event]:
        if self._ended:
            return []
        *lines, tail = data.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._partial_line, lines[0]))
            self._partial_line.clear()
            self._size = 0
            for line in lines:
                self._read_document(line)
        if tail and not self._ended:
            self._partial_line.append(tail)
            self._size += len(tail)
            if self._size > MAX_EVENT_BYTES:
                self._fault(unreadable(DecodeError("$", f"one line has more than {MAX_EVENT_BYTES} bytes")))
        return self._drain()

    def close(self) -> list[Event]:
        if self._ended:
            return []
        rest = b"".join(self._partial_line).strip()
        if rest or self._broken:
            self._read_document(rest or b" ", is_last=True)
        if not self._ended:
            self._fault(truncated())
        return self._drain()

    @property
    def settled(self) -> bool:
        return False  # the line with the stop reason is the last one

    def _drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _fault(self, error: ApiError) -> None:
        if not self._ended:
            self._ended = True
            self._events.append(Fault(error))

    def _read_halves(self, line: bytes) -> OllamaAnswer:
        return self._halves.read(line, _read_line)

    def _read_document(self, line: bytes, *, is_last: bool = False) -> None:
        if not self._started:
            line = line.removeprefix(BYTE_ORDER_MARK)
        line = line.strip()
        if self._ended or not (line or (self._broken and is_last)):
            return
        if self._broken:
            self._broken.append(line)
            self._broken_size += len(line)
            line = b"\n".join(self._broken)
        try:
            answer, lines = read_document(line, self._read_halves, SIDE_MEMBERS)
            self._receipt.add(lines)
            self._read_answer(answer)
        except UpstreamError as error:
            self._fault(error.error)
        except DecodeError as error:
            self._handle_bad_line(line, error, is_last=is_last)

    def _handle_bad_line(self, line: bytes, error: DecodeError, *, is_last: bool) -> None:
        """Handle an invalid line. It may be the first of several: some proxies write errors on several lines."""
        if is_last:
            self._fault(truncated(str(error)))
        elif not self._broken and line[:1] in (b"{", b"[") and line[-1:] not in (b"}", b"]"):
            self._broken, self._broken_size = [line], len(line)
        elif not self._broken or len(self._broken) >= MAX_ERROR_LINES:
            self._fault(unreadable(error))
        if self._broken_size > MAX_ERROR_BYTES:
            self._fault(unreadable(error))

    def _read_answer(self, answer: OllamaAnswer) -> None:
        message = answer.message
        if message is UNSET:
            if answer.response is UNSET and answer.thinking is UNSET and not answer.done:
                raise DecodeError("$.message", "this object is required")
            message = OllamaMessage(
                role="assistant", content=answer.response, thinking=answer.thinking, tool_calls=answer.tool_calls
            )
        if not self._started:
            self._started = True
            self._events.append(Start(model=answer.model or "", created=parse_created_at(answer.created_at)))
        self._take_rest(answer, message)
        self._take_logprobs(answer)
        self._read_blocks(message)
        if answer.done:
            self._finish(answer)

    def _take_rest(self, answer: OllamaAnswer, message: OllamaMessage) -> None:
        self._rest.update(members_without(answer, *READ_MEMBERS))
        self._message.update(members_without(message, "role", "content", "thinking", "images", "tool_calls"))
        if len(self._rest) + len(self._message) > _MAX_MEMBERS:
            raise DecodeError("$", f"the answer has more than {_MAX_MEMBERS} members")

    def _take_logprobs(self, answer: OllamaAnswer) -> None:
        """Collect log probabilities for the text of their line. Invalid ones stay with the answer."""
        if answer.logprobs is UNSET or answer.logprobs is None:
            return
        if (tokens := read_logprobs(answer.logprobs)) is None:
            self._rest["logprobs"] = answer.logprobs
        else:
            self._budget.hold(len(tokens))
            self._logprobs += tokens

    def _read_blocks(self, message: OllamaMessage) -> None:
        if message.thinking:
            self._add_text(Thinking, message.thinking)
        if message.content:
            self._add_text(Text, message.content)
        for image in decode_images(message.images, of_answer=True):
            self._add_whole_block(image)
        if message.tool_calls:
            self._called = True
            self._read_calls(message.tool_calls)

    def _read_calls(self, tool_calls: Sequence[OllamaCall]) -> None:
        """Read the calls of a line. Ids are unique, so a call that a server repeats in a later line is not new."""
        digests: dict[str, bytes] = {}
        for index, raw in enumerate(tool_calls):
            call = decode_call(raw, f"$.message.tool_calls[{index}]", of_answer=True)
            digest = sha256(f"{call.name}\0{call.arguments}".encode(errors="replace")).digest()
            if call.id and self._calls.get(call.id) == digest:
                place = f"$.message.tool_calls[{index}]"
                self._receipt.note(place, f"call {call.id}", "it came twice and is passed on once")
                continue
            digests[call.id] = digest
            self._add_whole_block(replace(call, arguments=""), call.arguments)
        self._calls |= digests

    def _add_text(self, kind: type[Text] | type[Thinking], text: str) -> None:
        if self._open is not kind:
            self._close_text()
            self._open = kind
            self._events.append(Open(self._next, kind(text="")))
            self._next += 1
        self._events.append(Delta(self._next - 1, text, self._drain_logprobs(kind)))

    def _add_whole_block(self, block: Block, text: str = "") -> None:
        self._close_text()
        self._events.append(Open(self._next, block))
        if text:
            self._events.append(Delta(self._next, text))
        self._events.append(Close(index=self._next))
        self._next += 1

    def _close_text(self) -> None:
        if self._open is not None:
            self._events.append(Close(index=self._next - 1, logprobs=self._drain_logprobs(self._open)))
            self._open = None

    def _drain_logprobs(self, kind: type[Text] | type[Thinking]) -> tuple[TokenLogprob, ...]:
        if kind is not Text or not self._logprobs:
            return ()
        tokens = tuple(self._logprobs)
        self._budget.release(len(tokens))
        self._logprobs.clear()
        return tokens

    def _finish(self, answer: OllamaAnswer) -> None:
        self._close_text()
        self._halves.report(self._receipt)
        rest = {**self._rest, **({"message": self._message} if self._message else {})}
        if self._logprobs:  # there was no text for them
            rest["logprobs"] = write_logprobs(self._logprobs)
        native: Native = make_native(NAME, rest)
        finish = Finish(stop=decode_stop(answer, self._called), usage=decode_usage(answer), native=native)
        self._ended = True
        self._events.append(finish)
