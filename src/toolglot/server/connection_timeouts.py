"""How long a connection is waited for: for the head of a request, for the next request, and for a client to read.

A client that takes nothing of what waits for it during `write_timeout` is cut off, also when its answer is complete and
waits in the transport alone. The time between requests is uvicorn's `timeout_keep_alive`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from toolglot.server.request_head import ConnectionLimits
from toolglot.upstream.http_client import write_batch_for


class TimeoutProtocol(HttpToolsProtocol):
    """uvicorn's protocol, and its end.

    `receiving`: between the first byte of a request and its last. `finished`: everything is said, and whatever still
    comes is thrown away.
    """

    # What uvicorn's own class has stands in a dictionary, which grows large beyond thirty entries.
    __slots__ = ("_answered", "_deadline", "_outbox", "_watch", "finished", "full", "receiving", "spare")

    limits = ConnectionLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.receiving = False
        self.finished = False
        self.spare = False
        self.full = False  # of what the client has not taken yet
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
        """Answer the request that is being received with an error, and end the connection."""

    def finish(self) -> None:
        """Say no more. A client that is still sending gets the time to read what was said."""
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
        """A full server reads on for a few of those that it refuses, and no more."""
        return not self.spare or len(self.connections) <= self.limits.connections + 2 * self.limits.spare

    def _expect_request(self, now: float) -> None:
        """A request has been answered. The timer is not set anew for each: it finds out what has been since."""
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
        """Look again later. Nothing is added to a full transport or a closing one, so only reading changes its size."""
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
