"""Template for a client's frames that differ only in their text."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class DeltaTemplate(Struct, frozen=True):
    """How an encoder writes further deltas of the open block: the bytes around the content of a JSON string. If they
    are empty, nothing is written before the block ends."""

    before: bytes = b""
    after: bytes = b""
    middle: bytes | None = None
    """If frames are numbered: the bytes between the number and the text. `before` ends where the number begins."""
    number: int = 0
    """The number of the next frame."""
    on_written: Callable[[str, int], None] | None = None
    """Called with the text that this template wrote, and with the number of the next frame."""

    def write(self, bodies: list[bytes], number: int) -> bytes:
        """Write the frames of several texts, one after the other."""
        if not self.after:
            return b""
        if (middle := self.middle) is not None:
            bodies = [b"%d%b%b" % (count, middle, body) for count, body in enumerate(bodies, number)]
        return b"%b%b%b" % (self.before, (self.after + self.before).join(bodies), self.after)
