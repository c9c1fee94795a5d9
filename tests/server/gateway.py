"""A real gateway on a port of the loopback interface, in a thread, in front of whatever upstreams a test names.

    with BadServer([expect(), reply({...})]) as bad, gateway(at("openai_chat", bad.url)) as running:
        answer = running.ask("anthropic", stream=True)     # a whole exchange: answer.status, .headers, .body, .json()
        talk = running.begin("gemini", stream=True)         # a request that is sent, its answer read bit by bit:
        talk.until(b"Hello")                                # ... what has come when this stands in it
        talk.leave()                                        # ... the client goes away
        record = running.record()                           # what was told of the next request that is over

`at` is an upstream: it is asked once unless `retries` says otherwise, so that a test sees each fault as it comes.
Several upstreams are a mapping, `{"first": at(...), "second": at(...)}`, with `models` to route between them; without
any the demo answers. `limits`, `server`, `store` and so on are those of the configuration.

`request(client)` is a small request with the tools `f` and `g`, which the streams in `tests/lint/streams.py` call;
`ask` and `begin` send it unless they are given a `body`. A test in the thread of `pytest` needs no event loop.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import queue
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Literal

from tests.exchanges import JSON_NAMES, written
from tests.waiting import FAILSAFE, until
from tests.warp_server.messages import encode
from toolglot.agent.host import McpHost
from toolglot.config.assemble import assemble
from toolglot.config.schema import (
    Config,
    Limits,
    McpConfig,
    ModelConfig,
    PriceConfig,
    RecordConfig,
    Retries,
    ServerConfig,
    TeamConfig,
    UpstreamConfig,
)
from toolglot.dialects import DIALECTS
from toolglot.gateway.features.recording import start_recording
from toolglot.gateway.request_record import RequestRecord
from toolglot.gateway.sweep import DriverSweep
from toolglot.ir import Request, Tool
from toolglot.server.metrics import Metrics
from toolglot.server.run import GatewayServer
from toolglot.server.service import RecentReceipts, Service
from toolglot.server.startup import build_gateway
from toolglot.store import Store
from toolglot.team.service import open_team
from toolglot.upstream.http_client import HttpTransport

ONCE = Retries(attempts=1)
LIMITS = Limits(drain=10)  # at the end of a test: less than its failsafe
SERVER = ServerConfig()

Body = Mapping[str, Any]

_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
_NAMES = ("f", "g")


def _chat_tool(name: str) -> Body:
    return {"type": "function", "function": {"name": name, "parameters": _SCHEMA}}


_REQUESTS: dict[str, tuple[str, Body]] = {
    "openai_chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "Hi"}], "tools": [_chat_tool(name) for name in _NAMES]},
    ),
    "openai_responses": (
        "/v1/responses",
        {"input": "Hi", "tools": [{"type": "function", "name": name, "parameters": _SCHEMA} for name in _NAMES]},
    ),
    "anthropic": (
        "/v1/messages",
        {
            "max_tokens": 100,
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"name": name, "input_schema": _SCHEMA} for name in _NAMES],
        },
    ),
    "gemini": (
        "/v1beta/models/{model}:{method}",
        {
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            "tools": [{"functionDeclarations": [{"name": name, "parameters": _SCHEMA} for name in _NAMES]}],
        },
    ),
    "ollama": (
        "/api/chat",
        {"messages": [{"role": "user", "content": "Hi"}], "tools": [_chat_tool(name) for name in _NAMES]},
    ),
}

CLIENTS = JSON_NAMES


def _usual(client: str) -> tuple[str, Body]:
    """The request of a client without a row above, as its dialect writes it."""
    tools = tuple(Tool(name=name, parameters=_SCHEMA) for name in _NAMES)
    return DIALECTS[client].path(Request(model="")), written(client, "Hi", tools=tools)


@cache
def _streams_unasked(client: str) -> bool:
    """Is a request that does not say so answered by a stream?"""
    _, usual = _REQUESTS.get(client) or _usual(client)
    return DIALECTS[client].decode_request(json.dumps(usual).encode()).stream


def _warp_request(model: str) -> bytes:
    """The same for a client of Warp's, which knows nothing but streams."""
    tree = {
        "input": {"user_inputs": {"inputs": [{"user_query": {"query": "Hi"}}]}},
        "settings": {"model_config": {"base": model}},
        "mcp_context": {"tools": [{"name": name, "input_schema": _SCHEMA} for name in _NAMES]},
    }
    return encode("Request", tree)


