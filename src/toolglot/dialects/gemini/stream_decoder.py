"""Streams of `streamGenerateContent` -> events.

Every frame is a response fragment. Text arrives in increments, so adjacent text parts of one kind form one block. A
signature belongs to its own part, so it ends the block; a signature on an empty part is noted as such. Calls arrive
whole or, from Vertex, in pieces (see `partial_arguments`). The finish reason may come before the last usage, so
`Finish` waits for the end of the stream.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from msgspec import UNSET, UnsetType

from toolglot.dialects.gemini.blocks import (
    add_nested_rest,
    decode_part,
    keep,
    other_members,
    partial_args,
    rest_of_call,
    whole_arguments,
)
from toolglot.dialects.gemini.frames import GeminiFrameReader
from toolglot.dialects.gemini.grounding import MEMBER, CitationKey, citation_key, keep_grounding, read_grounding
from toolglot.dialects.gemini.logprobs import AVERAGE, RESULT, read_logprobs, write_logprobs
from toolglot.dialects.gemini.metadata import CandidateMetadata
from toolglot.dialects.gemini.native import NAME, SIDE_MEMBERS, SIGNED_APART
from toolglot.dialects.gemini.partial_arguments import GeminiOpenCall, GeminiOpenCalls
from toolglot.dialects.gemini.response import (
    decode_prompt_feedback,
    decode_stop,
    parse_created_at,
    read_frame,
    rest_of_answer,
)
from toolglot.dialects.gemini.stream_frames import text_frame
from toolglot.dialects.gemini.usage import UsageReports, tier_of
from toolglot.dialects.gemini.wire import Candidate, GeminiAnswer, GeminiFunctionCall, Part
from toolglot.errors import ApiError, DecodeError, UpstreamError, expected, truncated, unreadable
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Block, Citation, Native, Text, Thinking, TokenLogprob, ToolCall, native_of
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.citation_spans import shift_span
from toolglot.wire.side_members import read_frame_again
from toolglot.wire.stray_lines import note_noise
from toolglot.wire.structs import members_without
from toolglot.wire.surrogates import SurrogateJoiner

_THOUGHT: Native = {NAME: {"thought": True}}
_TEXT_MEMBERS = ("text", "thought", "thoughtSignature")
_FLAG = (bool, UnsetType, type(None))
_MAX_MEMBERS = 10_000
"""The limit for top-level members of the response. Real servers send only a few."""


def _read_answers(raw: bytes) -> list[GeminiAnswer]:
    return list(read_frame(raw))


class GeminiStreamDecoder:
    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._frames = GeminiFrameReader()
        self._events: list[Event] = []
        self._started = False
        self._ended = False
        self._next = 0  # index of the next block
        self._text: type[Text] | type[Thinking] | None = None  # the kind of text block that is open
        self._text_index = 0
        self._text_native: dict[str, Any] = {}
        self._texts: list[str] = []  # all text so far, which sources are counted in
        self._length = 0  # of all text so far
        self._text_start = 0  # where the latest text block begins in it
        self._cited: set[CitationKey] = set()  # citations that a block has got
        self._logprobs: list[TokenLogprob] = []  # tokens that are not yet attached to a text
        self._calls = GeminiOpenCalls()
        self._called = False
        self._whole_calls: dict[str, bytes] = {}  # digests of calls that came whole, by id
        self._finish: str | None = None
        self._finishes = 0  # number of frames with a finish reason
        self._finish_message: str | None = None
        self._usage = UsageReports()
        self._candidate = CandidateMetadata(receipt)
        self._rest: dict[str, Any] = {}
        self._halves = SurrogateJoiner()

    def feed(self, data: bytes) -> list[Event]:
        if self._ended:
            return []
        for document in self._frames.feed(data):
            try:
                self._read_frame(document)
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
                self._read_frame(document)
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
            return decode_prompt_feedback(self._rest.get("promptFeedback")) is not None
        # Servers of older models send a finish reason in every frame; it means nothing there.
        return self._finishes == 1

    def _drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _fault(self, error: ApiError) -> None:
        if not self._ended:
            self._ended = True
            self._events.append(Fault(error))

    # Frames

    def _read_frame(self, raw: bytes) -> None:
        """Read a frame, without side members of a wrong type."""
        begun = len(self._events)
        try:
            self._read_document(raw)
        except DecodeError as error:
            read_frame_again(raw, error, self._read_document, SIDE_MEMBERS, self._receipt, self._events, begun)

    def _read_document(self, raw: bytes) -> None:
        if self._ended or self._read_text_frame(raw):
            return
        if raw.strip() == b"[DONE]":  # some proxies send it, not the API
            return
        try:
            for answer in self._halves.read(raw, _read_answers):
                self._read_answer(answer)
        except UpstreamError as error:
            self._fault(error.error)
        except DecodeError:
            json.decode_frame(raw)  # errors of the JSON itself come first
            raise

    def _read_text_frame(self, raw: bytes) -> bool:
        """Read a frame that has only text. Returns False for other frames, which are left unread."""
        text = text_frame(raw)
        if text is None:
            return False
        self._start(text.responseId, text.modelVersion, text.createTime)
        self._usage.add(bytes(text.usageMetadata))
        if text.createTime:
            self._rest["createTime"] = text.createTime
        for part in text.candidates[0].content.parts:
            self._add_text(Thinking if part.thought else Text, part.text, {})
        return True

    def _start(self, response_id: str, model: str, created: Any) -> None:
        if not self._started:
            self._started = True
            self._events.append(Start(id=response_id, model=model, created=parse_created_at(created)))

    def _read_answer(self, answer: GeminiAnswer) -> None:
        self._start(answer.response_id or "", answer.model_version or "", answer.create_time)
        if answer.usage_metadata is not UNSET and answer.usage_metadata is not None:
            self._usage.add(answer.usage_metadata)
        for index, candidate in enumerate(answer.candidates or ()):
            given = index if candidate.index is UNSET or candidate.index is None else candidate.index
            if type(given) is not int and not (type(given) is float and given.is_integer()):
                raise expected(f"$.candidates[{index}].index", "a whole number", given)
            if given == 0:
                self._read_candidate(candidate, f"$.candidates[{index}]")
            else:
                self._receipt.loss("candidates", "further candidates", "a stream of events carries one answer")
        self._rest.update(rest_of_answer(answer))
        if len(self._rest) > _MAX_MEMBERS:
            raise DecodeError("$", f"the response has more than {_MAX_MEMBERS} members")

    def _read_candidate(self, candidate: Candidate, where: str) -> None:
        self._finish = candidate.finish_reason or self._finish
        self._finishes += bool(candidate.finish_reason)
        self._finish_message = candidate.finish_message or self._finish_message
        rest = members_without(candidate, "content", "finishReason", "finishMessage")
        if rest.get("index") == 0:
            del rest["index"]
        self._take_logprobs(rest)
        self._candidate.add(rest)
        content = candidate.content
        if content is UNSET:
            return
        self._candidate.add_content(members_without(content, "parts", "role"))
        parts = content.parts
        for index, part in enumerate(parts if isinstance(parts, list) else () if parts is UNSET else (parts,)):
            place = f"{where}.content.parts[{index}]"
            try:
                self._read_part(part, place)
            except DecodeError as error:
                raise DecodeError(place + error.where, error.what) from None

    def _take_logprobs(self, candidate: dict[str, Any]) -> None:
        """Collect log probabilities for the text of their frame. Invalid ones stay with the candidate."""
        if (tokens := read_logprobs(candidate.get(RESULT))) is not None:
            del candidate[RESULT]
            candidate.pop(AVERAGE, None)  # the average over the tokens of this frame
            self._logprobs += tokens

    def _drain_logprobs(self) -> tuple[TokenLogprob, ...]:
        tokens = tuple(self._logprobs)
        self._logprobs.clear()
        return tokens

    # Parts

    def _read_part(self, part: Part, where: str) -> None:
        """Read one part. Error paths are relative to it."""
        if (call := part.function_call) is not UNSET:
            self._read_call(part, call, where)
            return
        if part.text is not UNSET and not members_without(part, *_TEXT_MEMBERS):
            self._read_text_part(part, part.text)
            return
        block = decode_part(part)
        if isinstance(block, (Text, Thinking)):
            self._add_text(type(block), block.text, dict(native_of(block, NAME)))
            return
        self._close_text()
        self._open(block)
        self._events.append(Close(index=self._next - 1))

    def _read_text_part(self, part: Part, text: str) -> None:
        """Read a plain text part: the usual case, without building a block."""
        signature = part.thought_signature
        native = {} if signature is UNSET or signature is None else {"thoughtSignature": signature}
        self._add_text(Thinking if part.thought is True else Text, text, native)

    def _add_text(self, kind: type[Text] | type[Thinking], text: str, native: dict[str, Any]) -> None:
        """Add text to the open block of this kind, or to a new one."""
        native.pop("$text", None)
        if self._text is kind is Text and not text and "thoughtSignature" in native:
            native[SIGNED_APART] = True
        if self._text is not kind:
            if not text and not native:
                return
            self._close_text()
            self._text, self._text_index = kind, self._next
            self._text_start = self._length
            self._open(Text(text="") if kind is Text else Thinking(native=_THOUGHT))
        if text:
            tokens = self._drain_logprobs() if kind is Text and self._logprobs else ()
            self._events.append(Delta(self._text_index, text, tokens))
            if kind is Text:
                self._texts.append(text)
                self._length += len(text)
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
            tokens = self._drain_logprobs() if self._text is Text else ()
            cited = self._take_citations() if self._text is Text and MEMBER in self._candidate.fields else ()
            self._events.append(Close(index=self._text_index, citations=cited, logprobs=tokens, native=native))
            self._text, self._text_native = None, {}

    def _take_citations(self) -> tuple[Citation, ...]:
        """Return the sources of the open text block that arrived before its end."""
        grounding = read_grounding(self._candidate.fields[MEMBER], "".join(self._texts))
        found: list[Citation] = []
        for citation in grounding.citations if grounding is not None else ():
            key, is_here = citation_key(citation), citation.start is None or citation.start >= self._text_start
            if is_here and key not in self._cited:
                self._cited.add(key)
                found.append(shift_span(citation, -self._text_start))
        return tuple(found)

    def _settle_grounding(self) -> None:
        """Leave the members that citations do not carry with the candidate, or all of them if a block had ended before
        its source.
        """
        grounding = read_grounding(self._candidate.fields.get(MEMBER), "".join(self._texts)) if self._cited else None
        if grounding is not None and self._cited.issuperset(map(citation_key, grounding.citations)):
            keep_grounding(self._candidate.fields, grounding.rest)

    # Calls

    def _read_call(self, part: Part, call: GeminiFunctionCall, where: str) -> None:
        self._close_text()
        call_id, name = call.id or "", call.name or ""
        goes_on = call.will_continue is True
        if type(call.will_continue) not in _FLAG:  # this may be the first piece of many
            raise expected(".functionCall.willContinue", "a boolean", call.will_continue)
        pieces, args = call.partial_args or [], whole_arguments(call)
        if not pieces and partial_args(call):
            raise DecodeError(".functionCall.partialArgs", "these are not pieces of arguments")
        opened = self._calls.find_continued(call_id, name, whole=args is not None)
        if opened is None and call_id and args is not None and not goes_on:
            beside = json.encode(other_members(part, "functionCall"))
            if self._is_repeated(call_id, b"\0".join((name.encode(), bytes(args), beside)), where):
                return
        if opened is not None:
            opened.native.update(other_members(part, "functionCall"))
        elif name:
            opened = self._open_call(call_id, name, part, call)
        elif args is None and not pieces and self._called and call.rest is UNSET:
            return  # the end of a call that has already ended
        else:
            raise DecodeError(".functionCall.name", "a call without a name")
        has_arguments = args is not None and bool(json.decode_frame(bytes(args)))  # always decoded: it may be invalid
        if has_arguments and opened.writer.text_began:
            where = f"{where}.functionCall.args"
            self._receipt.loss(where, f"arguments of {opened.name}", "pieces of others came before them")
            self._close_call(opened, complete=False)
            return
        text = self._calls.write(opened, pieces, ".functionCall.partialArgs")
        if args is not None and not opened.writer.text_began and (has_arguments or not goes_on):
            text = bytes(args).decode()
        if text:
            self._events.append(Delta(opened.index, text))
        if not goes_on:
            self._end_call(opened)

    def _is_repeated(self, call_id: str, content: bytes, where: str) -> bool:
        """Return whether this call has come before. Ids are unique, so a part that a server sends twice is not a second
        call."""
        seen = sha256(content).digest()
        if self._whole_calls.get(call_id) != seen:
            self._whole_calls[call_id] = seen
            return False
        self._receipt.note(f"{where}.functionCall", f"call {call_id}", "it came twice and is passed on once")
        return True

    def _open_call(self, call_id: str, name: str, part: Part, call: GeminiFunctionCall) -> GeminiOpenCall:
        self._called = True
        if (displaced := self._calls.find_displaced(call_id)) is not None:
            self._close_call(displaced, complete=False)
        rest = rest_of_call(call, "willContinue", "partialArgs")
        native = add_nested_rest(keep(other_members(part, "functionCall")), "functionCall", rest)
        opened = GeminiOpenCall(self._next, call_id, name)
        self._calls.add(opened)
        self._open(ToolCall(id=call_id, name=name, native=native))
        return opened

    def _end_call(self, call: GeminiOpenCall) -> None:
        """End a call after its last piece. An open string was cut, so the call is incomplete then."""
        if call.writer.in_string:
            self._close_call(call, complete=False)
            return
        if text := call.writer.end():
            self._events.append(Delta(call.index, text))
        self._close_call(call, complete=True)

    def _close_call(self, call: GeminiOpenCall, *, complete: bool) -> None:
        self._calls.remove(call)
        native: Native = {NAME: call.native} if call.native else {}
        self._events.append(Close(index=call.index, complete=complete, native=native))

    # The end

    def _end(self) -> None:
        if self._ended:
            return
        feedback = decode_prompt_feedback(self._rest.get("promptFeedback"))
        if self._finish is None and feedback is None:
            self._fault(truncated())
            return
        if self._frames.noise:
            note_noise(self._frames.noise, self._receipt)
        self._halves.report(self._receipt)
        usage = self._usage.merged()
        if self._usage.has_unreadable:
            self._receipt.loss("usageMetadata", "usageMetadata", "it is not an object")
        self._close_text()
        for call in self._calls.all():  # each of them announced more pieces
            self._close_call(call, complete=False)
        if self._logprobs:  # there was no text for them
            self._candidate.add({RESULT: write_logprobs(self._logprobs)})
        self._settle_grounding()
        candidate = self._candidate.fields
        native = {**self._rest, **({"candidate": candidate} if candidate else {})}
        stop = decode_stop(self._finish, self._finish_message, self._called, feedback)
        self._ended = True
        kept: Native = {NAME: native} if native else {}
        self._events.append(Finish(stop=stop, usage=usage, service_tier=tier_of(usage), native=kept))
