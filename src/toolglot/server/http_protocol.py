"""uvicorn's HTTP protocol with strict checks: an ambiguous request is refused before routing.

Requests of a connection are answered one at a time, and each gets at most one answer:

- A head over `head_bytes` or `head_fields`: 431. One that takes longer than `head_timeout` from its first byte: 408.
  A connection that sends nothing is closed after the same time.
- A head that two servers could read differently (Host missing in HTTP/1.1, repeated or invalid; a target that is not
  a plain path; a transfer coding other than `chunked`): 400. llhttp itself refuses folded header lines, bare LF, a
  space before the colon, and Content-Length twice or beside Transfer-Encoding.
- Bytes after a complete request are kept until it is answered, and only then read (RFC 9112, section 9.3.2). Reading
  pauses at `PIPELINED_BYTES`. An answer that ends the connection discards them, and says `connection: close`.
- An offer to upgrade is ignored, and the request is served as usual. llhttp would drop its body, which breaks every
  POST of the JDK's HttpClient (Kludex/uvicorn#2722).
- Beyond `connections`, a few `spare` ones are read for a short time, and only health paths are answered there; other
  requests get a 503. A new connection replaces the spare one that has waited longest without a request, so that a
  probe is answered regardless of the number of silent connections.
- A client that half-closes its connection after its requests is answered (`half_close.py`).

After an answer to a request that is still being sent, the connection is half closed and read for `linger` more seconds.
If it were closed at once, the kernel would reset it, and the client might never see the answer (RFC 9112, section 9.6).
The answer announces the close, or waits for the end of a small body (`response_cycle.py`, which also frames answers to
HTTP/1.0).

`connection_timeouts.py` has the timeouts; `request_body.py` bounds bodies.

The requests of one client have the same head, except for the length. A head with the same bytes as the last one, in one
piece with its body, is not parsed again (`gateway/known_heads.py`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.utils import get_remote_addr

from toolglot.dialects import DIALECTS
from toolglot.errors import ApiError, kind_of_status
from toolglot.gateway.admission import CallbackAdmission
from toolglot.gateway.callback_driver import CallbackDriver
from toolglot.gateway.known_heads import KnownRequestHead, PendingRequest
from toolglot.server import routes
from toolglot.server.chunk_scanner import ChunkScanner
from toolglot.server.connection_timeouts import TimeoutProtocol
from toolglot.server.half_close import CONTINUE, ZERO, DisconnectProbe
from toolglot.server.log_throttle import LogThrottle
from toolglot.server.request_head import (
    ConnectionLimits,
    RequestRefusal,
    encode_refusal,
    encode_refusal_body,
    encode_response_start,
    find_head_problem,
    remove_upgrade,
)
from toolglot.server.response_cycle import CUT, ResponseCycle, ResponseTransport

_BODY_SECONDS = 1.0
_NO_PIPELINE: deque[Any] = deque()
"""uvicorn's queue of parsed requests. It stays empty: a request is parsed when the one before it is answered."""
PIPELINED_BYTES = 65536
"""Reading pauses if a client has sent more than this after a request that is not answered yet."""
_EMPTY_LINE = b"\r\n\r\n"
_CLOSE = (b"connection", b"close")
_FULL_MESSAGE = "The server has reached its connection limit"


