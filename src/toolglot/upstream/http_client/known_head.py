"""The head of a request or answer that was parsed once: a message with the same bytes has the same headers."""

from __future__ import annotations

from msgspec import Struct


class KnownHead(Struct, frozen=True, eq=False):
    """The bytes of a head around its content length."""

    before: bytes
    behind: bytes
    """Includes the empty line that ends the head."""
    size: int
    """Length of both parts."""

    def body(self, data: bytes) -> bytes | None:
        """Return the body if `data` is exactly one message with this head. None does not mean that it is another head:
        a body of 998 bytes is not recognized, because head and digits are counted with it."""
        rest = len(data) - self.size
        digits = len(str(rest))
        start = self.size + digits
        head = b"%b%d%b" % (self.before, rest - digits, self.behind)
        return data[start:] if data[:start] == head else None

    def whole(self, body: bytes) -> bytes:
        """Return the complete message with this body."""
        return b"%b%d%b%b" % (self.before, len(body), self.behind, body)
