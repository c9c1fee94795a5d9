"""uvicorn's HTTP protocol behind a gate: what is not plainly one request is refused before anything is routed.

Each connection carries one request at a time and each request gets at most one answer:

- A head over `head_bytes` or `head_fields`: 431. One that takes longer than `head_timeout` from its first byte: 408.
  A connection that never says anything is closed after the same time.
- A head that two servers could read in two ways (Host missing, twice or not a host; a target that is not a plain
  path; a transfer coding other than `chunked`): 400. llhttp itself refuses folded header lines, bare LF, a space
  before the colon, and Content-Length twice or beside Transfer-Encoding.
- Pipelined requests are not served: the first is answered and the connection closed (RFC 9112, section 9.3.2, lets
  the client send the others again), so that nothing smuggled behind a request is ever answered.
- An offer to upgrade is ignored and the request served as it is. llhttp would drop its body, which every POST of the
  JDK's HttpClient runs into (Kludex/uvicorn#2722).
- Beyond `connections` a few `spare` ones are read, for a short time, and only health paths answered there; the others,
  and all beyond those, get a 503. So a probe is answered while the server is full.

After an answer to a request that is still being sent the connection is half closed and read on for `linger` seconds:
closed at once, the kernel would reset it and the client might never see the answer (RFC 9112, section 9.6).

A client that takes nothing of what waits for it during `write_timeout` is cut off, also when its answer is complete and
waits in the transport alone.

The time between requests is uvicorn's `timeout_keep_alive`; bodies are bounded in `ingress.py`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

logger = logging.getLogger("toolglot.server")

_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{1,5})?")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f\\]")

_ERROR_TYPES = {408: "timeout_error", 503: "overloaded_error"}


class Gates(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes, seconds and counts."""

    head_bytes: int = 64 * 1024
    head_fields: int = 200
    head_timeout: float = 10.0
    write_timeout: float = 120.0
    linger: float = 5.0
    connections: int = 10_000
    spare: int = 32
    spare_timeout: float = 1.0
    health: frozenset[str] = frozenset({"/health", "/ready"})
    """Paths that are answered although the server is full."""


class Refused(Exception):  # noqa: N818
    """Raised inside the parser's callbacks, to stop it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def target_problem(target: bytes) -> str | None:
    """What is wrong with a request's target. A proxy in front and the routes behind must see the same path in it."""
    if not target.startswith(b"/") or b"#" in target:
        return "The request target must be a path, such as /v1/models"
    path = unquote_to_bytes(target.partition(b"?")[0])
    if b"//" in path:
        return "The path has '//' in it: does the base URL end with a slash that is one too many?"
    if _CONTROL.search(path):
        return "The path has a backslash or a control character in it"
    if not {b".", b".."}.isdisjoint(path.split(b"/")):
        return "The path has '.' or '..' as a segment"
    return None


def head_problem(version: str, target: bytes, headers: list[tuple[bytes, bytes]]) -> str | None:
    """What is wrong with a head that llhttp took. Names are in lower case."""
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) != 1:
        return f"There must be one Host header, not {len(hosts)}"
    if not _HOST.fullmatch(hosts[0]):
        return "The Host header is not a host"
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    # RFC 9112, section 6.1: HTTP/1.0 has no transfer codings, and framing that relies on one is faulty.
    if codings and (codings != [b"chunked"] or version == "1.0"):
        return "Transfer-Encoding may only be chunked, in HTTP/1.1"
    return target_problem(target)


def _response(status: int, message: str, headers: list[tuple[bytes, bytes]]) -> bytes:
    error = {"message": message, "type": _ERROR_TYPES.get(status, "invalid_request_error")}
    body = msgspec.json.encode({"error": error})
    fields = [
        *headers,
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
        *([(b"retry-after", b"1")] if status == 503 else []),
    ]
    line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
    return b"".join([line, *(b"%s: %s\r\n" % field for field in fields), b"\r\n", body])


