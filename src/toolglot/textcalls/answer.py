"""The event pass for models that write calls as text: splits an answer's text into text, reasoning and calls.

It runs first, so that the later passes (stop reason, names, ids) see the calls as if they were native. Deltas are
passed on at once. Native blocks of the upstream pass unchanged, in their place.

A call that cannot be run is bad: its tool is unknown, or its arguments are invalid or unreadable. The exchange's
settings determine how it is handled. If the model will be asked again, everything from the first call on is held until
the end of the answer, because the client must not see a call that is discarded later.

An unreadable call cannot be passed on under any setting. In a stream its beginning was already sent, and an error
is the only end that no client misreads. A whole answer shows it as text, exactly as the model wrote it. A call that a
limit cut off is different: the stop reason explains it. A leaked call is held until its end, and stays text if it is
incomplete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Block, Native, Stop, Text, Thinking, Tool, ToolCall, Usage, replace, used_by_both
from toolglot.passes import Context
from toolglot.passes.sequence import Sequencer
from toolglot.passes.settle import CUTS
from toolglot.textcalls import Engine
from toolglot.textcalls.answer_as_text import without_shape_notes
from toolglot.textcalls.argument_problems import find_argument_problems
from toolglot.textcalls.call_ids import TextCallIds
from toolglot.textcalls.events import CallEvent
from toolglot.textcalls.formats import WHOLE_ANSWER, find_format
from toolglot.textcalls.grammar import Format, Messages
from toolglot.textcalls.leaked_calls import LeakedCallReader
from toolglot.textcalls.prompts.render import result_marks
from toolglot.textcalls.retry_prompt import (
    AttemptedCall,
    BadCall,
    BadKind,
    RetryPrompt,
    bad_call_error,
    bad_call_text,
    report_bad_call,
    shorten_raw,
)
from toolglot.textcalls.settings import TextCalls
from toolglot.textcalls.unescape import Unescaper
from toolglot.wire import json


def answer_format(settings: TextCalls, *, callable_: bool) -> Format:
    """Return the format to parse the answer with. If no tool may be called, it only separates reasoning. A leaked call
    counts only with a declared tool's name.
    """
    known = find_format(settings.format)
    if not callable_:
        return replace(known, calls=(), sections=(), messages=_without_calls(known.messages))
    if settings.rescue:
        return replace(known, calls=tuple(replace(call, weak=True) for call in known.calls))
    # A model that omits its marks usually writes a call as its whole answer, as JSON.
    return replace(known, calls=(*known.calls, *WHOLE_ANSWER))


def _without_calls(messages: Messages | None) -> Messages | None:
    if messages is None:
        return None
    routes = (replace(route, to="text") if route.to.startswith("call") else route for route in messages.routes)
    return replace(messages, routes=tuple(routes))


RAW_NOTE = "$raw"
"""The name of the note with the original text of a call whose arguments were repaired or are unreadable, under
`toolglot`.
"""


class _WrittenCall(Struct, eq=False):
    """The open call in the model's text."""

    number: int = 0
    id: str = ""
    """The model's own id."""
    arguments: list[str] = []
    """Pieces of the arguments."""
    raw: str | None = None
    """The arguments as the model wrote them, if they were repaired or are unreadable."""
    waiting: list[Event] | None = None
    """Events that must not be sent before the end of the call."""


class _AnswerAttempt(Struct, eq=False, kw_only=True):
    """The first answer of the model, or its retry."""

    previous: RetryPrompt | None
    """The prompt for the retry, with the first answer; None in the first answer."""
    asks: bool
    """True if a bad call leads to a retry."""
    first: int
    """Index of the first block that a retry would discard."""
    held: list[Event] | None = None
    """Events that wait for the end of the answer."""
    bad: list[BadCall] = []
    text: list[str] = []
    """Pieces of the model's text, for the prompt of a retry."""
    calls: list[AttemptedCall] = []


