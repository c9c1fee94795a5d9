"""Certificates and proxies from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from yarl import URL

from tests.upstream.bad_server import (
    BadServer,
    expect,
    head,
    make_certificate,
    never,
    reply,
    send,
)
from tests.upstream.calls import SECRET, call, failure, run, transport
from toolglot.upstream.surroundings import Proxies
from toolglot.upstream.transport import TransportError


def test_a_certificate_that_is_trusted_is_spoken_to(tmp_path: Path) -> None:
    file, context = make_certificate(tmp_path)

    async def test(**environment: str) -> None:
        async with BadServer([expect(), reply(b"{}")], tls=context) as server, transport(**environment) as opened:
            answer = await opened.send(call(server.url))
            assert await answer.read(10) == b"{}"

    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        run(lambda name=name: test(**{name: str(file)}))  # type: ignore[misc]


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    _, context = make_certificate(tmp_path)

    async def test() -> None:
        async with BadServer([expect(), reply(b"{}")], tls=context) as server, transport() as opened:
            error = await failure(opened, call(server.url))
            assert error.failure == "tls"
            assert "certificate" in str(error)
            assert server.requests == []

    run(test)


def test_a_certificate_for_another_host_is_refused(tmp_path: Path) -> None:
    file, context = make_certificate(tmp_path, "elsewhere.test")

    async def test() -> None:
        server = BadServer([expect(), reply(b"{}")], tls=context)
        async with server, transport(SSL_CERT_FILE=str(file)) as opened:
            assert (await failure(opened, call(server.url))).failure == "tls"
            assert server.requests == []

    run(test)


def test_plain_words_where_tls_is_due_are_refused() -> None:
    async def test() -> None:
        async with BadServer([send(b"HTTP/1.1 400 Bad Request\r\n\r\n"), never()]) as server, transport() as opened:
            assert (await failure(opened, call(server.url.replace("http", "https")))).failure == "tls"

    run(test)


def test_certificates_that_are_not_there_are_told(tmp_path: Path) -> None:
    async def test() -> None:
        async with transport(SSL_CERT_FILE=str(tmp_path / "none.pem")) as opened:
            error = await failure(opened, call("https://127.0.0.1:1"))
            assert error.failure == "tls"
            assert "none.pem" in str(error)

    run(test)


# Proxies


def test_a_plain_request_goes_to_the_proxy_with_its_whole_address() -> None:
    async def test() -> None:
        async with BadServer([expect(), reply(b"{}")]) as proxy:
            environment = {"http_proxy": f"http://me:pass%40word@127.0.0.1:{proxy.port}"}
            async with transport(**environment) as opened:
                answer = await opened.send(call("http://upstream.test"))
                assert await answer.read(10) == b"{}"
            request = proxy.requests[0]
            assert request.target == f"http://upstream.test/v1/chat?key={SECRET}"
            assert request.headers["host"] == "upstream.test"
            assert request.headers["proxy-authorization"] == "Basic bWU6cGFzc0B3b3Jk"

    run(test)


def test_a_secure_request_goes_through_a_tunnel(tmp_path: Path) -> None:
    async def test() -> None:
        async with BadServer([expect(), send(head(403, {"content-length": "0"}))]) as proxy:
            async with transport(HTTPS_PROXY=f"http://me:word@127.0.0.1:{proxy.port}") as opened:
                error = await failure(opened, call("https://upstream.test"))
                assert error.failure == "connect"
                assert "403" in str(error)
            request = proxy.requests[0]
            assert (request.method, request.target) == ("CONNECT", "upstream.test:443")
            assert request.headers["proxy-authorization"] == "Basic bWU6d29yZA=="
            assert SECRET.encode() not in request.head

    run(test)


def test_a_proxy_that_is_not_there_is_no_connection() -> None:
    async def test() -> None:
        async with BadServer([never()]) as proxy:
            port = proxy.port
        async with transport(ALL_PROXY=f"http://me:{SECRET}@127.0.0.1:{port}") as opened:
            error = await failure(opened, call("http://upstream.test"))
            assert error.failure == "connect"
            assert "proxy" in str(error)

    run(test)


def test_loopback_needs_no_proxy() -> None:
    async def test() -> None:
        async with BadServer([expect(), reply(b"{}")]) as server, transport(ALL_PROXY="http://proxy.invalid") as opened:
            answer = await opened.send(call(server.url))
            assert await answer.read(10) == b"{}"

    run(test)


@pytest.mark.parametrize(
    ("environment", "url", "expected"),
    [
        ({"HTTP_PROXY": "proxy:1"}, "http://a.test/", "http://proxy:1"),
        ({"HTTP_PROXY": "http://proxy:1"}, "https://a.test/", None),
        ({"HTTPS_PROXY": "http://proxy:1", "ALL_PROXY": "http://other"}, "https://a.test/", "http://proxy:1"),
        ({"ALL_PROXY": "http://other"}, "https://a.test/", "http://other"),
        ({"http_proxy": "http://lower", "HTTP_PROXY": "http://upper"}, "http://a.test/", "http://lower"),
        ({"HTTP_PROXY": " "}, "http://a.test/", None),
        ({"HTTPS_PROXY": "https://me:word@proxy"}, "https://a.test/", "https://proxy"),
        ({"ALL_PROXY": "http://p"}, "http://localhost:8000/", None),
        ({"ALL_PROXY": "http://p"}, "http://models.localhost/", None),
        ({"ALL_PROXY": "http://p"}, "http://127.9.9.9/", None),
        ({"ALL_PROXY": "http://p"}, "http://[::1]:8000/", None),
        ({"ALL_PROXY": "http://p"}, "http://[::ffff:127.0.0.1]:8000/", None),
        ({"ALL_PROXY": "http://p"}, "http://localhost.:8000/", None),
        ({"ALL_PROXY": "http://p"}, "http://localhost.test/", "http://p"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "*"}, "http://a.test/", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "x.test, test"}, "http://a.test/", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": ".a.test"}, "http://b.a.test/", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": ".a.test"}, "http://a.test/", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "a.test"}, "http://banana.test/", "http://p"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "a.test"}, "http://ba.test/", "http://p"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "A.TEST"}, "http://a.test/", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "a.test:8080"}, "http://a.test:8080/", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "a.test:8080"}, "http://a.test/", "http://p"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, "http://10.1.2.3/", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8,junk/x"}, "http://11.1.2.3/", "http://p"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "192.168.1.7"}, "http://192.168.1.7/", None),
    ],
)
def test_the_proxy_is_the_one_that_the_variables_name(
    environment: dict[str, str], url: str, expected: str | None
) -> None:
    proxy = Proxies(environment).find(URL(url))
    assert (None if proxy is None else str(proxy.url)) == (None if expected is None else str(URL(expected)))


@pytest.mark.parametrize("value", ["socks5://me:hidden@proxy:1080", "http://", "http://proxy:hidden"])
def test_a_proxy_that_cannot_be_used_is_an_error_and_not_gone_around(value: str) -> None:
    with pytest.raises(TransportError, match="ALL_PROXY") as caught:
        Proxies({"ALL_PROXY": value}).find(URL("https://a.test/"))
    assert caught.value.failure == "connect"
    assert "hidden" not in str(caught.value)
