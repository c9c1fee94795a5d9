"""The event pass for models that write their calls as text: an answer's text becomes text, reasoning and calls.

It runs first, because everything behind it (the reason to stop, names, ids) then sees calls as if they were native.
Deltas leave at once. What an upstream gives natively passes as it is, in its place.

A call that cannot be run is bad: its tool is unknown, its arguments do not fit or cannot be read. What becomes of it is
the exchange's setting. Where the model is to be asked again, everything from the first call on waits for the end of the
answer, since nobody may see a call that will be taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from toolglot.errors import ApiError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Block, Native, Stop, Text, Thinking, ToolCall, Usage, replace
from toolglot.passes import Context
from toolglot.passes.sequence import Sequencer
from toolglot.passes.settle import CUTS
from toolglot.textcalls import Engine, find_format
from toolglot.textcalls.again import Again, Written, both
from toolglot.textcalls.events import CallEvent
from toolglot.textcalls.grammar import Format, Messages
from toolglot.textcalls.problems import argument_problems
from toolglot.textcalls.settings import TextCalls
from toolglot.wire import json

SHOWN = 120
"""How much of a model's raw text a receipt shows: it ends up in headers and logs."""

RAW = "$raw"
"""The note, under the name `toolglot`, on a call whose arguments were repaired: what the model had written."""


def answer_format(settings: TextCalls, *, callable_: bool) -> Format:
    """The format that the answer is read by.

    Where nothing may be called, only reasoning is told apart. A leaked call counts only with a declared tool's name.
    """
    known = find_format(settings.format)
    if not callable_:
        return replace(known, calls=(), sections=(), messages=_without_calls(known.messages))
    if settings.rescue:
        return replace(known, calls=tuple(replace(call, weak=True) for call in known.calls))
    return known


def _without_calls(messages: Messages | None) -> Messages | None:
    if messages is None:
        return None
    routes = (replace(route, to="text") if route.to.startswith("call") else route for route in messages.routes)
    return replace(messages, routes=tuple(routes))


class _Bad(Struct, frozen=True):
    """A call that cannot be run, where it stands, and whether it could at least be read."""

    index: int
    name: str
    why: str
    complete: bool


