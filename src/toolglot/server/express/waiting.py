"""A request whose head has come and whose body is coming."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from toolglot.dialect import Dialect
from toolglot.server.security import Caller, Guard

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]{1,8})(?=\r\n)", re.IGNORECASE)
_LONGEST = 8
"""Digits of a length."""
_LARGEST = 4096
"""Bytes of a head that is kept in mind."""


class Head(Struct, frozen=True, eq=False, kw_only=True):
    """All that a request's head says, worked out. Clients send the same head with every request, but for its length:
    it is worked out once. `eq` is identity, so that others can remember things by it."""

    path: str
    client: Dialect
    query: Mapping[str, str]
    headers: Mapping[str, str]
    caller: Caller
    guard: Guard
    """Who has let it in."""


class Familiar(Struct, frozen=True, eq=False):
    """The bytes of a head that was read, around the length that it tells. Whatever has the same bytes there says the
    same, and need not be read again."""

    before: bytes
    behind: bytes
    """With the empty line that ends it."""
    head: Head

    def body(self, data: bytes) -> bytes | None:
        """The body, if this is all of a request with this head, and nothing else."""
        start = len(self.before)
        end = data.find(b"\r", start, start + _LONGEST + 1)
        length = data[start:end]
        if end < 0 or not length.isdigit() or not data.startswith(self.before) or not data.startswith(self.behind, end):
            return None
        body = data[end + len(self.behind) :]
        return body if len(body) == int(length) else None

    def whole(self, body: bytes) -> bytes:
        """All of a request that has this body."""
        return b"%b%d%b%b" % (self.before, len(body), self.behind, body)


def around_length(data: bytes) -> tuple[bytes, bytes] | None:
    """What stands around the length in the head of this request; None without one, or where there is much. The head is
    one that was read: nothing in it looks like the field but the field."""
    end = data.find(b"\r\n\r\n", 0, _LARGEST) + 4
    found = _LENGTH.search(data, 0, end)
    return None if found is None else (data[: found.start(1)], data[found.end(1) : end])


class Waiting(Struct, eq=False):
    """`left`: how many bytes more the body may have, for the direct way to take it."""

    head: Head
    left: int
    pieces: list[bytes]
    familiar: Familiar | None = None
    """As which its head was known; None for one that was read."""

    def add(self, piece: bytes) -> bool:
        """A piece of the body; False once there is more than the direct way takes."""
        self.pieces.append(piece)
        self.left -= len(piece)
        return self.left >= 0

    def body(self) -> bytes:
        if len(self.pieces) != 1:
            self.pieces = [b"".join(self.pieces)]
        return self.pieces[0]
