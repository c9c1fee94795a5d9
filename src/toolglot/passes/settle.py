"""The end of a response, made to agree with what was in it.

Upstreams say `stop` beside tool calls, so that no agent runs them, and `tool_calls` with none, so that agents wait
for ever (bifrost #6123, opencode2api #27). What was seen decides, and the receipt notes it; a cut by length or by a
filter is never masked.

A call whose arguments are not a JSON object at its end was cut or garbled: it is marked, so that nobody runs it. Where
the response was cut, its stop reason tells. Where it was not, it depends on the client's wire (`broken_calls`): one
that has arguments as text gets them as they are, since the text itself shows that it cannot be run; one that writes a
call once it is whole gets a text in its place, and the stop reason for it if it has one, on which agents ask again; for
one that has seen the pieces of an object, the only end that it cannot misread is an error.

A broken call to a tool that the caller runs itself never reaches the client: the caller gets it marked, and gives the
model an error to read.

A call without a name ends the answer with an error in every dialect.

A call that its server calls cut off may have arguments that are sound JSON. To a client whose wire cannot mark such a
call it would look like one to run, so the last brace of its arguments is not sent: the last piece of an object waits
until the call is over.

A call that the model's own server does not accept (it cannot read it, or tools are off) ends the answer with a stop
reason, not with an error: text and usage stay. Where there is nothing else to see, a text says what happened (litellm
#40477: an empty answer made agents retry for ever).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from toolglot.dialect import Capabilities
from toolglot.dialects import DIALECTS
from toolglot.errors import NAMELESS, malformed_call
from toolglot.events import Close, Delta, Event, Fault, Finish, Open
from toolglot.ir import Block, Opaque, Refusal, Response, StopReason, Text, ToolCall, replace
from toolglot.passes import OriginalTool
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.bad_arguments import describe_bad_arguments
from toolglot.wire.repeated_keys import note_repeated_keys

CUTS: frozenset[StopReason] = frozenset({"length", "context_full", "filtered", "refusal"})
"""Ends that may come in the middle of a call."""


_CUT = "the call was cut off and must not be run"
_NOT_ACCEPTED = "The model tried a tool call that its server did not accept"
_CORRECTED: dict[StopReason, str] = {
    "tool_calls": "there are calls: the client is told to answer them",
    "end": "there is no call to answer: the turn is over",
    "malformed_call": "no call can be read: the client is told so",
}
_NOT_SERVED = "it is not run, and the model reads that as an error"
_ANY = Capabilities(fields=frozenset())
_NO_CALLS: frozenset[int] = frozenset()  # each new one would take 216 bytes of an open stream
"""A client of which nothing is known."""


class _Call:
    """A call that is open: its name and the pieces of its arguments."""

    __slots__ = ("held", "is_function", "is_served", "name", "pieces")

    def __init__(self, call: ToolCall, is_served: bool, is_function: bool) -> None:
        self.is_served = is_served
        self.held: Delta | None = None  # a piece that may end the object
        self.name = call.name
        self.is_function = is_function
        self.pieces = [call.arguments]


class Settler:
    """`whole`: the response is there as a whole, and its encoder can still show a broken call as text. `client` is what
    the client's dialect can express; `tells_stops`: a stop reason that does not fit the calls is noted. `marks_cuts`:
    the upstream can call a call cut off; `is_foreign`: it speaks another dialect than the client. `serves` knows, by
    the upstream's name, the tools that the caller runs; `tools` are those of the client by the same name: a custom call
    of one that it has declared as a function is a call of that function."""

    __slots__ = (
        "_answerable",
        "_blocks",
        "_broken",
        "_calls",
        "_client",
        "_cut_visibly",
        "_failed",
        "_garbled",
        "_held",
        "_opaque",
        "_open",
        "_receipt",
        "_reports_broken",
        "_served",
        "_serves",
        "_tells_stops",
        "_tools",
        "_whole",
    )

    def __init__(
        self,
        receipt: Receipt,
        *,
        whole: bool = False,
        client: Capabilities = _ANY,
        tells_stops: bool = True,
        marks_cuts: bool = False,
        is_foreign: bool = False,
        serves: Callable[[str], bool] | None = None,
        tools: Mapping[str, OriginalTool] = {},
    ) -> None:
        self._receipt = receipt
        self._whole = whole
        self._client = client
        self._tells_stops = tells_stops
        self._serves = serves
        self._tools = tools
        # Its arguments are all that can show a client that a call was cut: no mark, and no text in its place.
        as_text = client.broken_calls == "shown" or (whole and client.broken_calls != "as_text")
        self._cut_visibly = marks_cuts and not client.incomplete_calls and not as_text
        # An encoder that puts a text in the place of another dialect's call reports that itself.
        self._reports_broken = not (as_text and is_foreign)
        self._open: dict[int, _Call] = {}
        self._broken: dict[int, tuple[str, str]] = {}  # the names of the calls, and what is wrong with each
        # Those of them that get an answer: their arguments show that they cannot be run, or the caller serves them.
        self._answerable = _NO_CALLS
        self._served = _NO_CALLS
        self._garbled = _NO_CALLS  # those whose arguments were cut short by the upstream
        self._held: Close | None = None  # of a call without arguments: only what follows tells whether it was cut
        self._blocks = 0
        self._calls = 0
        self._opaque = False
        self._failed = False

    @property
    def holds_ends(self) -> bool:
        """May a piece of arguments with a closing brace be kept back until the next one comes?"""
        return self._cut_visibly

    def feed(self, event: Event) -> Sequence[Event]:
        if self._failed:
            return ()
        if type(event) is Open and is_nameless(event.block):
            self._failed = True
            return (Fault(malformed_call(NAMELESS)),)
        held, self._held = self._held, None
        if held is None:
            return self._settle(event)
        cut = isinstance(event, Fault) or (isinstance(event, Finish) and event.stop.reason in CUTS)
        return (replace(held, complete=False) if cut else held, *self._settle(event))

    def _settle(self, event: Event) -> Sequence[Event]:
        match event:
            case Delta(index=index):
                if self._open and (call := self._open.get(index)) is not None:
                    call.pieces.append(event.text)
                    if self._cut_visibly and call.is_function and not call.is_served:
                        return self._hold_end(event, call)
            case Open(index=index, block=block):
                self._blocks += 1
                if isinstance(block, ToolCall):
                    self._calls += 1
                    is_served = self._serves is not None and self._serves(block.name)
                    self._open[index] = _Call(block, is_served, _is_function(block, self._tools))
                elif isinstance(block, Opaque):
                    self._opaque = True
            case Close(index=index):
                call = self._open.pop(index, None)
                if call is not None:
                    return self._close(event, call)
            case Finish():
                return self._finish(event)
            case _:
                pass
        return (event,)

    def _hold_end(self, event: Delta, call: _Call) -> Sequence[Event]:
        """Keep the piece back if it may be the last one of an object."""
        before, call.held = call.held, event if event.text.rstrip().endswith("}") else None
        return tuple(each for each in (before, None if call.held else event) if each is not None)

    def _cut(self, index: int, call: _Call, arguments: str, *, is_garbled: bool) -> Delta | None:
        """The last piece of a call that was cut off, such that its arguments are no JSON object."""
        if not is_garbled and arguments.strip() and call.held is not None:
            self._receipt.loss(f"content[{index}].arguments", "the last brace", _CUT)
            rest = call.held.text.rstrip()[:-1]
            return replace(call.held, text=rest) if rest else None
        self._garbled |= {index}
        # Clients take arguments that are not there for an empty object.
        return call.held if arguments.strip() else Delta(index, "{")

    def _close(self, event: Close, call: _Call) -> Sequence[Event]:
        arguments = "".join(call.pieces)
        if call.is_function and not self._whole and self._client.broken_calls == "refused":
            note_repeated_keys(arguments, f"content[{event.index}].arguments", self._receipt)
        is_garbled = call.is_function and json.object_of(arguments) is None
        if event.complete and is_garbled:
            event = replace(event, complete=False)
        last = call.held
        if not event.complete:
            self._broken[event.index] = call.name, describe_bad_arguments(arguments) if is_garbled else _CUT
            if call.is_served:
                self._served |= {event.index}
            elif self._cut_visibly and call.is_function:
                last, is_garbled = self._cut(event.index, call, arguments, is_garbled=is_garbled), True
            if call.is_served or (is_garbled and self._client.broken_calls == "as_text"):
                self._answerable |= {event.index}
        if last is not None:
            return (last, event)
        if event.complete and call.is_function and not arguments.strip():
            self._held = event
            return ()
        return (event,)

    def _finish(self, event: Finish) -> Sequence[Event]:
        stop = event.stop
        if self._broken and stop.reason in CUTS:
            for index in sorted(self._garbled):
                self._receipt.note(f"content[{index}]", f"call of {self._broken[index][0]}", _CUT)
        elif self._broken:
            for index, (name, why) in self._broken.items():
                if index in self._served:
                    self._receipt.note(f"content[{index}]", f"call of {name}", f"{why}: {_NOT_SERVED}")
                elif self._reports_broken:
                    self._receipt.loss(f"content[{index}]", f"call of {name}", why)
            if refused := self._refused():
                return (Fault(malformed_call("; ".join(f"call of {name}: {why}" for name, why in refused))),)
        if stop.reason == "malformed_call" and not self._client.malformed_call_stop:
            return self._explain(event)
        if stop.reason in ("refusal", "filtered") and stop.detail and not self._blocks:
            # The explanation is all there is, and few clients have a field for it.
            return (*_said(Refusal(text=""), stop.detail), event)
        return (self._settled(event),)

    def _refused(self) -> list[tuple[str, str]]:
        """The broken calls that a client would run if the stream ended well, each with what is wrong with it."""
        if self._whole or self._client.broken_calls == "shown":
            return []
        return [each for index, each in self._broken.items() if index not in self._answerable]

    def _explain(self, event: Finish) -> Sequence[Event]:
        """The upstream itself says that it did not accept a call, and the client's dialect has no word for that."""
        told = ": ".join(part for part in (_NOT_ACCEPTED, event.stop.raw, event.stop.detail) if part)
        self._receipt.loss("stop", event.stop.raw or "malformed call", told)
        explained = () if self._blocks else _said(Text(text=""), f"[{told}]")
        return (*explained, self._settled(event))

    def _settled(self, event: Finish) -> Finish:
        stop = event.stop
        reason = self._reason(stop.reason)
        if reason == stop.reason:
            return event
        if self._tells_stops and stop.reason != "malformed_call":
            self._receipt.note("stop", stop.raw or stop.reason, _CORRECTED[reason])
        return replace(event, stop=replace(stop, reason=reason))

    def _reason(self, reason: StopReason) -> StopReason:
        if self._runnable and reason in ("end", "other", "malformed_call"):
            return "tool_calls"
        if reason == "tool_calls" and not self._runnable and not self._opaque:
            return "malformed_call" if self._broken and self._client.malformed_call_stop else "end"
        return reason

    @property
    def _runnable(self) -> int:
        """How many calls a client can answer: a broken one is nothing to wait for, unless its text shows it."""
        return self._calls - len(self._broken) + len(self._answerable)


