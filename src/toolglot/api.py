"""Translation in one call: a request, a response, a stream, an error.

Everything here is a thin wrapper around `Exchange`, for callers who have one thing to translate. A program that
carries whole exchanges (a request, then its answer) uses `Exchange` itself, because tool names that were shortened for
the upstream can be restored only by the exchange that shortened them.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from toolglot.dialect import Dialect
from toolglot.dialects import find
from toolglot.errors import HttpError
from toolglot.events import Event
from toolglot.ir import Response
from toolglot.receipt import Receipt
from toolglot.streaming import StreamTranslation
from toolglot.translate import Document, Exchange
from toolglot.wire import json


class Translated(Struct, frozen=True):
    """What came out, and what it cost."""

    data: bytes
    receipt: Receipt

    def json(self) -> Any:
        """The data as Python values."""
        return json.decode_frame(self.data)


def _chunks(source: bytes | str | Iterable[bytes]) -> Iterable[bytes]:
    """A stream that is given whole is one chunk."""
    return (json.to_bytes(source),) if isinstance(source, (bytes, str)) else source


class TranslatedStream:
    """The client's bytes, chunk by chunk; `receipt` is complete once the chunks are used up."""

    def __init__(self, translation: StreamTranslation, receipt: Receipt, chunks: Iterable[bytes]) -> None:
        self.receipt = receipt
        self._translation = translation
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if translated := self._translation.feed(chunk):
                yield translated
        if last := self._translation.close():
            yield last


class TranslatedAsyncStream:
    """The same for an asynchronous source."""

    def __init__(self, translation: StreamTranslation, receipt: Receipt, chunks: AsyncIterable[bytes]) -> None:
        self.receipt = receipt
        self._translation = translation
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            if translated := self._translation.feed(chunk):
                yield translated
        if last := self._translation.close():
            yield last


def translate_request(
    data: Document,
    source: Dialect | str,
    target: Dialect | str,
    *,
    model: str | None = None,
    stream: bool | None = None,
    strict: bool = False,
) -> Translated:
    """A request in the source's dialect, as a request in the target's.

    `model` and `stream` override what the request says; Gemini has them in the URL, not in the body.
    """
    exchange = Exchange(source, target, strict=strict)
    encoded = exchange.request(data, model=model, stream=stream)
    exchange.receipt.asked_at = None  # nothing more will be written, and whoever keeps it need not keep the messages
    return Translated(encoded, exchange.receipt)


def translate_response(
    data: Document, source: Dialect | str, target: Dialect | str, *, strict: bool = False
) -> Translated:
    """A whole response in the source's dialect, as a response in the target's."""
    exchange = Exchange(target, source, strict=strict)
    return Translated(exchange.response(data), exchange.receipt)


def translate_stream(
    chunks: bytes | str | Iterable[bytes], source: Dialect | str, target: Dialect | str, *, strict: bool = False
) -> TranslatedStream:
    """A streamed response in the source's dialect, cut into chunks anywhere, as one in the target's."""
    exchange = Exchange(target, source, strict=strict)
    return TranslatedStream(exchange.stream(), exchange.receipt, _chunks(chunks))


def translate_stream_async(
    chunks: AsyncIterable[bytes], source: Dialect | str, target: Dialect | str, *, strict: bool = False
) -> TranslatedAsyncStream:
    """`translate_stream` for an asynchronous source."""
    exchange = Exchange(target, source, strict=strict)
    return TranslatedAsyncStream(exchange.stream(), exchange.receipt, chunks)


def translate_error(
    status: int, headers: Mapping[str, str], body: Document, source: Dialect | str, target: Dialect | str
) -> HttpError:
    """An HTTP error in the source's dialect, as one in the target's."""
    return Exchange(target, source).error(status, headers, body)


def read_stream(chunks: bytes | str | Iterable[bytes], dialect: Dialect | str) -> Iterator[Event]:
    """The events of a streamed response, as they come. `fold` adds them up to a `Response`."""
    decoder = find(dialect).stream_decoder(Receipt())
    for chunk in _chunks(chunks):
        yield from decoder.feed(chunk)
    yield from decoder.close()


def read_response(data: Document, dialect: Dialect | str) -> Response:
    """A whole response in nobody's dialect."""
    return find(dialect).decode_response(json.to_bytes(data))
