"""Read JSON objects that arrive in an array, or one after another, from bytes that are split anywhere."""

from __future__ import annotations

import re

from toolglot.errors import DecodeError
from toolglot.wire.sse import MAX_EVENT_BYTES

_MARK = re.compile(rb'["\\{}]')


class JsonSequenceReader:
    """Splits bytes into objects. The work is linear in the bytes, however they are cut."""

    __slots__ = ("_depth", "_escaped", "_pieces", "_quoted", "_size", "problem")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self.problem: DecodeError | None = None

    def feed(self, data: bytes) -> list[bytes]:
        documents: list[bytes] = []
        begin = 0  # offset in `data` of the open object, or of the gap before the next one
        position = 0
        if self._escaped and data:
            self._escaped, position = False, 1
        while (mark := _MARK.search(data, position)) is not None and self.problem is None:
            position = mark.end()
            byte = mark[0]
            if self._quoted:
                if byte == b"\\":
                    self._escaped = position == len(data)
                    position += 1
                self._quoted = byte != b'"'
            elif self._depth == 0:
                self._check_gap(data[begin : mark.start()] + (b"" if byte == b"{" else byte))
                begin = mark.start()
                self._depth = 1
            elif byte == b"}":
                self._depth -= 1
                if self._depth == 0:
                    documents.append(b"".join([*self._pieces, data[begin:position]]))
                    self._pieces.clear()
                    self._size = 0
                    begin = position
            else:
                self._depth += byte == b"{"
                self._quoted = byte == b'"'
        self._hold(data[begin:])
        return documents

    def _hold(self, tail: bytes) -> None:
        if self._depth == 0:
            self._check_gap(tail)
        elif tail:
            self._pieces.append(tail)
            self._size += len(tail)
            if self._size > MAX_EVENT_BYTES:
                self.problem = DecodeError("$", f"one document has more than {MAX_EVENT_BYTES} bytes")

    def _check_gap(self, gap: bytes) -> None:
        if gap.strip(b" \t\r\n,[]"):
            self.problem = DecodeError("$", "there is something between the documents of the stream")

    def close(self) -> list[bytes]:
        return [b"".join(self._pieces)] if self._pieces else []
