"""Events through passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolglot.events import Event


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
