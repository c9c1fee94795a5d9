"""A stream that goes through as it is, because both sides speak one dialect: whole frames, and what is changed in them.

A frame is let through only when it is whole and has been understood, so that an error never follows half a frame, and
nothing follows an error or an end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from toolglot.errors import CONTEXT_OVERFLOW, MALFORMED_CALL, TRUNCATED, ApiError, DecodeError
from toolglot.events import Finish
from toolglot.ir import Stop
from toolglot.wire import json
from toolglot.wire.sse import BYTE_ORDER_MARK, MAX_EVENT_BYTES
from toolglot.wire.surrogates import apply_without_halves

if TYPE_CHECKING:
    from toolglot.dialect import StreamEncoder
    from toolglot.translate import Exchange

END_MARK = b"[DONE]"
"""What some servers of every dialect send for the end, though only Chat Completions has it."""

OWN_CODES = (TRUNCATED, "upstream_unreadable", MALFORMED_CALL)
"""Codes of errors that this translator has found."""

_END = re.compile(rb"\n(?:\r?\n|\r(?=[^\n]))|\r\r")
_NUMBER = re.compile(rb'"sequence_number": ?(\d{1,18})')


def renamed(document: bytes, places: Iterable[Sequence[str]], model: str) -> bytes:
    """A response or a frame with the model's name exchanged wherever it stands."""
    for place in places:
        document = json.replace_at(document, place, model)
    return document


def is_end_mark(frame: bytes) -> bool:
    return END_MARK in frame and any(
        line.startswith(b"data:") and line[5:].strip() == END_MARK for line in frame.splitlines()
    )


class Forwarder:
    """Cuts bytes into frames, and holds back what is not whole yet."""

    def __init__(self, exchange: Exchange) -> None:
        self._held = bytearray()
        self._alias = exchange.alias
        self._places = exchange.client.answer.model_places
        self._exchange = exchange
        self._framing = exchange.client.stream.framing
        self._released = b""
        self._waiting: list[bytes] = []
        """Frames from the first call on, where calls come with the end of the stream."""

    def frames(self, data: bytes) -> list[bytes]:
        """The frames that end within these bytes. Joined they are the bytes as they came."""
        if self._framing.is_bare:
            return self._lines(data)
        if self._held:
            searched = max(len(self._held) - 3, 0)  # the end of a frame may lie across two pieces
            self._held += data
            if _END.search(self._held, searched) is None:
                return []
            data = bytes(self._held)
            self._held.clear()
        if b"\r" not in data:
            frames = data.split(b"\n\n")
            self._held += frames.pop()
            return [frame + b"\n\n" for frame in frames]
        ends = [0, *(match.end() for match in _END.finditer(data))]
        self._held += data[ends[-1] :]
        return [data[start:end] for start, end in pairwise(ends)]

    def _lines(self, data: bytes) -> list[bytes]:
        if not self._released and not self._held:
            data = data.removeprefix(BYTE_ORDER_MARK)
        *lines, rest = data.split(b"\n")
        if not lines:
            self._held += rest
            return []
        lines[0] = bytes(self._held) + lines[0]
        self._held[:] = rest
        return [line + b"\n" for line in lines]

    @property
    def overflows(self) -> bool:
        """What is held back is longer than any frame may be."""
        return len(self._held) > MAX_EVENT_BYTES

    def rest(self) -> tuple[bytes, bool]:
        """What is held back at the end of the stream, and whether it is a frame that only lacks its blank line."""
        if self._exchange.client.stream.apart and self._held.lstrip().startswith(b"{"):
            return bytes(self._held) + b"\n\n", True  # a bare document; whether it is whole, the decoder tells
        payloads = [payload for _, payload in self._framing.documents(bytes(self._held))]
        try:
            for payload in payloads:
                if payload != END_MARK:
                    json.decode_frame(payload)
        except DecodeError:
            return bytes(self._held), False
        return (bytes(self._held) + self._framing.end, True) if payloads else (bytes(self._held), False)

    def lacks(self, error: ApiError, frame: bytes) -> bool:
        """Does the client need an error of our own? The upstream's frame may not tell this error, may hold what no
        client may see, or tell it in the words or the form of another vendor."""
        if self._exchange.client.stream.apart or error.in_foreign_form:
            return True
        if error.code == CONTEXT_OVERFLOW and not self._exchange.client.answer.overflow_words.search(frame):
            return True
        return error.code in OWN_CODES or self._exchange.hide(error) is not error

    def last(self, frame: bytes, finish: Finish, encoder: StreamEncoder, called: bool) -> bytes:
        """The frame with which a stream ends, with what clients need and servers leave out."""
        marked, last = is_end_mark(frame), self._exchange.client.stream.last_event
        if marked and finish.stop.raw is None:
            # A stream of chunks that ends without a `finish_reason` makes some clients fail and others ask for ever.
            return encoder.feed(Finish(stop=Stop("tool_calls" if called else finish.stop.reason)))
        return last if not frame or (marked and not is_end_mark(last)) else frame

    def release(self, frame: bytes, *, calls: bool = False, ends: bool = False) -> bytes:
        """A frame as the client gets it, or nothing yet: it may have a call, or stand behind one, that waits."""
        if not frame.startswith(b":"):
            self._released = frame or self._released
        frame = frame if self._alias is None else self._rename(frame, self._alias)
        if not self._waiting and not (calls and self._exchange.client.stream.calls_wait):
            return frame
        self._waiting.append(frame)
        return b"".join(self._waiting) if ends else b""

    def numbered(self, own: bytes) -> bytes:
        """An event of our own, which goes on from the number of the upstream's last (Responses numbers its events)."""
        numbers = _NUMBER.findall(self._released)
        return _NUMBER.sub(b'"sequence_number":%d' % (int(numbers[-1]) + 1), own, count=1) if numbers else own

    def _rename(self, frame: bytes, alias: str) -> bytes:
        if self._framing.is_bare:
            document = self._rename_document(frame.strip(), alias)
            return frame if document is None else document + frame[len(frame.rstrip()) :]
        return b"".join(
            line if not line.startswith(b"data:") or b'"model' not in line else self._rename_line(line, alias)
            for line in frame.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True)
        )

    def _rename_line(self, line: bytes, alias: str) -> bytes:
        document = self._rename_document(line[5:].strip(), alias)
        return line if document is None else b"data: " + document + line[len(line.rstrip()) :]

    def _rename_document(self, document: bytes, alias: str) -> bytes | None:
        """None for a part of a document that has several lines, and for one that the decoder reports."""
        try:
            return renamed(document, self._places, alias)
        except DecodeError:
            pass
        try:
            return apply_without_halves(document, lambda masked: renamed(masked, self._places, alias))
        except DecodeError:
            return None