class Answer:
    """`again`: this is a second answer, and a first one went before it."""

    def __init__(self, context: Context, again: Again | None = None) -> None:
        assert context.text_calls is not None
        self._context = context
        self._receipt = context.receipt
        self._settings = context.text_calls
        self._tools = context.text_tools or {}
        self._format = answer_format(self._settings, callable_=bool(self._tools))
        self._next = 0  # the index of the next block
        self._started = False
        self.wants_again: Again | None = None
        """The model is to be asked once more. The answer goes on with `go_on`."""
        self._begin(again)

    def _begin(self, again: Again | None) -> None:
        """An answer begins, the first or the second one."""
        self._again = again
        self._asks = again is None and self._settings.bad_calls == "ask" and not self._settings.rescue
        thinks = self._settings.starts_in_reasoning or (again is None and self._context.text_thinks)
        self._engine = Engine(self._format, self._tools, starts_in_reasoning=thinks)
        self._sequencer = Sequencer()
        self._over = False
        self._limited = False  # a limit has ended the answer, which its stop reason tells
        self._first = self._next
        self._reading = -1  # the upstream's index of the open text block
        self._ended: Close | None = None  # its end, which waits for what the engine still holds back
        self._template = Text(text="")
        self._native: dict[int, int] = {}  # indices of the upstream's own blocks
        self._open: Block | None = None  # our open block, made of text
        self._index = -1  # its index
        self._space = ""  # white space that counts only if text follows
        self._id = ""
        self._arguments: list[str] = []  # of the open call
        self._raw: str | None = None
        self._held: list[Event] | None = None  # what waits for the end of the answer
        self._bad: list[_Bad] = []
        self._heard: list[str] = []
        self._written: list[Written] = []

    def go_on(self) -> None:
        """The second answer begins, in the same stream behind what has been sent."""
        again, self.wants_again = self.wants_again, None
        self._begin(again)

    @property
    def text_index(self) -> int:
        """The index of the text block that is open; -1 when none is."""
        return self._index if isinstance(self._open, Text) else -1

    def feed(self, event: Event) -> Sequence[Event]:
        if self._over:
            return ()
        if type(event) is Delta and event.index == self._reading:
            return self._read(event.text)
        out: list[Event] = []
        for sequenced in self._sequencer.feed(event):
            out += self._take(sequenced)
        return out

    def _read(self, text: str) -> Sequence[Event]:
        if self._asks:
            self._heard.append(text)
        found = self._engine.feed(text)
        if len(found) == 1 and found[0][0] == "text" and type(self._open) is Text and self._held is None:
            return (Delta(self._index, found[0][1]),)
        return self._converted(found) if found else ()

    def _take(self, event: Event) -> Sequence[Event]:
        match event:
            case Delta(index=index, text=text):
                return self._read(text) if index == self._reading else self._kept(Delta(self._native[index], text))
            case Open(index=index, block=Text() as block):
                before = self._end_text()
                self._reading, self._template = index, block
                return before
            case Open(index=index, block=block):
                before = self._flush(cut=False)
                self._native[index] = self._next
                self._next += 1
                return [*before, *self._kept(Open(self._native[index], block))]
            case Close(index=index):
                if index != self._reading:
                    return self._kept(replace(event, index=self._native.pop(index)))
                self._reading, self._ended = -1, event
                return ()
            case Finish():
                return self._finish(event)
            case Start():
                first, self._started = not self._started, True
                return (event,) if first else ()
            case Fault():
                self._over = True
                return (event,)

    def _kept(self, *events: Event) -> Sequence[Event]:
        """These events, unless they have to wait for the end of the answer."""
        if self._held is None:
            return events
        self._held += events
        return ()

    def _converted(self, found: Iterable[CallEvent]) -> list[Event]:
        events: list[Event] = []
        for item in found:
            if not self._over:
                events += self._convert(item)
        return events

    def _convert(self, item: CallEvent) -> Sequence[Event]:
        if item[0] == "args":
            self._arguments.append(item[2])
            return self._kept(Delta(self._index, item[2]))
        if item[0] == "text":
            return self._text(item[1])
        if item[0] == "reasoning":
            opened = () if isinstance(self._open, Thinking) else self._opened(Thinking())
            return [*opened, *self._kept(Delta(self._index, item[1]))]
        if item[0] == "start":
            return self._start(item[2])
        if item[0] == "end":
            return self._end()
        if item[0] == "cut":
            return self._end_badly(item[2], complete=False)
        if item[0] == "id":
            self._id = item[2]
        else:
            self._repaired(item[2], item[3])
        return ()

    def _repaired(self, raw: str, how: str) -> None:
        self._raw = raw
        told = f"repaired ({how}); the model wrote {_short(raw)}"
        self._receipt.note(f"content[{self._index}]", f"arguments of {self._name}", told)

    def _text(self, text: str) -> Sequence[Event]:
        if not isinstance(self._open, Text):
            text = self._space + text
            if text.isspace():
                self._space = text
                return ()
            opened = self._opened(self._template)
            return [*opened, *self._kept(Delta(self._index, text))]
        return self._kept(Delta(self._index, text))

    def _opened(self, block: Block) -> Sequence[Event]:
        closed = self._closed()
        self._open, self._index = block, self._next
        self._next += 1
        if block is self._template:  # what the upstream says of its block counts for the first of ours
            self._template = Text(text="")
        return [*closed, *self._kept(Open(self._index, block))]

    def _closed(self, close: Close | None = None) -> Sequence[Event]:
        """The end of our open block. White space between blocks belongs to none of them."""
        block, self._open, self._space = self._open, None, ""
        if block is None:
            return ()
        return self._kept(Close(index=self._index) if close is None else replace(close, index=self._index))

    @property
    def _name(self) -> str:
        """The tool of the open call."""
        return self._open.name if isinstance(self._open, ToolCall) else ""

    def _start(self, name: str) -> Sequence[Event]:
        closed = self._closed()
        if self._asks and self._held is None:
            self._held, self._first = [], self._next
        if self._settings.rescue:
            self._receipt.note(f"content[{self._next}]", f"call of {name}", "it stood in the text")
        opened = self._opened(ToolCall(id=self._id, name=name))
        self._id, self._arguments, self._raw = "", [], None
        return [*closed, *opened]

    def _end(self) -> Sequence[Event]:
        problems = self._problems("".join(self._arguments))
        if problems:
            return self._end_badly("; ".join(problems), complete=True)
        self._write_down("")
        return self._close_call(complete=True)

    def _problems(self, arguments: str) -> Sequence[str]:
        if self._name not in self._tools:
            return (f"there is no tool {self._name!r}, only {', '.join(self._tools)}",)
        members = json.object_of(arguments)
        if members is None:
            return ("the arguments are not a JSON object",)
        return argument_problems(json.decode_frame(bytes(members)), self._tools[self._name])

    def _end_badly(self, why: str, *, complete: bool) -> Sequence[Event]:
        self._write_down(why)
        bad = _Bad(self._index, self._name, why, complete)
        if self._held is not None:
            self._bad.append(bad)
        elif self._settings.bad_calls == "fail" and not self._limited:
            self._over = True
            return (Fault(_failed(bad)),)
        else:
            self._tell(bad)
        return self._close_call(complete=complete)

    def _write_down(self, problem: str) -> None:
        if self._asks and isinstance(self._open, ToolCall):
            call = replace(self._open, arguments="".join(self._arguments))
            self._written.append(Written(call, problem))

    def _close_call(self, *, complete: bool) -> Sequence[Event]:
        native: Native = {} if self._raw is None else {"toolglot": {RAW: self._raw}}
        return self._closed(Close(index=self._index, complete=complete, native=native))

    def _tell(self, bad: _Bad) -> None:
        where, what = f"content[{bad.index}]", f"call of {bad.name}"
        if bad.complete:
            self._receipt.note(where, what, f"it is wrong and goes to the client as it is: {bad.why}")
        else:
            self._receipt.loss(where, what, f"it is not whole: {bad.why}")

    def _end_text(self) -> Sequence[Event]:
        """The end of the upstream's text block, where one has come: what only that tells goes with our text."""
        ended, self._ended = self._ended, None
        if ended is None:
            return ()
        if isinstance(self._open, Text):
            return self._closed(ended)
        if self._open is None and (ended.citations or _says_something(ended.native)):
            return [*self._opened(self._template), *self._closed(ended)]
        return ()

    def _flush(self, *, cut: bool) -> Sequence[Event]:
        """What the engine still holds back; then every block of ours is closed."""
        self._limited = cut
        events = self._converted(self._engine.finish(cut=cut))
        if self._over:
            return events
        if self._space and self._next == self._first:
            space = self._space
            events += [*self._opened(self._template), *self._kept(Delta(self._index, space))]
        events += [*self._end_text(), *self._closed()]
        self._engine = Engine(self._format, self._tools)
        return events

    def _finish(self, event: Finish) -> Sequence[Event]:
        cut = event.stop.reason in CUTS
        before = self._flush(cut=cut)
        if self._over:
            return before
        self._over = True
        usage = both(self._again.usage if self._again is not None else None, event.usage)
        if self._bad and not cut:
            return self._ask(before, self._second_try(usage))
        for bad in self._bad:
            self._tell(bad)
        finish = replace(event, stop=self._stop(event.stop), usage=usage, native=_without_notes(event.native))
        return [*before, *(self._held or ()), finish]

    def _second_try(self, usage: Usage | None) -> Again:
        return Again(
            text="".join(self._heard), written=tuple(self._written), usage=usage, before=self._context.text_called
        )

    def _ask(self, before: Sequence[Event], again: Again) -> Sequence[Event]:
        """Nothing of what was held back is sent: its blocks have never been."""
        self._next = self._first
        self.wants_again = again
        for problem in again.problems:
            self._receipt.note("content", "a wrong call", f"the model was asked once more: {problem}")
        return before

    def _stop(self, stop: Stop) -> Stop:
        """A stop sequence of ours is how an answer ends, and nobody's business."""
        stops = self._context.stops
        if stop.reason != "stop_sequence" or not stops or (stop.sequence is not None and stop.sequence not in stops):
            return stop
        return Stop("end", detail=stop.detail)


def _says_something(native: Native) -> bool:
    return any(not key.startswith("$") for fields in native.values() for key in fields)


def _without_notes(native: Native) -> Native:
    """Without the notes on the shape of an answer that has another shape now."""
    return {
        owner: {key: value for key, value in fields.items() if not key.startswith("$")}
        for owner, fields in native.items()
    }


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


def _failed(bad: _Bad) -> ApiError:
    message = f"The model wrote a call of {bad.name or 'a tool'} that cannot be run: {bad.why}"
    return ApiError(kind="server", status=502, code="bad_tool_call", message=message)