class HttpServerProtocol(TimeoutProtocol):
    """Pass `make_protocol(limits)` to uvicorn as `http=`.

    `in_head`: the head of the current or next request is not complete.
    """

    __slots__ = (
        "_body_left",
        "_chunks",
        "_fields",
        "_half_closed",
        "_known_head",
        "_last_bytes",
        "_pending",
        "_pipelined",
        "_probe",
        "_size",
        "_unparsed",
        "in_head",
    )

    admission: CallbackAdmission | None = None
    throttle: LogThrottle
    spares: dict[HttpServerProtocol, None]
    """Spare connections whose first head is not complete, the oldest first. All connections of a server share it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.url = b""
        self.pipeline = _NO_PIPELINE
        self._pending: PendingRequest | None = None
        self._known_head: KnownRequestHead | None = None  # the last request's head, to recognize the next one
        self._probe: DisconnectProbe | None = None
        self.in_head = True
        self._size = 0
        self._fields = 0
        # Bytes given to the parser that no callback has reported, for example an endless header field.
        self._unparsed = 0
        self._body_left: int | None = None  # the bytes to come of a body with a length
        self._chunks: ChunkScanner | None = None  # finds the end of a chunked body
        self._last_bytes = b""  # the end of what the parser has got of a head, which may begin an empty line
        self._pipelined: bytearray | None = None  # bytes after the request that is being answered
        self._half_closed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # Unlike uvicorn, this does not look up the addresses of both ends, and creates objects for the ASGI app only in
        # `_start`.
        self.connections.add(self)
        self.transport = transport
        self.scheme = "http"
        self.spare = len(self.connections) > self.limits.connections
        if self.spare:
            self._take_spare_place()
        if not self.finished:
            self._expect_head()

    def _take_spare_place(self) -> None:
        """Replace the oldest spare connection if all are taken: probes send a request at once, attackers do not."""
        spares = self.spares
        spares[self] = None
        if len(spares) > self.limits.spare:
            oldest = next(iter(spares))
            del spares[oldest]
            oldest.refuse(503, _FULL_MESSAGE)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Handle a client that has closed its side. Returns True to keep the connection for an answer in progress."""
        if self.finished or self.receiving or not (self._is_answering() or self._pipelined):
            return False
        self._half_closed = True
        if self._pipelined is None:
            self.cycle.keep_alive = False
        self._start_probe()
        return True

    def _start_probe(self) -> None:
        """Start a probe for a client that has left. Nothing is read until the current request is answered, so only a
        probe shows it."""
        if self._probe is None:
            self._outbox.flush()
            self._probe = DisconnectProbe(self.loop, self.transport, self._next_probe, self._is_answering)

    def _stop_probe(self) -> None:
        if self._probe is not None:
            self._probe.close()
            self._probe = None

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _next_probe(self) -> bytes:
        cycle = self.cycle
        self._outbox.flush()
        if isinstance(cycle, CallbackDriver):
            return ZERO if cycle.response_started else CONTINUE
        if not cycle.response_started:
            return CONTINUE if cycle.scope["http_version"] == "1.1" else b""
        return ZERO if cycle.chunked_encoding else b""

    def connection_lost(self, exc: Exception | None) -> None:
        self._pending = None
        self.spares.pop(self, None)
        self._stop_probe()
        if isinstance(self.cycle, CallbackDriver):
            self.cycle.left()
            self.cycle = None  # type: ignore[assignment]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.finished:
            return
        begins = not self.receiving
        if begins:
            if self._pipelined is not None or self._is_answering():
                self._keep_pipelined(data)
                return
            known_head, admission = self._known_head, self.admission
            if known_head is not None and admission is not None and not self.full and not self.spare:
                # If the head equals the last one, it is not parsed.
                driver = admission.known_driver(self, known_head, data)
                if driver is not None:
                    self._start_driver(driver)
                    return
            self.receiving = self.in_head = True
            self._clear_deadline()
        end = self._parse_request(data)
        if end < len(data) and not self.finished:
            self._keep_pipelined(data[end:])
            if not self._is_answering():
                self.loop.call_soon(self._read_pipelined)
        if self.receiving and self._deadline is None and not self.finished:
            # Most requests arrive in one piece and need no timer.
            if self.in_head:
                self._expect_head()
            elif self._pending is not None:
                # The ASGI app takes a slow body: it has the timeouts.
                self._deadline = self.loop.call_later(_BODY_SECONDS, self._release_late)
        elif begins and not self.receiving and self.admission is not None and isinstance(self.cycle, CallbackDriver):
            self._known_head = self.admission.known_head(data, self.url, self.headers)
        if self._unparsed > self.limits.head_bytes and not self.finished:
            self._refuse_size()

    def _keep_pipelined(self, data: bytes) -> None:
        if self._pipelined is None:
            self._pipelined = bytearray()
        self._pipelined += data
        if len(self._pipelined) > PIPELINED_BYTES:
            self.transport.pause_reading()
            if self._is_answering():
                self._start_probe()

    def _read_pipelined(self) -> None:
        """Read the data after a request that is now answered."""
        if self.finished or self._pipelined is None:
            return
        data, self._pipelined = bytes(self._pipelined), None
        self._stop_probe()
        if not self._half_closed:
            self.transport.resume_reading()
        self.data_received(data)
        if self._half_closed and not self.finished:
            if self.receiving:  # the rest of this request will not come
                self.receiving = False
                self.finish()
            elif self._is_answering():
                self.cycle.keep_alive = self.cycle.keep_alive and self._pipelined is not None
                self._start_probe()
            elif self._pipelined is None:
                self.finish()

    def _parse_request(self, data: bytes) -> int:
        """Parse data up to the end of the request at most. Returns how much that is."""
        view, at = memoryview(data), 0
        while at < len(data) and self.receiving and not self.finished:
            end, was_in_head = self._possible_end(data, at), self.in_head
            piece = view[at:end]
            self._unparsed += len(piece)
            if self._body_left is not None:
                self._body_left -= len(piece)
            self._parse(piece)
            self._last_bytes = (self._last_bytes + bytes(piece[-3:]))[-3:]
            if was_in_head and not self.in_head and self.receiving:
                length = next((value for name, value in self.headers if name == b"content-length"), None)
                self._body_left = None if length is None else int(length)
                self._chunks = ChunkScanner() if length is None else None
            at = end
        if not self.receiving:
            self._body_left, self._chunks, self._last_bytes = None, None, b""
        return at

    def _possible_end(self, data: bytes, at: int) -> int:
        """Return the offset where the head ends, or where the body ends. If neither ends in the data, this is the end
        of the data."""
        if self._body_left is not None:
            return min(at + self._body_left, len(data))
        if self._chunks is not None:
            return self._chunks.find_end(data, at)
        before = self._last_bytes
        start = (before + data[at : at + 3]).find(_EMPTY_LINE)
        if start >= 0:
            return at + start + len(_EMPTY_LINE) - len(before)
        found = data.find(_EMPTY_LINE, at)
        return len(data) if found < 0 else found + len(_EMPTY_LINE)

    def _start_driver(self, driver: CallbackDriver) -> None:
        self.cycle = driver  # type: ignore[assignment]
        if _CLOSE in self.server_state.default_headers:  # this worker is retiring
            driver.keep_alive = False
        driver.start()

    def _parse(self, data: bytes | memoryview) -> None:
        self.parser = self.parser or httptools.HttpRequestParser(self)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._parse(self._plain_head() + data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if not self.receiving:
                if self.cycle is not None:
                    self.cycle.keep_alive = False
            elif isinstance(error.__context__, RequestRefusal):
                self.refuse(error.__context__.status, error.__context__.message)
            else:
                reason = "" if isinstance(error, httptools.HttpParserCallbackError) else f": {error}"
                self.refuse(400, f"This is not a valid HTTP request{reason}")

    def _plain_head(self) -> bytes:
        """Encode the head again for a new parser, without the offer to upgrade."""
        before, self.parser = self.parser, httptools.HttpRequestParser(self)
        return remove_upgrade(before.get_method(), self.url, before.get_http_version(), self.headers)

    def on_message_begin(self) -> None:
        if not self.receiving:  # the parser sees an earlier end of the request than this class: nothing more is read
            raise RequestRefusal(400, "The end of the previous request is unclear")
        self._size = self._fields = 0
        self._known_head = None
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_url(self, url: bytes) -> None:
        self.url += url
        self._size += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._size += len(name) + len(value) + 4
        self._fields += 1
        if self._size > self.limits.head_bytes or self._fields > self.limits.head_fields:
            raise self._too_large()
        # Trailers come here too. They may be dropped (RFC 9110, section 6.5.1) and must not pass for headers.
        if self.in_head:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._size > self.limits.head_bytes:
            raise self._too_large()
        if self.parser.get_method() == b"CONNECT":
            raise RequestRefusal(400, "This server is not a proxy")
        if self.parser.should_upgrade():
            return
        problem = find_head_problem(self.parser.get_http_version(), self.url, self.headers)
        if problem is not None:
            raise RequestRefusal(400, problem)
        if self.spare:
            self.spares.pop(self, None)
        full = self.spare and len(self.connections) > self.limits.connections
        if full and self.url.partition(b"?")[0].decode("latin-1") not in self.limits.health:
            raise RequestRefusal(503, _FULL_MESSAGE)
        self._clear_deadline()
        self._unparsed = 0
        self.in_head = False
        self.spare = full
        if not full and self._may_answer_here():
            return
        self._start()

    def _may_answer_here(self) -> bool:
        """Return whether the request may be answered on this connection. If so, it is held until it is complete."""
        admission, parser = self.admission, self.parser
        # If the client has not read its last answer yet, the ASGI app waits until it has.
        if admission is None or self.full or parser.get_method() != b"POST":
            return False
        if not parser.should_keep_alive() or parser.get_http_version() != "1.1":
            return False
        self._pending = admission.admit(self.url, self.headers)
        return self._pending is not None

    def _start(self) -> None:
        """Hand the request to the ASGI app: create what uvicorn creates at its start, with the head that was read."""
        self._outbox.flush()
        url, headers = self.url, self.headers
        self.flow = self.flow or FlowControl(self.transport)
        if self.full:
            self.flow.pause_writing()
        self.client = get_remote_addr(self.transport)
        super().on_message_begin()
        self.url = url
        self.headers += headers  # the scope refers to the same list
        self.expect_100_continue = any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in headers
        )
        self.scope[CUT] = self.cut  # type: ignore[literal-required]
        super().on_headers_complete()
        self.cycle.transport = ResponseTransport(self)
        ResponseCycle.adopt(self.cycle, self)
        if self.spare:
            self.cycle.keep_alive = False

    def _release(self, pending: PendingRequest) -> None:
        """Hand a held request to the ASGI app, with the part of its body that has arrived."""
        self._pending = None
        self.cycle = None  # type: ignore[assignment]
        self._start()
        for piece in pending.pieces:
            super().on_body(piece)

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        pending = self._pending
        if pending is None:
            super().on_body(body)
        elif not pending.add(body):
            self._release(pending)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._unparsed = 0
        self.receiving = False
        pending, admission = self._pending, self.admission
        if pending is not None and admission is not None:
            self._clear_deadline()
            driver = admission.driver(self, pending.head, pending.body())
            if driver is not None:
                self._pending = None
                self._start_driver(driver)
                return
            self._release(pending)
        super().on_message_complete()

    # Called by the request's answer

    def put(self, data: bytes) -> None:
        if not self.finished:
            busy = self.admission is not None and self.admission.service.in_flight > 1
            self._outbox.put(self.loop, self.transport, data, busy)

    def greeting(self, status: int = 200) -> bytes:
        fields = self.server_state.default_headers
        if not self.cycle.keep_alive and _CLOSE not in fields:
            fields = [*fields, _CLOSE]
        return encode_response_start(status, fields)

    def shutdown(self) -> None:
        self._outbox.flush()
        super().shutdown()

    def begun(self) -> None:
        self.headers = []
        self.parser = None  # type: ignore[assignment] # frees memory; the next request gets its own parser

    def answered(self, now: float) -> None:
        self.server_state.total_requests += 1
        keep_alive = self.cycle.keep_alive
        if isinstance(self.cycle, CallbackDriver) and not self.cycle.is_draining:
            self.cycle = None  # type: ignore[assignment] # an idle connection holds nothing of its last request
        if not keep_alive or self.receiving:
            self.finish()
        elif self._pipelined is not None:
            self.loop.call_soon(self._read_pipelined)
        else:
            self._expect_request(now)

    def on_response_complete(self) -> None:
        self._answered = self.loop.time()
        if self.receiving:
            # The answer came before the whole request. Reading the rest could take forever.
            self.finish()
        super().on_response_complete()
        if self.finished:
            self._unset_keepalive_if_required()
        elif self._pipelined is not None:
            self.loop.call_soon(self._read_pipelined)

    def refuse(self, status: int, message: str) -> None:
        """Answer the current request with an error, instead of the app, and end the connection."""
        self.throttle.log_refusal(status, message)
        answered = False
        if self._pending is not None:
            self._pending = None  # it was not started
        elif not self.in_head:
            answered = self.cycle.response_started
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._outbox.flush()
        if not answered:
            body = self._encode_refusal(status, message)
            self.transport.write(encode_refusal(status, body, self.server_state.default_headers))
        self.finish()

    def _encode_refusal(self, status: int, message: str) -> bytes:
        """Encode the error in the dialect of the path, if the path is known; otherwise in a common form."""
        path = self.url.partition(b"?")[0].decode("latin-1")
        dialect = routes.find("POST", path).dialect if path.startswith("/") else None
        if dialect is None:
            return encode_refusal_body(status, message)
        error = ApiError(kind=kind_of_status(status), status=status, message=message)
        return DIALECTS[dialect].encode_error(error).body

    def cut(self) -> None:
        """Close the connection in the middle of an answer, after the written bytes."""
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        self.finish()

    def pause_writing(self) -> None:
        self.full = True
        if self.flow is not None:
            super().pause_writing()
        if isinstance(self.cycle, CallbackDriver):
            self.cycle.pause()
        self._watch_writing()

    def resume_writing(self) -> None:
        self.full = False
        if self.flow is not None:
            super().resume_writing()
        if isinstance(self.cycle, CallbackDriver):
            self.cycle.resume()

    def _release_late(self) -> None:
        self._deadline = None
        if self._pending is not None:
            self._release(self._pending)

    def _too_large(self) -> RequestRefusal:
        size, fields = self.limits.head_bytes, self.limits.head_fields
        return RequestRefusal(431, f"The head of a request may have {size} bytes and {fields} header fields")

    def _refuse_size(self) -> None:
        refused = self._too_large()
        self.refuse(refused.status, refused.message)


def make_protocol(
    limits: ConnectionLimits, admission: CallbackAdmission | None = None, throttle: LogThrottle | None = None
) -> type[HttpServerProtocol]:
    """Make the protocol class with these limits, for uvicorn's `http=`."""
    shared: dict[str, Any] = {
        "limits": limits,
        "admission": admission,
        "throttle": throttle or LogThrottle(),
        "spares": {},
    }
    return type("HttpServerProtocol", (HttpServerProtocol,), shared)
