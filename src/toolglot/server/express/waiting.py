"""A request whose head has come and whose body is coming."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from toolglot.dialect import Dialect
from toolglot.direct.request import LARGEST
from toolglot.server.security import Caller


class Head(Struct, frozen=True, eq=False, kw_only=True):
    """All that a request's head says, worked out. Clients send the same head with every request, but for its length:
    it is worked out once. `eq` is identity, so that others can remember things by it."""

    path: str
    client: Dialect
    query: Mapping[str, str]
    headers: Mapping[str, str]
    caller: Caller


class Waiting:
    __slots__ = ("_left", "head", "pieces")

    def __init__(self, head: Head, limit: int) -> None:
        self.head = head
        self.pieces: list[bytes] = []
        self._left = min(limit, LARGEST)

    def add(self, piece: bytes) -> bool:
        """A piece of the body; False once there is more than the direct way takes."""
        self.pieces.append(piece)
        self._left -= len(piece)
        return self._left >= 0

    def body(self) -> bytes:
        if len(self.pieces) != 1:
            self.pieces = [b"".join(self.pieces)]
        return self.pieces[0]
