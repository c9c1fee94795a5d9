"""Framing of answers from the ASGI app where uvicorn's does not suffice: HTTP/1.0, and early answers.

- HTTP/1.0 has no chunked coding (RFC 9112, section 7.1): a body without a length ends with the connection.
- An error may be sent before the whole request has arrived. Then the rest of a small body is read and discarded, so
  that a keep-alive client keeps its connection; otherwise the answer says `connection: close` (RFC 9112, section 9.6).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

if TYPE_CHECKING:
    from toolglot.server.http_protocol import HttpServerProtocol

CUT = "toolglot.cut"
"""ASGI scope key of a function that closes the connection in the middle of an answer."""

_REQUEST_TIMEOUT = 408
_NO_BODY = frozenset({204, 304})


class ResponseCycle(RequestResponseCycle):
    """uvicorn's cycle of one request and its answer. `adopt` converts an existing one."""

    protocol: HttpServerProtocol
    ends_with_connection: bool

    @classmethod
    def adopt(cls, cycle: RequestResponseCycle, protocol: HttpServerProtocol) -> None:
        # uvicorn creates the cycle itself and has already started its task.
        cycle.__class__ = cls
        assert isinstance(cycle, ResponseCycle)
        cycle.protocol, cycle.ends_with_connection = protocol, False

    async def send(self, message: Any) -> None:
        if not self.response_started:
            if self.protocol.receiving and not self.disconnected:
                await self._settle_request(message["status"])
            if self.scope["http_version"] == "1.0":
                self._frame_for_http_1_0(message)
        elif self.ends_with_connection:
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)

    def _frame_for_http_1_0(self, message: Any) -> None:
        self.keep_alive = False
        if message["status"] not in _NO_BODY and all(name != b"content-length" for name, _ in message["headers"]):
            self.ends_with_connection, self.chunked_encoding = True, False

    async def _settle_request(self, status: int) -> None:
        """Read the rest of a short request; otherwise end the connection with the answer."""
        # A client that waits for `100 Continue` has not sent its body yet, and does not have to.
        if status >= 400 and status != _REQUEST_TIMEOUT and not self.waiting_for_100_continue:
            await self._drain()
        if self.protocol.receiving:
            self.keep_alive = False

    async def _drain(self) -> None:
        limits = self.protocol.limits
        length = next((value for name, value in self.scope["headers"] if name == b"content-length"), b"0")
        if len(length) > 18 or int(length) > limits.drain_bytes:
            return
        left = limits.drain_bytes
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.drain_timeout):
                while self.protocol.receiving and left > 0 and not self.disconnected:
                    message: Any = await self.receive()
                    left -= len(message.get("body", b""))


class ResponseTransport(asyncio.Transport):
    """The transport as a response cycle uses it. Closing it goes through the protocol's `finish`."""

    def __init__(self, protocol: HttpServerProtocol) -> None:
        super().__init__()
        self._protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._protocol.finished:
            self._protocol.transport.write(data)

    def close(self) -> None:
        self._protocol.finish()

    def is_closing(self) -> bool:
        return self._protocol.finished or self._protocol.transport.is_closing()
