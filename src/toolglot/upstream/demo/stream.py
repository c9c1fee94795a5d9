"""An answer as a stream: how it is cut into pieces, and how fast they come."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from toolglot.dialect import StreamEncoder
from toolglot.events import Delta, Event, Fault, Open, unfold
from toolglot.ir import Response, ToolCall
from toolglot.upstream.demo.mischief import FAULT, NONE, Mischief

_WORD = re.compile(r"\s*\S+\s*|\s+")
_ARGUMENT_PIECE = 12


class Pace(Struct, frozen=True, kw_only=True):
    """Seconds: between two pieces, and of the silence that `demo:slow` asks for."""

    piece: float = 0.0
    silence: float = 2.0


HUMAN = Pace(piece=0.025)
AT_ONCE = Pace()


def pieces_of(response: Response, encoder: StreamEncoder, mischief: Mischief = NONE) -> Iterator[bytes]:
    """The bytes of an answer, about a word at a time; only the first part of them where it is to break off."""
    events = list(events_of(response))
    middle = _middle(events) if mischief.breaks_off else len(events)
    begun = False
    for piece in filter(None, map(encoder.feed, events[:middle])):
        begun = True
        yield piece
    if mischief.is_cut and not begun:
        # Gemini's calls are written whole: the one that is to be cut stands in the next piece.
        piece = next(filter(None, map(encoder.feed, events[middle:])))
        yield piece[: len(piece) // 2]
    elif mischief.is_fault:
        yield encoder.feed(Fault(FAULT))


def events_of(response: Response) -> Iterator[Event]:
    """The events of an answer, in word-sized deltas."""
    in_call = False
    for event in unfold(response):
        match event:
            case Delta(index=index, text=text):
                for piece in _cut(text, in_call):
                    yield Delta(index, piece)
                continue
            case Open(block=block):
                in_call = isinstance(block, ToolCall)
        yield event


def _cut(text: str, in_call: bool) -> Sequence[str]:
    if not in_call:
        return _WORD.findall(text)
    return [text[at : at + _ARGUMENT_PIECE] for at in range(0, len(text), _ARGUMENT_PIECE)]


def _middle(events: Sequence[Event]) -> int:
    """The middle of the first tool call's arguments, or of the first text."""
    opened = [event for event in events if isinstance(event, Open)]
    calls = [event for event in opened if isinstance(event.block, ToolCall)]
    index = (calls or opened)[0].index
    inside = [at for at, event in enumerate(events) if isinstance(event, Delta) and event.index == index]
    return inside[len(inside) // 2] if inside else 1
