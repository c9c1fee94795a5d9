"""TLS sessions that are taken up again."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tests.upstream.bad_server import BadServer, Peer, Step, expect, make_certificate, reply
from tests.upstream.calls import call, failure
from tests.upstream.conformance.clients import Client
from tests.upstream.http_client.receivers import on_both_loops
from toolglot.upstream.http_client import HttpTransport


def look(seen: list[bool]) -> Step:
    async def step(peer: Peer) -> None:
        seen.append(peer.writer.get_extra_info("ssl_object").session_reused)

    return step


@on_both_loops
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_new_connection_takes_up_the_session_of_the_last(
    client: Client, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    certificate, context = make_certificate(tmp_path)
    context.maximum_version = version

    async def test() -> None:
        seen: list[bool] = []
        opened = HttpTransport(10, {"SSL_CERT_FILE": str(certificate)})
        async with BadServer([expect(), look(seen), reply(b"{}")], tls=context) as server:
            for _ in range(3):
                answer = await opened.send(call(server.url))
                assert await answer.read(10) == b"{}"
                answer.close()
        await opened.close()
        assert seen == [False, True, True]

    client.run(test)


@on_both_loops
def test_a_session_vouches_for_its_own_host_alone(client: Client, tmp_path: Path) -> None:
    certificate, context = make_certificate(tmp_path)

    async def test() -> None:
        opened = HttpTransport(10, {"SSL_CERT_FILE": str(certificate)})
        async with BadServer([expect(), reply(b"{}")], tls=context) as server:
            answer = await opened.send(call(server.url))
            assert await answer.read(10) == b"{}"
            answer.close()
            # The same server by another name, for which its certificate is not valid.
            error = await failure(opened, call(server.url.replace("127.0.0.1", "localhost")))
            assert error.failure == "tls"
        await opened.close()

    client.run(test)


@on_both_loops
def test_a_server_that_knows_no_sessions_any_more_is_spoken_to_as_if_new(client: Client, tmp_path: Path) -> None:
    certificate, first = make_certificate(tmp_path)
    second = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    second.load_cert_chain(certificate, tmp_path / "key.pem")

    async def test() -> None:
        seen: list[bool] = []
        opened = HttpTransport(10, {"SSL_CERT_FILE": str(certificate)})
        for context in (first, second):
            async with BadServer([expect(), look(seen), reply(b"{}")], tls=context) as server:
                answer = await opened.send(call(server.url))
                assert await answer.read(10) == b"{}"
                answer.close()
        await opened.close()
        assert seen == [False, False]

    client.run(test)