def request(client: str, *, stream: bool = False, model: str = "m", body: Body | None = None) -> tuple[str, bytes]:
    """The path and the body of a request in a client's dialect. `body` takes the place of the usual one; its model and
    whether it streams stand where the dialect wants them."""
    if client == "warp":
        return "/ai/multi-agent", _warp_request(model)
    path, usual = _REQUESTS.get(client) or _usual(client)
    document = dict(usual if body is None else body)
    if client == "gemini":
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return path.format(model=model, method=method), json.dumps(document).encode()
    return path, json.dumps(
        {"model": model, **document, **({"stream": stream} if stream or _streams_unasked(client) else {})}
    ).encode()


def at(dialect: str, url: str, *, retries: Retries = ONCE, **fields: Any) -> UpstreamConfig:
    """An upstream of this dialect at this address; `fields` are those of `UpstreamConfig`."""
    return UpstreamConfig(dialect=dialect, base_url=url, retries=retries, **fields)


class Answer:
    """An answer that was read to its end. `complete`: it ended as HTTP says, and was not cut."""

    def __init__(self, response: http.client.HTTPResponse, body: bytes, complete: bool) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = body
        self.complete = complete

    def json(self) -> Any:
        return json.loads(self.body)


class Talk:
    """One request on its way, and its answer as it comes."""

    def __init__(self, port: int, receive_buffer: int | None = None) -> None:
        self._socket = socket.socket()
        if receive_buffer is not None:  # before the connection is made, or it has no effect on the window
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(FAILSAFE)
        self._socket.connect(("127.0.0.1", port))
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._connection.sock = self._socket
        self._response: http.client.HTTPResponse | None = None
        self.seen = b""
        """The part of the body that was read."""

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Talk:
        self._connection.request(method, path, body, dict(headers))
        return self

    @property
    def head(self) -> http.client.HTTPResponse:
        """Waits for the head of the answer."""
        if self._response is None:
            self._response = self._connection.getresponse()
        return self._response

    def until(self, text: bytes) -> bytes:
        """Read on until this stands in the body; all of the body so far."""
        while text not in self.seen:
            piece = self.head.read1(65536)
            assert piece, f"the answer ended without {text!r}: {self.seen!r}"
            self.seen += piece
        return self.seen

    def rest(self) -> Answer:
        """Read the answer to its end."""
        complete = True
        try:
            while piece := self.head.read1(65536):
                self.seen += piece
            complete = not self.head.length
        except (http.client.IncompleteRead, ConnectionError) as error:
            self.seen += getattr(error, "partial", b"")
            complete = False
        answer = Answer(self.head, self.seen, complete)
        self.leave()
        return answer

    def leave(self) -> None:
        """Go away, at whatever point the answer is."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._response is not None:
            self._response.close()
        self._connection.close()
        self._socket.close()


class Asking:
    """Whoever asks the gateway on this port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._talks: list[Talk] = []

    def begin(
        self,
        client: str,
        *,
        stream: bool = False,
        model: str = "m",
        body: Body | None = None,
        headers: Mapping[str, str] = {},
        receive_buffer: int | None = None,
    ) -> Talk:
        """Send a request in a client's dialect; the answer is the caller's to read."""
        path, document = request(client, stream=stream, model=model, body=body)
        talk = Talk(self.port, receive_buffer)
        self._talks.append(talk)
        return talk.send("POST", path, {"content-type": "application/json", **headers}, document)

    def ask(
        self,
        client: str,
        *,
        stream: bool = False,
        model: str = "m",
        body: Body | None = None,
        headers: Mapping[str, str] = {},
    ) -> Answer:
        """A request in a client's dialect, and its whole answer."""
        return self.begin(client, stream=stream, model=model, body=body, headers=headers).rest()

    def call(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}) -> Answer:
        """Any request, and its whole answer."""
        talk = Talk(self.port)
        self._talks.append(talk)
        return talk.send(method, path, headers, body).rest()

    def receipt(self, answer: Answer, headers: Mapping[str, str] = {}) -> Any:
        """The receipt of an answer. It is there soon after the answer's end."""
        path = f"/debug/receipts/{answer.headers['x-request-id']}"

        def found() -> Answer | None:
            receipt = self.call("GET", path, headers=headers)
            return receipt if receipt.status == 200 else None

        return until(found, f"receipt at {path}").json()

    def close(self) -> None:
        for talk in self._talks:
            talk.leave()


ANSWERED_BY: Literal["app", "connection"] = "connection"
"""What writes the answers: the ASGI app for all requests, or their connections where they can."""


