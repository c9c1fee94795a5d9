"""Split the bytes of a stream into JSON documents.

With `alt=sse` the API sends server-sent events; without it, the same documents as one JSON array. Some proxies send
them one after another, or a single error document. The first byte shows which framing it is. An error between events is
not an event: it is a bare document on its own lines, and the last one.
"""

from __future__ import annotations

import re

from toolglot.errors import DecodeError
from toolglot.wire.json_sequence import JsonSequenceReader
from toolglot.wire.sse import BYTE_ORDER_MARK, STRAY, Frame, SseReader
from toolglot.wire.stray_lines import check_noise

_BARE = re.compile(rb"[\r\n]\{")


class GeminiFrameReader:
    """Reads documents from bytes in any framing.

    `problem` is set when the rest of the bytes cannot be read. The documents before it are still returned, so that the
    result does not depend on how the bytes were cut.
    """

    __slots__ = ("_head", "_last", "_reader", "noise", "problem")

    def __init__(self) -> None:
        self._head = b""
        self._last = b""  # the last byte among events
        self._reader: SseReader | JsonSequenceReader | None = None
        self.noise = 0  # number of bytes between events that belong to no event
        self.problem: DecodeError | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """Return the documents that end within these bytes."""
        if self._reader is None:
            self._head += data
            start = self._head.removeprefix(BYTE_ORDER_MARK).lstrip()
            if not start or (len(self._head) < 3 and BYTE_ORDER_MARK.startswith(self._head)):
                # Empty lines have no meaning in any framing.
                self._head = self._head[: len(BYTE_ORDER_MARK)]
                return []
            self._reader = JsonSequenceReader() if start[:1] in b"[{" else SseReader(keeps_stray=True)
            data, self._head = start, b""
        if isinstance(self._reader, JsonSequenceReader):
            documents = self._reader.feed(data)
            self.problem = self._reader.problem
            return documents
        at = self._find_bare_document(data)
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
        """Return the data of events, and the bare documents between them."""
        documents: list[bytes] = []
        for name, data in frames:
            if name != STRAY or data.lstrip().startswith((b"{", b"[")):
                documents.append(data)
            elif self.problem is None:
                try:
                    check_noise(data)
                except DecodeError as error:
                    self.problem = error  # later frames are ignored
                    break
                self.noise += len(data)
        return documents

    def _find_bare_document(self, data: bytes) -> int | None:
        """Return the position of a line that begins a bare document."""
        if self._last in (b"\n", b"\r") and data.startswith(b"{"):
            return 0
        found = _BARE.search(data)
        return None if found is None else found.start() + 1

    def close(self) -> list[bytes]:
        """Return the last document, which may be cut. The caller must check whether it is whole."""
        if isinstance(self._reader, SseReader):
            return self._documents(self._reader.close())
        return self._reader.close() if self._reader is not None else []
