"""Functions that translate one document: a request, a response, a stream, an error. They are thin wrappers around
`Exchange`. Programs that handle whole exchanges (a request, then its answer) use `Exchange` itself, because tool names
that were shortened for the upstream can be restored only by the exchange that shortened them.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from toolglot.dialects import AnyDialect, find
from toolglot.errors import ApiError, HttpError, UpstreamError
from toolglot.events import Event
from toolglot.ir import Response, Stop, Usage
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore
from toolglot.wire import json, sdk_objects
from toolglot.wire.chunks import Chunk, read_async_chunks, read_chunks
from toolglot.wire.json import Document

if TYPE_CHECKING:
    from toolglot.wire.framing import Framing

T = TypeVar("T")


class Translated(Struct, frozen=True):
    """The translated bytes and the receipt.

    `translated.as_model(anthropic.types.Message)` converts the data to an object of an SDK.
    """

    data: bytes
    receipt: Receipt

    def json(self) -> Any:
        """Return the data as Python values."""
        return json.decode_frame(self.data)

    def as_model(self, model: type[T]) -> T:
        """Return the data as an object of an SDK's class (a pydantic model, or a union of them)."""
        validated: T = sdk_objects.validate(model, self.json())
        return validated


class _StreamResult:
    """Metadata of a translated stream; complete once its chunks are used up."""

    def __init__(self, exchange: ExchangeCore) -> None:
        self._receipt = exchange.receipt
        self._translation = exchange.stream()
        self._upstream = exchange.upstream.stream
        self._framing = exchange.client.stream.framing

    @property
    def receipt(self) -> Receipt:
        """The losses and changes. Complete once the stream has ended."""
        return self._receipt

    @property
    def usage(self) -> Usage | None:
        """The token counts of the answer; None until the stream has ended, or if it has none."""
        return self._translation.usage

    @property
    def stop(self) -> Stop | None:
        """The stop reason; None until the answer has ended, or if it ended with an error."""
        return self._translation.stop

    @property
    def fault(self) -> ApiError | None:
        """The error that ended the stream, if one did. The client's bytes contain it too."""
        return self._translation.fault

    def _validate(self, model: type[T], event: Any) -> T:
        """Convert an event to an object. Most SDKs have no type for an error event, so the fault is raised instead."""
        try:
            validated: T = sdk_objects.validate(model, event)
        except ValueError:  # pydantic's ValidationError
            self._raise_fault()
            raise
        return validated

    def _raise_fault(self) -> None:
        if self.fault is not None:
            raise UpstreamError(self.fault) from None


class TranslatedStream(_StreamResult):
    """The client's bytes, chunk by chunk. `receipt`, `usage`, `stop` and `fault` are complete once the chunks are used
    up. Iterate over `json()` to get parsed events instead of bytes, or over `as_models(ChatCompletionChunk)`."""

    def __init__(self, exchange: ExchangeCore, chunks: Chunk | Iterable[Chunk]) -> None:
        super().__init__(exchange)
        self._chunks = read_chunks(chunks, self._upstream)

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if translated := self._translation.feed(chunk):
                yield translated
        if last := self._translation.close():
            yield last

    def json(self) -> Iterator[Any]:
        """Iterate over the events of the translated stream as Python values."""
        for data in self:
            yield from _parse_events(data, self._framing)

    def as_models(self, model: type[T]) -> Iterator[T]:
        """Iterate over the events as objects of an SDK's class (a pydantic model, or a union of them).

        Raises:
            UpstreamError: the stream ends with an error, after the events before it; `error` is the `fault`.
        """
        for event in self.json():
            yield self._validate(model, event)
        self._raise_fault()


class TranslatedAsyncStream(_StreamResult):
    """`TranslatedStream` for an asynchronous source."""

    def __init__(self, exchange: ExchangeCore, chunks: AsyncIterable[Chunk] | Iterable[Chunk]) -> None:
        super().__init__(exchange)
        self._chunks = read_async_chunks(chunks, self._upstream)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            if translated := self._translation.feed(chunk):
                yield translated
        if last := self._translation.close():
            yield last

    async def json(self) -> AsyncIterator[Any]:
        """Iterate over the events of the translated stream as Python values."""
        async for data in self:
            for event in _parse_events(data, self._framing):
                yield event

    async def as_models(self, model: type[T]) -> AsyncIterator[T]:
        """Iterate over the events as objects of an SDK's class (a pydantic model, or a union of them). Raises as
        `TranslatedStream.as_models` does."""
        async for event in self.json():
            yield self._validate(model, event)
        self._raise_fault()


