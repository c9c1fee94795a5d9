"""Convert the stream chunks of library callers: bytes, text, parsed events, or events of an SDK."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from toolglot.wire import json
from toolglot.wire.sdk_objects import describe_type, is_sdk_object

if TYPE_CHECKING:
    from toolglot.dialect import StreamShape
    from toolglot.wire.framing import Framing

Chunk: TypeAlias = json.Document
"""A part of a stream: bytes or text that may be split anywhere, or one event as parsed JSON or as an SDK's object."""

_RAW = (bytes, bytearray, memoryview, str)


def to_frame(chunk: Chunk, framing: Framing) -> bytes:
    """Convert a chunk to bytes. An event that is parsed JSON or an SDK's object becomes a frame.

    Raises:
        TypeError: it is not a chunk of a stream.
    """
    if isinstance(chunk, _RAW):
        return json.to_bytes(chunk)
    document = json.escape_line_separators(json.to_bytes(chunk))
    return document + framing.end if framing.is_bare else b"data: " + document + framing.end


def join_chunks(source: Chunk | Iterable[Chunk], framing: Framing) -> bytes:
    """Return the bytes of a recorded stream.

    Raises: TypeError: it is not a stream.
    """
    return b"".join(to_frame(chunk, framing) for chunk in _iterate(source))


def read_chunks(source: Chunk | Iterable[Chunk], shape: StreamShape) -> Iterator[bytes]:
    """Yield the bytes of a stream. A stream that is passed as a whole is one chunk.

    Raises:
        TypeError: it is not a stream.
    """
    frame, is_parsed = b"", False
    for chunk in _iterate(source):
        is_parsed = not isinstance(chunk, _RAW)
        frame = to_frame(chunk, shape.framing)
        yield frame
    if is_parsed:
        yield _missing_end(frame, shape)


async def read_async_chunks(source: AsyncIterable[Chunk] | Iterable[Chunk], shape: StreamShape) -> AsyncIterator[bytes]:
    """Read chunks from an asynchronous source, like `read_chunks`."""
    if not isinstance(source, AsyncIterable):
        for data in read_chunks(source, shape):
            yield data
        return
    frame, is_parsed = b"", False
    async for chunk in source:
        is_parsed = not isinstance(chunk, _RAW)
        frame = to_frame(chunk, shape.framing)
        yield frame
    if is_parsed:
        yield _missing_end(frame, shape)


def _iterate(source: Chunk | Iterable[Chunk]) -> Iterable[Chunk]:
    if isinstance(source, (*_RAW, Mapping)) or is_sdk_object(source):
        return (source,)  # type: ignore[return-value]
    if isinstance(source, Iterable):
        return source
    hint = "; use translate_stream_async" if isinstance(source, AsyncIterable) else ""
    raise TypeError(f"expected a stream as bytes or an iterable of chunks, not {describe_type(source)}{hint}")


def _missing_end(frame: bytes, shape: StreamShape) -> bytes:
    """Return the final event, if the parsed events lack it: SDKs do not pass on the end marker of Chat Completions."""
    return b"" if shape.last_event.endswith(frame) else shape.last_event
