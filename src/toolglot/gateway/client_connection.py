"""The client's connection, as the answer of a request uses it."""

from __future__ import annotations

import asyncio
from typing import Protocol


class ClientConnection(Protocol):
    loop: asyncio.AbstractEventLoop
    full: bool
    """True if earlier writes are still buffered."""

    def put(self, data: bytes) -> None:
        """Write, unless the client has disconnected."""
        ...

    def begun(self) -> None:
        """Called when the answer has begun: the request's head is no longer needed."""
        ...

    def answered(self, now: float) -> None:
        """Called when the answer is complete."""
        ...

    def greeting(self, status: int = 200) -> bytes:
        """Return the status line and the headers of all answers."""
        ...
