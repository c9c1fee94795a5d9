"""Where an answer ends: what is read, what is refused, and whether the connection may be used again.

A wrong guess here hands the bytes of one answer to the reader of another (RFC 9112, 11).
"""

from __future__ import annotations

import pytest
from msgspec import Struct

from tests.upstream.bad_server import BadServer, Gate, Script, close, expect, gone, reply, send
from tests.upstream.calls import SECRET, call
from tests.upstream.conformance.clients import Client, count_idle
from toolglot.upstream.transport import TransportError, UpstreamCall

OK = b"HTTP/1.1 200 OK\r\n"
TWO = b"Content-Length: 2\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
UPGRADE = b"Connection: upgrade\r\nUpgrade: h2c\r\n"


class Outcome(Struct, frozen=True):
    """What comes of an answer: its status, its body, and whether its connection is kept for the next; or a failure."""

    status: int = 0
    body: bytes = b""
    kept: bool = False
    failure: str = ""


KEPT = Outcome(200, b"{}", True)
CLOSED = Outcome(200, b"{}")
RESET = Outcome(failure="reset")
TOO_LARGE = Outcome(failure="too_large")
NO_END = Outcome(failure="timeout")


class Row(Struct, frozen=True):
    name: str
    raw: bytes
    outcome: Outcome


def _fields(count: int) -> bytes:
    return b"".join(b"X-%d: 1\r\n" % number for number in range(count))