def is_settled(response: Response, *, has_calls: bool) -> bool:
    """Would a `Settler` keep the stop of a whole answer? `has_calls`: it has calls, and all of them are sound."""
    reason = response.stop.reason
    if has_calls:
        return reason not in ("end", "other", "malformed_call")
    if reason in ("refusal", "filtered"):
        return not response.stop.detail or bool(response.content)
    return reason not in ("tool_calls", "malformed_call")


def is_sound(call: ToolCall, tools: Mapping[str, OriginalTool]) -> bool:
    """Is it a call that can be run? `tools` are as for a `Settler`."""
    arguments = call.arguments
    if not call.name or not call.complete or not arguments or arguments.isspace():
        return False
    return not _is_function(call, tools) or json.is_object(arguments)


def _is_function(call: ToolCall, tools: Mapping[str, OriginalTool]) -> bool:
    """Does the client read its arguments as those of a function?"""
    if call.kind == "function":
        return True
    original = tools.get(call.name)
    return original is not None and original.kind == "function"


def is_nameless(block: Block) -> bool:
    """Is this a call of nothing? No client can run it, and none of the dialects can show it as broken."""
    if isinstance(block, Opaque):
        return block.dialect in DIALECTS and DIALECTS[block.dialect].answer.is_call(block.value)
    return isinstance(block, ToolCall) and not block.name


def _said(block: Block, text: str) -> Sequence[Event]:
    """A block that is all there is of an answer."""
    return Open(0, block), Delta(0, text), Close(index=0)
