"""The transport as an answer of the general way uses it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolglot.server.guarded import GuardedProtocol


class Way(asyncio.Transport):
    """The transport as an answer uses it: ending it goes through the gate."""

    def __init__(self, protocol: GuardedProtocol) -> None:
        super().__init__()
        self._protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._protocol.finished:
            self._protocol.transport.write(data)

    def close(self) -> None:
        self._protocol.finish()

    def is_closing(self) -> bool:
        return self._protocol.finished or self._protocol.transport.is_closing()
