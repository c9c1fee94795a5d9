"""Streams of `streamGenerateContent` -> events.

Every frame is a whole response fragment. Text comes in increments, so neighbouring text parts of one kind are one
block; a signature belongs to the part it stands on and therefore ends that block. Calls come whole, or, from Vertex,
in pieces (see `partial`). The reason for the end may come before the last usage, so `Finish` waits for the peer's end.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from toolglot.dialects.gemini.blocks import Arguments, decode_part, listed, response_arguments
from toolglot.dialects.gemini.errors import read_error
from toolglot.dialects.gemini.frames import FrameReader, text_frame
from toolglot.dialects.gemini.logprobs import AVERAGE, RESULT, read_logprobs, write_logprobs
from toolglot.dialects.gemini.metadata import Metadata
from toolglot.dialects.gemini.names import RESPONSE, normalize
from toolglot.dialects.gemini.native import NAME
from toolglot.dialects.gemini.partial import OpenCall, OpenCalls
from toolglot.dialects.gemini.response import blocked_prompt, created_at, finish
from toolglot.dialects.gemini.usage import decode_usage, tier_of
from toolglot.errors import ApiError, DecodeError, truncated, unreadable
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Block, Native, Text, Thinking, TokenLogprob, ToolCall, Usage, native_of
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.error_documents import find_error
from toolglot.wire.reader import Reader, expected, keep
from toolglot.wire.stray_lines import note_noise

_THOUGHT: Native = {NAME: {"thought": True}}
_TEXT_MEMBERS = frozenset({"text", "thought", "thoughtSignature"})
_MAX_MEMBERS = 10_000
"""Of the response itself; no server of good will has more than a handful."""


class GeminiStreamDecoder:
    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._frames = FrameReader()
        self._events: list[Event] = []
        self._started = False
        self._ended = False
        self._next = 0  # index of the next block
        self._text: type[Text] | type[Thinking] | None = None  # the kind of text block that is open
        self._text_index = 0
        self._text_native: dict[str, Any] = {}
        self._logprobs: tuple[TokenLogprob, ...] = ()  # that no text has yet
        self._calls = OpenCalls()
        self._called = False
        self._finish: str | None = None
        self._finishes = 0  # how many frames told a reason for the end
        self._message: str | None = None
        self._usage: Any = None
        self._candidate = Metadata(receipt)
        self._rest: dict[str, Any] = {}

    def feed(self, data: bytes) -> list[Event]:
        if self._ended:
            return []
        for document in self._frames.feed(data):
            try:
                self._document(document)
            except DecodeError as error:
                self._fault(unreadable(error))
        if self._frames.problem is not None:
            self._fault(unreadable(self._frames.problem))
        return self._drain()

    def close(self) -> list[Event]:
        if self._ended:
            return []
        try:
            for document in self._frames.close():
                self._document(document)
        except DecodeError as error:
            if not self.settled:
                self._fault(truncated(str(error)))
        try:
            self._end()
        except DecodeError as error:
            self._fault(unreadable(error))
        return self._drain()

    @property
    def settled(self) -> bool:
        if self._finish is None:
            return blocked_prompt(self._rest.get("promptFeedback")) is not None
        # Servers of older models tell a reason in every frame, and say nothing by it.
        return self._finishes == 1

    def _drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _fault(self, error: ApiError) -> None:
        if not self._ended:
            self._ended = True
            self._events.append(Fault(error))

    # Frames

    def _document(self, raw: bytes) -> None:
        if self._ended or self._text_frame(raw):
            return
        if raw.strip() == b"[DONE]":  # not the API's, but of some proxies
            return
        value = json.decode_frame(raw)
        if find_error(value) is not None:
            self._fault(read_error(value))
            return
        arguments = response_arguments(raw) if isinstance(value, dict) else []
        for item in value if isinstance(value, list) else [value]:
            # Known names hold an underscore only in the other spelling, so most frames need no second look.
            self._response(Reader(normalize(item, RESPONSE) if b"_" in raw else item), arguments)

    def _text_frame(self, raw: bytes) -> bool:
        """Whether this frame held text and nothing else; then it has been read."""
        text = text_frame(raw)
        if text is None:
            return False
        self._start(text.responseId, text.modelVersion, text.createTime)
        self._usage = text.usageMetadata or self._usage
        if text.createTime:
            self._rest["createTime"] = text.createTime
        for part in text.candidates[0].content.parts:
            self._grow(Thinking if part.thought else Text, part.text, {})
        return True

    def _start(self, response_id: str, model: str, created: Any) -> None:
        if not self._started:
            self._started = True
            self._events.append(Start(id=response_id, model=model, created=created_at(created)))

    def _response(self, body: Reader, arguments: list[Arguments]) -> None:
        response_id, model = body.text("responseId"), body.text("modelVersion")
        self._start(response_id or "", model or "", body.peek("createTime"))
        usage = body.take("usageMetadata")
        self._usage = usage if usage is not None else self._usage
        for index, candidate in enumerate(body.objects("candidates")):
            given = candidate.integer("index")
            if (index if given is None else given) == 0:
                self._read_candidate(candidate, arguments[index] if index < len(arguments) else ())
            else:
                self._receipt.loss("candidates", "further candidates", "a stream of events carries one answer")
        self._rest.update(body.rest())
        if len(self._rest) > _MAX_MEMBERS:
            raise DecodeError("$", f"the response has more than {_MAX_MEMBERS} members")

    def _read_candidate(self, candidate: Reader, arguments: Arguments) -> None:
        content = candidate.object("content")
        reason, message = candidate.text("finishReason"), candidate.text("finishMessage")
        self._finish = reason or self._finish
        self._finishes += bool(reason)
        self._message = message or self._message
        self._take_logprobs(candidate)
        self._candidate.add(candidate.rest())
        if content is None:
            return
        parts, _ = listed(content, "parts")
        content.text("role")
        self._candidate.add_content(content.rest())
        for index, part in enumerate(parts):
            text = arguments[index] if index < len(arguments) else ""
            self._part(Reader(part, f"{content.at('parts')}[{index}]"), text)

    def _take_logprobs(self, candidate: Reader) -> None:
        """They go with the text of their frame. What cannot be read stays with the candidate."""
        if (tokens := read_logprobs(candidate.peek(RESULT))) is not None:
            candidate.take(RESULT)
            candidate.take(AVERAGE)  # of the tokens of this frame
            self._logprobs += tokens

    def _taken_logprobs(self) -> tuple[TokenLogprob, ...]:
        tokens, self._logprobs = self._logprobs, ()
        return tokens

    # Parts

    def _part(self, part: Reader, arguments: str) -> None:
        if "functionCall" in part:
            self._function_call(part, arguments)
            return
        if type(part.peek("text")) is str and not part.rest().keys() - _TEXT_MEMBERS:
            self._text_part(part)
            return
        block = decode_part(part)
        if isinstance(block, Text | Thinking):
            self._grow(type(block), block.text, dict(native_of(block, NAME)))
            return
        self._close_text()
        self._open(block)
        self._events.append(Close(index=self._next - 1))

    def _text_part(self, part: Reader) -> None:
        """The usual case, without the detour over a block."""
        fields = part.rest()
        text = fields.pop("text")
        kind = Thinking if fields.pop("thought", None) is True else Text
        if fields.get("thoughtSignature", "") is None:
            fields = {}
        self._grow(kind, text, fields)

    def _grow(self, kind: type[Text] | type[Thinking], text: str, native: dict[str, Any]) -> None:
        """Text for the open block of this kind, or for a new one."""
        native.pop("$text", None)
        if self._text is not kind:
            if not text and not native:
                return
            self._close_text()
            self._text, self._text_index = kind, self._next
            self._open(Text(text="") if kind is Text else Thinking(native=_THOUGHT))
        if text:
            tokens = self._taken_logprobs() if kind is Text and self._logprobs else ()
            self._events.append(Delta(self._text_index, text, tokens))
        if native:
            self._text_native.update(native)
            if "thoughtSignature" in native:
                self._close_text()

    def _open(self, block: Block) -> None:
        self._events.append(Open(self._next, block))
        self._next += 1

    def _close_text(self) -> None:
        if self._text is not None:
            native: Native = {NAME: self._text_native} if self._text_native else {}
            tokens = self._taken_logprobs() if self._text is Text else ()
            self._events.append(Close(index=self._text_index, logprobs=tokens, native=native))
            self._text, self._text_native = None, {}

    # Calls

    def _function_call(self, part: Reader, arguments: str) -> None:
        call = part.object("functionCall")
        assert call is not None  # the caller has looked
        self._close_text()
        call_id, name = call.text("id") or "", call.text("name") or ""
        goes_on = call.flag("willContinue") is True
        pieces = call.objects("partialArgs")
        args = call.take("args")
        if not isinstance(args, dict | None):
            raise expected(call.at("args"), "an object", args)
        opened = self._calls.continued(call_id, name, whole=args is not None)
        if opened is not None:
            opened.native.update(part.rest())
        elif name:
            opened = self._open_call(call_id, name, part, call)
        elif args is None and not pieces:
            return  # the end of a call that is over already
        else:
            raise DecodeError(call.at("name"), "a call without a name")
        if args and opened.writer.text_began:
            self._receipt.loss(call.at("args"), f"arguments of {opened.name}", "pieces of others came before them")
            self._close_call(opened, complete=False)
            return
        text = self._calls.write(opened, pieces)
        if args is not None and not opened.writer.text_began and (args or not goes_on):
            text = arguments or json.encode_text(args)
        if text:
            self._events.append(Delta(opened.index, text))
        if not goes_on:
            self._end_call(opened)

    def _open_call(self, call_id: str, name: str, part: Reader, call: Reader) -> OpenCall:
        self._called = True
        if (displaced := self._calls.displaced_by(call_id)) is not None:
            self._close_call(displaced, complete=False)
        native = keep(NAME, part)
        if call.rest():
            native.setdefault(NAME, {})["functionCall"] = call.rest()
        opened = OpenCall(self._next, call_id, name)
        self._calls.add(opened)
        self._open(ToolCall(id=call_id, name=name, native=native))
        return opened

    def _end_call(self, call: OpenCall) -> None:
        """The wire says that this call is over."""
        if call.writer.in_string:
            self._close_call(call, complete=False)
            return
        if text := call.writer.end():
            self._events.append(Delta(call.index, text))
        self._close_call(call, complete=True)

    def _close_call(self, call: OpenCall, *, complete: bool) -> None:
        self._calls.remove(call)
        native: Native = {NAME: call.native} if call.native else {}
        self._events.append(Close(index=call.index, complete=complete, native=native))

    # The end

    def _end(self) -> None:
        if self._ended:
            return
        feedback = blocked_prompt(self._rest.get("promptFeedback"))
        if self._finish is None and feedback is None:
            self._fault(truncated())
            return
        if self._frames.noise:
            note_noise(self._frames.noise, self._receipt)
        usage = self._read_usage()
        self._close_text()
        for call in self._calls.all():  # each said that it would go on
            self._close_call(call, complete=False)
        if self._logprobs:  # there is no text that they are of
            self._candidate.add({RESULT: write_logprobs(self._logprobs)})
        candidate = self._candidate.fields
        native = {**self._rest, **({"candidate": candidate} if candidate else {})}
        stop = finish(self._finish, self._message, self._called, feedback)
        self._ended = True
        kept: Native = {NAME: native} if native else {}
        self._events.append(Finish(stop=stop, usage=usage, service_tier=tier_of(usage), native=kept))

    def _read_usage(self) -> Usage | None:
        usage = self._usage
        if isinstance(usage, Raw):
            usage = normalize({"usageMetadata": json.decode_frame(bytes(usage))}, RESPONSE)["usageMetadata"]
        return decode_usage(usage, "$.usageMetadata") if usage is not None else None
