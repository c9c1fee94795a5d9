"""Make the end of a response consistent with its content.

Upstreams send `stop` with tool calls, so that no agent runs them, and `tool_calls` without any, so that agents wait
forever (bifrost #6123, opencode2api #27). The actual content determines the stop reason, and the receipt notes the
correction. A stop by length or by a filter is never masked.

A call whose arguments are not a JSON object at its end was truncated or garbled. It is marked, so that it is not run.
If the response was truncated, its stop reason shows it. Otherwise it depends on the client's wire format
(`broken_calls`):

- Arguments are text: the client gets them unchanged, since the text itself shows that the call cannot be run.
- A call is written once it is complete: the client gets a text instead, and the matching stop reason if it has one,
  which makes agents ask again.
- The client has already seen pieces of an object: only an error cannot be misread. The error replaces the call's end:
  Claude Code keeps every block that has ended, and sends the broken call back with the next request.

A broken call to a tool that the caller runs itself never reaches the client: the caller gets it marked, and returns an
error to the model.

A call without a name ends the answer with an error in every dialect. So does an answer that stops for calls if all of
them are of a kind that only the upstream's dialect has: they are dropped, and an agent would assume that the task is
done.

A call that its server marks as truncated may have arguments that are valid JSON. A client whose wire format has no such
mark would run it. The last brace of its arguments is therefore not sent: the last piece of an object waits until the
call ends.

A call that the model's own server rejects (it cannot parse it, or tools are off) ends the answer with a stop reason,
not with an error: text and usage stay. If the answer has no other content, a text says what happened (litellm #40477:
an empty answer made agents retry forever).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from toolglot.capabilities import Capabilities
from toolglot.dialects import DIALECTS
from toolglot.errors import NAMELESS, malformed_call
from toolglot.events import Close, Delta, Event, Fault, Finish, Open
from toolglot.ir import Block, Opaque, Refusal, Response, StopReason, Text, ToolCall, replace
from toolglot.passes import OriginalTool, find_original
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.bad_arguments import describe_bad_arguments, note_repeated_keys

CUTS: frozenset[StopReason] = frozenset({"length", "context_full", "filtered", "refusal"})
"""Stop reasons that may interrupt a call."""


_NULL = "null"
_NULL_WHY = "the client gets it unchanged; it means a call without arguments"
_CUT = "the call was cut off and must not be run"
_NOT_ACCEPTED = "The model tried a tool call that its server did not accept"
_CORRECTED: dict[StopReason, str] = {
    "tool_calls": "there are calls: the client gets the stop reason for them",
    "end": "there is no call to answer: the turn is over",
    "malformed_call": "no call can be read: the client gets an error",
}
_UNKNOWN_KIND = "a call of a kind that the client's API does not have"
_NOT_SERVED = "it is not run, and the model reads that as an error"
_ANY = Capabilities()
"""Capabilities of an unknown client."""
_NO_CALLS: frozenset[int] = frozenset()  # shared: each new set would cost 216 bytes per open stream


class _OpenCall:
    """An open call: its name and the pieces of its arguments."""

    __slots__ = ("held", "is_function", "is_served", "name", "pieces")

    def __init__(self, call: ToolCall, is_served: bool, is_function: bool) -> None:
        self.is_served = is_served
        self.held: Delta | None = None  # a held-back piece that may end the object
        self.name = call.name
        self.is_function = is_function
        self.pieces = [call.arguments]


class Settler:
    """Event pass that settles calls and the stop reason.

    - `whole`: the response is not streamed, so its encoder can still show a broken call as text.
    - `client`: the capabilities of the client's dialect.
    - `tells_stops`: note a stop reason that does not match the calls.
    - `marks_cuts`: the upstream can mark a call as truncated.
    - `is_foreign`: the upstream speaks another dialect than the client.
    - `serves`: whether the caller runs the tool of this (upstream) name itself.
    - `tools`: the client's tools by the upstream's name. A custom call to a tool that the client declared as a function
      counts as a call to that function.
    """

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
        "_is_foreign",
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
        # Only the arguments can show the client that a call was truncated: there is no mark, and no text instead.
        as_text = client.calls.broken == "shown" or (whole and client.calls.broken != "as_text")
        self._cut_visibly = marks_cuts and not client.calls.incomplete and not as_text
        # An encoder that replaces another dialect's call with a text reports that itself.
        self._reports_broken = not (as_text and is_foreign)
        self._is_foreign = is_foreign
        self._open: dict[int, _OpenCall] = {}
        self._broken: dict[int, tuple[str, str]] = {}  # index -> name of the call and its problem
        # Broken calls that get an answer: their arguments show that they cannot be run, or the caller runs the tool.
        self._answerable = _NO_CALLS
        self._served = _NO_CALLS
        self._garbled = _NO_CALLS  # truncated calls whose arguments are incomplete or missing
        # The end of a call without arguments, or of one that cannot be run: the next event shows whether it was cut.
        self._held: Close | None = None
        self._blocks = 0
        self._calls = 0
        self._opaque = False
        self._failed = False

    @property
    def holds_ends(self) -> bool:
        """Whether a piece of arguments that ends in a closing brace may be held back until the next event."""
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
        if held.complete:
            return (replace(held, complete=False) if cut else held, *self._settle(event))
        if cut:
            return (*(() if isinstance(event, Fault) else (held,)), *self._settle(event))
        self._failed = True
        self._report_broken()
        return (self._refuse_broken(),)

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
                    self._open[index] = _OpenCall(block, is_served, _is_function(block, self._tools))
                elif isinstance(block, Opaque):
                    self._opaque = True  # it may be a call of a kind that only the upstream's API has
            case Close(index=index):
                call = self._open.pop(index, None)
                if call is not None:
                    return self._close(event, call)
            case Finish():
                return self._finish(event)
            case _:
                pass
        return (event,)

    def _hold_end(self, event: Delta, call: _OpenCall) -> Sequence[Event]:
        """Hold the piece back if it may be the last one of an object."""
        before, call.held = call.held, event if event.text.rstrip().endswith("}") else None
        return tuple(each for each in (before, None if call.held else event) if each is not None)

    def _cut(self, index: int, call: _OpenCall, arguments: str, *, is_garbled: bool) -> Delta | None:
        """Return the last piece of a truncated call, changed so that the arguments are not a JSON object."""
        if not is_garbled and arguments.strip() and call.held is not None:
            self._receipt.loss(f"content[{index}].arguments", "the last brace", _CUT)
            rest = call.held.text.rstrip()[:-1]
            return replace(call.held, text=rest) if rest else None
        self._garbled |= {index}
        # Clients read missing arguments as an empty object.
        return call.held if arguments.strip() else Delta(index, "{")

    def _close(self, event: Close, call: _OpenCall) -> Sequence[Event]:
        arguments = "".join(call.pieces)
        if call.is_function and not self._whole and self._client.calls.broken == "refused":
            note_repeated_keys(arguments, f"content[{event.index}].arguments", self._receipt)
        reads_text = self._is_foreign and self._client.calls.arguments == "text"
        if reads_text and call.is_function and event.complete and arguments.strip() == _NULL:
            self._receipt.note(f"content[{event.index}].arguments", _NULL, _NULL_WHY)
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
            if call.is_served or (is_garbled and self._client.calls.broken == "as_text"):
                self._answerable |= {event.index}
        if self._is_refused(event.index):
            self._held = event
            return () if last is None else (last,)
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
            self._report_broken()
        elif stop.reason == "tool_calls" and self._opaque and self._is_foreign and not self._calls:
            return (Fault(malformed_call(_UNKNOWN_KIND)),)
        if stop.reason == "malformed_call" and not self._client.answers.malformed_call_stop:
            return self._explain(event)
        if stop.reason in ("refusal", "filtered") and stop.detail and not self._blocks:
            # The explanation is the only content, and few clients have a field for it.
            return (*_single_block(Refusal(text=""), stop.detail), event)
        return (self._correct_stop(event),)

    def _report_broken(self) -> None:
        for index, (name, why) in self._broken.items():
            if index in self._served:
                self._receipt.note(f"content[{index}]", f"call of {name}", f"{why}: {_NOT_SERVED}")
            elif self._reports_broken:
                self._receipt.loss(f"content[{index}]", f"call of {name}", why)

    def _is_refused(self, index: int) -> bool:
        """Return whether this is a broken call that the client would run if the stream ended normally."""
        if index not in self._broken or index in self._answerable:
            return False
        return not self._whole and self._client.calls.broken != "shown"

    def _refuse_broken(self) -> Fault:
        refused = [f"call of {name}: {why}" for index, (name, why) in self._broken.items() if self._is_refused(index)]
        return Fault(malformed_call("; ".join(refused)))

    def _explain(self, event: Finish) -> Sequence[Event]:
        """Explain that the upstream rejected a call, for a client whose dialect has no such stop reason."""
        explanation = ": ".join(part for part in (_NOT_ACCEPTED, event.stop.raw, event.stop.detail) if part)
        self._receipt.loss("stop", event.stop.raw or "malformed call", explanation)
        events = () if self._blocks else _single_block(Text(text=""), f"[{explanation}]")
        return (*events, self._correct_stop(event))

    def _correct_stop(self, event: Finish) -> Finish:
        stop = event.stop
        reason = self._reason(stop.reason)
        if reason == stop.reason:
            return event
        if self._tells_stops and stop.reason != "malformed_call":
            self._receipt.note("stop", stop.raw or stop.reason, _CORRECTED[reason])
        return replace(event, stop=replace(stop, reason=reason))

    def _reason(self, reason: StopReason) -> StopReason:
        if self._count_runnable and reason in ("end", "other", "malformed_call"):
            return "tool_calls"
        if reason == "tool_calls" and not self._count_runnable and (self._is_foreign or not self._opaque):
            return "malformed_call" if self._broken and self._client.answers.malformed_call_stop else "end"
        return reason

    @property
    def _count_runnable(self) -> int:
        """Number of calls that a client can answer. Broken calls do not count, unless they are answerable."""
        return self._calls - len(self._broken) + len(self._answerable)


def is_settled(response: Response, *, has_calls: bool) -> bool:
    """Return whether a `Settler` would leave the stop of a non-streamed answer unchanged. `has_calls`: the answer has
    calls, and all of them are sound."""
    reason = response.stop.reason
    if has_calls:
        return reason not in ("end", "other", "malformed_call")
    if reason in ("refusal", "filtered"):
        return not response.stop.detail or bool(response.content)
    return reason not in ("tool_calls", "malformed_call")


def is_sound(call: ToolCall, tools: Mapping[str, OriginalTool]) -> bool:
    """Return whether the call can be run. `tools` are as for a `Settler`."""
    arguments = call.arguments
    if not call.name or not call.complete or not arguments or arguments.isspace() or arguments == _NULL:
        return False
    return not _is_function(call, tools) or json.is_object(arguments)


def _is_function(call: ToolCall, tools: Mapping[str, OriginalTool]) -> bool:
    """Return whether the client reads the arguments as those of a function."""
    if call.kind == "function":
        return True
    original = find_original(tools, call.name)
    return original is not None and original.kind == "function"


def is_nameless(block: Block) -> bool:
    """Return whether this is a call without a name. No client can run it, and no dialect can show it as broken."""
    if isinstance(block, Opaque):
        return block.dialect in DIALECTS and DIALECTS[block.dialect].answer.is_call(block.value)
    return isinstance(block, ToolCall) and not block.name


def _single_block(block: Block, text: str) -> Sequence[Event]:
    """Return the events of a block that is the only content of an answer."""
    return Open(0, block), Delta(0, text), Close(index=0)
