"""Certificates and proxies from the environment."""

from __future__ import annotations

from pathlib import Path

from tests.upstream.bad_server import (
    BadServer,
    expect,
    head,
    make_certificate,
    never,
    reply,
    send,
)
from tests.upstream.calls import SECRET, call, failure
from tests.upstream.conformance.clients import Client


def test_a_certificate_that_is_trusted_is_spoken_to(client: Client, tmp_path: Path) -> None:
    file, context = make_certificate(tmp_path)

    async def test(**environment: str) -> None:
        async with (
            BadServer([expect(), reply(b"{}")], tls=context) as server,
            client.transport(**environment) as opened,
        ):
            answer = await opened.send(call(server.url))
            assert await answer.read(10) == b"{}"

    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        client.run(lambda name=name: test(**{name: str(file)}))  # type: ignore[misc]


def test_a_certificate_that_nobody_vouches_for_is_refused(client: Client, tmp_path: Path) -> None:
    _, context = make_certificate(tmp_path)

    async def test() -> None:
        async with BadServer([expect(), reply(b"{}")], tls=context) as server, client.transport() as opened:
            error = await failure(opened, call(server.url))
            assert error.failure == "tls"
            assert "certificate" in str(error)
            assert server.requests == []

    client.run(test)


def test_a_certificate_for_another_host_is_refused(client: Client, tmp_path: Path) -> None:
    file, context = make_certificate(tmp_path, "elsewhere.test")

    async def test() -> None:
        server = BadServer([expect(), reply(b"{}")], tls=context)
        async with server, client.transport(SSL_CERT_FILE=str(file)) as opened:
            assert (await failure(opened, call(server.url))).failure == "tls"
            assert server.requests == []

    client.run(test)


def test_plain_words_where_tls_is_due_are_refused(client: Client) -> None:
    async def test() -> None:
        async with (
            BadServer([send(b"HTTP/1.1 400 Bad Request\r\n\r\n"), never()]) as server,
            client.transport() as opened,
        ):
            assert (await failure(opened, call(server.url.replace("http", "https")))).failure == "tls"

    client.run(test)


def test_certificates_that_are_not_there_are_told(client: Client, tmp_path: Path) -> None:
    async def test() -> None:
        async with client.transport(SSL_CERT_FILE=str(tmp_path / "none.pem")) as opened:
            error = await failure(opened, call("https://127.0.0.1:1"))
            assert error.failure == "tls"
            assert "none.pem" in str(error)

    client.run(test)


def test_secure_connections_are_used_again(client: Client, tmp_path: Path) -> None:
    file, context = make_certificate(tmp_path)
    again = [expect(), reply(b"{}", keep_alive=True)]

    async def test() -> None:
        async with BadServer(again * 3, tls=context) as server, client.transport(SSL_CERT_FILE=str(file)) as opened:
            for _ in range(3):
                answer = await opened.send(call(server.url))
                assert await answer.read(10) == b"{}"
                answer.close()
            assert (server.connections, len(server.requests)) == (1, 3)

    client.run(test)


def test_a_secure_answer_without_a_length_ends_with_the_connection(client: Client, tmp_path: Path) -> None:
    file, context = make_certificate(tmp_path)

    async def test() -> None:
        server = BadServer([expect(), send(head(200) + b"all of it")], tls=context)
        async with server, client.transport(SSL_CERT_FILE=str(file)) as opened:
            answer = await opened.send(call(server.url))
            assert await answer.read(100) == b"all of it"

    client.run(test)


def test_many_megabytes_go_both_ways_in_tls(client: Client, tmp_path: Path) -> None:
    file, context = make_certificate(tmp_path)
    asked, told = b"a" * (3 * 1024 * 1024), b"t" * (5 * 1024 * 1024)

    async def test() -> None:
        server = BadServer([expect(), reply(told)], tls=context)
        async with server, client.transport(SSL_CERT_FILE=str(file)) as opened:
            answer = await opened.send(call(server.url, asked))
            assert await answer.read(len(told)) == told
            assert server.requests[0].body == asked

    client.run(test)


# Proxies


def test_a_plain_request_goes_to_the_proxy_with_its_whole_address(client: Client) -> None:
    async def test() -> None:
        async with BadServer([expect(), reply(b"{}")]) as proxy:
            environment = {"http_proxy": f"http://me:pass%40word@127.0.0.1:{proxy.port}"}
            async with client.transport(**environment) as opened:
                answer = await opened.send(call("http://upstream.test"))
                assert await answer.read(10) == b"{}"
            request = proxy.requests[0]
            assert request.target == f"http://upstream.test/v1/chat?key={SECRET}"
            assert request.headers["host"] == "upstream.test"
            assert request.headers["proxy-authorization"] == "Basic bWU6cGFzc0B3b3Jk"

    client.run(test)


def test_a_secure_request_goes_through_a_tunnel(client: Client, tmp_path: Path) -> None:
    async def test() -> None:
        async with BadServer([expect(), send(head(403, {"content-length": "0"}))]) as proxy:
            async with client.transport(HTTPS_PROXY=f"http://me:word@127.0.0.1:{proxy.port}") as opened:
                error = await failure(opened, call("https://upstream.test"))
                assert error.failure == "connect"
                assert "403" in str(error)
            request = proxy.requests[0]
            assert (request.method, request.target) == ("CONNECT", "upstream.test:443")
            assert request.headers["proxy-authorization"] == "Basic bWU6d29yZA=="
            assert SECRET.encode() not in request.head

    client.run(test)


def test_a_proxy_that_is_not_there_is_no_connection(client: Client) -> None:
    async def test() -> None:
        async with BadServer([never()]) as proxy:
            port = proxy.port
        async with client.transport(ALL_PROXY=f"http://me:{SECRET}@127.0.0.1:{port}") as opened:
            error = await failure(opened, call("http://upstream.test"))
            assert error.failure == "connect"
            assert "proxy" in str(error)

    client.run(test)


def test_loopback_needs_no_proxy(client: Client) -> None:
    async def test() -> None:
        async with (
            BadServer([expect(), reply(b"{}")]) as server,
            client.transport(ALL_PROXY="http://proxy.invalid") as opened,
        ):
            answer = await opened.send(call(server.url))
            assert await answer.read(10) == b"{}"

    client.run(test)
