"""The documents of a stream, out of bytes cut anywhere.

With `alt=sse` the API sends server-sent events; without it, the same documents as one JSON array. Some proxies send
them one after another, or a lone error document. Which of them it is, the first byte tells. An error among events is
no event: it comes bare, on lines of its own, and is the last thing that comes.
"""

from __future__ import annotations

import re

from toolglot.errors import DecodeError
from toolglot.wire.json_sequence import JsonSequenceReader
from toolglot.wire.sse import BYTE_ORDER_MARK, STRAY, Frame, SseReader
from toolglot.wire.stray_lines import check_noise

_BARE = re.compile(rb"[\r\n]\{")


class FrameReader:
    """Bytes to documents, whichever way they are framed.

    `problem` is set when the bytes cannot be read any further; the documents before it count all the same, so that
    it makes no difference how the bytes were cut.
    """

    __slots__ = ("_head", "_last", "_reader", "noise", "problem")

    def __init__(self) -> None:
        self._head = b""
        self._last = b""  # the last byte among events
        self._reader: SseReader | JsonSequenceReader | None = None
        self.noise = 0  # bytes among the events that are no event
        self.problem: DecodeError | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """The documents that end within these bytes."""
        if self._reader is None:
            self._head += data
            start = self._head.removeprefix(BYTE_ORDER_MARK).lstrip()
            if not start or (len(self._head) < 3 and BYTE_ORDER_MARK.startswith(self._head)):
                # Empty lines mean nothing in any framing.
                self._head = self._head[: len(BYTE_ORDER_MARK)]
                return []
            self._reader = JsonSequenceReader() if start[:1] in b"[{" else SseReader(keeps_stray=True)
            data, self._head = start, b""
        if isinstance(self._reader, JsonSequenceReader):
            documents = self._reader.feed(data)
            self.problem = self._reader.problem
            return documents
        at = self._bare(data)
        self._last = data[-1:] or self._last
        try:
            documents = self._documents(self._reader.feed(data if at is None else data[:at]))
        except DecodeError as error:
            self.problem = error
            return []
        if at is None:
            return documents
        documents += self.close()
        self._reader = JsonSequenceReader()
        return [*documents, *self.feed(data[at:])]

    def _documents(self, frames: list[Frame]) -> list[bytes]:
        """The data of events, and bare documents among them."""
        documents: list[bytes] = []
        for name, data in frames:
            if name != STRAY or data.lstrip().startswith((b"{", b"[")):
                documents.append(data)
            elif self.problem is None:
                try:
                    check_noise(data)
                except DecodeError as error:
                    self.problem = error  # what comes after it does not count
                    break
                self.noise += len(data)
        return documents

    def _bare(self, data: bytes) -> int | None:
        """Where a line begins that no event has: that of a bare document."""
        if self._last in (b"\n", b"\r") and data.startswith(b"{"):
            return 0
        found = _BARE.search(data)
        return None if found is None else found.start() + 1

    def close(self) -> list[bytes]:
        """What the end of the stream cut short; whether it is whole, its reader must tell."""
        if isinstance(self._reader, SseReader):
            return self._documents(self._reader.close())
        return self._reader.close() if self._reader is not None else []
