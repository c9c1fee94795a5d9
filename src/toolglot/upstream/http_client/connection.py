"""One connection to an upstream: a request is written, and its answer is told to a receiver as the socket is read.

Nothing here is a task or a timer. What one read of the socket brought is told in that read: the head, then all bytes of
the body joined, then the end. Who waits too long is found by the sweep of the pool (`pool.py`), which compares
`heard` and `limit` now and then.

An answer is framed by httptools in its strict mode, unless it is known how it would be (`answers.py`). What that
refuses is refused here: a length beside chunks, two lengths, bare line feeds, folded headers. A transfer encoding other
than chunks, a 101 that nobody asked for, and too many or too large headers are refused as well. A connection is used
again only if its answer ended where its framing says, nothing came after it, and the request was wholly written.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from toolglot.upstream.http_client.header_names import NAMES
from toolglot.upstream.http_client.rules import MAX_FIELD, MAX_FIELDS, MAX_HEADS, WHOLE_BODY, reason
from toolglot.upstream.http_client.sending import Receiver, Sending
from toolglot.upstream.http_client.sessions import ResumingContext
from toolglot.upstream.progress import AnswerProgress, no_progress
from toolglot.upstream.transport import Timeouts, TransportError, TransportFailure

if TYPE_CHECKING:
    from toolglot.upstream.http_client.destination import Destination
    from toolglot.upstream.http_client.pool import Pool

MAX_QUIET = 128 * 1024
"""Bytes of one head, or of what stands between two parts of a body, that are read before they are refused."""
PIECE = 64 * 1024
PIECES = 4
"""Of a large body, written at once. An upstream on the same machine takes tens of megabytes without a pause."""
BURST = 32 * 1024
"""Bytes of one read after which others come first. libuv reads up to 32 times in a row from a socket that always has
more, which is eight megabytes, before it looks at any other."""
SHORT = 1.0
"""Seconds. The sweep comes that often; shorter limits must ask for it."""


class _Stop(Exception):  # noqa: N818 - nothing is wrong
    """Ends the reading of bytes from inside the parser; why is in `Connection._fault`, unless the answer is over."""


class Connection(asyncio.Protocol):
    """A socket of the pool and what is going on on it."""

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

    def __init__(self, pool: Pool, destination: Destination, loop: asyncio.AbstractEventLoop) -> None:
        self.destination = destination
        self.sending: Sending | None = None
        self.heard = 0.0
        """When something came, or the waiting began."""
        self.limit = inf
        """Seconds from then on."""
        self.used = False
        self._pool = pool
        self._loop = loop
        tls = destination.tls
        self._memory = tls if isinstance(tls, ResumingContext) else None
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append  # of the parser; without a frame of Python for each chunk
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
        receiver: Receiver,
        now: float,
        bodiless: bool = False,
    ) -> Sending:
        """Write a request. `head` is all up to the length of the body; without a body there is no length either."""
        self.sending = sending = Sending(self, receiver, timeouts, bodiless, self.used)
        self.used = True
        self._complete = False
        self._heads = self._quiet = self._repeated = 0
        self._progress = None
        self.heard = now
        self.limit = limit = timeouts.first_byte
        if limit < SHORT:
            self._pool.sweep_by(now + limit)
        if self._parser is None:  # lost already, which nobody was there to be told
            self._pool.lost(self)
            self._loop.call_soon(self.connection_lost, None)
        elif body is None:
            self.transport.write(head + b"\r\n")
        elif len(body) <= WHOLE_BODY:
            self._pool.write(self.transport, b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        else:
            self.transport.write(b"%bContent-Length: %d\r\n\r\n" % (head, len(body)))
            self._rest = memoryview(body)
            self._write()
        return sending

    def _write(self) -> None:
        """What is left of a large body, as fast as the upstream reads: some pieces in each turn of the loop."""
        self._writing = False
        for _ in range(PIECES):
            if not self._writable or self._rest is None or self.transport.is_closing():
                return
            self.transport.write(bytes(self._rest[:PIECE]))
            self._rest = self._rest[PIECE:] or None
        self._write_on()

    def _write_on(self) -> None:
        if self._rest is not None and not self._writing:
            self._writing = True
            self._loop.call_soon(self._write)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._write_on()

    # Waiting

    def expect(self, limit: float) -> None:
        """Something is to come within so many seconds from now."""
        now = self._loop.time()
        if self.limit == inf and self._progress is not None:
            self._progress.pause(now - self.heard)
        self.heard = now
        self.limit = limit
        if limit < SHORT:
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
            self._read_on()

    def _breathe(self) -> None:
        """Read no more until the loop has looked at the other sockets."""
        if not self._paused and not self._breathing and not self.transport.is_closing():
            self._breathing = True
            self.transport.pause_reading()
            self._loop.call_soon(self._breathed)

    def _breathed(self) -> None:
        self._breathing = False
        self._read_on()

    def _read_on(self) -> None:
        if not self._paused and not self._breathing and not self.transport.is_closing():
            self.transport.resume_reading()

    def deadline(self) -> float:
        """When this connection has waited too long. An upstream that is not read cannot be late."""
        if self.sending is None or self._paused or self.limit == inf:
            return inf
        silent = self.heard + self.limit
        return silent if self._progress is None else min(silent, self._progress.deadline)

    def late(self) -> None:
        """That time has come."""
        sending = self.sending
        if sending is None:
            return
        host, timeouts = self.destination.name, sending.timeouts
        if self._progress is not None and self._progress.deadline < self.heard + self.limit:
            text = no_progress(host, timeouts.progress)
        elif sending.began:
            text = f"{host} has been silent for {timeouts.idle:g} seconds"
        else:
            text = f"{host} did not answer within {timeouts.first_byte:g} seconds"
        self._break(sending, TransportError("timeout", text))

    def give_up(self) -> None:
        """Cut the socket, and tell nobody."""
        if self.sending is not None:
            self.sending = None
            self._pool.leave()
        self.transport.abort()

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._pool.opened(self)

    def data_received(self, data: bytes) -> None:
        sending = self.sending
        if sending is None or self._parser is None:
            self._hear_unasked()
            return
        begins = not (sending.began or self._heads or self._quiet)
        if begins and not sending.bodiless:
            whole = self.destination.answers.read(data)
            if whole is not None:
                self._keep = True
                self._leave()
                sending.receiver.on_whole(*whole)
                return
        fault = None
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            fault = self._fault or self._no_http()
        if begins and fault is None and self._complete and self._keep and self._status == 200 and self._heads == 1:
            self.destination.answers.learn(data, self._head or {})
        if self._head is not None:
            self._tell_head(sending, self._head)
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
            if self._quiet > MAX_QUIET and fault is None:
                fault = self._too_large()
        if self._complete:
            self._end(sending)
        elif fault is not None:
            self._break(sending, fault)
        elif len(data) > BURST:
            self._breathe()

    def _hear_unasked(self) -> None:
        """The answer to nothing, such as a 408 on an idle connection. Taken for the answer to the next request it would
        put all later ones out of step."""
        self._pool.forget(self)
        self._parser = None
        if hasattr(self, "transport"):  # inside a tunnel words may come before it is told to be one
            self.transport.abort()

    def _tell_head(self, sending: Sending, head: dict[str, str]) -> None:
        self._head = None
        self._quiet = 0
        sending.began = True
        if not self._complete:
            self.expect(sending.timeouts.idle)
            self._progress = AnswerProgress(sending.timeouts.progress, self.heard)
        sending.receiver.on_head(self._status, head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.lost(self)
        self._parser = None  # they hold each other
        self._rest = None
        sending = self.sending
        if sending is None:
            return
        host = self.destination.name
        sending.unanswered = not (sending.began or self._heads or self._quiet)
        if sending.unanswered and sending.reused:
            self._pool.distrust(self.destination)
        if exc is not None:
            self._break(sending, TransportError("reset", f"the connection to {host} broke: {reason(exc)}"))
        elif sending.began and self._unbounded:
            self._keep = False
            self._end(sending)
        elif sending.began:
            self._break(sending, TransportError("reset", f"{host} broke off its answer"))
        else:
            self._break(sending, TransportError("reset", f"{host} closed the connection without an answer"))

    # The end

    def _end(self, sending: Sending) -> None:
        self._leave()
        sending.receiver.on_end()

    def _leave(self) -> None:
        """The answer is over: back to the pool, if the connection may be used again."""
        self.sending = None
        if self._paused:
            self._paused = False
            self._read_on()
        if self._memory is not None:
            self._memory.remember(self.transport)
            self._memory = None
        unwritten = self._rest is not None or not self._writable
        if self._keep and not unwritten and not self.transport.is_closing():
            self._pool.give_back(self)
        else:
            self._pool.leave()
            # What is still to be written would keep a socket open as long as the upstream likes.
            self.transport.abort() if unwritten else self.transport.close()

    def _break(self, sending: Sending, error: TransportError) -> None:
        self.give_up()
        sending.receiver.on_broken(error)

    # The parser

    def on_message_begin(self) -> None:
        if self._complete:  # bytes after the end: whose answer they are nobody can tell
            self._keep = False
            raise _Stop
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
            raise _Stop
        status = parser.get_status_code()
        self._heads += 1
        if self._heads > MAX_HEADS:
            self._refuse(self._refusal("reset", f"sent more than {MAX_HEADS} heads for one answer"))
        if status < 200:
            if status == 101:
                self._refuse(self._refusal("reset", "switched protocols, which was not asked for"))
            if status < 100:
                self._refuse(self._no_http())
            self._interim = True
            return
        chunked = fields.get("transfer-encoding")
        if chunked is not None and chunked.lower() != "chunked":
            self._refuse(self._refusal("reset", "answered with a transfer-encoding other than chunked"))
        self._status, self._head = status, fields
        self._fields = {}  # for trailers, which nobody is told of
        self._keep = parser.should_keep_alive()
        self._unbounded = chunked is None and "content-length" not in fields
        if sending.bodiless:
            self._complete, self._keep = True, False
            raise _Stop

    def on_message_complete(self) -> None:
        if self._interim:
            self._interim = False
        else:
            self._complete = True

    def _too_large(self) -> TransportError:
        return self._refusal("too_large", "answered with a header over the limit")

    def _no_http(self) -> TransportError:
        return self._refusal("reset", "answered with what is not HTTP")

    def _refusal(self, failure: TransportFailure, what: str) -> TransportError:
        return TransportError(failure, f"{self.destination.name} {what}")

    def _refuse(self, fault: TransportError) -> None:
        self._fault = fault
        raise _Stop
