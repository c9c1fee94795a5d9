"""Streams of `/api/chat` and `/api/generate` -> events.

Every line is a JSON document. Text and reasoning come in increments, calls come whole, and the line that is `done` ends
the stream. An error is a line of its own.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from toolglot.dialects.ollama.blocks import decode_call, decode_images
from toolglot.dialects.ollama.native import NAME
from toolglot.dialects.ollama.response import READ_MEMBERS, created_at, decode_stop, read_answer
from toolglot.dialects.ollama.usage import decode_usage
from toolglot.dialects.ollama.wire import Answer, AnswerMessage
from toolglot.errors import ApiError, DecodeError, UpstreamError, truncated, unreadable
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Block, Native, Text, Thinking, TokenLogprob, replace
from toolglot.receipt import Receipt
from toolglot.wire.native import make_native
from toolglot.wire.openai_logprobs import read_logprobs, write_logprobs
from toolglot.wire.sse import BYTE_ORDER_MARK, MAX_EVENT_BYTES
from toolglot.wire.stream_budget import StreamBudget
from toolglot.wire.structs import members_without
from toolglot.wire.surrogates import SurrogateJoiner

MOST_LINES = 100
MOST_BYTES = 64 * 1024
"""Of an error document: it is read again with each of its lines."""
_MAX_MEMBERS = 10_000
"""Of the answer itself; no server of good will has more than a handful."""


def _read_line(line: bytes) -> Answer:
    return read_answer(line, is_line=True)


class OllamaStreamDecoder:
    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._held: list[bytes] = []  # pieces of a line whose end has not come yet
        self._size = 0
        self._events: list[Event] = []
        self._started = False
        self._ended = False
        self._next = 0  # index of the next block
        self._open: type[Text] | type[Thinking] | None = None
        self._called = False
        self._logprobs: list[TokenLogprob] = []  # that no text has yet
        self._broken: list[bytes] = []  # lines that are no documents, and may be one together
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
            lines[0] = b"".join((*self._held, lines[0]))
            self._held.clear()
            self._size = 0
            for line in lines:
                self._line(line)
        if tail and not self._ended:
            self._held.append(tail)
            self._size += len(tail)
            if self._size > MAX_EVENT_BYTES:
                self._fault(unreadable(DecodeError("$", f"one line has more than {MAX_EVENT_BYTES} bytes")))
        return self._drain()

    def close(self) -> list[Event]:
        if self._ended:
            return []
        rest = b"".join(self._held).strip()
        if rest or self._broken:
            self._line(rest or b" ", is_last=True)
        if not self._ended:
            self._fault(truncated())
        return self._drain()

    @property
    def settled(self) -> bool:
        return False  # the line that tells why the model stopped is the last one

    def _drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _fault(self, error: ApiError) -> None:
        if not self._ended:
            self._ended = True
            self._events.append(Fault(error))

    def _line(self, line: bytes, *, is_last: bool = False) -> None:
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
            self._answer(self._halves.read(line, _read_line))
        except UpstreamError as error:
            self._fault(error.error)
        except DecodeError as error:
            self._unread(line, error, is_last=is_last)

    def _unread(self, line: bytes, error: DecodeError, *, is_last: bool) -> None:
        """A line that is no document. It may be the first of several: some proxies write errors that way."""
        if is_last:
            self._fault(truncated(str(error)))
        elif not self._broken and line[:1] in (b"{", b"[") and line[-1:] not in (b"}", b"]"):
            self._broken, self._broken_size = [line], len(line)
        elif not self._broken or len(self._broken) >= MOST_LINES:
            self._fault(unreadable(error))
        if self._broken_size > MOST_BYTES:
            self._fault(unreadable(error))

    def _answer(self, answer: Answer) -> None:
        message = answer.message
        if message is UNSET:
            if answer.response is UNSET and answer.thinking is UNSET and not answer.done:
                raise DecodeError("$.message", "this object is required")
            message = AnswerMessage(
                role="assistant", content=answer.response, thinking=answer.thinking, tool_calls=answer.tool_calls
            )
        if not self._started:
            self._started = True
            self._events.append(Start(model=answer.model or "", created=created_at(answer.created_at)))
        self._take_rest(answer, message)
        self._take_logprobs(answer)
        self._blocks(message)
        if answer.done:
            self._finish(answer)

    def _take_rest(self, answer: Answer, message: AnswerMessage) -> None:
        self._rest.update(members_without(answer, *READ_MEMBERS))
        self._message.update(members_without(message, "role", "content", "thinking", "images", "tool_calls"))
        if len(self._rest) + len(self._message) > _MAX_MEMBERS:
            raise DecodeError("$", f"the answer has more than {_MAX_MEMBERS} members")

    def _take_logprobs(self, answer: Answer) -> None:
        """They go with the text of their line. What cannot be read stays with the answer."""
        if answer.logprobs is UNSET or answer.logprobs is None:
            return
        if (tokens := read_logprobs(answer.logprobs)) is None:
            self._rest["logprobs"] = answer.logprobs
        else:
            self._budget.hold(len(tokens))
            self._logprobs += tokens

    def _blocks(self, message: AnswerMessage) -> None:
        if message.thinking:
            self._grow(Thinking, message.thinking)
        if message.content:
            self._grow(Text, message.content)
        for image in decode_images(message.images):
            self._whole(image)
        for index, call in enumerate(message.tool_calls or ()):
            self._called = True
            read = decode_call(call, f"$.message.tool_calls[{index}]")
            self._whole(replace(read, arguments=""), read.arguments)

    def _grow(self, kind: type[Text] | type[Thinking], text: str) -> None:
        if self._open is not kind:
            self._close_text()
            self._open = kind
            self._events.append(Open(self._next, kind(text="")))
            self._next += 1
        self._events.append(Delta(self._next - 1, text, self._taken_logprobs(kind)))

    def _whole(self, block: Block, text: str = "") -> None:
        self._close_text()
        self._events.append(Open(self._next, block))
        if text:
            self._events.append(Delta(self._next, text))
        self._events.append(Close(index=self._next))
        self._next += 1

    def _close_text(self) -> None:
        if self._open is not None:
            self._events.append(Close(index=self._next - 1, logprobs=self._taken_logprobs(self._open)))
            self._open = None

    def _taken_logprobs(self, kind: type[Text] | type[Thinking]) -> tuple[TokenLogprob, ...]:
        if kind is not Text or not self._logprobs:
            return ()
        tokens = tuple(self._logprobs)
        self._budget.release(len(tokens))
        self._logprobs.clear()
        return tokens

    def _finish(self, answer: Answer) -> None:
        self._close_text()
        self._halves.report(self._receipt)
        rest = {**self._rest, **({"message": self._message} if self._message else {})}
        if self._logprobs:  # there is no text that they are of
            rest["logprobs"] = write_logprobs(self._logprobs)
        native: Native = make_native(NAME, rest)
        finish = Finish(stop=decode_stop(answer, self._called), usage=decode_usage(answer), native=native)
        self._ended = True
        self._events.append(finish)
