"""Hostile bytes against the real server: what it says, that it says it once, and that it closes."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from tests.server.loopback import HEAD, Served, headers_of, json_of, next_response, responses_in, serve, status_of
from tests.server.loopback import LARGE as LARGE_ANSWER
from tests.server.loopback import until_close as rest
from tests.server.loopback import until_response as response
from tests.waiting import FAILSAFE
from toolglot.dialects import DIALECTS
from toolglot.server.chunk_scanner import ChunkScanner
from toolglot.server.request_head import ConnectionLimits

GET = b"GET /echo HTTP/1.1\r\n"
POST = b"POST /echo HTTP/1.1\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\n" + HEAD + b"\r\n"


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    with serve(loop=request.param) as server:
        yield server


AMBIGUOUS = {
    "no Host": GET + b"Accept: */*\r\n\r\n",
    "two Hosts": GET + HEAD + b"Host: evil.example\r\n\r\n",
    "the same Host twice": GET + HEAD + HEAD + b"\r\n",
    "an empty Host": GET + b"Host:\r\n\r\n",
    "a Host with a path": GET + b"Host: localhost/admin\r\n\r\n",
    "a Host with a user": GET + b"Host: user@localhost\r\n\r\n",
    "two names in one Host": GET + b"Host: localhost, evil.example\r\n\r\n",
    "a Host with a port that is no number": GET + b"Host: localhost:http\r\n\r\n",
    "absolute-form": b"GET http://localhost/echo HTTP/1.1\r\n" + HEAD + b"\r\n",
    "authority-form": b"GET localhost:80 HTTP/1.1\r\n" + HEAD + b"\r\n",
    "CONNECT": b"CONNECT localhost:80 HTTP/1.1\r\n" + HEAD + b"\r\n",
    "CONNECT with a path": b"CONNECT /echo HTTP/1.1\r\n" + HEAD + b"\r\n",
    "asterisk-form": b"OPTIONS * HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a fragment": b"GET /echo#top HTTP/1.1\r\n" + HEAD + b"\r\n",
    "two slashes first": b"GET //evil.example/echo HTTP/1.1\r\n" + HEAD + b"\r\n",
    "two slashes inside": b"GET /v1//echo HTTP/1.1\r\n" + HEAD + b"\r\n",
    "an encoded second slash": b"GET /%2fevil.example HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a backslash": b"GET /a\\..\\b HTTP/1.1\r\n" + HEAD + b"\r\n",
    "an encoded backslash": b"GET /a%5c..%5Cb HTTP/1.1\r\n" + HEAD + b"\r\n",
    "dot segments": b"GET /v1/../debug HTTP/1.1\r\n" + HEAD + b"\r\n",
    "encoded dot segments": b"GET /v1/%2e%2E/debug HTTP/1.1\r\n" + HEAD + b"\r\n",
    "dot segments with an encoded slash": b"GET /v1/..%2fdebug HTTP/1.1\r\n" + HEAD + b"\r\n",
    "an encoded NUL": b"GET /echo%00.txt HTTP/1.1\r\n" + HEAD + b"\r\n",
    "an encoded line end": b"GET /echo%0d%0aX:1 HTTP/1.1\r\n" + HEAD + b"\r\n",
    "bytes beyond ASCII in the path": "GET /é HTTP/1.1\r\n".encode() + HEAD + b"\r\n",
    "a folded header": GET + HEAD + b"X: a\r\n b\r\n\r\n",
    "a folded header with a tab": GET + HEAD + b"X: a\r\n\tb\r\n\r\n",
    "a fold before the first header": GET + b" X: a\r\n" + HEAD + b"\r\n",
    "a bare LF between headers": GET + HEAD + b"X: a\nY: b\r\n\r\n",
    "a bare LF after the request line": b"GET /echo HTTP/1.1\n" + HEAD + b"\r\n",
    "bare LFs only": b"GET /echo HTTP/1.1\nHost: localhost\n\n",
    "a bare CR in a value": GET + HEAD + b"X: a\rb\r\n\r\n",
    "a NUL in a value": GET + HEAD + b"X: a\0b\r\n\r\n",
    "a space before the colon": POST + HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "Content-Length and Transfer-Encoding": POST
    + HEAD
    + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + SMUGGLED,
    "Transfer-Encoding and Content-Length": POST
    + HEAD
    + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"
    + SMUGGLED,
    "Content-Length twice": POST + HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "the same Content-Length twice": POST + HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a list of lengths": POST + HEAD + b"Content-Length: 3, 3\r\n\r\nabc",
    "a signed length": POST + HEAD + b"Content-Length: +3\r\n\r\nabc",
    "a negative length": POST + HEAD + b"Content-Length: -3\r\n\r\nabc",
    "a length that no number holds": POST + HEAD + b"Content-Length: 99999999999999999999999\r\n\r\nabc",
    "an unknown transfer coding": POST + HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two transfer codings": POST + HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": b"POST /echo HTTP/1.0\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an unknown version": b"GET /echo HTTP/1.7\r\n" + HEAD + b"\r\n",
    "a TLS handshake": bytes.fromhex("16030100f8010000f40303"),
    "noise": bytes(range(128, 256)),
}


def test_a_request_of_http_1_0_needs_no_host(served: Served) -> None:
    assert status_of(served.exchange(b"GET /echo HTTP/1.0\r\n\r\n")) == 200


REFUSED_PATHS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "anthropic": (b"/v1/messages", {"type": "error"}),
    "gemini": (b"/v1beta/models/m:generateContent", {}),
    "ollama": (b"/api/chat", {}),
    "openai_chat": (b"/v1/chat/completions", {}),
    "openai_responses": (b"/v1/responses?x=1", {}),
}
BAD_HEADS = {
    "two lengths": (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
    "a length beside chunks": (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "no Host": (b"\r\n", 400),
    "too large": (HEAD + b"X-A: 1\r\n" * 300 + b"\r\n", 431),
}


@pytest.mark.parametrize(("head", "status"), BAD_HEADS.values(), ids=BAD_HEADS.keys())
@pytest.mark.parametrize("dialect", REFUSED_PATHS)
def test_a_refused_head_is_told_in_the_dialect_of_its_path(
    served: Served, dialect: str, head: bytes, status: int
) -> None:
    path, members = REFUSED_PATHS[dialect]
    answer = served.exchange(b"POST " + path + b" HTTP/1.1\r\n" + head)
    assert (status_of(answer), responses_in(answer)) == (status, 1)
    body = json_of(answer)
    assert body.items() >= members.items()
    error = DIALECTS[dialect].decode_error(status, {}, json.dumps(body).encode())
    assert (error.kind, error.in_foreign_form, bool(error.message)) == ("bad_request", False, True)


@pytest.mark.parametrize("data", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_what_could_be_read_in_two_ways_is_answered_once_with_400_and_never_routed(served: Served, data: bytes) -> None:
    before = len(served.app.heads)
    answer = served.exchange(data)
    assert (status_of(answer), responses_in(answer)) == (400, 1)
    assert headers_of(answer)["connection"] == "close"
    error = json_of(answer)["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    assert len(served.app.heads) == before


BAD_BODIES = {
    "a chunk size that is no number": b"zz\r\nabc\r\n0\r\n\r\n",
    "a chunk size beyond any number": b"fffffffffffffffff\r\nabc",
    "bare LFs": b"3\nabc\n0\n\n",
    "a chunk longer than its size": b"3\r\nabcdef\r\n0\r\n\r\n",
    "a folded trailer": b"0\r\nX: a\r\n b\r\n\r\n",
}


@pytest.mark.parametrize("data", BAD_BODIES.values(), ids=BAD_BODIES.keys())
@pytest.mark.parametrize("apart", [False, True], ids=["in one piece", "after its head"])
def test_a_broken_chunked_body_is_answered_once_with_400(served: Served, data: bytes, apart: bool) -> None:
    head = POST + HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    with served.connect() as connection:
        if apart:
            connection.sendall(head + b"3\r\nabc\r\n")
            connection.sendall(data)
        else:
            connection.sendall(head + data)
        answer = rest(connection)
    assert (status_of(answer), responses_in(answer)) == (400, 1)


def test_a_stream_whose_request_turns_out_broken_is_cut_off_without_a_second_answer(served: Served) -> None:
    served.app.streaming.clear()
    served.app.disconnected.clear()
    with served.connect() as connection:
        connection.sendall(b"POST /stream HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        assert served.app.streaming.wait(FAILSAFE)
        connection.sendall(b"zz\r\n")
        answer = rest(connection)
    assert (status_of(answer), responses_in(answer)) == (200, 1)
    assert not answer.endswith(b"0\r\n\r\n")
    assert served.app.disconnected.wait(FAILSAFE)


LARGE = {
    "one endless header": GET + HEAD + b"X: " + b"a" * (16 * 1024 * 1024),
    "one header over the limit": GET + HEAD + b"X: " + b"a" * 65536 + b"\r\n\r\n",
    "an unfinished header over the limit": GET + HEAD + b"X: " + b"a" * 66000,
    "a name over the limit": GET + HEAD + b"a" * 66000,
    "many headers over the limit": GET
    + HEAD
    + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 700) for n in range(100))
    + b"\r\n",
    "a target over the limit": b"GET /" + b"a" * 66000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
    "201 headers": GET + HEAD + b"".join(b"X-%d: a\r\n" % n for n in range(200)) + b"\r\n",
    "a million headers": GET + HEAD + b"a: b\r\n" * 1_000_000,
}


@pytest.mark.parametrize("data", LARGE.values(), ids=LARGE.keys())
def test_a_head_over_the_limits_is_answered_with_431_before_it_is_routed(served: Served, data: bytes) -> None:
    before = len(served.app.heads)
    answer = served.exchange(data)
    assert (status_of(answer), responses_in(answer)) == (431, 1)
    assert headers_of(answer)["connection"] == "close"
    assert len(served.app.heads) == before


def test_a_head_just_within_the_limits_is_served(served: Served) -> None:
    many = b"".join(b"X-%d: %s\r\n" % (n, b"a" * 300) for n in range(198))
    answer = served.exchange(GET + HEAD + many + b"Connection: close\r\n\r\n")
    assert status_of(answer) == 200


def test_trailers_are_dropped_and_never_pass_for_headers(served: Served) -> None:
    head = POST + HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = served.exchange(head + b"3;x=y\r\nabc\r\n0\r\nX-Api-Key: smuggled\r\n\r\n")
    assert (status_of(answer), json_of(answer)["body"]) == (200, "abc")
    assert b"smuggled" not in answer


@pytest.mark.parametrize(
    "trailers",
    [b"X: " + b"a" * 200_000, b"".join(b"X-%d: a\r\n" % n for n in range(300)) + b"\r\n"],
    ids=["an endless one", "too many"],
)
def test_trailers_count_as_header_fields(served: Served, trailers: bytes) -> None:
    head = POST + HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    answer = served.exchange(head + b"3\r\nabc\r\n0\r\n" + trailers)
    assert (status_of(answer), responses_in(answer)) == (431, 1)


def test_a_chunk_extension_without_end_is_refused(served: Served) -> None:
    head = POST + HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    answer = served.exchange(head + b"3;x=" + b"a" * 2_000_000)
    assert (status_of(answer), responses_in(answer)) == (431, 1)


BEHIND = {
    "another request": (GET + HEAD + b"Connection: close\r\n\r\n", 200),
    "one without a Host": (b"GET /smuggled HTTP/1.1\r\n\r\n", 400),
    "noise": (b"\x00\x01\x02", 400),
}


@pytest.mark.parametrize(("behind", "status"), BEHIND.values(), ids=BEHIND.keys())
@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"],
    ids=["with a length", "chunked"],
)
def test_what_stands_behind_a_request_is_read_as_the_next_one(
    served: Served, framing: bytes, behind: bytes, status: int
) -> None:
    with served.connect() as connection:
        connection.sendall(POST + HEAD + framing + behind)
        with connection.makefile("rb") as stream:
            first, second, end = (next_response(stream) for _ in range(3))
    assert (status_of(first), json_of(first)["body"]) == (200, "abc")
    assert (status_of(second), headers_of(second)["connection"], end) == (status, "close", b"")


def test_the_end_of_a_chunked_body_is_found_wherever_it_is_cut() -> None:
    body = b"3\r\n\r\n\r\r\n0a;x=y\r\n0\r\n\r\nabcde\r\n000\r\nX: trailer\r\n\r\n"
    data = body + GET
    for cut in range(len(data)):
        scanner = ChunkScanner()
        first = scanner.find_end(data[:cut], 0)
        end = first if cut >= len(body) else first + scanner.find_end(data[first:], 0)
        assert end == len(body)


def test_what_stands_behind_a_request_that_ends_the_connection_is_not_answered(served: Served) -> None:
    before = len(served.app.heads)
    answer = served.exchange(POST + HEAD + b"Connection: close\r\nContent-Length: 3\r\n\r\nabc" + SMUGGLED)
    assert (status_of(answer), responses_in(answer)) == (200, 1)
    assert headers_of(answer)["connection"] == "close"
    assert len(served.app.heads) == before + 1


def test_a_client_that_leaves_is_noticed_though_it_has_sent_more_than_is_read(served: Served) -> None:
    served.app.streaming.clear()
    served.app.disconnected.clear()
    before = len(served.app.heads)
    with served.connect() as connection:
        connection.sendall(b"GET /stream HTTP/1.1\r\n" + HEAD + b"\r\n")
        assert served.app.streaming.wait(FAILSAFE)
        connection.sendall(GET + HEAD + b"\r\n" + b"\xff" * 100_000)
        answer = connection.recv(65536)
    assert responses_in(answer) == 1
    assert served.app.disconnected.wait(FAILSAFE)
    assert len(served.app.heads) == before + 1


@pytest.mark.parametrize("size", [1, 2, 3, 5, 17, 60, 100_000])
def test_pipelined_requests_are_answered_in_order_however_they_are_cut(served: Served, size: int) -> None:
    bodies = [b"one", b"", b"a\r\n\r\nb", b"last"]
    chunked = POST + HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    data = b"".join(
        POST + HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        + chunked + (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\nX: trailer\r\n\r\n"
        for body in bodies
    )  # fmt: skip
    with served.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(data), size):
            connection.sendall(data[at : at + size])
        with connection.makefile("rb") as stream:
            answers = [json_of(next_response(stream))["body"].encode() for _ in range(2 * len(bodies))]
    assert answers == [body for body in bodies for _ in range(2)]


def test_pipelined_requests_of_a_client_that_half_closes_are_all_answered(served: Served) -> None:
    with served.connect() as connection:
        for body in (b"one", b"two"):
            connection.sendall(POST + HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        connection.sendall(POST + HEAD + b"Content-Length: 9\r\n\r\nhalf")
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as stream:
            first, second, end = (next_response(stream) for _ in range(3))
    assert (json_of(first)["body"], json_of(second)["body"], end) == ("one", "two", b"")


def test_pipelined_requests_beyond_what_is_kept_are_answered_too(served: Served) -> None:
    body = b"x" * 150_000
    request = POST + HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    with served.connect() as connection:
        sender = threading.Thread(target=connection.sendall, args=(request * 6,))
        sender.start()
        with connection.makefile("rb") as stream:
            for _ in range(6):
                assert json_of(next_response(stream))["size"] == len(body)
        sender.join(FAILSAFE)


@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"],
    ids=["with a length", "chunked"],
)
def test_a_client_that_half_closes_with_its_request_is_answered(served: Served, framing: bytes) -> None:
    with served.connect() as connection:
        connection.sendall(POST + HEAD + framing)
        connection.shutdown(socket.SHUT_WR)
        answer = rest(connection)
    assert (status_of(answer), json_of(answer)["body"]) == (200, "abc")


@pytest.mark.parametrize("start", [b"", GET, POST + HEAD + b"Content-Length: 3\r\n\r\na"], ids=["", "head", "body"])
def test_a_client_that_half_closes_before_its_request_is_whole_gets_no_answer(served: Served, start: bytes) -> None:
    with served.connect() as connection:
        connection.sendall(start)
        connection.shutdown(socket.SHUT_WR)
        assert rest(connection) == b""


def test_requests_one_after_the_other_share_a_connection(served: Served) -> None:
    with served.connect() as connection:
        for body in (b"one", b"two", b""):
            connection.sendall(POST + HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            answer = response(connection)
            assert (status_of(answer), json_of(answer)["body"]) == (200, body.decode())


def test_a_second_request_on_a_connection_is_guarded_as_the_first(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(GET + HEAD + b"\r\n")
        assert status_of(response(connection)) == 200
        connection.sendall(GET + HEAD + HEAD + b"\r\n")
        answer = rest(connection)
    assert (status_of(answer), responses_in(answer)) == (400, 1)


def test_a_request_cut_at_every_byte_is_served(served: Served) -> None:
    data = POST + HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    with served.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in data:
            connection.sendall(bytes([byte]))
        assert json_of(rest(connection))["body"] == "abc"


@pytest.mark.parametrize("apart", [False, True], ids=["in one piece", "after its head"])
@pytest.mark.parametrize(
    ("framing", "body"),
    [(b"Content-Length: 3\r\n", b"abc"), (b"Transfer-Encoding: chunked\r\n", b"3\r\nabc\r\n0\r\n\r\n")],
    ids=["with a length", "chunked"],
)
def test_the_body_of_a_request_that_offers_to_upgrade_arrives(
    served: Served, framing: bytes, body: bytes, apart: bool
) -> None:
    """As the JDK's HttpClient posts: https://github.com/Kludex/uvicorn/issues/2722."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
    with served.connect() as connection:
        connection.sendall(POST + HEAD + offer + framing + b"\r\n" + (b"" if apart else body))
        if apart:
            connection.sendall(body)
        first = response(connection)
        connection.sendall(POST + HEAD + b"Content-Length: 4\r\n\r\nnext")
        second = response(connection)
    assert json_of(first)["body"] == "abc"
    assert ["upgrade", "h2c"] in json_of(first)["headers"]
    assert json_of(second)["body"] == "next"


