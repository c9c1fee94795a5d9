"""A head that was read once, of a request or of an answer: whatever has the same bytes says the same."""

from __future__ import annotations

from msgspec import Struct


class KnownHead(Struct, frozen=True, eq=False):
    """The bytes of a head around the length that it tells."""

    before: bytes
    behind: bytes
    """With the empty line that ends it."""
    size: int
    """Of both."""

    def body(self, data: bytes) -> bytes | None:
        """The body, if this is all of a message with this head, and nothing else. None does not say that it is not: 998
        bytes are not seen to be so many, as with the digits that say so there are more than a thousand."""
        rest = len(data) - self.size
        digits = len(str(rest))
        start = self.size + digits
        head = b"%b%d%b" % (self.before, rest - digits, self.behind)
        return data[start:] if data[:start] == head else None

    def whole(self, body: bytes) -> bytes:
        """All of a message that has this body."""
        return b"%b%d%b%b" % (self.before, len(body), self.behind, body)
