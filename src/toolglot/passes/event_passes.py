"""Run events through event passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolglot.events import Event
from toolglot.ir import Block, Refusal, Text, Thinking, ToolCall


class EventPass(Protocol):
    def feed(self, event: Event) -> Sequence[Event]:
        """Return the events that replace this one."""
        ...


def through(passes: Sequence[EventPass], events: Sequence[Event]) -> Sequence[Event]:
    """Run events through all passes in order."""
    for event_pass in passes:
        events = [out for event in events for out in event_pass.feed(event)]
    return events


def one_through(passes: Sequence[EventPass], event: Event) -> Sequence[Event]:
    """Run one event through all passes. Nearly always, exactly one event comes out."""
    for number, event_pass in enumerate(passes):
        passed = event_pass.feed(event)
        if len(passed) != 1:
            return through(passes[number + 1 :], passed)
        event = passed[0]
    return (event,)


def goes_unchanged(came: Block, goes: Block) -> bool:
    """Return whether passes leave a block's deltas unchanged, given the block as it was opened (`came`) and as it was
    passed on (`goes`). The input of a custom tool is rewritten for clients without custom tools."""
    if type(came) is ToolCall and type(goes) is ToolCall:
        return came.kind == goes.kind == "function"
    return type(goes) in (Text, Refusal) or type(came) is type(goes) is Thinking


def is_collected(block: Block) -> bool:
    """Return whether passes collect the deltas of this block. A call's arguments are checked at its end, and the text
    of reasoning is carried with its signature."""
    return type(block) is ToolCall or type(block) is Thinking
