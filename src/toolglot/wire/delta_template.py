"""The bytes around the text of a client's frame, where nothing but the text differs from one frame to the next."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class DeltaTemplate(Struct, frozen=True):
    """How an encoder writes each further delta of the open block: bytes around the inside of a JSON string. Where they
    are empty, nothing is written before the block ends."""

    before: bytes = b""
    behind: bytes = b""
    middle: bytes | None = None
    """Where each frame has a number: the bytes between that and the text. `before` ends where the number begins."""
    number: int = 0
    """The next frame's."""
    on_written: Callable[[str, int], None] | None = None
    """Tells the encoder which text was written by this template, and the number that the next frame has."""

    def write(self, bodies: list[bytes], number: int) -> bytes:
        """The frames of several texts, one after the other."""
        if not self.behind:
            return b""
        if (middle := self.middle) is not None:
            bodies = [b"%d%b%b" % (count, middle, body) for count, body in enumerate(bodies, number)]
        return b"%b%b%b" % (self.before, (self.behind + self.before).join(bodies), self.behind)
