"""Finds the end of a chunked request body (RFC 9112, section 7.1), which httptools does not report.

Only the framing is read, in linear time. The parser gets the same bytes and rejects invalid ones.
"""

from __future__ import annotations


class ChunkScanner:
    __slots__ = ("_in_trailers", "_left", "_line")

    def __init__(self) -> None:
        self._left = 0  # bytes to come of the current chunk and of the line end after it
        self._line = b""  # the start of a line whose end has not come
        self._in_trailers = False

    def find_end(self, data: bytes, at: int) -> int:
        """Return the end of the body in the data from `at` on; the data's length if the body does not end there."""
        while True:
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
            end = data.find(b"\n", at)
            if end < 0:
                self._line += data[at:]
                return len(data)
            line = (self._line + data[at:end]).rstrip(b"\r")
            self._line, at = b"", end + 1
            if not self._in_trailers:
                try:
                    size = int(line.partition(b";")[0], 16)
                except ValueError:
                    return len(data)
                self._in_trailers = size == 0
                self._left = max(size, -2) + 2 if size else 0
            elif not line:
                return at
