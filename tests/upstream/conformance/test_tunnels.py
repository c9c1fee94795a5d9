"""Through a proxy that carries what it is given, and through proxies that say more or less than they should."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tests.upstream.bad_server import (
    BadServer,
    Peer,
    Script,
    Step,
    close,
    expect,
    head,
    make_certificate,
    never,
    reply,
    send,
    send_for_ever,
)
from tests.upstream.calls import SECRET, call, failure
from tests.upstream.conformance.clients import Client

HOST = "upstream.test"


def carry(port: int) -> Step:
    """Carry bytes between the peer and a port of this machine."""

    async def step(peer: Peer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            with suppress(ConnectionError):
                await asyncio.gather(_pump(peer.reader, writer), _pump(reader, peer.writer))
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    return step


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


def test_a_tunnel_carries_calls_that_the_proxy_cannot_read(client: Client, tmp_path: Path) -> None:
    certificate, context = make_certificate(tmp_path, HOST)

    async def test() -> None:
        again = [expect(), reply(b"{}", keep_alive=True)]
        async with BadServer([*again, *again], tls=context) as server:
            through: Script = [expect(), send(head(200)), carry(server.port)]
            async with BadServer(through) as proxy:
                names = {"https_proxy": f"http://me:word@127.0.0.1:{proxy.port}", "SSL_CERT_FILE": str(certificate)}
                async with client.transport(**names) as opened:
                    for _ in range(2):
                        answer = await opened.send(call(f"https://{HOST}"))
                        assert await answer.read(10) == b"{}"
                        answer.close()
                asked = proxy.requests[0]
                assert (asked.method, asked.target) == ("CONNECT", f"{HOST}:443")
                assert asked.headers["host"].startswith(HOST)
                assert asked.headers["proxy-authorization"] == "Basic bWU6d29yZA=="
                assert SECRET.encode() not in asked.head
                assert (proxy.connections, server.connections) == (1, 1)
            assert server.requests[0].target.startswith("/v1/chat?key=")
            assert "proxy-authorization" not in server.requests[0].headers
            assert server.requests[0].headers["host"] == HOST

    client.run(test)


def test_a_proxy_may_be_spoken_to_in_tls_itself(client: Client, tmp_path: Path) -> None:
    (tmp_path / "proxy").mkdir()
    proxys, own = make_certificate(tmp_path / "proxy")
    certificate, context = make_certificate(tmp_path, HOST)
    both = tmp_path / "both.pem"
    both.write_bytes(proxys.read_bytes() + certificate.read_bytes())

    async def test() -> None:
        async with BadServer([expect(), reply(b"{}")], tls=context) as server:
            proxy = BadServer([expect(), send(head(200)), carry(server.port)], tls=own)
            async with proxy, client.transport(https_proxy=proxy.url, SSL_CERT_FILE=str(both)) as opened:
                answer = await opened.send(call(f"https://{HOST}"))
                assert await answer.read(10) == b"{}"
                answer.close()

    client.run(test)


def test_a_tunnel_to_the_wrong_server_is_refused(client: Client, tmp_path: Path) -> None:
    certificate, context = make_certificate(tmp_path, "elsewhere.test")

    async def test() -> None:
        async with BadServer([expect(), reply(b"{}")], tls=context) as server:
            proxy = BadServer([expect(), send(head(200)), carry(server.port)])
            async with proxy, client.transport(https_proxy=proxy.url, SSL_CERT_FILE=str(certificate)) as opened:
                assert (await failure(opened, call(f"https://{HOST}"))).failure == "tls"
            assert server.requests == []

    client.run(test)


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("it refuses", [expect(), reply(b"no", status=407)]),
        ("it redirects", [expect(), reply(b"", status=302, headers={"location": "http://x/"})]),
        ("it says nothing and goes", [expect(), close()]),
        ("it goes in the middle of its head", [expect(), send(b"HTTP/1.1 200 OK\r\nx"), close()]),
        ("it speaks no HTTP", [expect(), send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), never()]),
        ("its head never ends", [expect(), send(b"HTTP/1.1 200 OK\r\n"), send_for_ever(b"x: y\r\n" * 100)]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_proxy_that_does_not_let_through(client: Client, name: str, script: Script) -> None:
    async def test() -> None:
        proxy = BadServer(script)
        async with proxy, client.transport(https_proxy=proxy.url.replace("//", f"//me:{SECRET}@")) as opened:
            error = await failure(opened, call(f"https://{HOST}", connect=5.0))
            assert error.failure == "connect"
            assert "refused a connection" in str(error)

    client.run(test)


def test_words_of_the_proxy_after_its_head_are_not_those_of_the_upstream(client: Client) -> None:
    async def test() -> None:
        proxy = BadServer([expect(), send(head(200) + b"\x15\x03\x01\x00\x02\x02\x28"), never()])
        async with proxy, client.transport(https_proxy=proxy.url) as opened:
            error = await failure(opened, call(f"https://{HOST}", connect=0.5))
            assert error.failure == "connect"
            assert "refused a connection" in str(error)
            assert len(proxy.requests) == 1

    client.run(test)
