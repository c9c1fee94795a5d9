"""A server over HTTP by hand, of the standard library alone, whose tools do what servers should not."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.waiting import FAILSAFE

Message = dict[str, Any]
MEGABYTE = b"x" * 1_000_000


class WaywardHttp(ThreadingHTTPServer):
    """`address` is where it is; `heard` holds what it was asked for, with the headers."""

    daemon_threads = True

    def __init__(self, *, port: int = 0, status: int = 200, elsewhere: str | None = None) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.status = status
        self.elsewhere = elsewhere
        self.sessions = 0
        self.forgotten: set[str] = set()
        self.may_end = threading.Event()
        self.may_end.set()
        self.heard: list[tuple[str, dict[str, str]]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: WaywardHttp
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        return

    def do_GET(self) -> None:
        self._answer(405, b"", "text/plain")

    def do_DELETE(self) -> None:
        self.server.heard.append(("DELETE", {}))
        self.server.may_end.wait(FAILSAFE)
        self._answer(200, b"", "text/plain")

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = message["method"]
        self.server.heard.append((method, {name.lower(): value for name, value in self.headers.items()}))
        if self.server.elsewhere is not None:
            self._answer(307, b"", "text/plain", location=self.server.elsewhere)
        elif self.server.status != 200:
            self._answer(self.server.status, b"<html>no</html>", "text/html")
        elif self.headers.get("mcp-session-id") in self.server.forgotten:
            self._answer(404, b"", "text/plain")
        elif method == "initialize":
            self.server.sessions += 1
            info = {"name": "wayward", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            self._result(message["id"], result, **{"mcp-session-id": f"s{self.server.sessions}"})
        elif method == "tools/list":
            self._result(message["id"], {"tools": [{"name": "any", "inputSchema": {"type": "object"}}]})
        elif method == "tools/call":
            self._call(message["id"], message["params"]["name"])
        elif "id" in message:
            self._send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
        else:
            self._answer(202, b"", "text/plain")

    def _call(self, number: int, name: str) -> None:
        match name:
            case "huge_json":
                self._endless("application/json", b'{"jsonrpc": "2.0", "id": 1, "result": "')
            case "huge_event":
                self._endless("text/event-stream", b"event: message\ndata: ")
            case "bomb":
                self._answer(200, gzip.compress(MEGABYTE * 30), "application/json", **{"content-encoding": "gzip"})
            case "page":
                self._answer(200, b"<html>", "text/html")
            case "not_json":
                self._answer(200, b"{oops", "application/json")
            case "hang":
                time.sleep(FAILSAFE)
            case "flood":
                self._begin(200, "text/event-stream", connection="close")
                event = b'event: message\ndata: {"jsonrpc": "2.0", "method": "notifications/message"}\n\n'
                while True:
                    self.wfile.write(event * 500)
            case "drop":
                self._begin(200, "application/json", **{"content-length": "100"})
                self.wfile.write(b'{"jsonrpc"')
                self.close_connection = True
            case "forget":
                self.server.forgotten.add(self.headers["mcp-session-id"])
                self._answer(404, b"", "text/plain")
            case _:
                self._result(number, {"content": [{"type": "text", "text": "fine"}]})

    def _endless(self, kind: str, beginning: bytes) -> None:
        self._begin(200, kind, connection="close")
        self.wfile.write(beginning)
        for _ in range(200):
            self.wfile.write(MEGABYTE)

    def _result(self, number: int, result: Message, **headers: str) -> None:
        self._send({"id": number, "result": result}, **headers)

    def _send(self, message: Message, **headers: str) -> None:
        self._answer(200, json.dumps({"jsonrpc": "2.0", **message}).encode(), "application/json", **headers)

    def _answer(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        self._begin(status, kind, **{"content-length": str(len(body)), **headers})
        self.wfile.write(body)

    def _begin(self, status: int, kind: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, **headers}.items():
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def wayward_http(*, port: int = 0, status: int = 200, elsewhere: str | None = None) -> Iterator[WaywardHttp]:
    with WaywardHttp(port=port, status=status, elsewhere=elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
