"""Framings of a stream: server-sent events, or lines of JSON."""

from __future__ import annotations

from msgspec import Struct

from toolglot.wire.sse import Frame, SseReader, end_of_frames, is_event_stream, split_frames


class Framing(Struct, frozen=True, kw_only=True):
    """How a stream separates its documents. `end` ends a frame; `is_bare` says whether a frame is the document
    itself."""

    media_type: str
    """The `accept` header of a request, and the start of an answer's content type."""
    end: bytes
    """The bytes written after each frame."""
    noun: str
    """The name of a frame in messages."""
    is_bare: bool = False
    """True if a frame is a JSON document without SSE fields around it."""
    can_be_array: bool = False
    """True if the documents may also arrive as the elements of one JSON array."""

    def split(self, data: bytes) -> list[bytes]:
        """Split the data into frames. Each keeps its end; the last one may be incomplete."""
        return data.splitlines(keepends=True) if self.is_bare else split_frames(data)

    def end_of_frames(self, data: bytearray, start: int) -> int:
        """Find the end of the last complete frame. Looks only for ends after `start`; 0 if there is none."""
        return data.rfind(b"\n", start) + 1 if self.is_bare else end_of_frames(data, start)

    def documents(self, data: bytes) -> list[Frame]:
        """Read the documents in the data, each with the name of its event."""
        if self.is_bare:
            return [(b"", line) for line in data.splitlines() if line.strip()]
        reader = SseReader(len(data) + 1)
        return [*reader.feed(data), *reader.close()]

    def is_stream(self, data: bytes) -> bool:
        """Return whether the data begins like a stream, not like a whole document."""
        if not self.is_bare:
            return is_event_stream(data)
        head, newline, rest = data.lstrip().partition(b"\n")
        return head.startswith(b"{") and head.rstrip().endswith(b"}") and bool(newline and rest.strip())

    def is_document(self, data: bytes) -> bool:
        """Return whether the data is one document, not a stream."""
        return data.lstrip().startswith(b"{") and not (self.is_bare and self.is_stream(data))


EVENTS = Framing(media_type="text/event-stream", end=b"\n\n", noun="server-sent event")
EVENTS_OR_ARRAY = Framing(media_type="text/event-stream", end=b"\n\n", noun="server-sent event", can_be_array=True)
LINES = Framing(media_type="application/x-ndjson", end=b"\n", noun="line of JSON", is_bare=True)
