"""The blocks that a Chat stream is sending: the open text, state of reasoning that waits for its block, and calls.

The wire has no block ends. A call is closed early only if the next block begins and its arguments are already a whole
JSON object. Otherwise it stays open until the end, and later blocks wait for it.
"""

from __future__ import annotations

from typing import Any

from toolglot.dialects.openai_chat.call_matching import ChatOpenCall, find_call
from toolglot.dialects.openai_chat.native import NAME
from toolglot.dialects.openai_chat.reasoning_details import DetailsCollector, merge_details
from toolglot.dialects.openai_chat.wire import CallDelta, FunctionDelta
from toolglot.errors import DecodeError
from toolglot.events import Close, Delta, Event, Open
from toolglot.ir import Block, Citation, Native, Refusal, Text, Thinking, TokenLogprob, ToolCall, ToolKind
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.stream_budget import StreamBudget

TextKind = type[Text] | type[Thinking] | type[Refusal]


class ChatBlockEvents:
    """Events that wait to be taken, and the index of the next block."""

    __slots__ = ("budget", "events", "next_index")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.next_index = 0
        self.budget = StreamBudget()

    def open(self, block: Block) -> int:
        index = self.next_index
        self.next_index += 1
        self.events.append(Open(index, block))
        return index

    def take(self) -> list[Event]:
        events, self.events = self.events, []
        return events


class ReasoningStateCollector:
    """State of reasoning that is not yet attached to a block, by field: entries of lists, and single values."""

    __slots__ = ("_details", "_single")

    def __init__(self) -> None:
        self._details: dict[str, DetailsCollector] | None = None
        self._single: dict[str, Any] = {}

    def add_details(self, field: str, entries: list[dict[str, Any]]) -> None:
        if self._details is None:
            self._details = {}
        collected = self._details.setdefault(field, DetailsCollector())
        for entry in entries:
            collected.add(entry)

    def add_single(self, field: str, state: Any, receipt: Receipt) -> None:
        """Add a value; objects may arrive in pieces."""
        merge_details(self._single, {field: state}, f"choices[0].delta.{field}", receipt)

    def take(self) -> Native:
        taken: dict[str, Any] = {field: details.take() for field, details in (self._details or {}).items() if details}
        if self._single:
            taken |= self._single
            self._single = {}
        return {NAME: taken} if taken else {}


class OpenText:
    """The open block of text, reasoning or refusal, and the other data that arrived for it."""

    __slots__ = ("_out", "citations", "index", "kind", "logprobs", "state")

    def __init__(self, out: ChatBlockEvents) -> None:
        self._out = out
        self.kind: TextKind | None = None
        self.index = -1
        self.citations: list[Citation] = []
        self.logprobs: list[TokenLogprob] = []
        """Log probabilities that are not yet attached to a text. A token may be less than a character and have no text.
        """
        self.state = ReasoningStateCollector()

    def open(self, kind: TextKind, native: Native) -> None:
        self.kind = kind
        self.index = self._out.open(kind(text="", native=native))

    def add(self, text: str) -> None:
        self._out.events.append(Delta(self.index, text, self._take_logprobs() if self.logprobs else ()))

    def close(self) -> None:
        if self.kind is None:
            return
        citations: list[Citation] = []
        if self.kind is Text and self.citations:
            citations, self.citations = self.citations, []
        native = self.state.take() if self.kind is Thinking else {}
        close = Close(index=self.index, citations=tuple(citations), logprobs=self._take_logprobs(), native=native)
        self._out.events.append(close)
        self.kind = None

    def _take_logprobs(self) -> tuple[TokenLogprob, ...]:
        if self.kind is not Text:
            return ()
        tokens = tuple(self.logprobs)
        self.logprobs.clear()
        return tokens


