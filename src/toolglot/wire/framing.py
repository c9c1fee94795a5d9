"""How the documents of a stream are told apart on the wire: as server-sent events, or as lines of JSON."""

from __future__ import annotations

from msgspec import Struct

from toolglot.wire.sse import Frame, SseReader, end_of_frames, is_event_stream, split_frames


class Framing(Struct, frozen=True, kw_only=True):
    """Frames are cut by `end`, and what is in one depends on `is_bare`."""

    media_type: str
    """What a request accepts, and how the content type of an answer begins."""
    end: bytes
    """The bytes that end a frame as it is written here."""
    noun: str
    """What a frame is called."""
    is_bare: bool = False
    """A frame is a JSON document with nothing around it."""
    can_be_array: bool = False
    """The documents may also come as the elements of one JSON array."""

    def split(self, data: bytes) -> list[bytes]:
        """The frames one by one, each with what ends it; what comes behind the last end is the last one."""
        return data.splitlines(keepends=True) if self.is_bare else split_frames(data)

    def end_of_frames(self, data: bytearray, start: int) -> int:
        """Where the last whole frame ends that ends after `start`, else 0."""
        return data.rfind(b"\n", start) + 1 if self.is_bare else end_of_frames(data, start)

    def documents(self, data: bytes) -> list[Frame]:
        """The documents in these bytes, each with the name of its event."""
        if self.is_bare:
            return [(b"", line) for line in data.splitlines() if line.strip()]
        reader = SseReader(len(data) + 1)
        return [*reader.feed(data), *reader.close()]

    def is_stream(self, data: bytes) -> bool:
        """Do these bytes begin as a stream does that is no whole document?"""
        if not self.is_bare:
            return is_event_stream(data)
        head, newline, rest = data.lstrip().partition(b"\n")
        return head.startswith(b"{") and head.rstrip().endswith(b"}") and bool(newline and rest.strip())

    def is_document(self, data: bytes) -> bool:
        """Are these bytes one document, and no stream?"""
        return data.lstrip().startswith(b"{") and not (self.is_bare and self.is_stream(data))


EVENTS = Framing(media_type="text/event-stream", end=b"\n\n", noun="server-sent event")
EVENTS_OR_ARRAY = Framing(media_type="text/event-stream", end=b"\n\n", noun="server-sent event", can_be_array=True)
LINES = Framing(media_type="application/x-ndjson", end=b"\n", noun="line of JSON", is_bare=True)
