"""Whether an upstream's answer makes progress, or only keeps its connection alive.

Comments, blank lines and pings show that a server lives while its model thinks, so they count against silence
(`Timeouts.idle`). A server that sends nothing else would hold a request for ever: it has `Timeouts.progress` seconds.
What counts as progress is an event of a stream that carries data, or a good deal of bytes, of a whole answer or of one
large event. Only the time that somebody waits for the upstream is counted.
"""

from __future__ import annotations

import re

VOLUME = 16 * 1024
"""Bytes that are progress, whatever they are. How many there may be is bounded elsewhere."""
LOOKS = 8
"""After progress nothing is looked at for this part of the time: most chunks of a stream cost one comparison."""

_TAIL = 64
_EVENT = re.compile(
    rb"""(?:^|[\r\n])data:[ ]*+
    (?!\{\s*"type"\s*:\s*"(?:ping|keepalive)")  # what Anthropic's and OpenAI's servers send while they wait
    (?:[^\r\n]{32}|[^\r\n]+[\r\n])              # enough to tell, or all of the line
    """,
    re.VERBOSE,
)


class AnswerProgress:
    """One answer that has begun. Times are those of the event loop."""

    __slots__ = ("_bytes", "_seconds", "_tail", "observe_at", "since")

    def __init__(self, seconds: float, now: float) -> None:
        self._seconds = seconds
        self._reset(now)

    def _reset(self, now: float) -> None:
        self.since = now
        """When there was progress last, as far as it was looked for."""
        self.observe_at = now + self._seconds / LOOKS
        """When to look at what comes."""
        self._tail = b""
        self._bytes = 0

    @property
    def deadline(self) -> float:
        return self.since + self._seconds

    def observe(self, data: bytes, now: float) -> None:
        """Look for progress in what has come."""
        self._bytes += len(data)
        if self._bytes >= VOLUME:
            self._reset(now)
            return
        window = self._tail + data
        if _EVENT.search(window) is not None:
            self._reset(now)
        else:
            self._tail = window[-_TAIL:]

    def pause(self, seconds: float) -> None:
        """Nobody has waited for the upstream for so long."""
        self.since += seconds
        self.observe_at += seconds


def no_progress(host: str, seconds: float) -> str:
    """What a client is told."""
    return f"{host} has sent nothing but keep-alives for {seconds:g} seconds"
