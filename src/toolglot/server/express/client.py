"""The client's end of a crossing."""

from __future__ import annotations

import asyncio
from typing import Protocol

from toolglot.server.express.handing import Handed
from toolglot.server.express.waiting import Waiting


class Client(Protocol):
    """The client's connection, as a crossing uses it."""

    loop: asyncio.AbstractEventLoop
    full: bool
    """It has not taken yet what was written before."""

    def put(self, data: bytes) -> None:
        """Write, unless nobody reads any more."""
        ...

    def begun(self) -> None:
        """The answer has begun: nobody will ask for the request's head again."""
        ...

    def answered(self, now: float) -> None:
        """The answer is whole."""
        ...

    def go_general(self, waiting: Waiting, handed: Handed) -> None:
        """Send the request the general way."""
        ...

    def greeting(self, status: int = 200) -> bytes:
        """The status line and the headers that every answer has."""
        ...
