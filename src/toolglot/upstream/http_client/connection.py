"""One connection to an upstream: writes a request and delivers its answer to a receiver as the socket is read.

This module creates no tasks or timers. All data of one socket read is delivered during that read: the
head, then all body bytes joined, then the end. The pool's sweep (`pool.py`) finds timeouts by comparing `heard` and
`limit` periodically.

httptools parses the answer in strict mode, unless its head is known (`known_answers.py`). This module refuses
everything that httptools refuses: a length beside chunks, two lengths, bare line feeds, folded headers. A transfer
encoding other than chunked, a 101 that was not requested, and too many or too large headers are refused as well. A
connection is reused only if its answer ended where its framing says, nothing came after it, and the request was
completely written.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from toolglot.upstream.http_client.header_names import NAMES
from toolglot.upstream.http_client.in_flight import AnswerReceiver, InFlightRequest
from toolglot.upstream.http_client.limits import MAX_FIELD, MAX_FIELDS, MAX_HEADS, MAX_SINGLE_WRITE, error_reason
from toolglot.upstream.http_client.tls_sessions import ResumingContext
from toolglot.upstream.progress import AnswerProgress, no_progress_message
from toolglot.upstream.transport import Timeouts, TransportError, TransportFailure

if TYPE_CHECKING:
    from toolglot.upstream.http_client.destination import Destination
    from toolglot.upstream.http_client.pool import ConnectionPool

MAX_UNTOLD_BYTES = 128 * 1024
"""Maximum bytes of one head, or between two parts of a body."""
WRITE_PIECE = 64 * 1024
PIECES_PER_TURN = 4
"""Pieces of a large body that are written per turn of the loop. An upstream on the same machine takes tens of megabytes
without a pause."""
MAX_READ_BURST = 32 * 1024
"""Bytes of one read after which other sockets take their turn. libuv reads up to 32 times in a row from a socket that
always has more data, which is eight megabytes, before it looks at another."""
SWEEP_INTERVAL = 1.0
"""Seconds between sweeps. Shorter limits must schedule a sweep themselves."""


class _StopParsing(Exception):  # noqa: N818 - nothing is wrong
    """Stops the parser from inside a callback. The reason is in `Connection._fault`, unless the answer has ended."""


class Connection(asyncio.Protocol):
    """A socket of the pool and its current request."""

    __slots__ = (
        "_breathing",
        "_complete",
        "_fault",
        "_fields",
        "_head",
        "_heads",
        "_interim",
        "_keep",
        "_loop",
        "_memory",
        "_parser",
        "_paused",
        "_paused_at",
        "_pieces",
        "_pool",
        "_progress",
        "_quiet",
        "_repeated",
        "_rest",
        "_status",
        "_unbounded",
        "_writable",
        "_writing",
        "destination",
        "heard",
        "limit",
        "on_body",
        "sending",
        "transport",
        "used",
    )

    transport: asyncio.Transport

    def __init__(self, pool: ConnectionPool, destination: Destination, loop: asyncio.AbstractEventLoop) -> None:
        self.destination = destination
        self.sending: InFlightRequest | None = None
        self.heard = 0.0
        """Time of the last data, or of the start of waiting."""
        self.limit = inf
        """Maximum seconds from that time."""
        self.used = False
        self._pool = pool
        self._loop = loop
        tls = destination.tls
        self._memory = tls if isinstance(tls, ResumingContext) else None
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append  # parser callback, without a Python frame for each chunk
        self._fields: dict[str, str] = {}
        self._fault: TransportError | None = None
        self._head: dict[str, str] | None = None
        self._status = self._heads = self._quiet = self._repeated = 0
        self._complete = self._interim = self._keep = self._unbounded = self._paused = self._breathing = False
        self._progress: AnswerProgress | None = None
        self._paused_at = 0.0
        self._writable = True
        self._writing = False
        self._rest: memoryview | None = None
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    # Sending

    def send(
        self,
        head: bytes,
        body: bytes | None,
        timeouts: Timeouts,
        receiver: AnswerReceiver,
        now: float,
        bodiless: bool = False,
    ) -> InFlightRequest:
        """Write a request. `head` ends before the content length; without a body there is no length either."""
        self.sending = sending = InFlightRequest(self, receiver, timeouts, bodiless, self.used)
        self.used = True
        self._complete = False
        self._heads = self._quiet = self._repeated = 0
        self._progress = None
        self.heard = now
        self.limit = limit = timeouts.first_byte
        if limit < SWEEP_INTERVAL:
            self._pool.sweep_by(now + limit)
        if self._parser is None:  # the connection was lost earlier, when there was no call to notify
            self._pool.on_lost(self)
            self._loop.call_soon(self.connection_lost, None)
        elif body is None:
            self.transport.write(head + b"\r\n")
        elif len(body) <= MAX_SINGLE_WRITE:
            self._pool.write(self.transport, b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        else:
            self.transport.write(b"%bContent-Length: %d\r\n\r\n" % (head, len(body)))
            self._rest = memoryview(body)
            self._write_pieces()
        return sending

    def _write_pieces(self) -> None:
        """Write the rest of a large body as fast as the upstream reads it, a few pieces per turn of the loop."""
        self._writing = False
        for _ in range(PIECES_PER_TURN):
            if not self._writable or self._rest is None or self.transport.is_closing():
                return
            self.transport.write(bytes(self._rest[:WRITE_PIECE]))
            self._rest = self._rest[WRITE_PIECE:] or None
        self._schedule_write()

    def _schedule_write(self) -> None:
        if self._rest is not None and not self._writing:
            self._writing = True
            self._loop.call_soon(self._write_pieces)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._schedule_write()

    # Waiting

    def expect(self, limit: float) -> None:
        """Start waiting: data must arrive within `limit` seconds."""
        now = self._loop.time()
        if self.limit == inf and self._progress is not None:
            self._progress.pause(now - self.heard)
        self.heard = now
        self.limit = limit
        if limit < SWEEP_INTERVAL:
            self._pool.sweep_by(now + limit)

    def pause(self) -> None:
        if not self._paused and not self.transport.is_closing():
            self._paused = True
            self._paused_at = self._loop.time()
            if not self._breathing:
                self.transport.pause_reading()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            if self._progress is not None and self.limit != inf:
                self._progress.pause(self._loop.time() - self._paused_at)
            self.expect(self.limit)
            self._continue_reading()

    def _pause_for_other_sockets(self) -> None:
        """Stop reading until the loop has served the other sockets."""
        if not self._paused and not self._breathing and not self.transport.is_closing():
            self._breathing = True
            self.transport.pause_reading()
            self._loop.call_soon(self._resume_after_pause)

    def _resume_after_pause(self) -> None:
        self._breathing = False
        self._continue_reading()

    def _continue_reading(self) -> None:
        if not self._paused and not self._breathing and not self.transport.is_closing():
            self.transport.resume_reading()

    def deadline(self) -> float:
        """Return the time at which this connection has waited too long. An upstream cannot be late while its socket is
        not read."""
        if self.sending is None or self._paused or self.limit == inf:
            return inf
        silent = self.heard + self.limit
        return silent if self._progress is None else min(silent, self._progress.deadline)

    def on_deadline(self) -> None:
        """Handle a passed deadline."""
        sending = self.sending
        if sending is None:
            return
        host, timeouts = self.destination.name, sending.timeouts
        if self._progress is not None and self._progress.deadline < self.heard + self.limit:
            text = no_progress_message(host, timeouts.progress)
        elif sending.began:
            text = f"{host} has been silent for {timeouts.idle:g} seconds"
        else:
            text = f"{host} did not answer within {timeouts.first_byte:g} seconds"
        self._fail(sending, TransportError("timeout", text))

    def give_up(self) -> None:
        """Close the socket without notifying anyone."""
        if self.sending is not None:
            self.sending = None
            self._pool.release()
        self.transport.abort()

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._pool.add(self)

    def data_received(self, data: bytes) -> None:
        sending = self.sending
        if sending is None or self._parser is None:
            self._on_unsolicited_data()
            return
        begins = not (sending.began or self._heads or self._quiet)
        if begins and not sending.bodiless:
            whole = self.destination.answers.read(data)
            if whole is not None:
                self._keep = True
                self._release()
                sending.receiver.on_whole(*whole)
                return
        fault = None
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            fault = self._fault or self._invalid_http()
        if begins and fault is None and self._complete and self._keep and self._status == 200 and self._heads == 1:
            self.destination.answers.learn(data, self._head or {})
        if self._head is not None:
            self._deliver_head(sending, self._head)
            if self.sending is not sending:
                return
        pieces = self._pieces
        if pieces:
            body = pieces.pop()
            if pieces:
                body = b"".join([*pieces, body])
                pieces.clear()
            if not self._complete:
                self.heard = now = self._loop.time()
                if self._progress is not None and now >= self._progress.observe_at:
                    self._progress.observe(body, now)
            self._quiet = 0
            sending.receiver.on_body(body)
            if self.sending is not sending:
                return
        elif not self._complete:
            self._quiet += len(data)
            if self._quiet > MAX_UNTOLD_BYTES and fault is None:
                fault = self._too_large()
        if self._complete:
            self._end(sending)
        elif fault is not None:
            self._fail(sending, fault)
        elif len(data) > MAX_READ_BURST:
            self._pause_for_other_sockets()

    def _on_unsolicited_data(self) -> None:
        """Handle data without a request, for example a 408 on an idle connection. As the answer to the next request, it
        would shift all later answers.
        """
        self._pool.forget(self)
        self._parser = None
        if hasattr(self, "transport"):  # inside a tunnel, data may arrive before `connection_made`
            self.transport.abort()

    def _deliver_head(self, sending: InFlightRequest, head: dict[str, str]) -> None:
        self._head = None
        self._quiet = 0
        sending.began = True
        if not self._complete:
            self.expect(sending.timeouts.idle)
            self._progress = AnswerProgress(sending.timeouts.progress, self.heard)
        sending.receiver.on_head(self._status, head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.on_lost(self)
        self._parser = None  # breaks a reference cycle
        self._rest = None
        sending = self.sending
        if sending is None:
            return
        host = self.destination.name
        sending.unanswered = not (sending.began or self._heads or self._quiet)
        if sending.unanswered and sending.reused:
            self._pool.discard_idle(self.destination)
        if exc is not None:
            self._fail(sending, TransportError("reset", f"the connection to {host} broke: {error_reason(exc)}"))
        elif sending.began and self._unbounded:
            self._keep = False
            self._end(sending)
        elif sending.began:
            self._fail(sending, TransportError("reset", f"{host} broke off its answer"))
        else:
            self._fail(sending, TransportError("reset", f"{host} closed the connection without an answer"))

    # The end

    def _end(self, sending: InFlightRequest) -> None:
        self._release()
        sending.receiver.on_end()

    def _release(self) -> None:
        """Return the connection to the pool after an answer, if it can be reused."""
        self.sending = None
        if self._paused:
            self._paused = False
            self._continue_reading()
        if self._memory is not None:
            self._memory.remember(self.transport)
            self._memory = None
        unwritten = self._rest is not None or not self._writable
        if self._keep and not unwritten and not self.transport.is_closing():
            self._pool.give_back(self)
        else:
            self._pool.release()
            # Unwritten data would keep the socket open as long as the upstream likes.
            self.transport.abort() if unwritten else self.transport.close()

    def _fail(self, sending: InFlightRequest, error: TransportError) -> None:
        self.give_up()
        sending.receiver.on_broken(error)

    # The parser

    def on_message_begin(self) -> None:
        if self._complete:  # bytes after the end, which belong to no request
            self._keep = False
            raise _StopParsing
        if self._fields:
            self._fields = {}
            self._repeated = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(value) > MAX_FIELD or len(name) > MAX_FIELD:
            self._refuse(self._too_large())
        fields = self._fields
        key = NAMES.get(name) or name.lower().decode("latin-1")
        text = value.decode("utf-8", "surrogateescape").rstrip(" \t")
        if key in fields:
            text = f"{fields[key]}, {text}"
            self._repeated += 1
        fields[key] = text
        if len(fields) + self._repeated > MAX_FIELDS:
            self._refuse(self._refusal("too_large", f"sent more than {MAX_FIELDS} headers"))

    def on_headers_complete(self) -> None:
        sending, parser, fields = self.sending, self._parser, self._fields
        if sending is None or parser is None:
            raise _StopParsing
        status = parser.get_status_code()
        self._heads += 1
        if self._heads > MAX_HEADS:
            self._refuse(self._refusal("reset", f"sent more than {MAX_HEADS} heads for one answer"))
        if status < 200:
            if status == 101:
                self._refuse(self._refusal("reset", "switched protocols without being asked to"))
            if status < 100:
                self._refuse(self._invalid_http())
            self._interim = True
            return
        chunked = fields.get("transfer-encoding")
        if chunked is not None and chunked.lower() != "chunked":
            self._refuse(self._refusal("reset", "answered with a transfer-encoding other than chunked"))
        self._status, self._head = status, fields
        self._fields = {}  # for trailers, which are ignored
        self._keep = parser.should_keep_alive()
        self._unbounded = chunked is None and "content-length" not in fields
        if sending.bodiless:
            self._complete, self._keep = True, False
            raise _StopParsing

    def on_message_complete(self) -> None:
        if self._interim:
            self._interim = False
        else:
            self._complete = True

    def _too_large(self) -> TransportError:
        return self._refusal("too_large", "answered with a header over the limit")

    def _invalid_http(self) -> TransportError:
        return self._refusal("reset", "sent an answer that is not HTTP")

    def _refusal(self, failure: TransportFailure, what: str) -> TransportError:
        return TransportError(failure, f"{self.destination.name} {what}")

    def _refuse(self, fault: TransportError) -> None:
        self._fault = fault
        raise _StopParsing
