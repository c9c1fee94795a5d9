"""Decodes `chat.completion.chunk` streams to events, including those of imperfect servers.

The wire has no block ends. A call is closed early only if the next block begins and its arguments are already a whole
JSON object. Otherwise it stays open until the end, and later blocks wait for it. Vendors repeat ids and names in every
chunk, send them late, or give every call the index 0. So a delta belongs to the call with its id, else to the latest
call with its index, else to the latest call.
"""

from __future__ import annotations

from typing import Any

from toolglot.dialects.openai_chat.annotations import decode_annotations
from toolglot.dialects.openai_chat.blocks import decode_image, is_thinking_list, thinking_list_text
from toolglot.dialects.openai_chat.call_matching import (
    INVALID_INDEX,
    find_call,
    has_call_content,
    names_another_call,
    parse_call_index,
    repeats_tool_call,
)
from toolglot.dialects.openai_chat.errors import choice_error, error_event
from toolglot.dialects.openai_chat.native import NAME
from toolglot.dialects.openai_chat.open_call import ChatOpenCall
from toolglot.dialects.openai_chat.reasoning_details import (
    REASONING_DETAILS,
    REASONING_SUMMARY,
    THINKING_BLOCKS,
    DetailsCollector,
    is_details,
    summary_text,
    thinking_text,
    unwrap_reasoning,
)
from toolglot.dialects.openai_chat.response import CUT_REASONS, decode_finish_reason, decode_tier, finish_failure
from toolglot.dialects.openai_chat.stream_frames import ErrorFrame, read_chunk
from toolglot.dialects.openai_chat.usage import decode_usage
from toolglot.dialects.openai_chat.wire import (
    IMAGE_ENTRIES,
    CallDelta,
    ChatMessageDelta,
    Chunk,
    FunctionDelta,
    GroqExtension,
)
from toolglot.errors import (
    NAMELESS,
    ApiError,
    DecodeError,
    malformed_call,
    note_early_end,
    note_missing_stop,
    truncated,
    unreadable,
)
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import (
    Block,
    Citation,
    Native,
    Refusal,
    Stop,
    Text,
    Thinking,
    TokenLogprob,
    ToolCall,
    ToolKind,
    Usage,
    replace,
)
from toolglot.receipt import Receipt
from toolglot.wire import json, openai_error
from toolglot.wire.openai_logprobs import read_logprobs, unread_members
from toolglot.wire.sse import STRAY, SseReader
from toolglot.wire.stray_lines import read_stray_error
from toolglot.wire.stream_budget import StreamBudget
from toolglot.wire.surrogates import SurrogateJoiner

_NO_NATIVE: Native = {}
_PART: Native = {NAME: {"$part": True}}
_SHORT_FIELD: Native = {NAME: {"$field": "reasoning"}}
"""The field in which vLLM, OpenRouter, Groq and Ollama send reasoning, and the only one that some of them read."""
_NO_DELTA = ChatMessageDelta()
_NO_FUNCTION = FunctionDelta()


def _is_preamble(chunk: Chunk) -> bool:
    """Is this Azure's first chunk? It has the results of content filters, but no id, model or choice. The answer begins
    after it."""
    return not (chunk.id or chunk.model or chunk.choices or chunk.usage)


def _has_content(delta: ChatMessageDelta) -> bool:
    return any(getattr(delta, name) for name in delta.__struct_fields__ if name != "role")


def _read_image(entry: Any) -> Block | None:
    try:
        return decode_image(IMAGE_ENTRIES.read_value(entry, "$"))
    except DecodeError:
        return None


