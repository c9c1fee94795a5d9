"""Timeouts of a connection: for the head of a request, for the next request, and for a client that does not read.

A client that reads nothing for `write_timeout` is disconnected, even if its answer is complete and only waits in the
transport's buffer. The time between requests is uvicorn's `timeout_keep_alive`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from toolglot.server.request_head import ConnectionLimits
from toolglot.upstream.http_client import write_batch_for


class TimeoutProtocol(HttpToolsProtocol):
    """uvicorn's protocol with timeouts and an orderly close.

    `receiving`: between the first byte of a request and its last. `finished`: nothing more is written, and further
    input is discarded.
    """

    # The attributes of uvicorn's own class are in a dictionary, which becomes large beyond thirty entries.
    __slots__ = ("_answered", "_deadline", "_outbox", "_watch", "finished", "full", "receiving", "spare")

    limits = ConnectionLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.receiving = False
        self.finished = False
        self.spare = False
        self.full = False  # the write buffer is full: the client has not read it yet
        self._deadline: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._answered = 0.0
        self._outbox = write_batch_for(self.loop)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)
        self.finished = True
        self._unset_keepalive_if_required()

    @abstractmethod
    def refuse(self, status: int, message: str) -> None:
        """Answer the current request with an error, and end the connection."""

    def finish(self) -> None:
        """Write no more. A client that is still sending gets time to read the answer."""
        if self.finished:
            return
        self.finished = True
        self._outbox.flush()
        self._clear_deadline()
        if self.transport.is_closing():
            return
        if self.receiving and self._may_linger() and self.transport.can_write_eof():
            self.transport.write_eof()
            if self.flow is not None:
                self.flow.resume_reading()
            self._deadline = self.loop.call_later(self.limits.linger, self.transport.abort)
        else:
            self.transport.close()
            self._watch_writing()

    def _may_linger(self) -> bool:
        """Return whether to read on after a refusal. A full server does so for a few connections only."""
        return not self.spare or len(self.connections) <= self.limits.connections + 2 * self.limits.spare

    def _expect_request(self, now: float) -> None:
        """Start the keep-alive timer after an answer. A running timer checks the last answer when it fires."""
        self._answered = now
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self.receiving or self.cycle is None or not self.cycle.response_complete:
            return
        left = self._answered + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
        else:
            self.finish()

    def _watch_writing(self) -> None:
        """Check the write buffer later. Nothing is added to a full or closing transport, so only the client's reading
        changes its size."""
        size = self.transport.get_write_buffer_size()
        if size and self._watch is None:
            self._watch = self.loop.call_later(self.limits.write_timeout, self._check_writing, size)

    def _check_writing(self, before: int) -> None:
        self._watch = None
        if not self.full and not self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size() >= before:
            self.transport.abort()
        else:
            self._watch_writing()

    def _expect_head(self) -> None:
        self._clear_deadline()
        seconds = self.limits.spare_timeout if self.spare else self.limits.head_timeout
        self._deadline = self.loop.call_later(seconds, self._on_head_timeout)

    def _on_head_timeout(self) -> None:
        if self.receiving:
            self.refuse(408, "The head of the request took too long")
        else:
            self.finish()

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
