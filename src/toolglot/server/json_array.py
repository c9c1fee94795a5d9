"""Gemini's second stream format: without `alt=sse`, the frames of a stream are the elements of one JSON array."""

from __future__ import annotations

from collections.abc import Mapping

from toolglot.manifest import Route
from toolglot.wire.sse import SseReader

_SEPARATOR = b"\r\n,\r\n"


class JsonArray:
    """Converts the bytes of an event stream to a JSON array. Each element is written when its frame is complete."""

    headers: Mapping[str, str] = {"content-type": "application/json; charset=UTF-8"}

    def __init__(self) -> None:
        self._reader = SseReader()
        self._written = False

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to send for these bytes. Blank lines keep the connection alive in an array, too."""
        elements = b"".join(self._encode_element(document) for _, document in self._reader.feed(data))
        return elements or (b"" if data.strip() else data)

    def close(self) -> bytes:
        """Return the end of the array."""
        return b"]" if self._written else b"[]"

    def wrap(self, document: bytes) -> bytes:
        """Wrap one document in an array: the form of an error before the stream has begun."""
        return b"[" + document + b"]"

    def _encode_element(self, document: bytes) -> bytes:
        lead, self._written = _SEPARATOR if self._written else b"[", True
        return lead + document


def wants_json_array(route: Route, query: Mapping[str, str]) -> bool:
    """Return whether this request asks for an array. Only `alt=sse` asks for events."""
    return route.streams is True and query.get("alt") != "sse"
