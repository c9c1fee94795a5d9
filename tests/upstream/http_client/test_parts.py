"""The parts of the HTTP client: heads, destinations, names, and the sweep of the pool."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.upstream.bad_server import BadServer, Gate, expect, gone, never, pause, reply
from tests.upstream.calls import SECRET
from tests.upstream.conformance.clients import Client, count_idle
from tests.upstream.http_client.receivers import Kept, begun, connected, on_both_loops
from toolglot.upstream.http_client import HttpTransport, pool, request_head, resolver
from toolglot.upstream.transport import TransportError, UpstreamCall


def head_of(call: UpstreamCall, **environment: str) -> list[str]:
    transport = HttpTransport(1, environment)
    text = request_head(call, transport.destination(call.url)).decode()
    assert text.endswith("\r\n")
    return text.split("\r\n")[:-1]


def test_a_head_is_all_but_the_length_of_the_body() -> None:
    call = UpstreamCall(url="https://host:8443/v1/a%2Fb?c=d#e", headers={"x-api-key": "k", "accept-encoding": "gzip"})
    assert head_of(call) == [
        "POST /v1/a%2Fb?c=d HTTP/1.1",
        "Host: host:8443",
        "Accept: */*",
        "User-Agent: toolglot",
        "x-api-key: k",
        "accept-encoding: identity",
    ]


def test_what_says_where_a_request_ends_cannot_be_given() -> None:
    headers = {"content-length": "5", "transfer-encoding": "chunked"}
    lines = head_of(UpstreamCall(url="http://host", headers=headers))
    assert lines[0] == "POST / HTTP/1.1"
    assert not {line.partition(":")[0] for line in lines} & headers.keys()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x", "a\rb"),
        ("x", "a\nb"),
        ("x", "a\0b"),
        ("x", "a\x7fb"),
        ("x y", "a"),
        ("x:", "a"),
        ("", "a"),
        ("x", "\ud800"),
    ],
)
def test_a_header_that_would_break_out_is_refused(name: str, value: str) -> None:
    with pytest.raises(TransportError) as caught:
        head_of(UpstreamCall(url="http://host", headers={name: value, "authorization": SECRET}))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("method", ["GET /x HTTP/1.1\r\nx: y\r\n\r\nPOST", "", "G T"])
def test_a_method_that_is_none_is_refused(method: str) -> None:
    with pytest.raises(TransportError):
        head_of(UpstreamCall(url="http://host", headers={}, method=method))


def test_a_proxy_is_given_the_whole_address_and_its_own_credential() -> None:
    lines = head_of(UpstreamCall(url="http://host/a?b", headers={}), http_proxy="http://me:word@proxy:3128")
    assert lines[0] == "POST http://host/a?b HTTP/1.1"
    assert "proxy-authorization: Basic bWU6d29yZA==" in lines


def test_a_tunnel_is_not() -> None:
    lines = head_of(UpstreamCall(url="https://host/a?b", headers={}), https_proxy="http://me:word@proxy:3128")
    assert lines[0] == "POST /a?b HTTP/1.1"
    assert not [line for line in lines if line.startswith("proxy-")]


def test_the_same_end_is_the_same_destination() -> None:
    transport = HttpTransport(1, {})
    one = transport.destination("http://host/a")
    assert transport.destination("http://HOST:80/b?c") is one
    assert transport.destination("http://host:81/a") is not one
    assert transport.destination("https://host:80/a") is not one


# Names


@on_both_loops
def test_an_address_that_takes_no_connection_does_not_keep_the_others_waiting(client: Client) -> None:
    async def test() -> None:
        # Nobody accepts: the first connections fill the queue of the kernel, the next is not answered.
        silent = socket.create_server(("127.0.0.1", 0), backlog=0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(silent.getsockname())
        async with BadServer([expect(), reply()]) as server:
            there = (socket.AF_INET, ("127.0.0.1", server.port))
            with socket.create_server(("127.0.0.1", 0)) as refusing:
                closed = (socket.AF_INET, refusing.getsockname())
            opened = await resolver._connect_first([(socket.AF_INET, silent.getsockname()), closed, there])
            assert opened.getpeername() == there[1]
            opened.close()
            with pytest.raises(ConnectionRefusedError):
                await resolver._connect_first([closed, closed])
        for each in (silent, *fillers):
            each.close()

    client.run(test)


def test_the_families_of_a_name_take_turns() -> None:
    four, six = socket.AF_INET, socket.AF_INET6
    mixed: list[resolver.Address] = [(six, ("a",)), (six, ("b",)), (four, ("c",)), (six, ("d",))]
    assert resolver._interleave_families(mixed) == [(six, ("a",)), (four, ("c",)), (six, ("b",)), (six, ("d",))]


@on_both_loops
def test_a_name_is_looked_up_once_for_a_while(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        known, loop = resolver.Resolver(), asyncio.get_running_loop()
        first = await known._look_up("localhost", 80)
        assert first
        assert await known._look_up("localhost", 80) is first
        monkeypatch.setattr(resolver, "CACHE_TTL", 0.0)
        known = resolver.Resolver()
        first = await known._look_up("localhost", 80)
        assert await known._look_up("localhost", 80) is not first
        assert loop.time() > 0

    client.run(test)


# The sweep


@on_both_loops
def test_connections_that_nobody_uses_are_closed_after_a_while(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "KEEP_ALIVE", 0.05)
    monkeypatch.setattr(pool, "SWEEP_INTERVAL", 0.05)

    async def test() -> None:
        opened, left = HttpTransport(1, {}), Gate()
        async with BadServer([expect(), reply(b"{}", keep_alive=True), gone(left)]) as server:
            kept = Kept()
            await connected(opened, server.url, kept)
            await kept.over.wait()
            assert count_idle(opened) == 1
            await left.wait()
            assert count_idle(opened) == 0
            assert begun(opened, server.url, Kept()) is None
        await opened.close()

    client.run(test)


@on_both_loops
def test_the_connection_that_was_used_last_is_used_first(client: Client) -> None:
    async def test() -> None:
        opened, first, second = HttpTransport(2, {}), Kept(), Kept()
        on = Gate()
        answer = reply(b"{}", keep_alive=True)
        async with BadServer([expect(), pause(on), answer, never()], [expect(), answer, never()]) as server:
            slow = await connected(opened, server.url, first)
            await connected(opened, server.url, second)
            await second.over.wait()
            on.open()
            await first.over.wait()
            assert count_idle(opened) == 2
            sending = begun(opened, server.url, Kept())
            assert sending is not None
            assert sending.connection is slow.connection
        await opened.close()

    client.run(test)


@on_both_loops
def test_an_idle_connection_that_is_too_old_is_not_used_though_nobody_swept(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        opened, kept = HttpTransport(1, {}), Kept()
        async with BadServer([expect(), reply(b"{}", keep_alive=True), never()]) as server:
            await connected(opened, server.url, kept)
            await kept.over.wait()
            monkeypatch.setattr(pool, "KEEP_ALIVE", 0.0)
            assert begun(opened, server.url, Kept()) is None
        await opened.close()

    client.run(test)


@on_both_loops
def test_an_idle_connection_needs_a_place_like_any_other(client: Client) -> None:
    async def test() -> None:
        opened, kept = HttpTransport(1, {}), Kept()
        kept_alive = BadServer([expect(), reply(b"{}", keep_alive=True), never()])
        async with kept_alive, BadServer([never()]) as other:
            await connected(opened, kept_alive.url, kept)
            await kept.over.wait()
            busy = await connected(opened, other.url, Kept())
            assert begun(opened, kept_alive.url, Kept()) is None
            busy.abort()
            assert begun(opened, kept_alive.url, Kept()) is not None
        await opened.close()

    client.run(test)
