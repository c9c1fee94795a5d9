"""Events through passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolglot.events import Event
from toolglot.ir import Block, Refusal, Text, Thinking, ToolCall


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
    """Do the deltas of a block that was opened so, and was passed on so, stay as they are? The input of a custom tool
    is wrapped for those who have none."""
    if type(came) is ToolCall and type(goes) is ToolCall:
        return came.kind == goes.kind == "function"
    return type(goes) in (Text, Refusal) or type(came) is type(goes) is Thinking


def is_collected(block: Block) -> bool:
    """Do passes keep the deltas of this block? A call's arguments are checked at its end, and the text of reasoning is
    carried with its signature."""
    return type(block) is ToolCall or type(block) is Thinking
