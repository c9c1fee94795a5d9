"""Reading a request's body, bounded in bytes and in time, and decompressing it.

Each exception holds the error for the client. The caller encodes it in the client's dialect::

    BodyError
    ├── BodyTooLarge          413   over `limits.body`, as sent or inflated
    ├── BodyTimeout           408   nothing arrived for `limits.body_idle` seconds, or not all in `limits.body_time`
    ├── TooManyBodies         503   too many bodies are in memory, for `limits.body_wait` seconds
    ├── UnsupportedEncoding   415   compressed with an unsupported coding
    ├── CorruptBody           400   the compressed data are damaged, too short or too long
    └── ClientGone            499   the client has disconnected

The limit applies to the decompressed body and is checked during decompression, so a zip bomb costs no more than an
ordinary body. After any of these errors the rest of the request is unread: the connection cannot be used again.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Protocol, TypeVar

from toolglot.config.schema import Limits
from toolglot.errors import ApiError, ToolglotError
from toolglot.server.body_budget import SMALL_BODY, BodyHold, NoRoomError
from toolglot.wire.incremental_json import allocate_buffer
from toolglot.wire.sse import BYTE_ORDER_MARK

_PIECE = 1024 * 1024
"""Bytes that are decompressed at a time, about one millisecond of work. Other requests run in between."""

_RETRY_AFTER = 5.0
"""`retry-after` in seconds. Bodies stay in memory for as long as their answers take."""

T = TypeVar("T")


class BodyError(ToolglotError):
    """The body cannot be read. `error` is for the client."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error


class BodyTooLarge(BodyError):  # noqa: N818
    pass


class BodyTimeout(BodyError):  # noqa: N818
    pass


class TooManyBodies(BodyError):  # noqa: N818
    pass


class UnsupportedEncoding(BodyError):  # noqa: N818
    pass


class CorruptBody(BodyError):  # noqa: N818
    pass


class ClientGone(BodyError):  # noqa: N818
    pass


