"""The client's connection, as its request's answer uses it."""

from __future__ import annotations

import asyncio
from typing import Protocol


class ClientConnection(Protocol):
    loop: asyncio.AbstractEventLoop
    full: bool
    """Earlier writes are still buffered."""

    def put(self, data: bytes) -> None:
        """Write, unless the client has disconnected."""
        ...

    def begun(self) -> None:
        """The answer has begun: the request's head is no longer needed."""
        ...

    def answered(self, now: float) -> None:
        """The answer is complete."""
        ...

    def greeting(self, status: int = 200) -> bytes:
        """The status line and the headers that all answers have."""
        ...
