"""Decode `chat.completion.chunk` streams to events, including those of imperfect servers.

Vendors repeat ids and names of calls in every chunk, send them late, or give every call the index 0. So a delta belongs
to the call with its id, otherwise to the latest call with its index, otherwise to the latest call (`call_matching.py`).
`stream_blocks.py` has the blocks that are being received.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Struct

from toolglot.dialects.openai_chat.annotations import decode_annotations
from toolglot.dialects.openai_chat.blocks import decode_image, is_thinking_list, thinking_list_text
from toolglot.dialects.openai_chat.call_matching import (
    INVALID_INDEX,
    ChatOpenCall,
    has_call_content,
    names_another_call,
    parse_call_index,
    repeats_tool_call,
)
from toolglot.dialects.openai_chat.errors import choice_error, error_event
from toolglot.dialects.openai_chat.native import NAME, SIDE_MEMBERS
from toolglot.dialects.openai_chat.reasoning_details import (
    EXTRA_CONTENT,
    FUNCTION_STATE,
    PROVIDER_FIELDS,
    REASONING_DETAILS,
    REASONING_SUMMARY,
    SINGLE_FIELDS,
    STATE_FIELDS,
    THINKING_BLOCKS,
    has_signature,
    is_details,
    summary_text,
    take_single_state,
    thinking_text,
    unwrap_reasoning,
)
from toolglot.dialects.openai_chat.response import CUT_REASONS, decode_finish_reason, decode_tier, finish_failure
from toolglot.dialects.openai_chat.stream_blocks import CallAssembler, ChatBlockEvents, OpenText, TextKind
from toolglot.dialects.openai_chat.stream_frames import ErrorFrame, read_chunk
from toolglot.dialects.openai_chat.usage import decode_usage
from toolglot.dialects.openai_chat.wire import (
    IMAGE_ENTRIES,
    CallDelta,
    ChatMessageDelta,
    Chunk,
    ChunkChoice,
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
from toolglot.events import Close, Event, Fault, Finish, Start
from toolglot.ir import (
    Block,
    Native,
    Refusal,
    Stop,
    Text,
    Thinking,
    ToolKind,
    Usage,
    replace,
)
from toolglot.receipt import Receipt
from toolglot.wire import json, openai_error
from toolglot.wire.openai_logprobs import read_logprobs, unread_members
from toolglot.wire.side_members import read_frame_again
from toolglot.wire.sse import STRAY, SseReader
from toolglot.wire.stray_lines import read_stray_error
from toolglot.wire.surrogates import SurrogateJoiner

_NO_NATIVE: Native = {}
_PART: Native = {NAME: {"$part": True}}
_SHORT_FIELD: Native = {NAME: {"$field": "reasoning"}}
"""The field in which vLLM, OpenRouter, Groq and Ollama send reasoning. Some of them read no other."""
_COPILOTS_FIELD: Native = {NAME: {"$field": "reasoning_text"}}
_UNKNOWN = "its meaning in a stream is unknown"
_NO_DELTA = ChatMessageDelta()
_NO_FUNCTION = FunctionDelta()


def _is_preamble(chunk: Chunk) -> bool:
    """Return whether this is Azure's first chunk. It has the results of content filters, but no id, model or choice.
    The answer begins after it."""
    return not (chunk.id or chunk.model or chunk.choices or chunk.usage)


def _has_content(delta: ChatMessageDelta) -> bool:
    return any(getattr(delta, name) for name in delta.__struct_fields__ if name != "role")


def _read_image(entry: Any) -> Block | None:
    try:
        return decode_image(IMAGE_ENTRIES.read_value(entry, "$"))
    except DecodeError:
        return None


class _OtherChoice(Struct):
    """A choice after the first one, which may continue it."""

    deltas: list[ChatMessageDelta] = []
    finish: str | None = None


def _length_of_calls(delta: ChatMessageDelta) -> int:
    functions = [call.function or call.custom or _NO_FUNCTION for call in delta.tool_calls or ()]
    return sum(len(each.arguments) for each in functions if each.arguments is not None)


class _AnswerMembers:
    """Members of chunks that belong to the end of the answer."""

    __slots__ = ("fingerprint", "finish_reason", "is_refused", "tier", "usage")

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self.fingerprint: Any = None
        self.tier: str | None = None
        self.usage: Usage | None = None
        self.is_refused = False

    def set_finish_reason(self, reason: str) -> None:
        """Set the finish reason. The last one counts, but a normal end after a cut does not make the answer whole."""
        was_cut = decode_finish_reason(self.finish_reason) in CUT_REASONS
        if not (was_cut and decode_finish_reason(reason) == "end"):
            self.finish_reason = reason

    def finish(self) -> Finish:
        reason = decode_finish_reason(self.finish_reason)
        if reason == "end" and self.is_refused:
            reason = "refusal"
        native: Native = {NAME: {"system_fingerprint": self.fingerprint}} if self.fingerprint else {}
        stop = Stop(reason, self.finish_reason)
        return Finish(stop=stop, usage=self.usage, service_tier=self.tier, native=native)


class ChatStreamDecoder:
    __slots__ = (
        "_answer",
        "_calls",
        "_ended",
        "_first",
        "_frames",
        "_halves",
        "_has_blank_call",
        "_has_stable_id",
        "_id",
        "_in_deltas",
        "_others",
        "_out",
        "_receipt",
        "_started",
        "_text",
    )

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._frames = SseReader(keeps_stray=True)
        self._out = out = ChatBlockEvents()
        self._text = OpenText(out)
        self._calls = CallAssembler(out)
        self._answer = _AnswerMembers()
        self._started = self._ended = False
        self._has_blank_call = False  # a blank entry came before any call
        self._id: str | None = None
        self._has_stable_id = False  # more than one chunk has had this id
        self._in_deltas = False  # a `delta` had content
        self._first: int | None = None  # index of the choice that is read; some servers count from 1
        self._others: dict[int, _OtherChoice | None] = {}  # by index; None if it is reported as lost
        self._halves = SurrogateJoiner()

    def feed(self, data: bytes) -> list[Event]:
        if self._ended:
            return []
        try:
            for name, payload in self._frames.feed(data):
                self._read_frame(name, payload)
        except DecodeError as error:
            self._fault(unreadable(error))
        return self._out.take()

    def close(self) -> list[Event]:
        if not self._ended:
            try:
                for name, payload in self._frames.close():
                    self._read_frame(name, payload)
            except DecodeError:
                pass  # the last frame was cut; it matters only if there was no finish reason
        if not self._ended:
            if self._answer.finish_reason is None:
                self._fault(truncated())
            else:
                note_early_end(self._receipt, "[DONE]")
                self._end()
        return self._out.take()

    @property
    def settled(self) -> bool:
        others_go_on = any(other and not other.finish for other in self._others.values())
        return self._answer.finish_reason is not None and not others_go_on

    def _read_frame(self, name: bytes, payload: bytes) -> None:
        """Read a frame, without side members of a wrong type."""
        begun = len(self._out.events)
        try:
            self._read(name, payload)
        except DecodeError as error:
            read = partial(self._read, name)
            read_frame_again(payload, error, read, SIDE_MEMBERS, self._receipt, self._out.events, begun)

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
        self._answer.fingerprint = chunk.system_fingerprint or self._answer.fingerprint
        if chunk.service_tier:
            self._answer.tier = decode_tier(chunk.service_tier)
        if not self._started and not _is_preamble(chunk):
            self._started = True
            created = int(chunk.created) if chunk.created else None
            start = Start(id=chunk.id or "", model=chunk.model or "", created=created, service_tier=self._answer.tier)
            self._out.events.append(start)
        if chunk.id != self._id:
            self._read_new_id(chunk)
        else:
            self._has_stable_id = True
        if chunk.x_groq is not None:
            self._read_groq(chunk.x_groq)
        if chunk.usage:
            self._answer.usage = decode_usage(chunk.usage)
        if self._first is None and chunk.choices:
            self._first = min(choice.index or 0 for choice in chunk.choices)
        for choice in chunk.choices or ():
            if (choice.index or 0) != self._first:
                self._read_other_choice(choice)
                continue
            if choice.usage and not chunk.usage:
                self._answer.usage = decode_usage(choice.usage)
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
                self._answer.set_finish_reason(choice.finish_reason)

    def _read_new_id(self, chunk: Chunk) -> None:
        """Report another answer in the same stream: a proxy that loses its upstream retries, and some let the second
        model continue the text. A different id in every chunk, as some servers write, does not count.
        """
        begins = any(choice.delta is not None and choice.delta.role for choice in chunk.choices or ())
        if begins and self._has_stable_id and chunk.id and (self._out.next_index or self._calls):
            why = "its content follows what came before, and may repeat it"
            self._receipt.loss("choices[0]", "another answer in the same stream", why)
        self._id, self._has_stable_id = chunk.id, False

    def _read_other_choice(self, choice: ChunkChoice) -> None:
        """Hold the calls of another choice until the end shows whether they continue the first one."""
        delta = choice.delta or choice.message or _NO_DELTA
        other = self._others.setdefault(choice.index, _OtherChoice())
        if other is None:
            return
        if delta.content:
            self._drop_other_choice(choice.index)
            return
        if delta != _NO_DELTA:
            self._out.budget.hold(_length_of_calls(delta))
            other.deltas.append(delta)
        other.finish = choice.finish_reason or other.finish

    def _drop_other_choice(self, index: int) -> None:
        self._others[index] = None
        self._receipt.loss(f"choices[{index}]", "another candidate", "a stream carries one")

    def _read_continuation(self) -> None:
        """Read the choice that continues the first one, as `response._group_choices` does for a whole answer."""
        lacks_calls = decode_finish_reason(self._answer.finish_reason) == "tool_calls" and not self._calls
        for index, other in self._others.items():
            if other is None:
                continue
            if not lacks_calls or not any(delta.tool_calls for delta in other.deltas):
                self._drop_other_choice(index)
                continue
            lacks_calls = False
            self._answer.finish_reason = other.finish or self._answer.finish_reason
            for delta in other.deltas:
                self._read_delta(delta)

    def _read_stray(self, lines: bytes) -> None:
        if (document := read_stray_error(lines, self._receipt)) is not None:
            self._fault(replace(openai_error.read_error(document, NAME), in_foreign_form=True))

    def _read_groq(self, groq: GroqExtension) -> None:
        if groq.error:  # "why a stream was stopped early"
            self._fault(openai_error.read_error({"error": groq.error}, NAME))
        if groq.usage:
            self._answer.usage = decode_usage(groq.usage)

    def _read_logprobs(self, value: Any) -> None:
        """Collect log probabilities for the text of their chunk. A token without a whole character has no text."""
        fields = value if isinstance(value, dict) else {"content": value}
        tokens = read_logprobs(fields.get("content") or [])
        others = [key for key, other in fields.items() if other and key != "content"]
        if tokens is None:
            self._receipt.loss("choices[0].logprobs", "log probabilities", "their form is unknown")
        else:
            unread = unread_members(fields.get("content"))
            for path in (*others, *[f"content.{key}" for entry in unread for key in entry]):
                self._receipt.loss(f"choices[0].logprobs.{path}", path, "its meaning is unknown")
        self._out.budget.hold(len(tokens or ()))
        self._text.logprobs += tokens or ()

    def _decode_chunk(self, payload: bytes) -> Chunk | ErrorFrame:
        try:
            return read_chunk(payload, self._receipt)
        except DecodeError:
            mended = self._halves.join_halves(payload)
            if mended is None:
                raise
            return read_chunk(mended, self._receipt)

    def _read_message(self, message: ChatMessageDelta) -> None:
        """Read `message`, which some servers write instead of `delta`. Next to deltas, it repeats them."""
        if not self._in_deltas:
            self._read_delta(message)
        elif message != _NO_DELTA:
            self._receipt.note("choices[0].message", "a message", "the deltas already contain it")

    def _read_delta(self, delta: ChatMessageDelta) -> None:
        reasoning = delta.reasoning_content or delta.reasoning or delta.reasoning_text
        shape = _NO_NATIVE
        if reasoning and not delta.reasoning_content:
            shape = _SHORT_FIELD if delta.reasoning else _COPILOTS_FIELD
        if delta.provider_specific_fields:
            self._unnest_provider_fields(delta)
        if delta.reasoning_details:
            self._add_details(REASONING_DETAILS, delta.reasoning_details, shape)
        if delta.thinking_blocks:
            self._add_details(THINKING_BLOCKS, delta.thinking_blocks, shape)
            reasoning = reasoning or self._thinking_blocks_text(delta.thinking_blocks)
        if reasoning:
            self._add_reasoning(reasoning, shape)
        for field in SINGLE_FIELDS:
            if value := getattr(delta, field):
                self._add_single_state(field, value)
        if delta.content:
            if isinstance(delta.content, str):
                self._add_text(Text, delta.content)
            else:
                self._add_parts(delta.content)
        if delta.images:
            self._add_images(delta.images)
        if delta.refusal:
            self._answer.is_refused = True
            self._add_text(Refusal, delta.refusal)
        if delta.annotations:
            citations, others = decode_annotations(delta.annotations)
            self._text.citations.extend(citations)
            if others:
                self._receipt.loss("choices[0].delta.annotations", "annotations", "their type is unknown")
        if delta.tool_calls and not self._read_calls(delta.tool_calls):
            return
        if has_call_content(delta.function_call) and not repeats_tool_call(delta.function_call, delta.tool_calls):
            legacy = self._calls.latest or self._begin_call("function", legacy=True)
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
                self._fault(unreadable(DecodeError(where, "it is not a number")))
                return False
            function = delta.function or delta.custom or _NO_FUNCTION
            call = self._calls.find(delta, number, function)
            if call is None or (call in named and names_another_call(call, delta, number, function)):
                call = self._begin_call("function" if delta.custom is None else "custom", number)
            if function.name:
                named.add(call)
            if delta.extra_content:
                self._add_call_state(call, EXTRA_CONTENT, delta.extra_content)
            self._add_provider_fields(call, delta, function)
            self._add_to_call(call, delta.id, function)
        return True

    def _add_provider_fields(self, call: ChatOpenCall, delta: CallDelta, function: FunctionDelta) -> None:
        """Add the signature of a call that LiteLLM puts beside the function, or into it."""
        for fields, where in ((delta.provider_specific_fields, ""), (function.provider_specific_fields, "function.")):
            if not fields:
                continue
            if not has_signature(fields):
                path = f"choices[0].delta.tool_calls[].{where}{PROVIDER_FIELDS}"
                self._receipt.loss(path, PROVIDER_FIELDS, _UNKNOWN)
            elif where:
                self._add_call_state(call, FUNCTION_STATE, fields)
            else:
                self._add_call_state(call, PROVIDER_FIELDS, fields)

    def _add_reasoning(self, reasoning: Any, shape: Native) -> None:
        text, beside = (reasoning, {}) if isinstance(reasoning, str) else unwrap_reasoning(reasoning) or ("", reasoning)
        self._add_text(Thinking, text, shape)
        if isinstance(beside, dict) and text:
            for name in [name for name, value in beside.items() if value]:
                self._receipt.loss(f"choices[0].delta.reasoning.{name}", name, "its meaning is unknown")
        elif beside:
            self._receipt.loss("choices[0].delta.reasoning", "reasoning", "it is not text")

    def _add_call_state(self, call: ChatOpenCall, field: str, state: Any) -> None:
        if call.closed:
            self._receipt.loss(f"choices[0].delta.tool_calls[].{field}", field, "the call had ended")
        call.extra[field] = state

    def _unnest_provider_fields(self, delta: ChatMessageDelta) -> None:
        """Read LiteLLM's member for unknown members, as in a whole answer."""
        fields = delta.provider_specific_fields
        for field in STATE_FIELDS:
            if isinstance(fields, dict) and is_details(fields.get(field)):
                if not getattr(delta, field):
                    setattr(delta, field, fields[field])
                fields = {name: value for name, value in fields.items() if name != field}
        delta.provider_specific_fields = fields

    def _add_single_state(self, field: str, value: Any) -> None:
        """Collect state that is a single value. Objects may arrive in pieces."""
        members = {field: value}
        state = take_single_state(members, field)
        left = members.get(field)
        if left and not (isinstance(left, dict) and not any(left.values())):
            self._receipt.loss(f"choices[0].delta.{field}", field, _UNKNOWN)
        if state is None:
            return
        self._out.budget.hold(len(state) if isinstance(state, str) else len(json.encode(state)))
        if not self._out.next_index and not self._calls and self._text.kind is None:
            self._open_text(Thinking)
        self._text.state.add_single(field, state, self._receipt)

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
                self._receipt.loss("choices[0].delta.content", "content part", "its type is unknown")

    def _report_thinking(self, part: dict[str, Any]) -> None:
        """Report other members of a thinking part. A stream of text cannot carry them."""
        beside = [key for key in part if key not in ("type", "thinking", "closed") and part[key]]
        beside += [str(item.get("type")) for item in part["thinking"] if isinstance(item, dict) and "text" not in item]
        for what in beside:
            self._receipt.loss("choices[0].delta.content.thinking", what, "only the text of thinking is carried")

    def _add_text(self, kind: TextKind, text: str, native: Native = _NO_NATIVE) -> None:
        if not text:
            return
        if self._text.kind is not kind:
            self._open_text(kind, native)
        self._text.add(text)

    def _open_text(self, kind: TextKind, native: Native = _NO_NATIVE) -> None:
        self._text.close()
        self._calls.make_room()
        self._text.open(kind, native)

    def _add_details(self, field: str, details: Any, shape: Native) -> None:
        """Collect reasoning state. It belongs to the reasoning that it arrived with; later entries go to the end."""
        if not is_details(details):
            self._receipt.loss(f"choices[0].delta.{field}", field, "it is not a list of objects")
            return
        if not self._out.next_index and not self._calls:
            self._open_text(Thinking, shape)
        for entry in details:
            self._out.budget.hold(sum(len(value) for value in entry.values() if isinstance(value, str)))
        self._text.state.add_details(field, details)

    @staticmethod
    def _thinking_blocks_text(entries: Any) -> str:
        """Return the text of `thinking_blocks`. Most servers repeat it in a reasoning field."""
        return "".join(map(thinking_text, entries)) if is_details(entries) else ""

    def _add_images(self, images: Any) -> None:
        for entry in images if isinstance(images, list) else [images]:
            image = _read_image(entry)
            if image is None:
                self._receipt.loss("choices[0].delta.images", "image", "its form is unknown")
                continue
            self._out.budget.add_block()
            self._text.close()
            self._calls.make_room()
            self._out.events.append(Close(index=self._out.open(image)))

    def _begin_call(self, kind: ToolKind, number: int | None = None, *, legacy: bool = False) -> ChatOpenCall:
        self._text.close()
        return self._calls.begin(kind, number, legacy=legacy)

    def _add_to_call(self, call: ChatOpenCall, call_id: str | None, function: FunctionDelta) -> None:
        if (error := self._calls.add(call, call_id, function)) is not None:
            self._fault(unreadable(error))

    def _end(self) -> None:
        if self._others:
            self._read_continuation()
            if self._ended:
                return
        answer = self._answer
        if (failed := finish_failure(answer.finish_reason)) is not None:
            self._fault(failed)
            return
        reason = decode_finish_reason(answer.finish_reason)
        self._text.close()
        lacks_call = self._has_blank_call and not self._calls and reason == "tool_calls"
        if lacks_call or not self._calls.open_rest():
            self._fault(malformed_call(NAMELESS))
            return
        if answer.finish_reason is None:
            note_missing_stop(self._receipt, "finish_reason")
        # Without a finish reason, only its arguments can show that the last call is complete.
        self._calls.close_rest(cut=answer.finish_reason is None or reason in CUT_REASONS)
        if state := self._text.state.take():
            self._out.events.append(Close(index=self._out.open(Thinking()), native=state))
        self._ended = True
        if self._text.logprobs:
            self._receipt.loss("choices[0].logprobs", "log probabilities", "they do not belong to a text")
        if self._text.citations:
            self._receipt.loss("choices[0].delta.annotations", "annotations", "their text had ended, or there is none")
        self._halves.report(self._receipt)
        self._out.events.append(answer.finish())

    def _fault(self, error: ApiError) -> None:
        if not self._ended:
            self._ended = True
            self._out.events.append(Fault(error))
