"""Heads that were read before: a request with the same bytes around its length is taken without reading them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httptools
import pytest
from bench.socketless import Socketless, without_sockets
from hypothesis import given
from hypothesis import strategies as st

from tests.server.gateway import Running, at, gateway
from tests.server.socketless import ANSWER, TALK, TOOL, WHOLE, asked, compact
from tests.upstream.bad_server import BadServer, Step, expect, head, reply, send
from toolglot.config.schema import ServerConfig
from toolglot.dialects import DIALECTS
from toolglot.gateway.callback_driver import CallbackDriver
from toolglot.gateway.known_heads import KnownRequestHead, RequestHead, around_length
from toolglot.manifest import Route
from toolglot.server.security import Caller, Guard

HEAD = RequestHead(
    path="/v1/messages",
    route=Route("POST", "/v1/messages", "generate"),
    values={},
    stream_lines=b"",
    client=DIALECTS["anthropic"],
    query={},
    headers={},
    caller=Caller("", ""),
    guard=Guard(ServerConfig()),
)
READ = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nx-api-key: k\r\n\r\nbody"


def known_head(data: bytes = READ) -> KnownRequestHead:
    around = around_length(data)
    assert around is not None
    return KnownRequestHead(*around, HEAD)


def with_length(length: str, body: bytes) -> bytes:
    return READ.replace(b": 4\r\n", f": {length}\r\n".encode()).replace(b"\r\n\r\nbody", b"\r\n\r\n" + body)


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (READ, b"body"),
        (with_length("11", b"another one"), b"another one"),
        (with_length("0", b""), b""),
        (with_length("5", b"body"), None),
        (with_length("3", b"body"), None),
        (READ + READ, None),
        (with_length("", b"body"), None),
        (with_length("-4", b"body"), None),
        (with_length("+4", b"body"), None),
        (with_length("4 ", b"body"), None),
        (with_length("٤", b"body"), None),
        (with_length("000000004", b"body"), None),
        (READ.replace(b"k\r\n", b"K\r\n"), None),
        (READ.replace(b"localhost", b"elsewhere"), None),
        (READ.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"), None),
        (READ.replace(b"\r\n\r\n", b"\r\nContent-Length: 4\r\n\r\n"), None),
        (READ[:-5], None),
        (b"", None),
    ],
)
def test_a_request_is_known_by_all_of_its_head_and_by_the_length_of_its_body(data: bytes, body: bytes | None) -> None:
    assert known_head().body(data) == body


@pytest.mark.parametrize(
    "data",
    [
        READ.replace(b"Content-Length", b"Content-Size"),
        READ.replace(b": 4\r\n", b": 4 \r\n"),
        READ.replace(b"k\r\n", b"k" * 5000 + b"\r\n"),
    ],
    ids=["without a length", "with a space behind it", "too large to keep in mind"],
)
def test_not_every_head_is_kept_in_mind(data: bytes) -> None:
    assert around_length(data) is None


class _Read:
    """What the parser makes of bytes."""

    def __init__(self, data: bytes) -> None:
        self.fields: list[tuple[bytes, bytes]] = []
        self.bodies: list[bytes] = []
        self.complete = 0
        httptools.HttpRequestParser(self).feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))

    def on_body(self, body: bytes) -> None:
        self.bodies.append(body)

    def on_message_complete(self) -> None:
        self.complete += 1


@given(
    length=st.text("0123456789 \r\n", max_size=10),
    body=st.binary(max_size=12),
    behind=st.sampled_from([b"", READ, b"\r\n", b"0"]),
)
def test_what_is_known_is_what_the_parser_would_have_read(length: str, body: bytes, behind: bytes) -> None:
    data = with_length(length, body) + behind
    found = known_head().body(data)
    if found is not None:
        read = _Read(data)
        assert (read.complete, b"".join(read.bodies)) == (1, found)
        before = [field for field in _Read(READ).fields if field[0] != b"Content-Length"]
        assert [field for field in read.fields if field[0] != b"Content-Length"] == before


def test_the_next_request_of_a_connection_is_not_read_again() -> None:
    async def work(stage: Socketless) -> tuple[bytes, list[bool]]:
        client, seen = stage.client()
        upstream, _ = await stage.upstream()
        crossed = []
        for talk in (TALK, [{"role": "user", "content": "Something else, and longer than before."}], TALK):
            client.data_received(asked(talk=talk))
            crossed.append(isinstance(client.cycle, CallbackDriver) and not client.cycle.response_complete)
            client.parser = None  # type: ignore[assignment]
            upstream.data_received(WHOLE)
        return seen.taken(), crossed

    written, crossed = without_sockets(work)
    assert crossed == [True, True, True]
    assert written.count(b"It is empty.") == 3


def request(text: str) -> bytes:
    talk = [{"role": "user", "content": text}]
    body = compact({"model": "m", "max_tokens": 100, "messages": talk, "tools": [TOOL]})
    return b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


class Client:
    """A client that sends every request in one piece, all of them on one connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._read = self._socket.makefile("rb")

    def ask(self, sent: bytes) -> tuple[int, bytes]:
        self._socket.sendall(sent)
        status, length = int(self._read.readline().split()[1]), 0
        while (line := self._read.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            length = int(value) if name == b"content-length" else length
        return status, self._read.read(length)

    def rest(self) -> bytes:
        """What still comes before the end."""
        return self._read.read()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._read.close()
        self._socket.close()


def answer() -> Step:
    return send(head(200, {"content-type": "application/json", "content-length": str(len(ANSWER))}) + ANSWER)


REFUSAL = reply({"error": {"message": "Not that.", "type": "invalid_request_error"}}, 400, keep_alive=True)


@contextmanager
def serving(*steps: Step) -> Iterator[tuple[BadServer, Running, Client]]:
    """A gateway whose upstream answers so, one request after the other on one connection."""
    with (
        BadServer([part for step in steps for part in (expect(), step)]) as server,
        gateway(at("openai_chat", server.url)) as running,
        Client(running.port) as client,
    ):
        yield server, running, client


def test_a_refusal_between_answers_reaches_its_own_client_and_nobody_is_asked_again() -> None:
    texts = ["one is read", "another is known", "a third", "this is refused", "the last"]
    with serving(answer(), answer(), answer(), REFUSAL, answer()) as (server, running, client):
        told = [client.ask(request(text)) for text in texts]
        assert [running.record().is_simple for _ in texts] == [True, True, True, False, True]
    assert [status for status, _ in told] == [200, 200, 200, 400, 200]
    assert b"Not that." in told[3][1]
    assert [text.encode() in asked.body for text, asked in zip(texts, server.requests, strict=True)] == [True] * 5


def test_a_head_is_not_known_any_more_once_other_keys_are_asked_for() -> None:
    with serving(answer(), answer(), answer()) as (server, running, client):
        assert [client.ask(request(text))[0] for text in ("one", "another", "a third")] == [200, 200, 200]
        running.service.gateway.guard = Guard(ServerConfig(keys=("another",)))
        assert client.ask(request("a fourth"))[0] == 401
    assert len(server.requests) == 3


@pytest.mark.parametrize(("last", "status"), [(answer(), 200), (REFUSAL, 400)], ids=["crossing", "handed over"])
def test_requests_that_come_together_are_not_taken_for_one(last: Step, status: int) -> None:
    with serving(answer(), answer(), last, answer()) as (server, _, client):
        for text in ("one", "another"):
            assert client.ask(request(text))[0] == 200
        assert client.ask(request("two") + request("of them"))[0] == status
        assert client.ask(b"")[0] == 200
    assert [text in asked.body for text, asked in zip((b"two", b"of them"), server.requests[2:], strict=True)] == [
        True,
        True,
    ]
