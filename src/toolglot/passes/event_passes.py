"""Events through passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolglot.events import Event
from toolglot.ir import Block, Refusal, Text, ToolCall


class EventPass(Protocol):
    def feed(self, event: Event) -> Sequence[Event]:
        """The events that take this one's place."""
        ...


def through(passes: Sequence[EventPass], events: Sequence[Event]) -> Sequence[Event]:
    """Events through passes, one after the other."""
    for event_pass in passes:
        events = [out for event in events for out in event_pass.feed(event)]
    return events


def one_through(passes: Sequence[EventPass], event: Event) -> Sequence[Event]:
    """The same for one event, which nearly always stays one."""
    for number, event_pass in enumerate(passes):
        passed = event_pass.feed(event)
        if len(passed) != 1:
            return through(passes[number + 1 :], passed)
        event = passed[0]
    return (event,)


def goes_unchanged(came: Block, goes: Block) -> bool:
    """Do the deltas of a block that was opened so, and was passed on so, stay as they are? Those of reasoning do not:
    its text is carried with its signature. The input of a custom tool is wrapped for those who have none."""
    if type(came) is ToolCall and type(goes) is ToolCall:
        return came.kind == goes.kind == "function"
    return type(goes) is Text or type(goes) is Refusal