class CallAssembler:
    """The calls of a stream, in the order in which they began."""

    __slots__ = ("_by_key", "_calls", "_grown", "_opened", "_out", "_unclosed")

    def __init__(self, out: ChatBlockEvents) -> None:
        self._out = out
        self._calls: list[ChatOpenCall] = []
        self._opened = 0  # number of calls that have been opened
        self._unclosed: dict[ChatOpenCall, None] = {}
        self._grown: dict[ChatOpenCall, None] = {}  # open calls whose arguments may now be complete
        self._by_key: dict[int | str, ChatOpenCall] = {}  # by index and by id

    def __bool__(self) -> bool:
        return bool(self._calls)

    @property
    def latest(self) -> ChatOpenCall | None:
        return self._calls[-1] if self._calls else None

    def find(self, delta: CallDelta, number: int | None, function: FunctionDelta) -> ChatOpenCall | None:
        """Find the call that an entry of `tool_calls` continues."""
        return find_call(self._by_key, self.latest, delta, number, function)

    def begin(self, kind: ToolKind, number: int | None = None, *, legacy: bool = False) -> ChatOpenCall:
        self._out.budget.add_block()
        call = ChatOpenCall(kind, legacy)
        self._calls.append(call)
        self._open_ready()
        self._close_whole()
        self._unclosed[call] = None
        if number is not None:
            self._by_key[number] = call
        return call

    def add(self, call: ChatOpenCall, call_id: str | None, function: FunctionDelta) -> DecodeError | None:
        """Add an id, a name or arguments to a call. Returns an error if they cannot belong to it."""
        has_id = bool(call.id)
        if call_id and not has_id:
            call.id = call_id
            self._by_key[call_id] = call
        if function.name and function.name != call.name:
            # Arguments that have begun belong to the first name. Beside a repeated id comes a whole name, not a piece.
            is_repeated = has_id and call_id == call.id
            if call.index >= 0 or (is_repeated and not function.name.startswith(call.name)):
                return DecodeError("$.choices[0].delta.tool_calls", "another name in one call")
            call.name = function.name if is_repeated else call.name + function.name
        arguments = function.arguments if function.input is None else function.input
        if isinstance(arguments, dict):
            arguments = json.encode_text(arguments)
        if arguments:
            if call.closed:
                is_blank = not arguments.strip()
                return None if is_blank else DecodeError("$.choices[0].delta.tool_calls", "arguments after their end")
            call.add(arguments)
        if call.index < 0:
            if arguments:
                self._out.budget.hold(len(arguments))
                call.held.append(arguments)
            self._open_ready()
        elif arguments:
            self._grown[call] = None
            self._out.events.append(Delta(call.index, arguments))
        return None

    def make_room(self) -> None:
        """Make room for a block of another kind: open the calls before it, and close those that are complete."""
        self._open_ready(is_followed=True)
        self._close_whole()

    def open_rest(self) -> bool:
        """Open the calls that still wait at the end. Returns False if one has no name."""
        for call in self._calls[self._opened :]:
            if not call.name:
                return False
            self._open(call)
        return True

    def close_rest(self, *, cut: bool) -> None:
        """Close the calls that are still open at the end. `cut`: the answer may have been cut inside its last block;
        a pass checks the other calls."""
        for call in self._unclosed:
            is_last = call.index == self._out.next_index - 1
            self._close(call, complete=not (cut and is_last) or call.is_whole())

    def _open_ready(self, *, is_followed: bool = False) -> None:
        """Open the calls that are ready, in the order in which they began.

        The latest call waits for its id and the start of its arguments. A call followed by another block waits only for
        its name.
        """
        while self._opened < len(self._calls):
            call = self._calls[self._opened]
            is_last = self._opened == len(self._calls) - 1 and not is_followed
            if not call.name or (is_last and not (call.held and (call.id or call.legacy))):
                return
            self._open(call)

    def _open(self, call: ChatOpenCall) -> None:
        self._opened += 1
        fields = {**call.extra, **({"$legacy": True} if call.legacy else {})}
        native = {NAME: fields} if fields else {}
        call.extra = {}
        call.index = self._out.open(ToolCall(id=call.id, name=call.name, kind=call.kind, native=native))
        if text := "".join(call.held):
            self._out.events.append(Delta(call.index, text))
        self._out.budget.release(len(text))
        call.held.clear()
        self._grown[call] = None

    def _close_whole(self) -> None:
        """Close the complete calls before another block opens."""
        for call in self._grown:
            if call.is_whole():
                self._close(call, complete=True)
                del self._unclosed[call]
        self._grown.clear()

    def _close(self, call: ChatOpenCall, *, complete: bool) -> None:
        call.closed = True
        native = {NAME: call.extra} if call.extra else {}
        self._out.events.append(Close(index=call.index, complete=complete, native=native))
