"""Answers whose heads are known are told as the parser would tell them, and nothing else passes for one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bench.socketless import KeepingTransport
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.http_client.receivers import Kept
from toolglot.upstream.http_client.connection import Connection
from toolglot.upstream.http_client.destination import Destination
from toolglot.upstream.http_client.known_answers import MAX_HEAD, RELEARN_AFTER, KnownAnswers
from toolglot.upstream.http_client.pool import ConnectionPool
from toolglot.upstream.transport import Timeouts

OK = "HTTP/1.1 200 OK"
DATE = "Date: Mon, 16 Nov 2026 00:10:11 GMT"
FIELDS = (DATE, "Content-Length: 4", "x-request-id: req_1", "Connection: keep-alive", "Content-Type: application/json")
HEADERS = {
    "date": DATE[6:],
    "content-length": "4",
    "x-request-id": "req_1",
    "connection": "keep-alive",
    "content-type": "application/json",
}


def message(*fields: str, status: str = OK, body: str = "body") -> bytes:
    return ("\r\n".join([status, *fields, "", ""]) + body).encode("latin-1")


READ = message(*FIELDS)


def told(answers: KnownAnswers, *pieces: bytes, bodiless: bool = False) -> tuple[list[Any], bool]:
    """What a connection to an upstream with these answers tells of these bytes, and whether it may be used again."""

    async def work() -> tuple[list[Any], bool]:
        loop, receiver = asyncio.get_running_loop(), Kept()
        pool, destination = ConnectionPool(1, loop), Destination(host="up", port=1, name="up", answers=answers)
        connection = Connection(pool, destination, loop)
        await pool.acquire()
        connection.connection_made(KeepingTransport())
        connection.send(b"POST / HTTP/1.1\r\n", b"{}", Timeouts(), receiver, loop.time(), bodiless)
        for piece in pieces:
            connection.data_received(piece)
        kept = pool.acquire_idle(destination, loop.time()) is connection
        pool.close()
        return [(kind, str(value)) for kind, value in receiver.told], kept

    return asyncio.run(work())


def knowing(data: bytes = READ) -> KnownAnswers:
    """Answers of which one was read by the parser."""
    answers = KnownAnswers()
    told(answers, data)
    return answers


@pytest.mark.parametrize(
    ("data", "headers", "body"),
    [
        (READ, HEADERS, b"body"),
        (READ.replace(b": 4\r", b": 12\r") + b" is more", HEADERS | {"content-length": "12"}, b"body is more"),
        (message(*FIELDS, body="").replace(b": 4\r", b": 0\r"), HEADERS | {"content-length": "0"}, b""),
        (READ.replace(b"req_1", b"another 2"), HEADERS | {"x-request-id": "another 2"}, b"body"),
        (READ.replace(b"json", b"yaml; q=1"), HEADERS | {"content-type": "application/yaml; q=1"}, b"body"),
    ],
    ids=["the same", "another length", "no body", "another value", "another type"],
)
def test_an_answer_with_a_known_head_is_known(data: bytes, headers: dict[str, str], body: bytes) -> None:
    for answers in (knowing(), knowing(READ.replace(b"req_1", b"req_two"))):
        assert answers.read(data) == (headers, body)
        assert told(answers, data) == told(KnownAnswers(), data)


@pytest.mark.parametrize(
    "data",
    [
        READ[:-1],
        READ + b"!",
        READ + READ,
        READ[: READ.index(b"body")],
        READ.replace(b"200 OK", b"201 OK"),
        READ.replace(b"200 OK", b"204 OK"),
        READ.replace(b"HTTP/1.1", b"HTTP/1.0"),
        READ.replace(b"keep-alive", b"close"),
        READ.replace(b": 4\r", b": 5\r"),
        READ.replace(b": 4\r", b": +4\r"),
        READ.replace(b": 4\r", b": 04\r"),
        READ.replace(b": 4\r", b": 4, 4\r"),
        READ.replace(b": 4\r", b": 4\r\nContent-Length: 4\r"),
        READ.replace(b"x-request-id", b"transfer-encoding"),
        READ.replace(b"req_1", b"req_1\r\nTransfer-Encoding: chunked"),
        READ.replace(b"req_1", b"req_1\nTransfer-Encoding: chunked"),
        READ.replace(b"req_1", b"req_1\r\n folded"),
        READ.replace(b"req_1", b"req\x001"),
        READ.replace(b"req_1", b"req\xe41"),
        READ.replace(b"req_1", b""),
        READ.replace(b"req_1", b"1" * MAX_HEAD),
        b"HTTP/1.1 100 Continue\r\n\r\n" + READ,
        b"",
    ],
)
def test_whatever_else_the_parser_reads(data: bytes) -> None:
    answers = knowing()
    assert answers.read(data) is None
    assert told(answers, data) == told(KnownAnswers(), data)


@pytest.mark.parametrize(
    "data",
    [
        message("Content-Length: 4", "Connection: close"),
        message("Content-Length: 4", status="HTTP/1.1 404 Not Found"),
        message("Content-Length: 4", status="HTTP/1.0 200 OK"),
        message("Content-Length: 4", "x-a: 1", "x-a: 2"),
        message("Content-Length: 4", "x-a: \xe4"),
        message("Content-Length:  4 "),
        message("Content-Length: 4", f"x-a: {'a' * MAX_HEAD}"),
        message("Transfer-Encoding: chunked", body="4\r\nbody\r\n0\r\n\r\n"),
        b"HTTP/1.1 100 Continue\r\n\r\n" + READ,
        READ + READ,
    ],
)
def test_not_every_head_is_learnt(data: bytes) -> None:
    assert knowing(data).read(data) is None


def test_the_answer_to_a_head_request_has_no_body_whatever_its_head_says() -> None:
    assert told(knowing(), READ, bodiless=True) == told(KnownAnswers(), READ, bodiless=True)


def test_another_head_is_learnt_once_many_were_not_known() -> None:
    answers, other = knowing(), message("Content-Length: 4", "Server: other")
    for _ in range(RELEARN_AFTER):
        assert answers.read(other) is None
        told(answers, other)
    told(answers, other)
    assert answers.read(other) is not None


fields = st.lists(st.sampled_from(FIELDS), unique=True, min_size=1)
odd = st.sampled_from([b"", b" ", b"\t", b"\r", b"\n", b"\r\n", b"\x00", b"\x80", b":", b"4", b"0", b"a", b"chunked"])


@given(
    before=fields,
    after=fields,
    value=st.text("a1 ,;\t\x7f\xff", max_size=4),
    place=st.integers(0, 200),
    width=st.integers(0, 3),
    put=odd,
    cut=st.integers(0, 200),
)
def test_what_is_known_changes_nothing_of_what_is_told(
    before: list[str], after: list[str], value: str, place: int, width: int, put: bytes, cut: int
) -> None:
    answers = knowing(message(*before))
    data = message(*[field.replace("req_1", value) for field in after])
    assert told(answers, data) == told(KnownAnswers(), data)
    marred = data[:place] + put + data[place + width :]
    assert told(answers, marred) == told(KnownAnswers(), marred)
    assert told(answers, marred[:cut], marred[cut:]) == told(KnownAnswers(), marred[:cut], marred[cut:])
