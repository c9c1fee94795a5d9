"""Servers over HTTP that are gone, elsewhere, endless or forgetful."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Iterator

import pytest
from bench.gateway.processes import free_port

from tests.agent.hosting import PATIENT, SECRET, hosting, text_of, until
from tests.agent.mcp_servers.wayward_http import WaywardHttp, wayward_http
from tests.waiting import FAILSAFE
from toolglot.agent.http_transport import proxy_for
from toolglot.agent.server_records import HostTimings, ToolFailedError
from toolglot.config.schema import McpServerConfig


def config_of(server: WaywardHttp, timeout: float = 20.0) -> McpServerConfig:
    headers = {"authorization": f"Bearer {SECRET}", "Accept-Encoding": "gzip"}
    return McpServerConfig(url=f"{server.address}?key={SECRET}", headers=headers, timeout=timeout)


@pytest.fixture
def server() -> Iterator[WaywardHttp]:
    with wayward_http() as server:
        yield server


async def test_a_server_gets_our_headers_and_is_told_when_the_session_ends(server: WaywardHttp) -> None:
    async with hosting(a=config_of(server)) as host:
        assert text_of(await host.call("a", "any", {})) == "fine"
        assert host.state("a").protocol == "2025-06-18"
    assert {headers["authorization"] for method, headers in server.heard if headers} == {f"Bearer {SECRET}"}
    assert {headers["accept-encoding"] for method, headers in server.heard if headers} == {"identity"}
    assert server.heard[-1][0] == "DELETE"


FAILURES = {
    "huge_json": "more than 16,777,216 bytes",
    "huge_event": "16777216 byte limit",
    "page": "Unexpected content type: text/html",
    "not_json": "Failed to parse JSON response",
    "hang": "did not answer within 0.5 seconds",
}


@pytest.mark.parametrize(("tool", "told"), FAILURES.items(), ids=FAILURES)
async def test_an_answer_that_is_none_is_a_failed_call_and_the_session_goes_on(
    tool: str, told: str, server: WaywardHttp
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with hosting(a=config_of(server, timeout=0.5 if tool == "hang" else 20.0)) as host:
        began = time.monotonic()
        with pytest.raises(ToolFailedError, match=told):
            await host.call("a", tool, {})
        assert time.monotonic() - began < FAILSAFE / 2
        await host.update({"a": config_of(server)})  # with time enough for a busy machine
        assert text_of(await host.call("a", "any", {})) == "fine"
        assert host.state("a").restarts == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000


BROKEN = {
    "drop": "it cannot be reached: peer closed connection",
    "forget": "it no longer knows the session",
    "bomb": "compresses its answer without being asked",
}


@pytest.mark.parametrize(("tool", "why"), BROKEN.items(), ids=BROKEN)
async def test_a_connection_that_is_of_no_use_any_more_is_made_anew(
    tool: str, why: str, server: WaywardHttp, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(a=config_of(server)) as host:
        with pytest.raises(ToolFailedError):
            await host.call("a", tool, {})
        await until(lambda: host.state("a").restarts == 1 and host.state("a").state == "ready")
        assert text_of(await host.call("a", "any", {})) == "fine"
    assert why in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("protocol", ["auto", "stateless", "handshake"])
async def test_a_server_that_is_not_there_is_asked_again_until_it_is(protocol: str) -> None:
    port = free_port()
    config = McpServerConfig(url=f"http://127.0.0.1:{port}/mcp", protocol=protocol)  # type: ignore[arg-type]
    async with hosting(a=config) as host:
        assert (host.state("a").why or "").startswith("it cannot be reached: ")
        await until(lambda: host.state("a").restarts >= 2)
        if protocol != "stateless":
            with wayward_http(port=port):
                await until(lambda: host.state("a").state == "ready")
                assert text_of(await host.call("a", "any", {})) == "fine"


@pytest.mark.parametrize("status", [401, 500])
async def test_a_refusal_is_told_by_its_status_and_without_secrets(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with wayward_http(status=status) as server:
        async with hosting(PATIENT, a=config_of(server)) as host:
            assert host.state("a").why == f"it answered with HTTP status {status}"
    assert SECRET not in caplog.text


async def test_a_redirect_to_another_server_is_not_followed(
    server: WaywardHttp, caplog: pytest.LogCaptureFixture
) -> None:
    with wayward_http(elsewhere=f"{server.address}?key={SECRET}") as first:
        async with hosting(PATIENT, a=config_of(first)) as host:
            assert "Redirect to" in (host.state("a").why or "")
    assert server.heard == []
    assert SECRET not in caplog.text


async def test_a_server_that_does_not_let_go_of_its_session_is_left(server: WaywardHttp) -> None:
    pace = HostTimings(closing=0.2)
    server.may_end.clear()
    async with hosting(pace, a=config_of(server)) as host:
        began = time.monotonic()
        await host.close()
    server.may_end.set()
    assert time.monotonic() - began < FAILSAFE / 2


async def test_a_flood_of_events_takes_neither_memory_nor_the_event_loop(server: WaywardHttp) -> None:
    async with hosting(a=config_of(server), b=config_of(server)) as host:
        flooded = asyncio.create_task(host.call("a", "flood", {}))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.monotonic()
        for _ in range(15):
            assert text_of(await host.call("b", "any", {})) == "fine"
        assert time.monotonic() - began < FAILSAFE / 2
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16_000
        flooded.cancel()


async def test_a_header_that_cannot_be_sent_is_not_told(server: WaywardHttp, caplog: pytest.LogCaptureFixture) -> None:
    config = McpServerConfig(url=server.address, headers={"x-api-key": f"{SECRET}\n"})
    async with hosting(PATIENT, a=config) as host:
        assert "Illegal header value" in (host.state("a").why or "")
        assert SECRET not in (host.state("a").why or "")
    assert SECRET not in caplog.text


async def test_calls_in_flight_end_with_their_connection(server: WaywardHttp) -> None:
    async with hosting(a=config_of(server)) as host:
        hanging = asyncio.create_task(host.call("a", "hang", {}))
        await until(lambda: server.heard[-1][0] == "tools/call")
        with pytest.raises(ToolFailedError):
            await host.call("a", "drop", {})
        with pytest.raises(ToolFailedError, match="ended before it had answered"):
            await hanging


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://example.com/mcp", "http://proxy:1"),
        ("http://example.com/mcp", "http://other:2"),
        ("https://inside.example/mcp", None),
    ],
)
def test_the_proxies_of_the_environment_are_used(url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy:1")
    monkeypatch.setenv("http_proxy", "http://other:2")
    monkeypatch.setenv("no_proxy", "inside.example")
    assert proxy_for(url) == proxy
