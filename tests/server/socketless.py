"""The gateway without sockets: a client's connection and an upstream's, on transports that only remember."""

from __future__ import annotations

import asyncio
import json
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

TOOL = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {"path": {}}}}
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Please read it."},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I will."},
            {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a"}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "It says nothing."}]},
]
HEADERS = {"host": "localhost", "content-type": "application/json", "x-api-key": "k", "anthropic-version": "2023-06-01"}


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def asked(*, stream: bool = False, talk: list[dict[str, Any]] = TALK) -> bytes:
    """A plain request of a client of Messages, as it comes from the socket."""
    fields = {"model": "m", "max_tokens": 100, "messages": talk, "system": "Be brief.", "tools": [TOOL]}
    body = compact({**fields, "stream": stream})
    head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    return f"POST /v1/messages HTTP/1.1\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body


def chunk(**delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    fields = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + compact({**fields, "usage": None}) + b"\n\n"


def arguments(text: str) -> bytes:
    return chunk(tool_calls=[{"index": 0, "function": {"arguments": text}}])


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STREAM_END = b"0\r\n\r\n"


def framed(frames: list[bytes]) -> bytes:
    """Frames, each in a chunk of its own, as servers send them."""
    return b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames)


ANSWER = compact(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "It is empty.", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }
)
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)


class Remembering(asyncio.Transport):
    """A transport that takes everything and sends nothing."""

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
        """What was written since this was asked last."""
        written = b"".join(self.written)
        self.written.clear()
        return written


class Socketless:
    """One gateway from Messages to Chat Completions, and connections of both sides."""

    def __init__(self) -> None:
        config = Config(upstreams={"up": UpstreamConfig(dialect="openai_chat", base_url="http://up.test/v1")})
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

    def client(self) -> tuple[HttpServerProtocol, Remembering]:
        protocol = self._protocol(config=self._uvicorn, server_state=self._state, app_state={})
        transport = Remembering()
        protocol.connection_made(transport)
        return protocol, transport

    async def upstream(self) -> tuple[Connection, Remembering]:
        """A connection that is idle."""
        pool = self._transport._open_pool()
        await pool.acquire()
        destination = self._transport.destination("http://up.test/v1")
        connection, transport = Connection(pool, destination, asyncio.get_running_loop()), Remembering()
        connection.connection_made(transport)
        pool.give_back(connection)
        return connection, transport

    async def close(self) -> None:
        await self._transport.close()


async def _nobody(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("the callback driver should have taken this request")


def without_sockets(work: Callable[[Socketless], Awaitable[T]]) -> T:
    async def run() -> T:
        stage = Socketless()
        try:
            return await work(stage)
        finally:
            await stage.close()

    return asyncio.run(run())
