"""Determines whether an upstream's answer makes progress or only keeps its connection alive. Comments, blank lines,
pings and frames without content show that a server is alive while its model thinks, so they reset the silence limit
(`Timeouts.idle`). A server that sends nothing else would hold a request forever, so it has `Timeouts.progress` seconds.
Progress is a frame with content, whether a stream is made of events or of lines, or a certain number of bytes of a
whole answer or of one large frame. Only the time spent waiting for the upstream counts."""

from __future__ import annotations

from typing import Any

from toolglot.errors import DecodeError
from toolglot.wire import json

PROGRESS_BYTES = 16 * 1024
"""Bytes of a whole answer or of one frame that count as progress, regardless of their content. Total size is limited
elsewhere."""
CHECK_PAUSE = 8
"""Fraction of the time for which nothing is checked after progress: most chunks of a stream cost one comparison."""

_STREAM_LINES = (b"data:", b"event:", b"id:", b"retry:", b":", b"{")
"""How lines of a stream begin. Other lines are parts of a whole answer."""
_MAX_FRAME = 4 * 1024
"""A longer line counts as progress regardless of its content."""
# fmt: off
_LABELS = frozenset(
    {
        "id", "object", "model", "role", "type", "status", "event", "created", "created_at", "createTime", "provider",
        "finish_reason", "system_fingerprint", "service_tier", "obfuscation", "item_id", "call_id", "responseId",
        "modelVersion",
    }
)
# fmt: on
"""Members whose text identifies or labels a frame and is not content, in any API."""


class AnswerProgress:
    """Progress of one answer that has begun. Times are those of the event loop."""

    __slots__ = ("_bytes", "_line", "_seconds", "observe_at", "since")

    def __init__(self, seconds: float, now: float) -> None:
        self._seconds = seconds
        self._reset(now)

    def _reset(self, now: float) -> None:
        self.since = now
        """Time of the last progress that was noticed."""
        self.observe_at = now + self._seconds / CHECK_PAUSE
        """Time from which incoming data is checked."""
        self._line = b""
        self._bytes = 0

    @property
    def deadline(self) -> float:
        return self.since + self._seconds

    def observe(self, data: bytes, now: float) -> None:
        """Look for progress in received data."""
        *lines, self._line = (self._line + data).replace(b"\r", b"\n").split(b"\n")
        self._bytes += sum(len(line) for line in lines if not line.startswith(_STREAM_LINES))
        if self._bytes + len(self._line) >= PROGRESS_BYTES or any(map(_has_content, lines)):
            self._reset(now)

    def pause(self, seconds: float) -> None:
        """Exclude time in which the upstream was not awaited."""
        self.since += seconds
        self.observe_at += seconds


def _has_content(line: bytes) -> bool:
    """Return whether this line of a stream is a frame with content."""
    payload = line[5:].strip() if line.startswith(b"data:") else line if line.startswith(b"{") else b""
    if not payload or len(payload) > _MAX_FRAME:
        return bool(payload)
    try:
        return _holds_text(json.decode_frame(payload))
    except DecodeError:
        return True  # not JSON, or broken: the decoder judges it


def _holds_text(value: Any) -> bool:
    """Return whether a JSON value has text other than labels."""
    if isinstance(value, dict):
        return any(name not in _LABELS and _holds_text(member) for name, member in value.items())
    if isinstance(value, list):
        return any(map(_holds_text, value))
    return isinstance(value, str) and value != ""


def no_progress_message(host: str, seconds: float) -> str:
    """Return the error message for the client."""
    return f"{host} has sent nothing but keep-alives for {seconds:g} seconds"
