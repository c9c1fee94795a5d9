"""Gemini's other way to stream: without `alt=sse` the frames of a stream are the elements of one JSON array."""

from __future__ import annotations

from collections.abc import Mapping

from toolglot.server.routes import Match
from toolglot.wire.sse import SseReader

_SEPARATOR = b"\r\n,\r\n"


class JsonArray:
    """The bytes of a stream of events in, the bytes of an array out: each element whole, as soon as its frame is."""

    headers: Mapping[str, str] = {"content-type": "application/json; charset=UTF-8"}

    def __init__(self) -> None:
        self._reader = SseReader()
        self._written = False

    def feed(self, data: bytes) -> bytes:
        """What goes out for these bytes. Blank lines keep a connection alive in an array too."""
        elements = b"".join(self._encode_element(document) for _, document in self._reader.feed(data))
        return elements or (b"" if data.strip() else data)

    def close(self) -> bytes:
        """The end of the array."""
        return b"]" if self._written else b"[]"

    def wrap(self, document: bytes) -> bytes:
        """An array of one document: how an error is told before the stream has begun."""
        return b"[" + document + b"]"

    def _encode_element(self, document: bytes) -> bytes:
        lead, self._written = _SEPARATOR if self._written else b"[", True
        return lead + document


def wants_json_array(match: Match, query: Mapping[str, str]) -> bool:
    """Does this request ask for an array? Only `alt=sse` asks for events."""
    return match.route.streams is True and query.get("alt") != "sse"
