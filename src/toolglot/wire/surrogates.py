"""Characters that a server cut in two: the first half ends a string of one frame, the second begins one of a later.

Servers that write JSON in ASCII spell an emoji as two escapes, and those that cut their text anywhere cut between
them. Neither frame is Unicode by itself; together they are.
"""

from __future__ import annotations

import re

# A quote that begins a string never follows a backslash, so what stands behind one of these does begin one.
_SECOND = re.compile(rb'(?<=[:,\[\s])"(?=\\u[dD][c-fC-F][0-9a-fA-F]{2})')
_FIRST = re.compile(rb'(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})(?=")')


class Halves:
    """The half that has come. To be asked only for frames that cannot be read: nothing else needs mending."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = b""

    def mend(self, frame: bytes) -> bytes | None:
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