def _without_upgrade(head: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """llhttp takes for an upgrade what has both headers; the routes may still want to see what was offered."""
    kept = {b"close", b"keep-alive"}
    tokens = [token.strip() for name, value in head if name == b"connection" for token in value.lower().split(b",")]
    connection = b", ".join(token for token in tokens if token in kept)
    return [field for field in head if field[0] != b"connection"] + [(b"connection", connection)]


class _Way(asyncio.Transport):
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


class GuardedProtocol(HttpToolsProtocol):
    """Pass `guarded(gates)` to uvicorn as `http=`.

    `receiving`: between the first byte of a request and its last. `in_head`: no head is complete yet, of the request
    being received or of the next one. `finished`: everything is said, and whatever still comes is thrown away.
    """

    gates = Gates()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.receiving = False
        self.in_head = True
        self.finished = False
        self.spare = False
        self._deadline: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._size = 0
        self._fields = 0
        # Bytes given to the parser that no callback has told of: a header field without end is one.
        self._untold = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        excess = len(self.connections) - self.gates.connections
        if excess > self.gates.spare:
            self.refuse(503, "The server has as many connections as it takes")
            return
        self.spare = excess > 0
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)
        self.finished = True
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        if self.finished:
            return
        if not self.receiving:
            if self.cycle is not None and not self.cycle.response_complete:
                self.cycle.keep_alive = False
                return
            self.receiving = self.in_head = True
            self._expect_head()
        self._unset_keepalive_if_required()
        self._untold += len(data)
        self._parse(data)
        if self._untold > self.gates.head_bytes and not self.finished:
            self._refuse_size()

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._parse(self._plain_head() + data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if not self.receiving:
                # Something stands behind a whole request, which is answered all the same.
                self.cycle.keep_alive = False
            elif isinstance(error.__context__, Refused):
                self.refuse(error.__context__.status, error.__context__.message)
            else:
                reason = "" if isinstance(error, httptools.HttpParserCallbackError) else f": {error}"
                self.refuse(400, f"This is not a valid HTTP request{reason}")

    def _plain_head(self) -> bytes:
        """The head of the request once more for a new parser, without the offer to upgrade."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s\r\n" % (method, self.url, version)]
        lines += [b"%s: %s\r\n" % field for field in _without_upgrade(self.headers)]
        self.parser = httptools.HttpRequestParser(self)
        return b"".join([*lines, b"\r\n"])

    def on_message_begin(self) -> None:
        if not self.receiving:
            raise Refused(400, "Requests are not taken before the one before them is answered")
        self._size = self._fields = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._size += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._size += len(name) + len(value) + 4
        self._fields += 1
        if self._size > self.gates.head_bytes or self._fields > self.gates.head_fields:
            raise self._too_large()
        # Trailers come here too. They may be dropped (RFC 9110, section 6.5.1) and must not pass for headers.
        if self.in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._size > self.gates.head_bytes:
            raise self._too_large()
        if self.parser.get_method() == b"CONNECT":
            raise Refused(400, "This server is no proxy")
        if self.parser.should_upgrade():
            return
        problem = head_problem(self.parser.get_http_version(), self.url, self.headers)
        if problem is not None:
            raise Refused(400, problem)
        full = self.spare and len(self.connections) > self.gates.connections
        if full and self.url.partition(b"?")[0].decode("latin-1") not in self.gates.health:
            raise Refused(503, "The server has as many connections as it takes")
        self._clear_deadline()
        self._untold = 0
        super().on_headers_complete()
        self.in_head = False
        self.cycle.transport = _Way(self)
        self.spare = full
        if full:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._untold = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._untold = 0
        self.receiving = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.receiving:
            # The answer came before the whole request: reading the rest could take for ever.
            self.finish()
        super().on_response_complete()
        if self.finished:
            self._unset_keepalive_if_required()

    def refuse(self, status: int, message: str) -> None:
        """Answer the request that is being received with an error, in the app's place, and end the connection."""
        logger.info("refused a request: %d %s", status, message)
        answered = False
        if not self.in_head:
            answered = self.cycle.response_started
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if not answered:
            self.transport.write(_response(status, message, self.server_state.default_headers))
        self.finish()

    def finish(self) -> None:
        """Say no more. A client that is still sending gets the time to read what was said."""
        if self.finished:
            return
        self.finished = True
        self._clear_deadline()
        if self.transport.is_closing():
            return
        if self.receiving and self.transport.can_write_eof():
            self.transport.write_eof()
            self.flow.resume_reading()
            self._deadline = self.loop.call_later(self.gates.linger, self.transport.abort)
        else:
            self.transport.close()
            self._watch_writing()

    def timeout_keep_alive_handler(self) -> None:
        self.finish()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_writing()

    def _watch_writing(self) -> None:
        """Look again later. Nothing is added to a full transport or a closing one, so only reading changes its size."""
        size = self.transport.get_write_buffer_size()
        if size and self._watch is None:
            self._watch = self.loop.call_later(self.gates.write_timeout, self._look_at_writing, size)

    def _look_at_writing(self, before: int) -> None:
        self._watch = None
        if not self.flow.write_paused and not self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size() >= before:
            self.transport.abort()
        else:
            self._watch_writing()

    def _expect_head(self) -> None:
        self._clear_deadline()
        seconds = self.gates.spare_timeout if self.spare else self.gates.head_timeout
        self._deadline = self.loop.call_later(seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        if self.receiving:
            self.refuse(408, "The head of the request took too long")
        else:
            self.finish()

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_large(self) -> Refused:
        size, fields = self.gates.head_bytes, self.gates.head_fields
        return Refused(431, f"The head of a request may have {size} bytes and {fields} header fields")

    def _refuse_size(self) -> None:
        refused = self._too_large()
        self.refuse(refused.status, refused.message)


def guarded(gates: Gates) -> type[GuardedProtocol]:
    """The protocol class with these gates, for uvicorn's `http=`."""
    return type("GuardedProtocol", (GuardedProtocol,), {"gates": gates})
