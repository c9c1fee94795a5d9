"""The end of a response, made to agree with what was in it.

Upstreams say `stop` beside tool calls, so that no agent runs them, and `tool_calls` with none, so that agents wait
for ever (bifrost #6123, opencode2api #27). What was seen decides; a cut by length or by a filter is never masked.
A call whose arguments are not a JSON object at its end was cut or garbled: it is marked, so that nobody runs it.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolglot.errors import ApiError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open
from toolglot.ir import Opaque, Stop, StopReason, ToolCall, replace
from toolglot.wire import json


def malformed(stop: Stop) -> ApiError:
    """An answer that is a failed attempt at a call is no answer: clients may try again (litellm #40477)."""
    told = ": ".join(part for part in (stop.raw, stop.detail) if part)
    message = f"The model tried a tool call that its server could not read ({told or 'malformed call'})"
    return ApiError(kind="server", status=502, code="malformed_tool_call", message=message)


class Settler:
    __slots__ = ("_arguments", "_calls", "_opaque")

    def __init__(self) -> None:
        self._arguments: dict[int, list[str]] = {}
        self._calls = 0
        self._opaque = False

    def feed(self, event: Event) -> Sequence[Event]:
        match event:
            case Delta(index=index):
                if self._arguments and index in self._arguments:
                    self._arguments[index].append(event.text)
            case Open(index=index, block=block):
                if isinstance(block, ToolCall):
                    self._calls += 1
                    if block.kind == "function":
                        self._arguments[index] = [block.arguments]
                elif isinstance(block, Opaque):
                    self._opaque = True
            case Close(index=index):
                pieces = self._arguments.pop(index, None)
                if pieces is not None and event.complete and json.object_of("".join(pieces)) is None:
                    return (replace(event, complete=False),)
            case Finish(stop=stop) if stop.reason == "malformed_call" and not self._calls:
                return (Fault(malformed(stop)),)
            case Finish(stop=stop):
                reason = self._reason(stop.reason)
                if reason != stop.reason:
                    return (replace(event, stop=replace(stop, reason=reason)),)
            case _:
                pass
        return (event,)

    def _reason(self, reason: StopReason) -> StopReason:
        if self._calls and reason in ("end", "other"):
            return "tool_calls"
        if reason == "tool_calls" and not self._calls and not self._opaque:
            return "end"
        return reason
