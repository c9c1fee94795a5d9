"""An upstream on loopback that answers by a function of the request, for tests of commands that ask one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class Said(NamedTuple):
    status: int
    body: bytes
    content_type: str = "application/json"
    location: str | None = None


def said(document: object, status: int = 200) -> Said:
    return Said(status, json.dumps(document).encode())


class Scripted(NamedTuple):
    url: str
    asked: list[Asked]


@contextmanager
def scripted(answer: Callable[[Asked], Said]) -> Iterator[Scripted]:
    """A server that gives these answers, and what it was asked."""
    seen: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, body)
            seen.append(asked)
            told = answer(asked)
            self.send_response(told.status)
            self.send_header("content-type", told.content_type)
            if told.location is not None:
                self.send_header("location", told.location)
            self.send_header("content-length", str(len(told.body)))
            self.end_headers()
            self.wfile.write(told.body)

        do_GET = do_POST = handle_any  # noqa: N815 - the names that the base class looks for

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - its name in the base class
            """Standard error belongs to the test."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield Scripted(f"http://127.0.0.1:{server.server_port}", seen)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
