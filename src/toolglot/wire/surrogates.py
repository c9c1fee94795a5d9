"""Characters that a server cut in two: the first half ends a string of one frame, the second begins one of a later.

Servers that write JSON in ASCII spell an emoji as two escapes, and those that cut their text anywhere cut between
them. Neither frame is Unicode by itself; together they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from toolglot.errors import DecodeError
from toolglot.receipt import Receipt

T = TypeVar("T")

# A quote that begins a string never follows a backslash, so what stands behind one of these does begin one.
_SECOND = re.compile(rb'(?<=[:,\[\s])"(?=\\u[dD][c-fC-F][0-9a-fA-F]{2})')
_FIRST = re.compile(rb'(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})(?=")')


_HALVES = re.compile(
    rb'(?P<before>(?<=[:,\[\s])"|(?<!\\)(?:\\\\)*)'
    rb'(?P<half>(?<=")\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89abAB][0-9a-fA-F]{2}(?="))'
)


def apply_without_halves(frame: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Apply `change` to a frame that halves make unreadable. They are back in their places afterwards.

    Raises:
        DecodeError: the frame cannot be read without its halves either.
    """
    stand_in = next(code for number in range(0xE000, 0xF900) if (code := b"\\u%04x" % number) not in frame)
    halves: list[bytes] = []

    def mask(found: re.Match[bytes]) -> bytes:
        halves.append(found["half"])
        return found["before"] + stand_in

    parts = change(_HALVES.sub(mask, frame)).split(stand_in)
    return b"".join([parts[0], *[half + part for half, part in zip(halves, parts[1:], strict=True)]])


class SurrogateJoiner:
    """The half that has come. To be asked only for frames that cannot be read: nothing else needs mending."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = b""

    def read(self, frame: bytes, reader: Callable[[bytes], T]) -> T:
        """What the reader makes of a frame, or of the mended frame where it cannot read the frame itself.

        Raises:
            DecodeError: what the frame lacks is no half of a character.
        """
        try:
            return reader(frame)
        except DecodeError:
            held = self.held
            mended = self.join_halves(frame)
            if mended is None:
                raise
        try:
            return reader(mended)
        except DecodeError:
            self.held = held
            raise

    def report(self, receipt: Receipt) -> None:
        """Tell, at the end of a stream, of a half whose other half has not come."""
        if self.held:
            receipt.loss("stream", "half a character", "its other half has not come")

    def join_halves(self, frame: bytes) -> bytes | None:
        """The frame with its second half completed and its first half taken out; None when that is not what it lacks.

        Only one string of a frame can be cut.
        """
        mended = frame
        if self.held and len(_SECOND.findall(mended)) == 1:
            mended = _SECOND.sub(lambda match: match[0] + self.held, mended)
            self.held = b""
        halves = list(_FIRST.finditer(mended))
        if len(halves) == 1 and not self.held:
            start, end = halves[0].span(1)
            self.held = mended[start:end]
            mended = mended[:start] + mended[end:]
        return mended if mended != frame else None