class TextAnswerPass:
    """Pass that parses calls in an answer's text.

    `retry`: this is the answer to a retry, after a first answer. `whole`: the answer is not streamed, so the client
    never sees the beginning of a call before its end.
    """

    def __init__(self, context: Context, retry: RetryPrompt | None = None, *, whole: bool = False) -> None:
        text = context.text
        assert text is not None
        assert text.calls is not None
        self._context = context
        self._shared = text
        self._receipt = context.receipt
        self._settings = text.calls
        self._tools = text.tools or {}
        self._format = answer_format(self._settings, callable_=bool(self._tools))
        self._results = result_marks(self._settings.format, tuple(self._tools))
        self._whole = whole
        self._ids = TextCallIds(text.client_messages)
        self._escapes = text.escapes or None  # None costs nothing if nothing was escaped
        self._next = 0  # index of the next block
        self._started = False
        self.pending_retry: RetryPrompt | None
        """Set if the model must be asked again. `begin_retry` continues the answer."""
        self._begin(retry)

    def _begin(self, retry: RetryPrompt | None) -> None:
        """Begin an answer, the first one or the retry."""
        self.pending_retry = None
        asks = retry is None and self._settings.bad_calls == "ask" and not self._settings.rescue
        self._attempt = _AnswerAttempt(previous=retry, asks=asks, first=self._next)
        self._thinks = self._settings.starts_in_reasoning or (retry is None and self._shared.is_in_reasoning)
        self._engine = self._new_engine()
        self._sequencer = Sequencer()
        self._over = False
        self._dropping = False  # everything after a result that the model invented is dropped
        self._limited = False  # a limit ended the answer, as its stop reason says
        self._reading = -1  # the upstream's index of the open text block
        self._ended: Close | None = None  # its end, which waits for text that the engine holds back
        self._template = Text(text="")
        self._native: dict[int, int] = {}  # indices of the upstream's own blocks
        self._open: Block | None = None  # our open block, made from text
        self._index = -1  # its index
        self._space = ""  # white space that counts only if text follows
        self._undoing: Unescaper | None = None  # for the open block
        self._call = _WrittenCall()

    def _new_engine(self) -> Engine:
        thinks, self._thinks = self._thinks, False
        self._reads = True
        engine = LeakedCallReader if self._settings.rescue else Engine
        return engine(self._format, self._tools, starts_in_reasoning=thinks, ends_at=self._results)

    def begin_retry(self) -> None:
        """Begin the answer to the retry, in the same stream after the sent content."""
        self._begin(self.pending_retry)

    @property
    def text_index(self) -> int:
        """Index of the open text block; -1 if none is open."""
        return self._index if isinstance(self._open, Text) else -1

    def feed(self, event: Event) -> Sequence[Event]:
        if self._over:
            return ()
        if type(event) is Delta and event.index == self._reading:
            if event.logprobs:
                why = "calls are read out of the text, and its tokens are those of the text before"
                self._context.receipt.loss("content", "log probabilities", why)
            return self._read(event.text)
        out: list[Event] = []
        for sequenced in self._sequencer.feed(event):
            out += self._take(sequenced)
        return out

    def _read(self, text: str) -> Sequence[Event]:
        if self._dropping:
            return ()
        if not self._reads:
            return self._text(text)
        if self._attempt.asks:
            self._attempt.text.append(text)
        found = self._engine.feed(text)
        if len(found) == 1 and found[0][0] == "text" and type(self._open) is Text and self._attempt.held is None:
            if self._undoing is None:
                return (Delta(self._index, found[0][1]),)
            return self._text_delta(found[0][1])
        return self._convert_all(found) if found else ()

    def _take(self, event: Event) -> Sequence[Event]:
        match event:
            case Delta(index=index, text=text):
                return self._read(text) if index == self._reading else self._emit(Delta(self._native[index], text))
            case Open(index=index, block=Text() as block):
                before = self._end_text()
                self._reading, self._template = index, block
                return before
            case Open(index=index, block=block):
                before = self._flush(cut=False)
                self._native[index] = self._next
                self._next += 1
                return [*before, *self._emit(Open(self._native[index], block))]
            case Close(index=index):
                if index != self._reading:
                    return self._emit(replace(event, index=self._native.pop(index)))
                self._reading, self._ended = -1, event
                return ()
            case Finish():
                return self._finish(event)
            case Start():
                self._ids.answer(event.id)
                first, self._started = not self._started, True
                return (event,) if first else ()
            case Fault():
                self._over = True
                return (event,)

    def _emit(self, *events: Event) -> Sequence[Event]:
        """Return these events, unless they must wait for the end of the call or of the answer."""
        waiting = self._attempt.held if self._call.waiting is None else self._call.waiting
        if waiting is None:
            return events
        waiting += events
        return ()

    def _text_delta(self, text: str) -> Sequence[Event]:
        """Add to the open block, restoring marks that were escaped in the request."""
        text = text if self._undoing is None else self._undoing.feed(text)
        if text and isinstance(self._open, ToolCall):
            self._call.arguments.append(text)
        return self._emit(Delta(self._index, text)) if text else ()

    def _convert_all(self, found: Iterable[CallEvent]) -> list[Event]:
        return [event for item in found if not self._over and self._reads for event in self._convert(item)]

    def _convert(self, item: CallEvent) -> Sequence[Event]:
        if item[0] == "args":
            return self._text_delta(item[2])
        if item[0] == "text":
            return self._text(item[1])
        if item[0] == "reasoning":
            opened = () if isinstance(self._open, Thinking) else self._open_block(Thinking())
            return [*opened, *self._text_delta(item[1])]
        if item[0] == "start":
            self._call.number = item[1]
            return self._start(item[2])
        if item[0] == "end":
            return [*self._flush_unescaper(), *self._end()]
        if item[0] == "cut":
            self._call.raw = item[3] or "".join(self._call.arguments)
            return [*self._flush_unescaper(), *self._end_badly(item[2], complete=False)]
        self._handle_notice(item)
        return ()

    def _handle_notice(self, item: CallEvent) -> None:
        """Handle events that describe the answer and are not part of it."""
        where = f"content[{self._index if isinstance(self._open, ToolCall) else self._next}]"
        if item[0] == "id":
            self._call.id = item[2]
        elif item[0] == "repaired":
            self._call.raw = item[2]
            told = f"repaired ({item[3]}); the model wrote {shorten_raw(item[2])}"
            self._receipt.note(where, f"arguments of {self._name}", told)
        elif item[0] == "refused":
            self._receipt.note(where, item[1], "it opens a call, and none could be read after it; it is text")
        elif item[0] == "unread":
            why = "the answer has too many marks of calls; some of it was passed on without a search for calls"
            self._receipt.loss(where, f"calls in the format {item[1]}", why)
        elif item[0] == "over":
            self._dropping = True
            why = "the model wrote a result itself; it is left out with everything after it"
            self._receipt.loss(where, shorten_raw(item[1]), why)

    def _text(self, text: str) -> Sequence[Event]:
        if not isinstance(self._open, Text):
            text = self._space + text
            if text.isspace():
                self._space = text
                return ()
            opened = self._open_block(self._template)
            return [*opened, *self._text_delta(text)]
        return self._text_delta(text)

    def _open_block(self, block: Block) -> Sequence[Event]:
        closed = self._close_block()
        self._open, self._index = block, self._next
        self._next += 1
        if self._escapes is not None:
            self._undoing = Unescaper(self._escapes, is_json=isinstance(block, ToolCall))
        if block is self._template:  # the upstream's attributes of its block apply to the first of ours
            self._template = Text(text="")
        return [*closed, *self._emit(Open(self._index, block))]

    def _close_block(self, close: Close | None = None) -> Sequence[Event]:
        """Close our open block. White space between blocks belongs to none of them."""
        if self._open is None:
            self._space = ""
            return ()
        rest = self._flush_unescaper()
        self._open, self._undoing, self._space = None, None, ""
        return [*rest, *self._emit(Close(index=self._index) if close is None else replace(close, index=self._index))]

    def _flush_unescaper(self) -> Sequence[Event]:
        """Emit text of the open block that was held back because a mark could still follow."""
        undoing, self._undoing = self._undoing, None
        rest = undoing.finish() if undoing is not None else ""
        return self._text_delta(rest) if rest else ()

    @property
    def _name(self) -> str:
        """Tool of the open call."""
        return self._open.name if isinstance(self._open, ToolCall) else ""

    def _start(self, name: str) -> Sequence[Event]:
        closed = self._close_block()
        if self._attempt.asks and self._attempt.held is None:
            self._attempt.held, self._attempt.first = [], self._next
        if self._settings.rescue:
            self._receipt.note(f"content[{self._next}]", f"call of {name}", "it was in the text")
        self._call.waiting = [] if self._whole or self._settings.rescue else None
        opened = self._open_block(ToolCall(id=self._ids.new(name), name=name))
        self._call.arguments, self._call.raw = [], None
        return [*closed, *opened]

    def _end(self) -> Sequence[Event]:
        arguments = "".join(self._call.arguments)
        members = json.object_value(arguments)
        if members is None:
            self._call.raw = self._call.raw or arguments
            return self._end_badly("the arguments are not a JSON object", complete=False)
        problems = self._problems(members)
        if problems:
            return self._end_badly("; ".join(problems), complete=True)
        self._record_attempt("")
        return self._close_call(complete=True)

    def _problems(self, arguments: dict[str, Any]) -> Sequence[str]:
        if self._name not in self._tools:
            return (f"there is no tool {self._name!r}, only {', '.join(self._tools)}",)
        return find_argument_problems(arguments, self._tools[self._name])

    def _end_badly(self, why: str, *, complete: bool) -> Sequence[Event]:
        self._record_attempt(why)
        if not complete and isinstance(self._engine, LeakedCallReader):
            return self._restore_text(self._engine, why)
        kind: BadKind = "wrong" if complete else "cut" if self._limited else "unreadable"
        original = self._context.tools.get(self._name)
        name = self._name if original is None else original.name  # as the client knows it
        bad = BadCall(self._index, name, why, kind, self._call.raw or "")
        fails = self._settings.bad_calls == "fail" and kind != "cut"
        if self._attempt.held is not None:
            self._attempt.bad.append(bad)
        else:
            report_bad_call(self._receipt, bad, fails=self._settings.bad_calls == "fail", whole=self._whole)
            if fails or (kind == "unreadable" and not self._whole):
                self._over = True
                return (Fault(bad_call_error(bad)),)
        return self._emit_in_place(bad) if kind == "unreadable" and self._whole else self._close_call(complete=complete)

    def _restore_text(self, engine: LeakedCallReader, why: str) -> Sequence[Event]:
        """Restore the text of a leaked call. Everything after it is text as well: an unterminated string may contain
        anything."""
        self._receipt.note(
            f"content[{self._index}]", f"call of {self._name}", f"it is incomplete and stays text: {why}"
        )
        self._discard_call()
        self._reads = False
        return self._text(engine.original_text(self._call.number, self._call.raw or ""))

    def _discard_call(self) -> None:
        """Discard the open call; nothing of it was sent."""
        self._call.waiting, self._open, self._undoing, self._next = None, None, None, self._index

    def _emit_in_place(self, bad: BadCall) -> Sequence[Event]:
        """Emit text in place of the open call."""
        native = self._raw_note()
        self._discard_call()
        text = Text(text="", native=native)
        opened = [*self._open_block(text), *self._emit(Delta(self._index, bad_call_text(bad)))]
        self._undoing = None
        return [*opened, *self._close_block()]

    def _record_attempt(self, problem: str) -> None:
        if self._attempt.asks and isinstance(self._open, ToolCall):
            call = replace(self._open, id=self._call.id, arguments="".join(self._call.arguments))
            self._attempt.calls.append(AttemptedCall(call, problem))
        self._call.id = ""

    def _raw_note(self) -> Native:
        return {} if self._call.raw is None else {"toolglot": {RAW_NOTE: self._call.raw}}

    def _close_call(self, *, complete: bool) -> Sequence[Event]:
        closed = self._close_block(Close(index=self._index, complete=complete, native=self._raw_note()))
        waited, self._call.waiting = self._call.waiting, None
        return closed if waited is None else self._emit(*waited)

    def _end_text(self) -> Sequence[Event]:
        """End the upstream's text block, if it has ended: its final attributes go with our text."""
        ended, self._ended = self._ended, None
        if ended is None:
            return ()
        if isinstance(self._open, Text):
            return self._close_block(ended)
        if self._open is None and (ended.citations or _has_content(ended.native)):
            return [*self._open_block(self._template), *self._close_block(ended)]
        return ()

    def _flush(self, *, cut: bool) -> Sequence[Event]:
        """Emit the text that the engine still holds back, then close all our blocks."""
        self._limited = cut
        events = self._convert_all(self._engine.finish(cut=cut))
        if self._over:
            return events
        if self._space and self._next == self._attempt.first:
            space = self._space
            events += [*self._open_block(self._template), *self._text_delta(space)]
        events += [*self._end_text(), *self._close_block()]
        self._engine = self._new_engine()
        return events

    def _finish(self, event: Finish) -> Sequence[Event]:
        cut = event.stop.reason in CUTS
        before = self._flush(cut=cut)
        if self._over:
            return before
        self._over = True
        usage = used_by_both(self._attempt.previous.usage if self._attempt.previous is not None else None, event.usage)
        if self._attempt.bad and not cut:
            return self._end_for_retry(before, self._make_retry(usage))
        for bad in self._attempt.bad:
            report_bad_call(self._receipt, bad, fails=self._settings.bad_calls == "fail", whole=self._whole)
        unreadable = next((bad for bad in self._attempt.bad if bad.kind == "unreadable"), None)
        if unreadable is not None and not self._whole:
            return [*before, Fault(bad_call_error(unreadable))]
        finish = replace(event, stop=self._stop(event.stop), usage=usage, native=without_shape_notes(event.native))
        return [*before, *(self._attempt.held or ()), finish]

    def _make_retry(self, usage: Usage | None) -> RetryPrompt:
        return RetryPrompt(
            text="".join(self._attempt.text),
            written=tuple(self._attempt.calls),
            usage=usage,
            before=self._shared.call_count,
            tools=tuple(Tool(name=name) for name in self._tools),
        )

    def _end_for_retry(self, before: Sequence[Event], retry: RetryPrompt) -> Sequence[Event]:
        """Discard everything that was held back, as if its blocks had never existed."""
        self._next = self._attempt.first
        self.pending_retry = retry
        for problem in retry.problems:
            self._receipt.note("content", "a wrong call", f"the model was asked again: {problem}")
        return before

    def _stop(self, stop: Stop) -> Stop:
        """Hide a stop sequence of ours, which is a normal end of an answer."""
        stops = self._shared.added_stops
        ours = stop.reason == "stop_sequence" and stops and (stop.sequence is None or stop.sequence in stops)
        return Stop("end", detail=stop.detail) if ours else stop


def _has_content(native: Native) -> bool:
    return any(not key.startswith("$") for fields in native.values() for key in fields)