ROWS = (
    Row("a length", OK + TWO + b"\r\n{}", KEPT),
    Row("a length with spaces around it", OK + b"Content-Length:  2 \r\n\r\n{}", KEPT),
    Row("no length at all, and an open connection", OK + b"\r\n{}", NO_END),
    Row("chunks", CHUNKED + b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", KEPT),
    Row("chunks, written large", OK + b"TRANSFER-ENCODING: Chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", KEPT),
    Row("a size with zeros before it", CHUNKED + b"0000002\r\n{}\r\n0\r\n\r\n", KEPT),
    Row("extensions of chunks", CHUNKED + b'2;a=b;c="d e"\r\n{}\r\n0;last\r\n\r\n', KEPT),
    Row("trailers", CHUNKED + b"2\r\n{}\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n", KEPT),
    Row("a trailer that gives a length", CHUNKED + b"2\r\n{}\r\n0\r\nContent-Length: 9\r\n\r\n", RESET),
    # Two ends, or none
    Row("a length, then chunks", OK + TWO + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", RESET),
    Row("chunks, then a length", OK + b"Transfer-Encoding: chunked\r\n" + TWO + b"\r\n2\r\n{}\r\n0\r\n\r\n", RESET),
    Row("two lengths", OK + TWO + b"Content-Length: 3\r\n\r\n{}", RESET),
    Row("the same length twice", OK + TWO + TWO + b"\r\n{}", RESET),
    Row("a list of lengths", OK + b"Content-Length: 2, 2\r\n\r\n{}", RESET),
    Row("two numbers in a length", OK + b"Content-Length: 2 2\r\n\r\n{}", RESET),
    Row("a length with a sign", OK + b"Content-Length: +2\r\n\r\n{}", RESET),
    Row("a length below zero", OK + b"Content-Length: -2\r\n\r\n{}", RESET),
    Row("a length in hexadecimal", OK + b"Content-Length: 0x2\r\n\r\n{}", RESET),
    Row("a length without a number", OK + b"Content-Length: \r\n\r\n{}", RESET),
    Row("a length that no number holds", OK + b"Content-Length: 99999999999999999999999\r\n\r\n{}", RESET),
    Row("a size in a programmer's hexadecimal", CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n", RESET),
    Row("a size below zero", CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n", RESET),
    Row("a size that no number holds", CHUNKED + b"10000000000000002\r\n{}\r\n0\r\n\r\n", RESET),
    Row("a chunk longer than its size", CHUNKED + b"2\r\n{}}\r\n0\r\n\r\n", RESET),
    Row("chunks with bare line feeds", CHUNKED + b"2\n{}\n0\n\n", RESET),
    Row("a size with a space after it", CHUNKED + b"2 \r\n{}\r\n0\r\n\r\n", RESET),
    # Codings
    Row("a coding that is not chunks", OK + b"Transfer-Encoding: gzip\r\n\r\n{}", RESET),
    Row("a coding of old", OK + b"Transfer-Encoding: identity\r\n\r\n{}", RESET),
    Row("a coding that nobody knows", OK + b"Transfer-Encoding: xchunked\r\n\r\n{}", RESET),
    Row("a coding after chunks", OK + b"Transfer-Encoding: chunked, gzip\r\n\r\n2\r\n", RESET),
    Row(
        "a coding inside chunks",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        RESET,
    ),
    Row(
        "chunks in chunks",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        RESET,
    ),
    # Lines
    Row("bare line feeds", b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", RESET),
    Row("a header after a bare line feed", OK + b"X: a\nContent-Length: 2\r\n\r\n{}", RESET),
    Row("a bare carriage return in a header", OK + b"X: a\rContent-Length: 9\r\n" + TWO + b"\r\n{}", RESET),
    Row("a NUL in a header", OK + b"X: a\0b\r\n" + TWO + b"\r\n{}", RESET),
    Row("a control character in a header", OK + b"X: a\x01b\r\n" + TWO + b"\r\n{}", RESET),
    Row("a header in two lines", OK + b"X: a\r\n b\r\n" + TWO + b"\r\n{}", RESET),
    Row("a length in two lines", OK + b"Content-Length:\r\n 2\r\n\r\n{}", RESET),
    Row("a space before a colon", OK + b"Content-Length : 2\r\n\r\n{}", RESET),
    Row("a space before the first header", OK + b" X: 1\r\n" + TWO + b"\r\n{}", RESET),
    Row("a space in a name", OK + b"X Y: 1\r\n" + TWO + b"\r\n{}", RESET),
    Row("a header without a name", OK + b": 1\r\n" + TWO + b"\r\n{}", RESET),
    Row("a header without a colon", OK + b"X\r\n" + TWO + b"\r\n{}", RESET),
    Row("a name for a name's sake", OK + b"X:\r\n" + TWO + b"\r\n{}", KEPT),
    Row("empty lines first", b"\r\n\r\n" + OK + TWO + b"\r\n{}", KEPT),
    # The first line
    Row("no reason phrase", b"HTTP/1.1 200\r\n" + TWO + b"\r\n{}", KEPT),
    Row("an unknown version", b"HTTP/1.2 200 OK\r\n" + TWO + b"\r\n{}", RESET),
    Row("two digits", b"HTTP/1.1 20 OK\r\n" + TWO + b"\r\n{}", RESET),
    Row("four digits", b"HTTP/1.1 2000 OK\r\n" + TWO + b"\r\n{}", RESET),
    Row("a status below all", b"HTTP/1.1 099 OK\r\n" + TWO + b"\r\n{}", RESET),
    Row("a status above all", b"HTTP/1.1 999 OK\r\n" + TWO + b"\r\n{}", Outcome(999, b"{}", True)),
    # Old servers
    Row("HTTP/1.0", b"HTTP/1.0 200 OK\r\n" + TWO + b"\r\n{}", CLOSED),
    Row("HTTP/1.0 that goes on", b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + TWO + b"\r\n{}", KEPT),
    Row("HTTP/1.0 in chunks", b"HTTP/1.0 200 OK\r\n" + CHUNKED[17:] + b"2\r\n{}\r\n0\r\n\r\n", CLOSED),
    Row("a connection that is to be closed", OK + b"Connection: x, Close\r\n" + TWO + b"\r\n{}", CLOSED),
    # No body
    Row("204", b"HTTP/1.1 204 No Content\r\n\r\n", Outcome(204, b"", True)),
    Row("204 with a length", b"HTTP/1.1 204 No Content\r\n" + TWO + b"\r\n", Outcome(204, b"", True)),
    Row("204 with a body", b"HTTP/1.1 204 No Content\r\n" + TWO + b"\r\n{}", Outcome(204)),
    Row("304 with a length", b"HTTP/1.1 304 Not Modified\r\n" + TWO + b"\r\n", Outcome(304, b"", True)),
    # Interim heads
    Row("100 first", CONTINUE + OK + TWO + b"\r\n{}", KEPT),
    Row("103 with a length first", b"HTTP/1.1 103 Hints\r\n" + TWO + b"\r\n" + OK + TWO + b"\r\n{}", KEPT),
    Row("as many interim heads as may be", CONTINUE * 31 + OK + TWO + b"\r\n{}", KEPT),
    Row("one more", CONTINUE * 32 + OK + TWO + b"\r\n{}", RESET),
    Row("interim heads without end", CONTINUE * 5000, RESET),
    Row("another protocol", b"HTTP/1.1 101 Go\r\n" + UPGRADE + b"\r\n", RESET),
    Row("another protocol without a name", b"HTTP/1.1 101 Go\r\n\r\n", RESET),
    Row("an upgrade that is offered", OK + UPGRADE + TWO + b"\r\n{}", KEPT),
    # Bytes after the end
    Row("an empty line too many", OK + TWO + b"\r\n{}\r\n", KEPT),
    Row("words too many", OK + TWO + b"\r\n{}}}", CLOSED),
    Row("words after the last", OK + b"Connection: close\r\n" + TWO + b"\r\n{}}}", CLOSED),
    Row("an answer too many", (OK + TWO + b"\r\n{}") * 2, CLOSED),
    Row("an answer after chunks", CHUNKED + b"2\r\n{}\r\n0\r\n\r\n" + OK + TWO + b"\r\n[]", CLOSED),
    # Limits
    Row("as many headers as may be", OK + _fields(127) + TWO + b"\r\n{}", KEPT),
    Row("one more header", OK + _fields(128) + TWO + b"\r\n{}", TOO_LARGE),
    Row("the same header too often", OK + b"X: 1\r\n" * 128 + TWO + b"\r\n{}", TOO_LARGE),
    Row("a large header", OK + b"X: " + b"a" * 32_000 + b"\r\n" + TWO + b"\r\n{}", KEPT),
    Row("a header over the limit", OK + b"X: " + b"a" * 33_000 + b"\r\n" + TWO + b"\r\n{}", TOO_LARGE),
    Row(
        "a long reason phrase",
        b"HTTP/1.1 200 " + b"a" * 9_000 + b"\r\n" + TWO + b"\r\n{}",
        KEPT,
    ),
)


async def outcome(client: Client, script: Script, wanted: str = "POST", idle: float = 300.0) -> Outcome:
    async with BadServer(script, [expect(), reply(b"other")]) as server, client.transport() as opened:
        asked = call(server.url, idle=idle)
        if wanted != "POST":
            asked = UpstreamCall(method=wanted, url=asked.url, headers={})
        try:
            answer = await opened.send(asked)
            body = await answer.read(1000)
        except TransportError as error:
            assert count_idle(opened) == 0
            assert SECRET not in str(error)
            return Outcome(failure=error.failure)
        answer.close()
        kept = count_idle(opened) == 1
        if not kept:  # and what was too much is not taken for the next answer
            assert await (await opened.send(call(server.url))).read(10) == b"other"
        return Outcome(answer.status, body, kept)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_an_answer_ends_where_it_says(client: Client, row: Row) -> None:
    async def test() -> None:
        idle = 0.05 if row.outcome is NO_END else 300.0
        assert await outcome(client, [expect(), send(row.raw), gone(Gate())], idle=idle) == row.outcome

    client.run(test)


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (OK + _fields(500) + TWO + b"\r\n{}", "sent more than 128 headers"),
        (OK + b"X: " + b"a" * 33_000 + b"\r\n" + TWO + b"\r\n{}", "answered with a header over the limit"),
        (b"HTTP/1.1 101 Go\r\n\r\n", "switched protocols without being asked to"),
        (OK + b"Transfer-Encoding: gzip\r\n\r\n{}", "answered with a transfer-encoding other than chunked"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "sent an answer that is not HTTP"),
    ],
    ids=["headers", "a header", "101", "transfer-encoding", "SSH"],
)
def test_an_answer_that_is_refused_is_named(client: Client, raw: bytes, told: str) -> None:
    async def test() -> None:
        async with BadServer([expect(), send(raw), gone(Gate())]) as server, client.transport() as opened:
            with pytest.raises(TransportError, match=told):
                await opened.send(call(server.url))

    client.run(test)


@pytest.mark.parametrize(
    "raw",
    [OK + b"\r\n{}", b"HTTP/1.0 200 OK\r\n\r\n{}", OK + b"Connection: close\r\n\r\n{}"],
    ids=["1.1", "1.0", "told"],
)
def test_without_a_length_the_end_of_the_connection_is_the_end_of_the_answer(client: Client, raw: bytes) -> None:
    async def test() -> None:
        assert await outcome(client, [expect(), send(raw), close()]) == CLOSED

    client.run(test)


def test_the_answer_to_head_has_no_body_whatever_it_says(client: Client) -> None:
    async def test() -> None:
        raw = OK + b"Content-Length: 1000\r\n\r\n"
        told = await outcome(client, [expect(), send(raw), gone(Gate())], wanted="HEAD")
        assert (told.status, told.body) == (200, b"")

    client.run(test)
