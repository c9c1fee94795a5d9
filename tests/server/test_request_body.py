"""Bodies that are too large, too slow, compressed or cut off: from raw sockets where the wire matters."""

from __future__ import annotations

import asyncio
import gzip
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import pytest

from tests.server.loopback import HEAD, Served, json_of, responses_in, serve, status_of, until_close, until_response
from tests.waiting import FAILSAFE
from toolglot.config.schema import Limits
from toolglot.errors import error_status
from toolglot.server.request_body import (
    BodyTooLarge,
    ClientGone,
    CorruptBody,
    UnsupportedEncoding,
    decode_headers,
    read_body,
)

POST = b"POST /echo HTTP/1.1\r\n" + HEAD
LIMITS = Limits(body=100_000, body_idle=0.5)
TEXT = b'{"model": "demo", "messages": []}'

Headers = list[tuple[bytes, bytes]]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve(limits=LIMITS) as server:
        yield server


def chunked(data: bytes, size: int = 10_000) -> bytes:
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def read(headers: Headers, pieces: list[bytes], limits: Limits = LIMITS) -> bytes:
    """The body that comes in these pieces."""
    waiting = list(pieces)

    async def receive() -> MutableMapping[str, Any]:
        body = waiting.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(waiting)}

    return asyncio.run(read_body({"type": "http", "headers": headers}, receive, limits))


def test_headers_are_found_by_their_names_and_the_first_of_two_counts() -> None:
    raw = [(b"host", b"localhost"), (b"x", b"first"), (b"x", b"second"), (b"y", b"\xe9")]
    assert decode_headers(raw) == {"host": "localhost", "x": "first", "y": "é"}


@pytest.mark.parametrize("size", [0, 1, 64 * 1024 + 1, LIMITS.body])
def test_a_body_up_to_the_limit_arrives_whole(served: Served, size: int) -> None:
    for framed in (
        b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (size, b"a" * size),
        b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunked(b"a" * size),
    ):
        answer = served.exchange(POST + framed)
        assert (status_of(answer), json_of(answer)["size"]) == (200, size)


def test_a_body_over_the_limit_is_refused_by_its_length_alone(served: Served) -> None:
    answer = served.exchange(POST + b"Content-Length: %d\r\n\r\n" % (LIMITS.body + 1))
    assert (status_of(answer), responses_in(answer)) == (413, 1)
    assert "100000 bytes" in json_of(answer)["error"]


def test_no_length_is_too_long_to_be_refused() -> None:
    with pytest.raises(BodyTooLarge):
        read([(b"content-length", b"9" * 60_000)], [b""])


def test_a_client_that_waits_for_100_is_not_asked_for_a_body_over_the_limit(served: Served) -> None:
    answer = served.exchange(POST + b"Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n")
    assert status_of(answer) == 413
    assert b"100 Continue" not in answer


def test_a_body_over_the_limit_without_a_length_is_refused_while_it_is_still_being_sent(served: Served) -> None:
    answer = served.exchange(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"a" * 5_000_000))
    assert (status_of(answer), responses_in(answer)) == (413, 1)


def test_a_body_that_stops_coming_is_answered_with_408_and_the_connection_closed(served: Served) -> None:
    answer = served.exchange(POST + b"Content-Length: 10\r\n\r\nabc")
    assert (status_of(answer), responses_in(answer)) == (408, 1)
    assert "0.5 seconds" in json_of(answer)["error"]


def test_others_are_served_while_bodies_are_held_back(served: Served) -> None:
    with served.connect() as slow:
        slow.sendall(POST + b"Content-Length: 10\r\n\r\nabc")
        with served.connect() as other:
            for _ in range(3):
                other.sendall(POST + b"Content-Length: 3\r\n\r\nabc")
                assert status_of(until_response(other)) == 200
        assert status_of(until_close(slow)) == 408


def test_a_body_that_keeps_coming_may_take_longer_than_the_idle_time() -> None:
    """On a clock of its own: each piece comes after most of the idle time."""
    now = 0.0

    class Loop(asyncio.SelectorEventLoop):
        def time(self) -> float:
            return now

    async def receive() -> MutableMapping[str, Any]:
        nonlocal now
        now += 29.0
        pieces.append(b"a")
        return {"type": "http.request", "body": b"a", "more_body": len(pieces) < 10}

    pieces: list[bytes] = []
    with asyncio.Runner(loop_factory=Loop) as runner:
        body = runner.run(read_body({"headers": []}, receive, Limits()))
    assert (body, now) == (b"a" * 10, 290.0)


