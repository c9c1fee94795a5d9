"""The gateway without sockets: connections of a client and of an upstream whose transports keep what is written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import uvicorn
from uvicorn.server import ServerState

from toolglot.config.assemble import assemble
from toolglot.config.schema import Config, UpstreamConfig
from toolglot.gateway.admission import CallbackAdmission
from toolglot.gateway.sweep import DriverSweep
from toolglot.server.http_protocol import HttpServerProtocol, make_protocol
from toolglot.server.metrics import Metrics
from toolglot.server.request_head import ConnectionLimits
from toolglot.server.service import RecentReceipts, Service
from toolglot.server.startup import build_gateway
from toolglot.upstream.http_client import HttpTransport
from toolglot.upstream.http_client.connection import Connection

T = TypeVar("T")

BASE_URL = "http://up.test/v1"


class KeepingTransport(asyncio.Transport):
    """Accepts all writes, keeps them, and sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def taken(self) -> bytes:
        """Everything written since the last call."""
        written = b"".join(self.written)
        self.written.clear()
        return written


class Socketless:
    """One gateway with one upstream, and connections of both sides."""

    def __init__(self, upstream: str = "openai_chat") -> None:
        config = Config(upstreams={"up": UpstreamConfig(dialect=upstream, base_url=BASE_URL)})
        self._transport = HttpTransport(1000, {})
        gateway = build_gateway(assemble(config, {}).config, self._transport)
        metrics = Metrics()
        self.service = Service(
            gateway=gateway, receipts=RecentReceipts(), metrics=metrics, observers=(metrics.observe,)
        )
        self.service.sweep = DriverSweep(lambda: 15.0)
        self.admission = CallbackAdmission(self.service)
        self._protocol = make_protocol(ConnectionLimits(), self.admission)
        self._uvicorn = uvicorn.Config(_nobody, log_config=None, access_log=False)
        self._uvicorn.load()
        self._state = ServerState()
        self._state.default_headers = [(b"date", b"Sun, 15 Nov 2026 18:17:15 GMT")]

    def client(self) -> tuple[HttpServerProtocol, KeepingTransport]:
        protocol = self._protocol(config=self._uvicorn, server_state=self._state, app_state={})
        transport = KeepingTransport()
        protocol.connection_made(transport)
        return protocol, transport

    async def upstream(self) -> tuple[Connection, KeepingTransport]:
        """An idle connection."""
        pool = self._transport._open_pool()
        await pool.acquire()
        destination = self._transport.destination(BASE_URL)
        connection, transport = Connection(pool, destination, asyncio.get_running_loop()), KeepingTransport()
        connection.connection_made(transport)
        pool.give_back(connection)
        return connection, transport

    async def close(self) -> None:
        await self._transport.close()


async def _nobody(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("this request should have been answered on its connection")


def without_sockets(work: Callable[[Socketless], Awaitable[T]], upstream: str = "openai_chat") -> T:
    """Run the work with a gateway that is closed afterwards."""

    async def run() -> T:
        stage = Socketless(upstream)
        try:
            return await work(stage)
        finally:
            await stage.close()

    return asyncio.run(run())
