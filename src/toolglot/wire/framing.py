"""How the documents of a stream are told apart on the wire: as server-sent events, or as lines of JSON."""

from __future__ import annotations

from msgspec import Struct


class Framing(Struct, frozen=True, kw_only=True):
    """Frames are cut by `end`, and what is in one depends on `is_bare`."""

    media_type: str
    """What a request accepts, and how an answer begins its content type."""
    end: bytes
    """The bytes that end a frame as it is written here."""
    is_bare: bool = False
    """A frame is a JSON document with nothing around it."""
    can_be_array: bool = False
    """The documents may also come as the elements of one JSON array."""


EVENTS = Framing(media_type="text/event-stream", end=b"\n\n")
EVENTS_OR_ARRAY = Framing(media_type="text/event-stream", end=b"\n\n", can_be_array=True)
LINES = Framing(media_type="application/x-ndjson", end=b"\n", is_bare=True)
