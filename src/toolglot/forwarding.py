"""Forward a stream unchanged, frame by frame, because both sides speak the same dialect.

A frame is forwarded only when it is complete and has been decoded. An error therefore never follows a partial frame,
and nothing follows an error or the end.
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
    from toolglot.translate import ExchangeCore

END_MARK = b"[DONE]"
"""End marker of Chat Completions. Some servers of every dialect send it."""

OWN_CODES = (TRUNCATED, "upstream_unreadable", MALFORMED_CALL)
"""Codes of errors that toolglot itself detects."""

_END = re.compile(rb"\n(?:\r?\n|\r(?=[^\n]))|\r\r")
_NUMBER = re.compile(rb'"sequence_number": ?(\d{1,18})')


def rename_model(document: bytes, places: Iterable[Sequence[str]], model: str) -> bytes:
    """Replace the model's name at these places of a response or a frame.

    Raises:
        DecodeError: the document is not valid JSON.
    """
    try:
        return _rename_at(document, places, model)
    except DecodeError:
        return apply_without_halves(document, lambda masked: _rename_at(masked, places, model))


def _rename_at(document: bytes, places: Iterable[Sequence[str]], model: str) -> bytes:
    for place in places:
        document = json.replace_at(document, place, model)
    return document


def is_end_mark(frame: bytes) -> bool:
    return END_MARK in frame and any(
        line.startswith(b"data:") and line[5:].strip() == END_MARK for line in frame.splitlines()
    )


class Forwarder:
    """Splits bytes into frames, and buffers an incomplete frame."""

    def __init__(self, exchange: ExchangeCore) -> None:
        self._held = bytearray()
        self._alias = exchange.alias
        self._places = exchange.client.answer.model_places
        self._exchange = exchange
        self._framing = exchange.client.stream.framing
        self._released = b""
        self._waiting: list[bytes] = []
        """Frames from the first call on, for clients that get calls only at the end of the stream."""

    def frames(self, data: bytes) -> list[bytes]:
        """Return the frames that these bytes complete. Joined, they are exactly the received bytes."""
        if self._framing.is_bare:
            return self._lines(data)
        if self._held:
            searched = max(len(self._held) - 3, 0)  # the end of a frame may span two pieces
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
        """Whether the buffered data exceeds the size limit of a frame."""
        return len(self._held) > MAX_EVENT_BYTES

    def rest(self) -> tuple[bytes, bool]:
        """Return the data that is left at the end, and whether it is a frame that lacks only its blank line."""
        if self._exchange.client.stream.apart and self._held.lstrip().startswith(b"{"):
            return bytes(self._held) + b"\n\n", True  # a bare document; the decoder checks whether it is complete
        payloads = [payload for _, payload in self._framing.documents(bytes(self._held))]
        try:
            for payload in payloads:
                if payload != END_MARK:
                    json.decode_frame(payload)
        except DecodeError:
            return bytes(self._held), False
        return (bytes(self._held) + self._framing.end, True) if payloads else (bytes(self._held), False)

    def lacks(self, error: ApiError, frame: bytes) -> bool:
        """Return whether the client needs toolglot's own error event. The upstream's frame may not contain this error,
        may contain data that clients must not see, or may use the wording or form of another vendor."""
        if self._exchange.client.stream.apart or error.in_foreign_form:
            return True
        if error.code == CONTEXT_OVERFLOW and not self._exchange.client.answer.overflow_words.search(frame):
            return True
        return error.code in OWN_CODES or self._exchange.hide(error) is not error

    def last(self, frame: bytes, finish: Finish, encoder: StreamEncoder, called: bool) -> bytes:
        """Return the last frame of a stream, with members that clients need and some servers omit."""
        marked, last = is_end_mark(frame), self._exchange.client.stream.last_event
        if marked and finish.stop.raw is None:
            # A stream of chunks without a `finish_reason` makes some clients fail and others retry forever.
            return encoder.feed(Finish(stop=Stop("tool_calls" if called else finish.stop.reason)))
        return last if not frame or (marked and not is_end_mark(last)) else frame

    def release(self, frame: bytes, *, calls: bool = False, ends: bool = False) -> bytes:
        """Return the frame for the client. Empty if the frame must wait because it has a call or follows one."""
        if not frame.startswith(b":"):
            self._released = frame or self._released
        frame = json.escape_line_separators(frame if self._alias is None else self._rename(frame, self._alias))
        if not self._waiting and not (calls and self._exchange.client.stream.holds_calls):
            return frame
        self._waiting.append(frame)
        return b"".join(self._waiting) if ends else b""

    def numbered(self, own: bytes) -> bytes:
        """Number an event that toolglot adds after the upstream's last event. Responses numbers its events."""
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
        """Rename the model in a document; None for one line of a multi-line document, or invalid JSON, which the
        decoder reports."""
        try:
            return rename_model(document, self._places, alias)
        except DecodeError:
            return None