def decode_headers(fields: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Decode a request's headers, keyed by lower-case name. The first value of a repeated header counts."""
    headers: dict[str, str] = {}
    for name, value in fields:
        headers.setdefault(name.decode("latin-1"), value.decode("latin-1"))
    return headers


async def read_body(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    limits: Limits,
    hold: BodyHold | None = None,
) -> bytes:
    """Read the whole body, decompress it, and charge it to the budget. Raises a `BodyError`."""
    fields = dict(reversed(list(scope["headers"])))  # the first value of a repeated header counts
    decoder = _make_decoder(fields.get(b"content-encoding", b"").decode("latin-1"), limits.body)
    length = fields.get(b"content-length", b"0")
    # Conversion of a very long number would take time; it exceeds any limit anyway.
    if len(length) > 18 or int(length) > limits.body:
        raise _too_large_error(limits.body)
    if hold is not None:
        await _await_room(hold.enter(int(length), limits.body_wait))
    whole = allocate_buffer(int(length) if decoder is None else 0)
    size = 0
    clock = _BodyClock(limits)
    more = True
    while more:
        message = await clock.wait_for(receive())
        if message["type"] == "http.disconnect":
            raise ClientGone(ApiError(kind="bad_request", status=499, message="The client disconnected"))
        body, more = message.get("body", b""), message.get("more_body", False)
        size += len(body)
        if size > limits.body:
            raise _too_large_error(limits.body)
        if not more and size == len(body) and decoder is None:
            if size > SMALL_BODY:
                await charge_body(hold, body, limits)
            return bytes(body).removeprefix(BYTE_ORDER_MARK)  # most bodies arrive in one piece
        for piece in [body] if decoder is None else await decoder.feed(body):
            await clock.pause_for(charge_piece(hold, piece, limits))
            whole.write(piece)
    if decoder is not None and size:
        decoder.close()
    if hold is not None:
        hold.settle()
    whole.truncate()
    return whole.getvalue().removeprefix(BYTE_ORDER_MARK)


class _BodyClock:
    """Bounds the time that a client takes for its body. Time in which the server does not read does not count."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._now = asyncio.get_running_loop().time
        self._end = self._now() + limits.body_time

    async def wait_for(self, message: Awaitable[T]) -> T:
        """Wait for the next piece. Raises `BodyTimeout`."""
        idle = self._now() + self._limits.body_idle
        try:
            async with asyncio.timeout_at(min(idle, self._end)):
                return await message
        except TimeoutError:
            late = f"The request's body did not arrive completely within {self._limits.body_time:g} seconds"
            silent = f"No data of the request's body arrived for {self._limits.body_idle:g} seconds"
            text = silent if idle < self._end else late
            raise BodyTimeout(ApiError(kind="timeout", status=408, code="body_timeout", message=text)) from None

    async def pause_for(self, work: Awaitable[None]) -> None:
        """Await work that does not count as the client's time."""
        began = self._now()
        await work
        self._end += self._now() - began


async def charge_body(hold: BodyHold | None, body: bytes, limits: Limits) -> None:
    """Charge a whole body to the budget; waits for room. Raises `TooManyBodies`."""
    for at in range(0, len(body), _PIECE):
        await charge_piece(hold, body[at : at + _PIECE], limits)
    if hold is not None:
        hold.settle()


async def charge_piece(hold: BodyHold | None, piece: bytes, limits: Limits) -> None:
    """Charge a piece of a body to the budget; waits for room. Raises `TooManyBodies`."""
    if hold is not None:
        await _await_room(hold.add(piece, limits.body_wait))


async def _await_room(work: Awaitable[None]) -> None:
    try:
        await work
    except NoRoomError:
        message = "The requests in progress use all the memory that limits.bodies allows"
        raise TooManyBodies(
            ApiError(kind="overloaded", status=503, code="too_many_bodies", message=message, retry_after=_RETRY_AFTER)
        ) from None


def _too_large_error(limit: int) -> BodyTooLarge:
    message = f"The request's body is larger than {limit} bytes"
    return BodyTooLarge(ApiError(kind="too_large", status=413, code="body_too_large", message=message))


class _ZlibDecompressor(Protocol):
    """The type of `zlib.decompressobj()`, which has no public name."""

    @property
    def eof(self) -> bool: ...

    @property
    def unconsumed_tail(self) -> bytes: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _gzip(first: bytes) -> _ZlibDecompressor:
    return zlib.decompressobj(31)


def _deflate(first: bytes) -> _ZlibDecompressor:
    """Inflate a body. RFC 9110 requires the zlib format, but some senders omit its header. The first two bytes
    distinguish the two (RFC 1950)."""
    wrapped = len(first) >= 2 and first[0] & 0x0F == 8 and int.from_bytes(first[:2], "big") % 31 == 0
    return zlib.decompressobj(15 if wrapped else -15)


_INFLATERS: dict[str, Callable[[bytes], _ZlibDecompressor]] = {"gzip": _gzip, "x-gzip": _gzip, "deflate": _deflate}


class _Decoder:
    """Accepts bytes cut anywhere, and one compressed stream only: data after its end is an error."""

    def __init__(self, make: Callable[[bytes], _ZlibDecompressor], limit: int) -> None:
        self._make = make
        self._limit = limit
        self._left = limit
        self._begin = b""
        self._inflater: _ZlibDecompressor | None = None

    async def feed(self, data: bytes) -> list[bytes]:
        if self._inflater is None:
            data = self._begin + data
            if len(data) < 2:
                self._begin = data
                return []
            self._inflater = self._make(data)
        pieces = []
        more = bool(data)
        while more:
            most = min(_PIECE, self._left + 1)
            try:
                piece = self._inflater.decompress(data, most)
            except zlib.error:
                raise _corrupt_error("is not what its content-encoding says") from None
            self._left -= len(piece)
            if self._left < 0:
                raise _too_large_error(self._limit)
            if self._inflater.unused_data:
                raise _corrupt_error("continues after the end of its compressed data")
            pieces.append(piece)
            data = self._inflater.unconsumed_tail
            # After a full piece zlib may hold more output, even if it has read all of its input.
            more = bool(data) or len(piece) == most
            await asyncio.sleep(0)
        return pieces

    def close(self) -> None:
        if self._inflater is None or not self._inflater.eof:
            raise _corrupt_error("ends before its compressed data do")


def _corrupt_error(what: str) -> CorruptBody:
    message = f"The request's body {what}"
    return CorruptBody(ApiError(kind="bad_request", status=400, code="bad_encoding", message=message))


def _make_decoder(encoding: str, limit: int) -> _Decoder | None:
    encodings = [name for part in encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
    if not encodings:
        return None
    if len(encodings) == 1 and encodings[0] in _INFLATERS:
        return _Decoder(_INFLATERS[encodings[0]], limit)
    message = "content-encoding: only gzip, deflate and identity are read here, and one of them at a time"
    raise UnsupportedEncoding(
        ApiError(kind="bad_request", status=415, code="unsupported_encoding", param="content-encoding", message=message)
    )
