"""Drives a body the way the engine does: text in chunks, what was left unread handed over again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any, TypeAlias

import msgspec
from hypothesis import strategies as st

from tests.textcalls.reading import joined
from toolglot.textcalls.body import BodyState, CallBody
from toolglot.textcalls.events import CallEvent, EventSink

MakeBody: TypeAlias = Callable[[EventSink], CallBody]
MAX_UNREAD = 1001
CHUNKINGS: tuple[tuple[int, ...], ...] = ((1 << 30,), (1,), (3,), (2, 7, 1, 1, 5, 13))

sizes = st.lists(st.integers(1, 9), min_size=1, max_size=8)

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.text(
    "'\"\\\n<|>{}[](),:=# rnux0", max_size=20
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4), max_leaves=12
)


class Reading(msgspec.Struct, frozen=True):
    state: BodyState
    events: tuple[CallEvent, ...]
    rest: str

    @property
    def calls(self) -> list[tuple[str, Any]]:
        """The whole calls with their arguments; a call that was cut has the reason in their place."""
        names: dict[int, str] = {}
        texts: dict[int, str] = {}
        found: list[tuple[str, Any]] = []
        for event in self.events:
            match event:
                case ("start", index, name):
                    names[index] = name
                    texts[index] = ""
                case ("args", index, fragment):
                    texts[index] += fragment
                case ("end", index):
                    found.append((names.pop(index), json.loads(texts[index])))
                case ("cut", index, why, _):
                    found.append((names.pop(index), why))
        assert not names, "a call has neither an end nor a cut"
        return found


def chunks(text: str, lengths: Sequence[int]) -> Iterator[str]:
    at = 0
    for length in cycle(lengths):
        if at >= len(text):
            return
        yield text[at : at + length]
        at += length


def read(make: MakeBody, text: str, lengths: Sequence[int] = CHUNKINGS[0], *, cut: bool = False) -> Reading:
    sink = EventSink()
    body = make(sink)
    unread = ""
    for chunk in chunks(text, lengths):
        unread += chunk
        if body.state == "open":
            stopped = body.read(unread, 0)
            unread = unread[stopped:]
            assert body.state != "open" or len(unread) <= MAX_UNREAD
    if body.state == "open":
        unread = unread[body.finish(unread, 0, cut=cut) :]
    assert body.state != "open"
    assert body.state != "refused" or not sink.calls
    return Reading(body.state, joined(sink.events), unread)


def read_alike(make: MakeBody, text: str, *more: Sequence[int]) -> Reading:
    """Read in several chunkings, which must not matter. A body that refuses reads nothing, wherever it stopped."""
    first, *others = (read(make, text, lengths) for lengths in (*CHUNKINGS, *more))
    for other in others:
        assert (other.state, other.events) == (first.state, first.events)
        assert other.rest == first.rest or other.state == "refused"
    return first
