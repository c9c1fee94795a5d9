"""A loopback HTTP server that answers as a test tells it to and remembers what it was asked.

Every exchange of a test has its own path prefix, so one server and its clients serve the whole session. Bodies go out
in chunks of odd sizes, so that no client sees a frame, a line or a character in one piece by luck.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from threading import Thread
from typing import Any

SIZES = (1, 7, 2, 61, 3, 255, 13)


@dataclass(frozen=True)
class Asked:
    """A request as a client sent it; `path` is without the prefix and the query."""

    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    breaks: bool = False
    """The connection ends after the body without saying that the body has."""


def whole(body: bytes) -> Reply:
    """A response in one piece of JSON."""
    return Reply(200, body, {"content-type": "application/json"})


def stream(body: bytes | Iterable[bytes]) -> Reply:
    """A response as server-sent events."""
    return Reply(200, body if isinstance(body, bytes) else b"".join(body), {"content-type": "text/event-stream"})


Answer = Callable[[Asked], Reply]


@dataclass
class Exchange:
    """What one test serves, where, and what it was asked."""

    base_url: str
    answer: Answer
    asked: list[Asked] = field(default_factory=list)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has read an error closes its connection; that is no news. Anything else is."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Loopback:
    def __init__(self) -> None:
        self._exchanges: dict[str, Exchange] = {}
        self._server = _Server(("127.0.0.1", 0), _handler(self._exchanges))
        self._count = 0
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @contextmanager
    def serving(self, answer: Answer | Reply) -> Iterator[Exchange]:
        """Answer the requests below the base URL of the exchange, by a function or always alike."""
        self._count += 1
        prefix = f"x{self._count}"
        respond = (lambda _: answer) if isinstance(answer, Reply) else answer
        exchange = Exchange(f"http://127.0.0.1:{self._server.server_port}/{prefix}", respond)
        self._exchanges[prefix] = exchange
        yield exchange
        del self._exchanges[prefix]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(exchanges: Mapping[str, Exchange]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            prefix, _, rest = self.path.lstrip("/").partition("/")
            path, _, query = rest.partition("?")
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked("/" + path, query, headers, body)
            exchange = exchanges[prefix]
            exchange.asked.append(asked)
            self._send(exchange.answer(asked))

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for piece in pieces(reply.body):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            if reply.breaks:
                self.close_connection = True
            else:
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
            """Say nothing."""

    return Handler


def pieces(body: bytes) -> Iterator[bytes]:
    """The body in chunks of odd sizes."""
    start = 0
    for size in cycle(SIZES):
        if start >= len(body):
            return
        yield body[start : start + size]
        start += size