def _parse_events(data: bytes, framing: Framing) -> Iterator[Any]:
    """Parse the documents in whole frames. Markers that are not JSON (`[DONE]`) are omitted."""
    for _, document in framing.documents(data):
        if document.startswith(b"{"):
            yield json.decode_frame(document)


def translate_request(
    data: Document,
    source: AnyDialect,
    target: AnyDialect,
    *,
    model: str | None = None,
    stream: bool | None = None,
    strict: bool = False,
) -> Translated:
    """Translate a request from the source's dialect to the target's.

    `translate_request(body, "openai_chat", "anthropic").data`

    `model` and `stream` override the request's own values. Gemini has them in the URL, not in the body.

    Raises:
        UnknownDialectError: there is no dialect of that name.
        DecodeError: the data is not a request of the source's dialect.
        LossError: strict, and something would be lost.
    """
    exchange = ExchangeCore(source, target, strict=strict)
    encoded = exchange.request(data, model=model, stream=stream)
    exchange.receipt.asked_at = None  # nothing more will be written, and its owner need not keep the messages
    return Translated(encoded, exchange.receipt)


def translate_response(data: Document, source: AnyDialect, target: AnyDialect, *, strict: bool = False) -> Translated:
    """Translate a whole response from the source's dialect to the target's.

    `translate_response(completion, "openai_chat", "anthropic").as_model(anthropic.types.Message)`

    Raises:
        UnknownDialectError: there is no dialect of that name.
        UpstreamDecodeError: the data is not a response of the source's dialect.
        UpstreamError: it is an error instead of a response.
        LossError: strict, and something would be lost.
    """
    exchange = ExchangeCore(target, source, strict=strict)
    return Translated(exchange.response(data), exchange.receipt)


def translate_stream(
    chunks: Chunk | Iterable[Chunk], source: AnyDialect, target: AnyDialect, *, strict: bool = False
) -> TranslatedStream:
    """Translate a streamed response from the source's dialect to the target's.

    `b"".join(translate_stream(chunks, "openai_chat", "anthropic"))`

    The chunks are bytes or text that may be split anywhere, or events as parsed JSON or as an SDK's objects.
    """
    return TranslatedStream(ExchangeCore(target, source, strict=strict), chunks)


def translate_stream_async(
    chunks: AsyncIterable[Chunk] | Iterable[Chunk], source: AnyDialect, target: AnyDialect, *, strict: bool = False
) -> TranslatedAsyncStream:
    """`translate_stream` for an asynchronous source."""
    return TranslatedAsyncStream(ExchangeCore(target, source, strict=strict), chunks)


def translate_error(
    status: int, headers: Mapping[str, str], body: Document, source: AnyDialect, target: AnyDialect
) -> HttpError:
    """Translate an HTTP error from the source's dialect to the target's.

    `translate_error(429, {"retry-after": "7"}, body, "openai_chat", "anthropic").body`
    """
    return ExchangeCore(target, source).error(status, headers, body)


def read_stream(chunks: Chunk | Iterable[Chunk], dialect: AnyDialect) -> Iterator[Event]:
    """Iterate over the events of a streamed response as they arrive. `fold(read_stream(chunks, "openai_chat"))`
    combines them into a `Response`.
    """
    found = find(dialect)
    decoder = found.stream_decoder(Receipt())
    for chunk in read_chunks(chunks, found.stream):
        yield from decoder.feed(chunk)
    yield from decoder.close()


def read_response(data: Document, dialect: AnyDialect) -> Response:
    """Decode a whole response, independent of any dialect.

    `read_response(body, "gemini").content`

    Raises:
        DecodeError: the data is not a response of the dialect.
        UpstreamError: it is an error instead of a response.
    """
    return find(dialect).decode_response(json.to_bytes(data))
