"""Joins surrogate pairs that a server cut in two: one frame's string ends with the first half, a later one begins with
the second.

Servers that write JSON in ASCII spell an emoji as two escapes. Servers that cut their text anywhere cut between them.
Neither frame is valid Unicode alone; together they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from toolglot.errors import DecodeError
from toolglot.receipt import Receipt
from toolglot.wire import json

T = TypeVar("T")

HALF = "half a character"
NO_OTHER_HALF = "its other half is missing"

# A quote that begins a string never follows a backslash, so a quote after one of these characters begins a string.
_SECOND = re.compile(rb'(?<=[:,\[\s])"(?=\\u[dD][c-fC-F][0-9a-fA-F]{2})')
_FIRST = re.compile(rb'(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})(?=")')


def apply_without_halves(frame: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Apply `change` to a frame with the halves masked, because they make it unreadable. Then put them back.

    Raises:
        DecodeError: the frame cannot be read without its halves either.
    """
    stand_in = next(code for number in range(0xE000, 0xF900) if (code := b"\\u%04x" % number) not in frame)
    spans = json.find_lone_surrogates(frame)
    edges = [0, *[edge for span in spans for edge in span], len(frame)]
    around = [frame[edges[at] : edges[at + 1]] for at in range(0, len(edges), 2)]
    parts = change(stand_in.join(around)).split(stand_in)
    halves = [frame[start:end] for start, end in spans]
    return b"".join([parts[0], *[half + part for half, part in zip(halves, parts[1:], strict=True)]])


class SurrogateJoiner:
    """Holds the first half until the second arrives. Use it only for frames that cannot be read: no others need it.

    A half that no other frame can complete becomes U+FFFD."""

    __slots__ = ("_lost", "held")

    def __init__(self) -> None:
        self.held = b""
        self._lost = False

    def read(self, frame: bytes, reader: Callable[[bytes], T]) -> T:
        """Read a frame, or the frame with its halves joined if the frame itself cannot be read.

        Raises:
            DecodeError: the frame has a defect other than a split character.
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
        """Report a half whose other half has not arrived by the end of the stream."""
        if self.held or self._lost:
            receipt.loss("stream", HALF, NO_OTHER_HALF)

    def join_halves(self, frame: bytes) -> bytes | None:
        """Put the held first half before the frame's second half, and take out the frame's own first half. Returns None
        if the frame has no such halves.

        A frame can have only one cut string.
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
        mended, lost = json.replace_lone_surrogates(mended)
        self._lost = self._lost or lost > 0
        return mended if mended != frame else None