class ChatStreamDecoder:
    __slots__ = (
        "_budget",
        "_calls",
        "_calls_by_key",
        "_citations",
        "_details",
        "_ended",
        "_events",
        "_fingerprint",
        "_finish",
        "_frames",
        "_grown",
        "_halves",
        "_has_blank_call",
        "_in_deltas",
        "_logprobs",
        "_next",
        "_opened",
        "_receipt",
        "_refused",
        "_started",
        "_text_index",
        "_text_kind",
        "_tier",
        "_unclosed",
        "_usage",
    )

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._frames = SseReader(keeps_stray=True)
        self._events: list[Event] = []
        self._started = self._ended = False
        self._next = 0
        self._text_kind: type[Block] | None = None  # the kind of the open text block
        self._text_index = -1
        self._citations: list[Citation] = []
        self._logprobs: list[TokenLogprob] = []  # not yet attached to a text
        self._details: dict[str, DetailsCollector] | None = None  # state by field, not yet attached to a block
        self._calls: list[ChatOpenCall] = []
        self._unclosed: dict[ChatOpenCall, None] = {}
        self._grown: dict[ChatOpenCall, None] = {}  # open calls whose arguments may now be complete
        self._opened = 0  # number of calls that have been opened
        self._calls_by_key: dict[int | str, ChatOpenCall] = {}  # by index and by id
        self._usage: Usage | None = None
        self._fingerprint: Any = None
        self._tier: str | None = None
        self._finish: str | None = None
        self._refused = False
        self._has_blank_call = False  # a blank entry came before any call
        self._in_deltas = False  # a `delta` had content
        self._budget = StreamBudget()
        self._halves = SurrogateJoiner()

    def feed(self, data: bytes) -> list[Event]:
        if self._ended:
            return []
        try:
            for name, payload in self._frames.feed(data):
                self._read(name, payload)
        except DecodeError as error:
            self._fault(unreadable(error))
        return self._flush()

    def close(self) -> list[Event]:
        if not self._ended:
            try:
                for name, payload in self._frames.close():
                    self._read(name, payload)
            except DecodeError:
                pass  # the last frame was cut; it matters only if there was no finish reason
        if not self._ended:
            if self._finish is None:
                self._fault(truncated())
            else:
                note_early_end(self._receipt, "[DONE]")
                self._end()
        return self._flush()

    @property
    def settled(self) -> bool:
        return self._finish is not None

    def _flush(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _read(self, name: bytes, payload: bytes) -> None:
        if self._ended:
            return
        if name == STRAY:
            self._read_stray(payload)
            return
        if payload == b"[DONE]":
            self._end() if self._started else self._fault(truncated("it held no response"))
            return
        if name == b"error":
            self._fault(error_event(payload))
            return
        chunk = self._decode_chunk(payload)
        if isinstance(chunk, ErrorFrame):
            self._fault(openai_error.read_error(chunk.value, NAME))
            return
        self._fingerprint = chunk.system_fingerprint or self._fingerprint
        if chunk.service_tier:
            self._tier = decode_tier(chunk.service_tier)
        if not self._started and not _is_preamble(chunk):
            self._started = True
            created = int(chunk.created) if chunk.created else None
            start = Start(id=chunk.id or "", model=chunk.model or "", created=created, service_tier=self._tier)
            self._events.append(start)
        if chunk.x_groq is not None:
            self._read_groq(chunk.x_groq)
        if chunk.usage:
            self._usage = decode_usage(chunk.usage)
        for choice in chunk.choices or ():
            if choice.index:
                self._receipt.loss(f"choices[{choice.index}]", "another candidate", "a stream carries one")
                continue
            if choice.usage and not chunk.usage:
                self._usage = decode_usage(choice.usage)
            if choice.logprobs:
                self._read_logprobs(choice.logprobs)
            if choice.delta is not None:
                self._in_deltas = self._in_deltas or _has_content(choice.delta)
                self._read_delta(choice.delta)
            if choice.message is not None:
                self._read_message(choice.message)
            if choice.error:
                self._fault(choice_error(choice.error))
            if choice.finish_reason:
                self._finish = choice.finish_reason

    def _read_stray(self, lines: bytes) -> None:
        if (document := read_stray_error(lines, self._receipt)) is not None:
            self._fault(replace(openai_error.read_error(document, NAME), in_foreign_form=True))

    def _read_groq(self, groq: GroqExtension) -> None:
        if groq.error:  # "why a stream was stopped early"
            self._fault(openai_error.read_error({"error": groq.error}, NAME))
        if groq.usage:
            self._usage = decode_usage(groq.usage)

    def _read_logprobs(self, value: Any) -> None:
        """Collect log probabilities for the text of their chunk. A token may be less than a character and come without
        text."""
        fields = value if isinstance(value, dict) else {"content": value}
        tokens = read_logprobs(fields.get("content") or [])
        others = [key for key, other in fields.items() if other and key != "content"]
        if tokens is None:
            self._receipt.loss("choices[0].logprobs", "log probabilities", "they are of no form that is known")
        else:
            unread = unread_members(fields.get("content"))
            for path in (*others, *[f"content.{key}" for entry in unread for key in entry]):
                self._receipt.loss(f"choices[0].logprobs.{path}", path, f"only {NAME} understands it")
        self._budget.hold(len(tokens or ()))
        self._logprobs += tokens or ()

    def _decode_chunk(self, payload: bytes) -> Chunk | ErrorFrame:
        try:
            return read_chunk(payload, self._receipt)
        except DecodeError:
            mended = self._halves.join_halves(payload)
            if mended is None:
                raise
            return read_chunk(mended, self._receipt)

    def _read_message(self, message: ChatMessageDelta) -> None:
        """Some servers write `message` instead of `delta`. Next to deltas it repeats them all."""
        if not self._in_deltas:
            self._read_delta(message)
        elif message != _NO_DELTA:
            self._receipt.note("choices[0].message", "a message", "the deltas have said it")

    def _read_delta(self, delta: ChatMessageDelta) -> None:
        reasoning = delta.reasoning_content or delta.reasoning
        shape = _SHORT_FIELD if reasoning and not delta.reasoning_content else _NO_NATIVE
        if delta.reasoning_details:
            self._add_details(REASONING_DETAILS, delta.reasoning_details, shape)
        if delta.thinking_blocks:
            self._add_details(THINKING_BLOCKS, delta.thinking_blocks, shape)
            reasoning = reasoning or self._thinking_blocks_text(delta.thinking_blocks)
        if reasoning:
            self._add_reasoning(reasoning, shape)
        if delta.content:
            if isinstance(delta.content, str):
                self._add_text(Text, delta.content)
            else:
                self._add_parts(delta.content)
        if delta.images:
            self._add_images(delta.images)
        if delta.refusal:
            self._refused = True
            self._add_text(Refusal, delta.refusal)
        if delta.annotations:
            citations, others = decode_annotations(delta.annotations)
            self._citations.extend(citations)
            if others:
                self._receipt.loss("choices[0].delta.annotations", "annotations", "they are of an unknown type")
        if delta.tool_calls and not self._read_calls(delta.tool_calls):
            return
        if has_call_content(delta.function_call) and not repeats_tool_call(delta.function_call, delta.tool_calls):
            legacy = self._calls[-1] if self._calls else self._new_call("function", legacy=True)
            self._add_to_call(legacy, None, delta.function_call)

    def _read_calls(self, deltas: list[CallDelta]) -> bool:
        """Read the entries of `tool_calls`. Returns False, after a fault, if one cannot be read."""
        named: set[ChatOpenCall] = set()  # calls that this chunk has named
        for place, delta in enumerate(deltas):
            if not self._calls and not (
                delta.id or delta.extra_content or has_call_content(delta.function or delta.custom)
            ):
                self._has_blank_call = True
                continue
            number = parse_call_index(delta.index)
            if number == INVALID_INDEX:
                where = f"$.choices[0].delta.tool_calls[{place}].index"
                self._fault(unreadable(DecodeError(where, "it is no number")))
                return False
            function = delta.function or delta.custom or _NO_FUNCTION
            call = find_call(self._calls_by_key, self._calls[-1] if self._calls else None, delta, number, function)
            if call is None or (call in named and names_another_call(call, delta, number, function)):
                call = self._begin_call("function" if delta.custom is None else "custom", number)
            if function.name:
                named.add(call)
            if delta.extra_content:
                self._add_extra_content(call, delta.extra_content)
            self._add_to_call(call, delta.id, function)
        return True

    def _add_reasoning(self, reasoning: Any, shape: Native) -> None:
        text, beside = (reasoning, {}) if isinstance(reasoning, str) else unwrap_reasoning(reasoning) or ("", reasoning)
        self._add_text(Thinking, text, shape)
        if isinstance(beside, dict) and text:
            for name in [name for name, value in beside.items() if value]:
                self._receipt.loss(f"choices[0].delta.reasoning.{name}", name, f"only {NAME} understands it")
        elif beside:
            self._receipt.loss("choices[0].delta.reasoning", "reasoning", "it is no text")

    def _add_extra_content(self, call: ChatOpenCall, extra: Any) -> None:
        if call.closed:
            self._receipt.loss("choices[0].delta.tool_calls[].extra_content", "extra_content", "the call had ended")
        call.extra["extra_content"] = extra

    def _add_parts(self, parts: list[Any]) -> None:
        """Read content as a list of parts, as Mistral and Databricks stream it: texts, and thinking with texts
        inside."""
        for part in parts:
            fields = part if isinstance(part, dict) else {}
            if isinstance(fields.get("text"), str):
                self._add_text(Text, fields["text"])
            elif is_thinking_list(fields.get("thinking")):
                self._add_text(Thinking, thinking_list_text(fields["thinking"]), _PART)
                self._report_thinking(fields)
            elif fields.get("type") == "reasoning" and is_details(fields.get("summary")):
                self._add_details(REASONING_SUMMARY, fields["summary"], _NO_NATIVE)
                self._add_text(Thinking, summary_text(fields["summary"]))
            else:
                self._receipt.loss("choices[0].delta.content", "content part", "it is of an unknown type")

    def _report_thinking(self, part: dict[str, Any]) -> None:
        """Report other members of a thinking part. A stream of text cannot carry them."""
        beside = [key for key in part if key not in ("type", "thinking", "closed") and part[key]]
        beside += [str(item.get("type")) for item in part["thinking"] if isinstance(item, dict) and "text" not in item]
        for what in beside:
            self._receipt.loss("choices[0].delta.content.thinking", what, "only the text of thinking is carried")

    def _add_text(
        self, kind: type[Text] | type[Thinking] | type[Refusal], text: str, native: Native = _NO_NATIVE
    ) -> None:
        if not text:
            return
        if self._text_kind is not kind:
            self._open_text(kind, native)
        self._events.append(Delta(self._text_index, text, self._take_logprobs(kind) if self._logprobs else ()))

    def _open_text(self, kind: type[Text] | type[Thinking] | type[Refusal], native: Native = _NO_NATIVE) -> None:
        self._close_text()
        self._open_ready_calls(text_follows=True)
        self._close_whole_calls()
        self._text_kind = kind
        self._text_index = self._open(kind(text="", native=native))

    def _add_details(self, field: str, details: Any, shape: Native) -> None:
        """Collect reasoning state. It goes with the reasoning it came with; later entries go to the end."""
        if not is_details(details):
            self._receipt.loss(f"choices[0].delta.{field}", field, "it is no list of objects")
            return
        if not self._next and not self._calls:
            self._open_text(Thinking, shape)
        if self._details is None:
            self._details = {}
        collected = self._details.setdefault(field, DetailsCollector())
        for entry in details:
            self._budget.hold(sum(len(value) for value in entry.values() if isinstance(value, str)))
            collected.add(entry)

    @staticmethod
    def _thinking_blocks_text(entries: Any) -> str:
        """The text of `thinking_blocks`. Most servers repeat it in a reasoning field."""
        return "".join(map(thinking_text, entries)) if is_details(entries) else ""

    def _add_images(self, images: Any) -> None:
        for entry in images if isinstance(images, list) else [images]:
            image = _read_image(entry)
            if image is None:
                self._receipt.loss("choices[0].delta.images", "image", "it is of an unknown form")
                continue
            self._budget.add_block()
            self._close_text()
            self._open_ready_calls(text_follows=True)
            self._close_whole_calls()
            self._events.append(Close(index=self._open(image)))

    def _begin_call(self, kind: ToolKind, number: int | None) -> ChatOpenCall:
        call = self._new_call(kind, legacy=False)
        if number is not None:
            self._calls_by_key[number] = call
        return call

    def _new_call(self, kind: ToolKind, legacy: bool) -> ChatOpenCall:
        self._budget.add_block()
        call = ChatOpenCall(kind, legacy)
        self._close_text()
        self._calls.append(call)
        self._open_ready_calls()
        self._close_whole_calls()
        self._unclosed[call] = None
        return call

    def _add_to_call(self, call: ChatOpenCall, call_id: str | None, inner: FunctionDelta) -> None:
        if call_id and not call.id:
            call.id = call_id
            self._calls_by_key[call_id] = call
        if inner.name and inner.name != call.name:
            if call.index >= 0:  # its arguments have begun and belong to the first name
                self._fault(unreadable(DecodeError("$.choices[0].delta.tool_calls", "another name in one call")))
                return
            call.name += inner.name
        arguments = inner.arguments if inner.input is None else inner.input
        if isinstance(arguments, dict):
            arguments = json.encode_text(arguments)
        if arguments:
            if call.closed:
                if arguments.strip():
                    self._fault(unreadable(DecodeError("$.choices[0].delta.tool_calls", "arguments after their end")))
                return
            call.add(arguments)
        if call.index < 0:
            if arguments:
                self._budget.hold(len(arguments))
                call.held.append(arguments)
            self._open_ready_calls()
        elif arguments:
            self._grown[call] = None
            self._events.append(Delta(call.index, arguments))

    def _open_ready_calls(self, text_follows: bool = False) -> None:
        """Open the calls that are ready, in the order in which they began.

        The latest call waits for its id and the start of its arguments. A call followed by another block waits only for
        its name.
        """
        while self._opened < len(self._calls):
            call = self._calls[self._opened]
            is_last = self._opened == len(self._calls) - 1 and not text_follows
            if not call.name or (is_last and not (call.held and (call.id or call.legacy))):
                return
            self._open_call(call)

    def _open_call(self, call: ChatOpenCall) -> None:
        self._opened += 1
        fields = {**call.extra, **({"$legacy": True} if call.legacy else {})}
        native = {NAME: fields} if fields else {}
        call.extra = {}
        call.index = self._open(ToolCall(id=call.id, name=call.name, kind=call.kind, native=native))
        if text := "".join(call.held):
            self._events.append(Delta(call.index, text))
        self._budget.release(len(text))
        call.held.clear()
        self._grown[call] = None

    def _open(self, block: Block) -> int:
        index = self._next
        self._next += 1
        self._events.append(Open(index, block))
        return index

    def _close_text(self) -> None:
        if self._text_kind is not None:
            citations: list[Citation] = []
            if self._text_kind is Text and self._citations:
                citations, self._citations = self._citations, []
            native = self._take_details() if self._text_kind is Thinking else {}
            tokens = self._take_logprobs(self._text_kind)
            close = Close(index=self._text_index, citations=tuple(citations), logprobs=tokens, native=native)
            self._events.append(close)
            self._text_kind = None

    def _take_logprobs(self, kind: type[Block]) -> tuple[TokenLogprob, ...]:
        if kind is not Text:
            return ()
        tokens = tuple(self._logprobs)
        self._logprobs.clear()
        return tokens

    def _take_details(self) -> Native:
        taken = {field: details.take() for field, details in (self._details or {}).items() if details}
        return {NAME: taken} if taken else {}

    def _close_whole_calls(self) -> None:
        """Close the complete calls before another block opens."""
        for call in self._grown:
            if call.is_whole():
                self._close_call(call, complete=True)
                del self._unclosed[call]
        self._grown.clear()

    def _close_call(self, call: ChatOpenCall, *, complete: bool) -> None:
        call.closed = True
        native = {NAME: call.extra} if call.extra else {}
        self._events.append(Close(index=call.index, complete=complete, native=native))

    def _end(self) -> None:
        if (failed := finish_failure(self._finish)) is not None:
            self._fault(failed)
            return
        self._close_text()
        if self._has_blank_call and not self._calls and decode_finish_reason(self._finish) == "tool_calls":
            self._fault(malformed_call(NAMELESS))
            return
        for call in self._calls[self._opened :]:
            if not call.name:
                self._fault(malformed_call(NAMELESS))
                return
            self._open_call(call)
        if self._finish is None:
            note_missing_stop(self._receipt, "finish_reason")
        # Without a finish reason, only its arguments can show that the last call is complete.
        cut = self._finish is None or decode_finish_reason(self._finish) in CUT_REASONS
        for call in self._unclosed:
            # Only the last block can have been cut; a pass checks the others.
            last = call.index == self._next - 1
            self._close_call(call, complete=not (cut and last) or call.is_whole())
        if details := self._take_details():
            self._events.append(Close(index=self._open(Thinking()), native=details))
        self._ended = True
        if self._logprobs:
            self._receipt.loss("choices[0].logprobs", "log probabilities", "they are not those of a text")
        if self._citations:
            self._receipt.loss("choices[0].delta.annotations", "annotations", "their text had ended, or there is none")
        self._halves.report(self._receipt)
        reason = decode_finish_reason(self._finish)
        if reason == "end" and self._refused:
            reason = "refusal"
        native: Native = {NAME: {"system_fingerprint": self._fingerprint}} if self._fingerprint else {}
        stop = Stop(reason, self._finish)
        self._events.append(Finish(stop=stop, usage=self._usage, service_tier=self._tier, native=native))

    def _fault(self, error: ApiError) -> None:
        if not self._ended:
            self._ended = True
            self._events.append(Fault(error))
