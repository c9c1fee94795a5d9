"""Stream an answer in pieces at a given pace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from toolglot.dialect import StreamEncoder
from toolglot.events import Delta, Event, Fault, Open, unfold
from toolglot.ir import Response, ToolCall
from toolglot.upstream.demo.fault_injection import NO_FAULTS, STREAM_FAULT, InjectedFaults

_WORD = re.compile(r"\s*\S+\s*|\s+")
_ARGUMENT_PIECE = 12


class DemoPace(Struct, frozen=True, kw_only=True):
    """Seconds between two pieces, and of the silence that `demo:slow` asks for."""

    piece: float = 0.0
    silence: float = 2.0


TYPING_PACE = DemoPace(piece=0.025)
NO_PAUSES = DemoPace()


def stream_pieces(response: Response, encoder: StreamEncoder, faults: InjectedFaults = NO_FAULTS) -> Iterator[bytes]:
    """Yield the bytes of an answer, about a word at a time; only the first part if it should break off."""
    events = list(stream_events(response))
    middle = _cut_point(events) if faults.breaks_off else len(events)
    begun = False
    for piece in filter(None, map(encoder.feed, events[:middle])):
        begun = True
        yield piece
    if faults.is_cut and not begun:
        # Gemini writes calls in one piece: the call to cut is in the next piece.
        piece = next(filter(None, map(encoder.feed, events[middle:])))
        yield piece[: len(piece) // 2]
    elif faults.is_fault:
        yield encoder.feed(Fault(STREAM_FAULT))


def stream_events(response: Response) -> Iterator[Event]:
    """Yield the events of an answer, in word-sized deltas."""
    in_call = False
    for event in unfold(response):
        match event:
            case Delta(index=index, text=text):
                for piece in _split_text(text, in_call):
                    yield Delta(index, piece)
                continue
            case Open(block=block):
                in_call = isinstance(block, ToolCall)
        yield event


def _split_text(text: str, in_call: bool) -> Sequence[str]:
    if not in_call:
        return _WORD.findall(text)
    return [text[at : at + _ARGUMENT_PIECE] for at in range(0, len(text), _ARGUMENT_PIECE)]


def _cut_point(events: Sequence[Event]) -> int:
    """Return the middle of the first tool call's arguments, or of the first text."""
    opened = [event for event in events if isinstance(event, Open)]
    calls = [event for event in opened if isinstance(event.block, ToolCall)]
    index = (calls or opened)[0].index
    inside = [at for at, event in enumerate(events) if isinstance(event, Delta) and event.index == index]
    return inside[len(inside) // 2] if inside else 1
