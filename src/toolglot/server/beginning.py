"""An answer that has begun: its first bytes, and the way to the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from msgspec import Struct, field

from toolglot.dialect import StreamEncoder
from toolglot.errors import ApiError
from toolglot.ir import replace
from toolglot.streaming import StreamTranslation
from toolglot.textcalls.settings import BAD_TOOL_CALL
from toolglot.translate import Exchange
from toolglot.upstream.aside import LARGE, aside
from toolglot.upstream.transport import Reply, too_large


def may_end_large_event(held: int, chunk: bytes) -> bool:
    """Whether this piece of a stream may end an event of so many bytes that it is translated in a thread. Up to its
    end an event is only collected, which is no work."""
    return held > LARGE and (b"\n" in chunk or b"\r" in chunk)


class StreamFeeder:
    """Feeds the pieces of a stream to its translation. An event of megabytes is one piece of work, whose last bytes may
    be few: it is translated in a thread."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = 0  # bytes that nothing has come of yet

    async def __call__(self, translation: StreamTranslation, chunk: bytes) -> bytes:
        self._held += len(chunk)
        if may_end_large_event(self._held, chunk):
            out = await aside(self._held, translation.feed, chunk)
        else:
            out = translation.feed(chunk)
        if out:
            self._held = 0
        return out


class Answer(Struct, kw_only=True):
    """An answer that has begun. `whole` is all of it; else `first` and what `chunks` still bring."""

    exchange: Exchange
    reply: Reply
    headers: Mapping[str, str] = {}
    """The reply's, but those that repeat a credential."""
    whole: bytes | None = None
    first: bytes = b""
    translation: StreamTranslation | None = None
    chunks: AsyncIterator[bytes] | None = None
    feed: StreamFeeder = field(default_factory=StreamFeeder)


class Bounded:
    """The pieces of a body, up to a number of bytes; a `TransportError` after that."""

    def __init__(self, chunks: AsyncIterator[bytes], limit: int) -> None:
        self._chunks = chunks
        self._limit = self._left = limit

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await anext(self._chunks)
        self._left -= len(chunk)
        if self._left < 0:
            raise too_large(self._limit)
        return chunk


async def begin_stream(
    exchange: Exchange, reply: Reply, limit: int, encoder: StreamEncoder | None
) -> Answer | ApiError:
    """Read on until there is something to tell the client. An error that comes first is an error of the request; not so
    a call that cannot be run: that is how this answer ends, however much of it came at once."""
    translation = exchange.stream(encoder)
    chunks = Bounded(aiter(reply.chunks()), limit)
    first, feed = b"", StreamFeeder()
    while not first and not translation.ended and translation.wants_again is None:
        chunk = await anext(chunks, None)
        if chunk is None:
            first = translation.close()
            break
        first = await feed(translation, chunk)
    if translation.fault is not None and translation.fault.code != BAD_TOOL_CALL:
        by = None if translation.is_document else exchange.upstream.name
        return replace(translation.fault, streamed_by=by)
    return Answer(exchange=exchange, reply=reply, first=first, translation=translation, chunks=chunks, feed=feed)