class Running(Asking):
    """A gateway that serves. `service` is everything it has, for a test that looks inside."""

    def __init__(self, port: int, service: Service) -> None:
        super().__init__(port)
        self.service = service
        self._records: queue.Queue[RequestRecord] = queue.Queue()

    def record(self) -> RequestRecord:
        """What was told of the next request that is over, in the order in which they ended."""
        return self._records.get(timeout=FAILSAFE)

    def observe(self, record: RequestRecord) -> None:
        self._records.put(record)


@contextmanager
def gateway(
    upstreams: UpstreamConfig | Mapping[str, UpstreamConfig] | None = None,
    *,
    models: Mapping[str, ModelConfig] = {},
    default_upstream: str | None = None,
    limits: Limits = LIMITS,
    server: ServerConfig = SERVER,
    strict: bool = False,
    store: Store | None = None,
    observers: tuple[Callable[[RequestRecord], None], ...] = (),
    mcp: McpConfig | None = None,
    record: RecordConfig | None = None,
    prices: Mapping[str, PriceConfig] = {},
    team: TeamConfig | None = None,
) -> Iterator[Running]:
    """Serve until the block is left. One upstream alone is named `up`."""
    named = {"up": upstreams} if isinstance(upstreams, UpstreamConfig) else dict(upstreams or {})
    config = Config(
        upstreams=named,
        models=dict(models),
        default_upstream=default_upstream,
        limits=limits,
        server=server,
        strict=strict,
        discover=False,
        mcp=mcp or McpConfig(),
        team=team or TeamConfig(),
        record=record or RecordConfig(),
        prices=dict(prices),
    )
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    thread = _Thread(assemble(config, {}).config, listener, store, observers)
    thread.start()
    try:
        running = thread.wait_until_ready()
        try:
            yield running
        finally:
            running.close()
    finally:
        thread.leave()
        listener.close()


class _Server(GatewayServer):
    """The server, without the tenths of a second that uvicorn sleeps before it notices that it is to end."""

    def __init__(self, service: Service, on_ready: Callable[[], None]) -> None:
        super().__init__(service, on_ready)
        if ANSWERED_BY == "app":
            self.config.http.admission = None  # type: ignore[union-attr]
        self.leaving = asyncio.Event()
        self.loop = asyncio.get_running_loop()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.leaving.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                while self.server_state.tasks or self.server_state.connections:
                    await asyncio.sleep(0.001)
                return
        await super().shutdown(sockets)


class _Thread(threading.Thread):
    def __init__(
        self,
        config: Config,
        listener: socket.socket,
        store: Store | None,
        observers: tuple[Callable[[RequestRecord], None], ...],
    ) -> None:
        super().__init__(daemon=True)
        self._config = config
        self._listener = listener
        self._store = store
        self._observers = observers
        self._ready: queue.Queue[Running | Exception] = queue.Queue()
        self._server: _Server | None = None

    def wait_until_ready(self) -> Running:
        running = self._ready.get(timeout=FAILSAFE)
        if isinstance(running, Exception):
            raise running
        return running

    def leave(self) -> None:
        if self._server is not None:
            self._server.loop.call_soon_threadsafe(self._server.leaving.set)
        self.join(FAILSAFE)
        assert not self.is_alive(), "the gateway did not stop"

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # told where the gateway is waited for, which is in another thread
            self._ready.put(error)

    async def _serve(self) -> None:
        transport = HttpTransport(self._config.limits.upstream_connections, {})
        metrics = Metrics()
        host = McpHost(self._config.mcp.servers)
        service = Service(
            gateway=build_gateway(self._config, transport),
            receipts=RecentReceipts(),
            metrics=metrics,
            store=self._store,
            host=host,
        )
        service.recorder = start_recording(self._config.record, metrics)
        team = service.team = await open_team(self._config.team, {}, transport) if self._config.team.enabled else None
        running_team = None if team is None else asyncio.create_task(team.run())
        service.sweep = DriverSweep(lambda: service.gateway.config.limits.keepalive)
        await host.start()
        running = Running(self._listener.getsockname()[1], service)
        service.observers = (metrics.observe, *self._observers, running.observe)
        self._server = _Server(service, lambda: self._ready.put(running))
        try:
            await self._server.serve([self._listener])
        finally:
            await host.close()
            await transport.close()
            if team is not None and running_team is not None:
                running_team.cancel()
                await asyncio.wait([running_team])
                await team.close()
            if service.recorder is not None:
                service.recorder.recorder.close()
