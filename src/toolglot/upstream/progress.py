"""Tell whether an upstream's answer makes progress or only keeps its connection alive.

Comments, blank lines and pings show that a server is alive while its model thinks, so they reset the silence limit
(`Timeouts.idle`). A server that sends nothing else would hold a request forever, so it has `Timeouts.progress` seconds.
Progress is a stream event that carries data, or a certain number of bytes of a whole answer or of one large event. Only
the time spent waiting for the upstream counts.
"""

from __future__ import annotations

import re

PROGRESS_BYTES = 16 * 1024
"""Bytes that count as progress, whatever they contain. Total size is limited elsewhere."""
CHECK_PAUSE = 8
"""Fraction of the time for which nothing is checked after progress: most chunks of a stream cost one comparison."""

_TAIL = 64
_EVENT = re.compile(
    rb"""(?:^|[\r\n])data:[ ]*+
    (?!\{\s*"type"\s*:\s*"(?:ping|keepalive)")  # what Anthropic's and OpenAI's servers send while they wait
    (?:[^\r\n]{32}|[^\r\n]+[\r\n])              # enough to tell, or all of the line
    """,
    re.VERBOSE,
)


class AnswerProgress:
    """Progress of one answer that has begun. Times are those of the event loop."""

    __slots__ = ("_bytes", "_seconds", "_tail", "observe_at", "since")

    def __init__(self, seconds: float, now: float) -> None:
        self._seconds = seconds
        self._reset(now)

    def _reset(self, now: float) -> None:
        self.since = now
        """Time of the last progress that was noticed."""
        self.observe_at = now + self._seconds / CHECK_PAUSE
        """Time from which incoming data is checked."""
        self._tail = b""
        self._bytes = 0

    @property
    def deadline(self) -> float:
        return self.since + self._seconds

    def observe(self, data: bytes, now: float) -> None:
        """Look for progress in received data."""
        self._bytes += len(data)
        if self._bytes >= PROGRESS_BYTES:
            self._reset(now)
            return
        window = self._tail + data
        if _EVENT.search(window) is not None:
            self._reset(now)
        else:
            self._tail = window[-_TAIL:]

    def pause(self, seconds: float) -> None:
        """Exclude time in which nobody waited for the upstream."""
        self.since += seconds
        self.observe_at += seconds


def no_progress_message(host: str, seconds: float) -> str:
    """Error message for the client."""
    return f"{host} has sent nothing but keep-alives for {seconds:g} seconds"
