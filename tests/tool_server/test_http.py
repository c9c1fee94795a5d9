"""The server over Streamable HTTP: with the official client, and with those who should not be let in."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.tool_server.peers import GENERATIONS, over_http, talk, text_of
from tests.upstream.bad_server import BadServer, Gate, expect, gone
from tests.waiting import FAILSAFE
from toolglot.server.run import listener_url
from toolglot.tool_server.http import CannotListenError, listen
from toolglot.tool_server.stdio import MAX_MESSAGE

KEY = "tg-canary-of-the-tool-server"
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


class Hanging(NamedTuple):
    """What an upstream that never answers has seen of one question."""

    asked: Gate
    left: Gate


HANGING = {mode: Hanging(Gate(), Gate()) for mode in GENERATIONS}
CONFIG = """
discover = false
[upstreams.hanging]
dialect = "openai_chat"
base_url = "{url}"
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("open")
    with BadServer(*([expect(seen=each.asked), gone(each.left)] for each in HANGING.values())) as upstream:
        (folder / "toolglot.toml").write_text(CONFIG.format(url=upstream.url))
        with over_http(folder, "--allow-ask", "--config", "toolglot.toml") as served:
            yield served


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("locked")
    with over_http(folder, "--key-env", "SERVER_KEY", listen="0.0.0.0:0", SERVER_KEY=KEY) as served:
        yield served


async def use(client: Client) -> None:
    assert "translate" in [tool.name for tool in (await client.list_tools()).tools]
    arguments = {"dialect": "openai_chat", "document": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}}
    counted = await client.call_tool("count_tokens", arguments)
    assert counted.structured_content is not None
    assert counted.structured_content["tokens"] > 0
    refused = await client.call_tool("count_tokens", {})
    assert refused.is_error
    assert "missing required field `dialect`" in text_of(refused)


@pytest.mark.parametrize("mode", GENERATIONS)
def test_the_official_client_is_served_in_both_generations(mode: str, url: str) -> None:
    async def conversation(client: Client) -> None:
        assert client.protocol_version == GENERATIONS[mode]
        await use(client)
        answer = await client.call_tool("ask_model", {"model": "demo", "prompt": "Hi"})
        assert answer.structured_content is not None
        assert "You said" in answer.structured_content["text"]

    talk(Client(url, mode=mode, read_timeout_seconds=FAILSAFE), conversation)


@pytest.mark.parametrize("mode", GENERATIONS)
def test_a_question_that_is_taken_back_ends_at_the_upstream(mode: str, url: str) -> None:
    async def conversation(client: Client) -> None:
        question = asyncio.create_task(client.call_tool("ask_model", {"model": "hanging/m", "prompt": "Hi"}))
        await HANGING[mode].asked.wait()
        question.cancel()
        await HANGING[mode].left.wait()

    talk(Client(url, mode=mode), conversation)


@pytest.mark.parametrize("mode", GENERATIONS)
def test_a_client_that_shows_the_key_is_served(mode: str, locked: str) -> None:
    async def held() -> None:
        bearer = httpx2.AsyncClient(headers={"authorization": f"Bearer {KEY}"}, timeout=FAILSAFE)
        transport = streamable_http_client(locked, http_client=bearer)
        async with asyncio.timeout(FAILSAFE), bearer, Client(transport, mode=mode) as client:
            await use(client)

    asyncio.run(held())


def post(
    url: str, body: bytes | Mapping[str, Any] = INITIALIZE, path: str = "/mcp", headers: Mapping[str, str] = {}
) -> tuple[int, bytes, Mapping[str, str]]:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=FAILSAFE)
    fields = {**JSON, **headers}
    try:
        connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), fields)
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def test_who_asks_as_the_protocol_says_is_answered(url: str) -> None:
    status, body, headers = post(url)
    assert status == 200
    assert b"toolglot" in body
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (421, {"host": "evil.example"}),
        (421, {"host": "evil.example:80", "origin": "http://evil.example:80"}),
        (403, {"origin": "http://evil.example"}),
        (403, {"origin": "null"}),
    ],
)
def test_a_web_page_of_somewhere_else_is_not_let_in(status: int, headers: dict[str, str], url: str) -> None:
    found, body, told = post(url, headers=headers)
    assert found == status
    assert json.loads(body)["error"]["message"]
    assert "access-control-allow-origin" not in told


@pytest.mark.parametrize(
    "headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": KEY}, {"x-api-key": f"{KEY}x"}]
)
def test_who_shows_no_key_is_not_let_in(headers: dict[str, str], locked: str) -> None:
    status, body, told = post(locked, headers=headers)
    assert status == 401
    assert told["www-authenticate"] == "Bearer"
    assert KEY.encode() not in body


def test_a_key_in_the_query_is_none_because_addresses_are_logged(locked: str) -> None:
    assert post(locked, path=f"/mcp?key={KEY}")[0] == 401


def test_nothing_is_served_at_other_paths(url: str) -> None:
    assert post(url, path="/")[0] == 404
    assert post(url, path="/mcp/../mcp")[0] == 400


MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}


@pytest.mark.parametrize("generation", [{}, MODERN], ids=["handshake", "stateless"])
@pytest.mark.parametrize(
    "body",
    [b"", b"hello", b"[]", b"\xff\xfe", b"[" * 10_000 + b"]" * 10_000, b'{"jsonrpc":"2.0","id":1,"method":5}'],
    ids=["nothing", "no JSON", "an array", "no text", "depth", "a method that is none"],
)
def test_garbage_is_refused_and_the_next_request_served(body: bytes, generation: dict[str, str], url: str) -> None:
    status, told, _ = post(url, body, headers=generation)
    assert status == 400
    assert b"Traceback" not in told
    assert post(url)[0] == 200


def test_a_body_that_is_too_large_is_refused(url: str) -> None:
    status, body, _ = post(url, b" " * (MAX_MESSAGE + 1))
    assert status == 413
    assert b"larger than" in body
    assert post(url)[0] == 200


def test_a_body_that_is_no_json_by_its_type_is_refused(url: str) -> None:
    """What a web page can send without asking first."""
    assert post(url, headers={"content-type": "text/plain"})[0] == 400


def test_an_address_of_the_newer_kind_is_listened_on() -> None:
    with listen("::1", 0) as listener:
        assert listener_url(listener).startswith("http://[::1]:")


def test_an_address_that_nobody_has_is_told() -> None:
    with pytest.raises(CannotListenError, match=r"cannot listen on 192\.0\.2\.1:0: "):
        listen("192.0.2.1", 0)