def test_an_offer_of_a_websocket_is_served_as_the_plain_request_it_is(served: Served) -> None:
    offer = b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    assert status_of(served.exchange(GET + HEAD + offer + b"\r\n")) == 200


def test_a_request_that_offers_to_upgrade_is_checked_as_any_other(served: Served) -> None:
    answer = served.exchange(GET + HEAD + HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert (status_of(answer), responses_in(answer)) == (400, 1)


def test_an_answer_before_the_end_of_a_large_body_reaches_a_client_that_is_still_sending(served: Served) -> None:
    size = 8 * 1024 * 1024
    head = b"POST /early HTTP/1.1\r\n" + HEAD + b"Content-Length: %d\r\n\r\n" % size
    answer = served.exchange(head + b"a" * size)
    assert (status_of(answer), json_of(answer), responses_in(answer)) == (401, {"error": "early"}, 1)


def test_an_answer_before_the_end_of_the_body_ends_the_connection(served: Served) -> None:
    answer = served.exchange(b"POST /early HTTP/1.1\r\n" + HEAD + b"Content-Length: 10\r\n\r\nabc")
    assert (status_of(answer), responses_in(answer)) == (401, 1)


def test_expect_100_is_answered_and_the_body_read(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(POST + HEAD + b"Connection: close\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"abc")
        assert json_of(rest(connection))["body"] == "abc"


HASTY = ConnectionLimits(head_timeout=0.5, linger=0.05)


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def hasty(request: pytest.FixtureRequest) -> Iterator[Served]:
    with serve(HASTY, loop=request.param) as server:
        yield server


@pytest.mark.parametrize(
    "start", [b"G", GET, GET + HEAD + b"X: a", b"\r\n"], ids=["a byte", "a line", "headers", "CRLF"]
)
def test_a_head_that_is_not_finished_in_time_is_answered_with_408(hasty: Served, start: bytes) -> None:
    answer = hasty.exchange(start)
    assert (status_of(answer), responses_in(answer)) == (408, 1)
    assert json_of(answer)["error"]["type"] == "timeout_error"
    assert headers_of(answer)["connection"] == "close"


def test_a_later_head_on_a_connection_is_timed_as_the_first(hasty: Served) -> None:
    with hasty.connect() as connection:
        connection.sendall(GET + HEAD + b"\r\n")
        assert status_of(response(connection)) == 200
        connection.sendall(GET + HEAD)
        answer = rest(connection)
    assert (status_of(answer), responses_in(answer)) == (408, 1)


def test_a_connection_that_says_nothing_is_closed_without_a_word(hasty: Served) -> None:
    assert hasty.exchange(b"") == b""


def test_a_body_may_take_longer_than_a_head(hasty: Served) -> None:
    with hasty.connect() as connection, hasty.connect() as silent:
        connection.sendall(POST + HEAD + b"Connection: close\r\nContent-Length: 3\r\n\r\na")
        # This one is closed when the time for a head is over, so the other's has passed too.
        assert rest(silent) == b""
        connection.sendall(b"bc")
        assert json_of(rest(connection))["body"] == "abc"


def test_others_are_served_while_heads_are_held_back(served: Served) -> None:
    slow = [served.connect() for _ in range(50)]
    try:
        for connection in slow:
            connection.sendall(GET)
        assert served.ask() == 200
    finally:
        for connection in slow:
            connection.close()


def test_an_idle_connection_is_closed_without_a_word_when_its_keep_alive_is_over() -> None:
    with serve(ConnectionLimits(head_timeout=0.05), keep_alive=0) as server, server.connect() as connection:
        connection.sendall(GET + HEAD + b"\r\n")
        data = rest(connection)
    assert (status_of(data), responses_in(data)) == (200, 1)


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("path", [b"/large", b"/broken"])
@pytest.mark.parametrize("fate", [b"keep-alive", b"close"])
def test_a_client_that_stops_reading_is_cut_off(loop: str, path: bytes, fate: bytes) -> None:
    with serve(ConnectionLimits(write_timeout=0.05), loop=loop) as server, server.connect() as connection:
        connection.sendall(b"GET " + path + b" HTTP/1.1\r\n" + HEAD + b"Connection: " + fate + b"\r\n\r\n")
        assert server.app.connection_lost.wait(FAILSAFE)


def test_a_client_that_reads_gets_everything() -> None:
    with serve(ConnectionLimits(write_timeout=FAILSAFE)) as server, server.connect() as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n")
        body = rest(connection).partition(b"\r\n\r\n")[2]
    assert body == b"%x\r\n%s\r\n0\r\n\r\n" % (len(LARGE_ANSWER), LARGE_ANSWER)


FULL = ConnectionLimits(connections=2, spare=4, spare_timeout=FAILSAFE, linger=0.05)


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_full_server_answers_health_alone(loop: str) -> None:
    with serve(FULL, loop=loop) as server, server.connect() as first, server.connect() as second:
        for connection in (first, second):
            connection.sendall(GET + HEAD + b"\r\n")
            assert status_of(response(connection)) == 200
        answer = server.exchange(GET + HEAD + b"\r\n")
        assert (status_of(answer), responses_in(answer)) == (503, 1)
        assert headers_of(answer)["retry-after"] == "1"
        assert json_of(answer)["error"]["type"] == "overloaded_error"
        health = server.exchange(b"GET /health?from=probe HTTP/1.1\r\n" + HEAD + b"\r\n")
        assert (status_of(health), responses_in(health)) == (200, 1)
        assert server.app.heads == [("GET", "/echo"), ("GET", "/echo"), ("GET", "/health")]
        first.sendall(GET + HEAD + b"\r\n")
        assert status_of(response(first)) == 200


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("start", [b"", b"GET /health HTTP/1.1\r\n"], ids=["silent", "in their heads"])
def test_a_probe_is_answered_although_all_spare_connections_are_taken(loop: str, start: bytes) -> None:
    gates = ConnectionLimits(connections=2, spare=3, spare_timeout=60.0, linger=60.0)
    with serve(gates, loop=loop) as server, ExitStack() as held:
        first, *others = [held.enter_context(server.connect()) for _ in range(12)]
        for connection in (first, *others):
            with suppress(ConnectionError):  # it has had to go already
                connection.sendall(start)
        for _ in range(3):
            health = server.exchange(b"GET /health HTTP/1.1\r\n" + HEAD + b"\r\n")
            assert (status_of(health), responses_in(health)) == (200, 1)
        first.sendall((b"" if start else b"GET /health HTTP/1.1\r\n") + HEAD + b"\r\n")
        assert status_of(response(first)) == 200


def test_a_spare_connection_that_has_to_go_is_told_so() -> None:
    with serve(ConnectionLimits(connections=0, spare=1, spare_timeout=60.0)) as server, server.connect() as oldest:
        assert status_of(server.exchange(b"GET /health HTTP/1.1\r\n" + HEAD + b"\r\n")) == 200
        answer = rest(oldest)
    assert (status_of(answer), responses_in(answer)) == (503, 1)
    assert headers_of(answer)["retry-after"] == "1"


def test_a_full_server_does_not_linger_over_everybody_that_it_refuses() -> None:
    with (
        serve(ConnectionLimits(connections=0, spare=1, spare_timeout=60.0, linger=60.0)) as server,
        ExitStack() as sending,
    ):
        for _ in range(8):
            connection = sending.enter_context(server.connect())
            connection.sendall(POST + HEAD + b"Content-Length: 10\r\n\r\n")
            assert status_of(response(connection)) == 503
        assert server.app.connection_lost.wait(FAILSAFE)  # one or two are lingered over, the others are closed


def test_a_spare_connection_has_little_time_for_its_head() -> None:
    with serve(ConnectionLimits(connections=0, spare=4, spare_timeout=0.5, linger=0.05)) as server:
        assert server.exchange(b"") == b""
        assert status_of(server.exchange(b"GET /health")) == 408


def test_a_connection_that_came_when_the_server_was_full_is_served_once_it_is_not() -> None:
    with serve(FULL) as server:
        first, second, spare = (server.connect() for _ in range(3))
        for connection in (first, second):
            connection.sendall(GET + HEAD + b"Connection: close\r\n\r\n")
            assert status_of(rest(connection)) == 200
            connection.close()
        with spare:
            for _ in range(2):
                spare.sendall(GET + HEAD + b"\r\n")
                assert status_of(response(spare)) == 200
