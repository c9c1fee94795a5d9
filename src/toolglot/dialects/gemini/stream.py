"""Streams of `streamGenerateContent` <-> events.

Every frame is a whole response fragment. Text comes in increments, so neighbouring text parts of one kind are one
block; a signature belongs to the part it stands on and therefore ends that block. Calls come whole, or, from Vertex,
in pieces (see `partial`). The reason for the end may come before the last usage, so `Finish` waits for the peer's end.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from toolglot.dialects.gemini.blocks import (
    Arguments,
    decode_part,
    listed,
    own,
    response_arguments,
)
from toolglot.dialects.gemini.errors import error_in, read_error, write_error
from toolglot.dialects.gemini.frames import FrameReader, text_frame
from toolglot.dialects.gemini.names import NAME, RESPONSE, normalize
from toolglot.dialects.gemini.partial import OpenCall, continued
from toolglot.dialects.gemini.response import (
    blocked_prompt,
    encode_citations,
    encode_part,
    encode_stop,
    finish,
    identity,
)
from toolglot.dialects.gemini.usage import decode_usage, encode_usage
from toolglot.errors import ApiError, DecodeError, truncated, unreadable
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start, merge_native
from toolglot.ir import Block, Citation, Native, Refusal, Request, Text, Thinking, ToolCall, Usage, native_of, replace
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.reader import Reader, expected, keep
from toolglot.wire.sse import frame

_THOUGHT: Native = {NAME: {"thought": True}}


_TEXT_MEMBERS = frozenset({"text", "thought", "thoughtSignature"})


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
        self._calls: list[OpenCall] = []
        self._called = False
        self._finish: str | None = None
        self._message: str | None = None
        self._usage: Any = None
        self._candidate: dict[str, Any] = {}
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
            self._fault(truncated(str(error)))
        try:
            self._end()
        except DecodeError as error:
            self._fault(unreadable(error))
        return self._drain()

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
        if error_in(value) is not None:
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
        self._start(text.responseId, text.modelVersion)
        self._usage = text.usageMetadata or self._usage
        for part in text.candidates[0].content.parts:
            self._grow(Thinking if part.thought else Text, part.text, {})
        return True

    def _start(self, response_id: str, model: str) -> None:
        if not self._started:
            self._started = True
            self._events.append(Start(id=response_id, model=model))

    def _response(self, body: Reader, arguments: list[Arguments]) -> None:
        response_id, model = body.text("responseId"), body.text("modelVersion")
        self._start(response_id or "", model or "")
        usage = body.take("usageMetadata")
        self._usage = usage if usage is not None else self._usage
        for index, candidate in enumerate(body.objects("candidates")):
            given = candidate.integer("index")
            if (index if given is None else given) == 0:
                self._read_candidate(candidate, arguments[index] if index < len(arguments) else ())
            else:
                self._receipt.loss("candidates", "further candidates", "a stream of events carries one answer")
        self._rest.update(body.rest())

    def _read_candidate(self, candidate: Reader, arguments: Arguments) -> None:
        content = candidate.object("content")
        reason, message = candidate.text("finishReason"), candidate.text("finishMessage")
        self._finish = reason or self._finish
        self._message = message or self._message
        self._candidate.update(candidate.rest())
        if content is None:
            return
        parts, _ = listed(content, "parts")
        for index, part in enumerate(parts):
            text = arguments[index] if index < len(arguments) else ""
            self._part(Reader(part, f"{content.at('parts')}[{index}]"), text)

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
            self._events.append(Delta(self._text_index, text))
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
            self._events.append(Close(index=self._text_index, native=native))
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
        opened = continued(self._calls, call_id, name, whole=args is not None)
        if opened is not None:
            opened.native.update(part.rest())
        elif name:
            opened = self._open_call(call_id, name, part, call)
        elif args is None and not pieces:
            return  # the end of a call that is over already
        else:
            raise DecodeError(call.at("name"), "a call without a name")
        text = "".join([opened.writer.add(piece) for piece in pieces])
        if args is not None and not opened.writer.text_began:
            text = arguments or json.encode_text(args)
        self._write_call(opened, text, ends=not goes_on)

    def _open_call(self, call_id: str, name: str, part: Reader, call: Reader) -> OpenCall:
        self._called = True
        if self._calls and not self._calls[-1].id:  # without an id nothing can go on with it any more
            self._write_call(self._calls[-1], "", ends=True)
        native = keep(NAME, part)
        if call.rest():
            native.setdefault(NAME, {})["functionCall"] = call.rest()
        opened = OpenCall(self._next, call_id, name)
        self._calls.append(opened)
        self._open(ToolCall(id=call_id, name=name, native=native))
        return opened

    def _write_call(self, call: OpenCall, text: str, *, ends: bool, complete: bool = True) -> None:
        if ends and complete:
            text += call.writer.end()
        if text:
            self._events.append(Delta(call.index, text))
        if ends:
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
        usage = self._read_usage()
        self._close_text()
        for call in list(self._calls):
            self._write_call(call, "", ends=True, complete=self._finish == "STOP")
        native = {**self._rest, **({"candidate": self._candidate} if self._candidate else {})}
        stop = finish(self._finish, self._message, self._called, feedback)
        self._ended = True
        self._events.append(Finish(stop=stop, usage=usage, native={NAME: native} if native else {}))

    def _read_usage(self) -> Usage | None:
        usage = self._usage
        if isinstance(usage, Raw):
            usage = normalize({"usageMetadata": json.decode_frame(bytes(usage))}, RESPONSE)["usageMetadata"]
        return decode_usage(usage, "$.usageMetadata") if usage is not None else None


_HEAD = b'data: {"candidates":[{"content":{"parts":['


class GeminiStreamEncoder:
    """Events to frames: `data: {json}` and an empty line, never anything else.

    The official readers are not SSE parsers: a comment or an `event:` line makes the Python SDK raise and the
    JavaScript SDK lose everything.
    """

    def __init__(self, request: Request | None, receipt: Receipt) -> None:
        self._receipt = receipt
        self._model = request.model if request is not None else ""
        self._identity: dict[str, Any] = {}
        self._tail = b""
        self._index = 0
        self._block: Block | None = None
        self._is_text = False
        self._after_text = b""
        self._arguments: list[str] = []
        self._wrote = False
        self._citations: list[Citation] = []

    def keepalive(self) -> bytes:
        return b"\n\n"

    def feed(self, event: Event) -> bytes:
        match event:
            case Delta(text=text):
                return self._delta(text)
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
                return frame(json.encode(write_error(error)))

    def _start(self, event: Start) -> bytes:
        self._identity = identity(event.model or self._model, event.id, event.created)
        rest = json.encode(self._identity)[1:-1]
        self._tail = b'],"role":"model"},"index":0}]' + (b"," + rest if rest else b"") + b"}\n\n"
        return b""

    def _opened(self, block: Block) -> bytes:
        self._block, self._wrote, self._arguments = block, False, []
        self._is_text = isinstance(block, Text | Thinking | Refusal)
        if isinstance(block, Text | Thinking | Refusal):
            self._after_text = b',"thought":true}' if isinstance(block, Thinking) else b"}"
            return self._delta(block.text) if block.text else b""
        if isinstance(block, ToolCall):
            return b""
        return self._part(block)

    def _delta(self, text: str) -> bytes:
        if self._is_text:
            self._wrote = True
            return _HEAD + b'{"text":' + json.encode(text) + self._after_text + self._tail
        self._arguments.append(text)
        return b""

    def _part(self, block: Block) -> bytes:
        part = encode_part(block, f"content[{self._index}]", self._receipt)
        return _HEAD + json.encode(part) + self._tail if part is not None else b""

    def _closed(self, event: Close) -> bytes:
        block, self._block = self._block, None
        self._citations.extend(event.citations)
        if isinstance(block, ToolCall):
            arguments = block.arguments + "".join(self._arguments)
            complete, native = block.complete and event.complete, merge_native(block.native, event.native)
            return self._part(replace(block, arguments=arguments, complete=complete, native=native))
        if isinstance(block, Text | Thinking | Refusal):
            return self._close_text(replace(block, text="", native=merge_native(block.native, event.native)))
        return b""

    def _close_text(self, block: Text | Thinking | Refusal) -> bytes:
        """A signature comes last, on a part of the same kind without text, as the API itself sends it."""
        if own(block).keys() - {"thought"}:
            return self._part(block)
        if isinstance(block, Thinking) and not self._wrote:
            self._receipt.loss(f"content[{self._index}]", "reasoning without text", "only its owner can read it")
        return b""

    def _finish(self, event: Finish) -> bytes:
        notes = event.native.get(NAME, {})
        candidate = notes.get("candidate", {})
        body: dict[str, Any] = {
            "candidates": [
                {
                    # An empty list of parts would make chat sessions of the Python SDK throw the turn away.
                    "content": {"parts": [{"text": ""}], "role": "model"},
                    **encode_stop(event.stop),
                    **encode_citations(self._citations, self._receipt),
                    "index": 0,
                    **candidate,
                }
            ],
            "usageMetadata": encode_usage(event.usage),
            **self._identity,
        }
        rest = {key: value for key, value in notes.items() if not key.startswith("$") and key not in body}
        rest.pop("candidate", None)
        return frame(json.encode(body | rest))