def test_a_client_that_goes_away_is_no_timeout(served: Served) -> None:
    served.app.disconnected.clear()
    with served.connect() as connection:
        connection.sendall(POST + b"Content-Length: 10\r\n\r\nabc")
    assert served.app.disconnected.wait(FAILSAFE)


def test_a_client_that_has_gone_is_told_as_such() -> None:
    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientGone) as raised:
        asyncio.run(read_body({"headers": []}, receive, LIMITS))
    assert raised.value.error.status == 499


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZip": gzip.compress,
    "identity, gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
    "identity": bytes,
    "": bytes,
}


@pytest.mark.parametrize(("encoding", "compress"), COMPRESSED.items(), ids=COMPRESSED.keys())
def test_a_compressed_body_is_inflated_wherever_it_is_cut(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    headers = [(b"content-encoding", encoding.encode())]
    data = compress(TEXT)
    assert read(headers, [data]) == TEXT
    assert read(headers, [bytes([byte]) for byte in data]) == TEXT
    assert read(headers, [b"", data, b""]) == TEXT


@pytest.mark.parametrize("size", [1024 * 1024 - 1, 1024 * 1024, 1024 * 1024 + 1, 5_000_000])
def test_a_compressed_body_of_any_size_is_whole(size: int) -> None:
    limits = Limits(body=5_000_000)
    for text in (b"a" * size, bytes(range(256)) * (size // 256)):
        assert read([(b"content-encoding", b"gzip")], [gzip.compress(text)], limits) == text


def test_a_compressed_body_arrives_over_the_wire(served: Served) -> None:
    data = gzip.compress(TEXT)
    answer = served.exchange(
        POST + b"Content-Encoding: gzip\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data)
    )
    assert (status_of(answer), json_of(answer)["body"]) == (200, TEXT.decode())


@pytest.mark.parametrize("encoding", ["zstd", "br", "gzip, gzip", "compress", "gzip;q=1", "none"])
def test_other_encodings_are_refused_with_415_that_names_the_known_ones(served: Served, encoding: str) -> None:
    head = POST + b"Connection: close\r\nContent-Encoding: %s\r\n" % encoding.encode()
    answer = served.exchange(head + b"Content-Length: 3\r\n\r\nabc")
    assert (status_of(answer), responses_in(answer)) == (415, 1)
    assert "gzip, deflate and identity" in json_of(answer)["error"]
    with pytest.raises(UnsupportedEncoding) as raised:
        read([(b"content-encoding", encoding.encode())], [b"abc"])
    assert raised.value.error.param == "content-encoding"


@pytest.mark.parametrize(
    ("compress", "encoding"), [(gzip.compress, b"gzip"), (zlib.compress, b"deflate"), (raw_deflate, b"deflate")]
)
def test_a_bomb_is_refused_without_being_held_in_memory(compress: Callable[[bytes], bytes], encoding: bytes) -> None:
    bomb = compress(b"\0" * (64 * 1024 * 1024))
    assert len(bomb) < LIMITS.body
    tracemalloc.start()
    started = time.process_time()
    try:
        with pytest.raises(BodyTooLarge) as raised:
            read([(b"content-encoding", encoding)], [bomb])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert raised.value.error.status == 413
    assert peak < 20 * LIMITS.body
    assert time.process_time() - started < 5.0


DAMAGED = {
    "not compressed at all": (b"gzip", TEXT),
    "zlib's format under gzip's name": (b"gzip", zlib.compress(TEXT)),
    "cut off": (b"gzip", gzip.compress(TEXT)[:-4]),
    "one byte": (b"gzip", b"\x1f"),
    "a wrong checksum": (b"gzip", gzip.compress(TEXT)[:-8] + b"\0" * 8),
    "two streams": (b"gzip", gzip.compress(TEXT) * 2),
    "something behind it": (b"deflate", zlib.compress(TEXT) + b"x"),
}


@pytest.mark.parametrize(("encoding", "data"), DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_compressed_data_are_refused_with_400(encoding: bytes, data: bytes) -> None:
    for pieces in ([data], [bytes([byte]) for byte in data]):
        with pytest.raises(CorruptBody) as raised:
            read([(b"content-encoding", encoding)], pieces)
        assert error_status(raised.value.error) == 400


def test_an_empty_body_is_empty_in_any_encoding() -> None:
    assert read([(b"content-encoding", b"gzip")], [b""]) == b""
