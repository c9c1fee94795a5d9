"""Server-sent events: bytes cut anywhere -> (event name, data), as the WHATWG specification says.

Line ends may be LF, CRLF or CR. A byte-order mark, comments and unknown fields are skipped. Several `data` lines are
joined by LF. The specification also skips lines that are not fields. A reader can request them, because proxies write
errors among events without `data:`, and bytes before `data:` hide a part of the answer. The work is linear in the
bytes, however they are cut, and an event larger than `limit` is refused.
"""

from __future__ import annotations

import re
from itertools import pairwise

from toolglot.errors import DecodeError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_EVENT_BYTES = 32 * 1024 * 1024

Frame = tuple[bytes, bytes]
"""(event name or empty, data)."""

STRAY = b"\n"
"""The event name of stray lines, which are not fields of an event. No real event can have this name."""
_FIELD = re.compile(rb":|(?!error: ?[{])[A-Za-z][A-Za-z0-9_-]*(?<!data)(?=:|$)|data(?=:|$)")
"""Matches the beginning of a comment or a field. A name that ends in `data` is not a field but `data:` after other
bytes, and llama.cpp wrote its errors as a field of their own (ggml-org/llama.cpp, `server_sent_event`)."""


class SseReader:
    """Reads events. With `keeps_stray`, lines that are not fields are returned as a frame named `STRAY`."""

    __slots__ = (
        "_after_cr",
        "_between",
        "_data",
        "_event",
        "_held",
        "_keeps_stray",
        "_limit",
        "_size",
        "_started",
        "_stray",
    )

    def __init__(self, limit: int = MAX_EVENT_BYTES, *, keeps_stray: bool = False) -> None:
        self._limit = limit
        self._keeps_stray = keeps_stray
        self._stray: list[bytes] = []
        self._held: list[bytes] = []  # pieces of an incomplete line
        self._size = 0  # bytes held in pieces and data lines
        self._event = b""
        self._data: list[bytes] = []
        self._after_cr = False
        self._started = False
        self._between = False  # nothing is buffered: the next byte begins an event

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the events that end within this chunk."""
        # Servers mostly send one event in one piece.
        if self._between and chunk.endswith(b"\n\n") and b"\r" not in chunk and len(chunk) <= self._limit:
            last = len(chunk) - 2
            if chunk.startswith(b"data: "):
                if chunk.find(b"\n") == last:
                    return [(b"", chunk[6:last])]
            elif chunk.startswith(b"event: "):
                line = chunk.find(b"\n")
                if chunk.startswith(b"data: ", line + 1) and chunk.find(b"\n", line + 1) == last:
                    return [(chunk[7:line].strip(), chunk[line + 7 : last])]
        frames = self._read(chunk)
        self._between = self._started and not (self._held or self._data or self._event or self._after_cr or self._stray)
        return frames

    def _read(self, chunk: bytes) -> list[Frame]:
        if not self._started:
            chunk = self._skip_byte_order_mark(chunk)
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        tail = lines.pop()
        frames: list[Frame] = []
        if lines and self._held:
            piece, lines[0] = lines[0], b"".join((*self._held, lines[0]))
            self._size -= len(lines[0]) - len(piece)  # it counts as a line now
            self._held.clear()
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b" ", 5) else line[5:])
                self._size += len(line)
            elif not line:
                if self._data:
                    frames.append((self._event, self._data[0] if len(self._data) == 1 else b"\n".join(self._data)))
                    self._data = []
                if self._stray:
                    frames.append((STRAY, b"\n".join(self._stray)))
                    self._stray = []
                self._event = b""
                self._size = 0
            elif line.startswith(b"event:"):
                self._event = line[6:].strip()
            elif self._keeps_stray and _FIELD.match(line) is None:
                self._stray.append(line)
                self._size += len(line)
            if self._size > self._limit:
                raise DecodeError("$", f"one event has more than {self._limit} bytes")
        if tail:
            self._held.append(tail)
            self._size += len(tail)
            if self._size > self._limit:
                raise DecodeError("$", f"one event has more than {self._limit} bytes")
        return frames

    def close(self) -> list[Frame]:
        """Return the event that the end of the stream cut short, if any. The caller must check whether its data is
        complete."""
        if not self._started and self._held:
            self._started = True
        return self.feed(b"\n\n") if self._held or self._data or self._stray else []

    def _skip_byte_order_mark(self, chunk: bytes) -> bytes:
        head = b"".join(self._held) + chunk
        self._held.clear()
        self._size = 0
        if len(head) < 3 and BYTE_ORDER_MARK.startswith(head):
            if head:
                self._held.append(head)
            return b""
        self._started = True
        return head.removeprefix(BYTE_ORDER_MARK)


def is_event_stream(data: bytes) -> bool:
    """Return whether the data begins like server-sent events."""
    return data.removeprefix(BYTE_ORDER_MARK).lstrip().startswith((b"data:", b"event:", b"id:", b"retry:", b":"))


def error_document(body: bytes) -> bytes:
    """Return the document in the body of an error, without a byte-order mark. Some servers write it as an event if a
    stream was requested.
    """
    body = body.removeprefix(BYTE_ORDER_MARK)
    if not is_event_stream(body):
        return body
    reader = SseReader(len(body) + 1)
    return next((data for _, data in (*reader.feed(body), *reader.close())), body)


def frame_parts(data: bytes, event: bytes) -> tuple[bytes, ...]:
    """Split one event into its parts, for callers that join several events. The data may be large."""
    return b"event: %b\ndata: " % event, data, b"\n\n"


def frame(data: bytes, event: bytes = b"") -> bytes:
    """Encode one event."""
    return b"event: %b\ndata: %b\n\n" % (event, data) if event else b"data: %b\n\n" % data


_ENDS = (b"\n\r\n", b"\n\n", b"\r\r")
"""Two consecutive line ends; if the first one is a CRLF, only its LF counts. An LF followed by a lone CR is not listed:
no server writes it, and only the next byte would tell whether the CR is a whole line end."""
_END = re.compile(b"|".join(_ENDS))


def end_of_frames(data: bytearray, start: int) -> int:
    """Find the end of the last complete event. Looks only for ends after `start`; 0 if there is none."""
    return max(data.rfind(mark, start) + len(mark) if data.find(mark, start) >= 0 else 0 for mark in _ENDS)


def split_frames(data: bytes) -> list[bytes]:
    """Split the data into events, each with the blank line that ends it. The last one may be incomplete."""
    edges = [0, *(match.end() for match in _END.finditer(data))]
    if edges[-1] != len(data):
        edges.append(len(data))
    return [data[start:end] for start, end in pairwise(edges)]
