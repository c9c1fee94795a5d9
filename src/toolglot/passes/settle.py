"""The end of a response, made to agree with what was in it.

Upstreams say `stop` beside tool calls, so that no agent runs them, and `tool_calls` with none, so that agents wait
for ever (bifrost #6123, opencode2api #27). What was seen decides; a cut by length or by a filter is never masked.

A call whose arguments are not a JSON object at its end was cut or garbled: it is marked, so that nobody runs it. Where
the response was cut, its stop reason tells. Where it was not, a client that has already seen the pieces of the call
would run it, and the only end that it cannot misread is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolglot.errors import ApiError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open
from toolglot.ir import Opaque, Refusal, Stop, StopReason, ToolCall, replace
from toolglot.receipt import Receipt
from toolglot.wire import json

CUTS: frozenset[StopReason] = frozenset({"length", "context_full", "filtered", "refusal"})
"""Ends that may come in the middle of a call."""


def malformed(told: str) -> ApiError:
    """An answer that is a failed attempt at a call is no answer: clients may try again (litellm #40477)."""
    message = f"The model tried a tool call that cannot be read ({told})"
    return ApiError(kind="server", status=502, code="malformed_tool_call", message=message)


def unreadable_call(stop: Stop) -> ApiError:
    """The upstream itself says that it could not read the call."""
    return malformed(": ".join(part for part in (stop.raw, stop.detail) if part) or "malformed call")


class _Call:
    """A call that is open: its name and the pieces of its arguments."""

    __slots__ = ("is_function", "name", "pieces")

    def __init__(self, call: ToolCall) -> None:
        self.name = call.name
        self.is_function = call.kind == "function"
        self.pieces = [call.arguments]


class Settler:
    """`whole`: the response is there as a whole, and its encoder can still show a broken call as text."""

    __slots__ = ("_blocks", "_broken", "_calls", "_held", "_opaque", "_open", "_receipt", "_whole")

    def __init__(self, receipt: Receipt, *, whole: bool = False) -> None:
        self._receipt = receipt
        self._whole = whole
        self._open: dict[int, _Call] = {}
        self._broken: dict[int, str] = {}
        self._held: Close | None = None  # of a call without arguments: only what follows tells whether it was cut
        self._blocks = 0
        self._calls = 0
        self._opaque = False

    def feed(self, event: Event) -> Sequence[Event]:
        held, self._held = self._held, None
        if held is None:
            return self._settle(event)
        cut = isinstance(event, Fault) or (isinstance(event, Finish) and event.stop.reason in CUTS)
        return (replace(held, complete=False) if cut else held, *self._settle(event))

    def _settle(self, event: Event) -> Sequence[Event]:
        match event:
            case Delta(index=index):
                if self._open and index in self._open:
                    self._open[index].pieces.append(event.text)
            case Open(index=index, block=block):
                self._blocks += 1
                if isinstance(block, ToolCall):
                    self._calls += 1
                    self._open[index] = _Call(block)
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

    def _close(self, event: Close, call: _Call) -> Sequence[Event]:
        arguments = "".join(call.pieces)
        if event.complete and call.is_function and json.object_of(arguments) is None:
            event = replace(event, complete=False)
        if not event.complete:
            self._broken[event.index] = call.name
        elif call.is_function and not arguments.strip():
            self._held = event
            return ()
        return (event,)

    def _finish(self, event: Finish) -> Sequence[Event]:
        stop = event.stop
        if stop.reason == "malformed_call":
            return (Fault(unreadable_call(stop)),)
        if self._broken and stop.reason not in CUTS:
            for index, name in self._broken.items():
                self._receipt.loss(f"content[{index}]", f"call of {name}", "its arguments are not a JSON object")
            if not self._whole:
                return (Fault(malformed(f"the arguments of {', '.join(self._broken.values())} are not whole")),)
        if stop.reason in ("refusal", "filtered") and stop.detail and not self._blocks:
            # The explanation is all there is, and few clients have a field for it.
            return (Open(0, Refusal(text="")), Delta(0, stop.detail), Close(index=0), event)
        reason = self._reason(stop.reason)
        return (event if reason == stop.reason else replace(event, stop=replace(stop, reason=reason)),)

    def _reason(self, reason: StopReason) -> StopReason:
        calls = self._calls - len(self._broken)  # a broken call is nothing to wait for
        if calls and reason in ("end", "other"):
            return "tool_calls"
        if reason == "tool_calls" and not calls and not self._opaque:
            return "end"
        return reason
