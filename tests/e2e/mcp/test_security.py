"""What no request can do, and what nobody gets to see: servers start from the configuration alone, and the secrets of
its servers stay between it and them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.loopback import Asked, Loopback, Reply
from tests.e2e.scripted import Seen
from tests.e2e.wires import WIRES, Call, Turn

from .conversations import BetaMessages, Chat, Gemini
from .gateways import EVERYDAY, Running, Server, gateway, python_server
from .upstreams import scripted

HEADER = "x-toolglot-mcp"
PROJECT = str(Path(__file__).parents[3])
ENV_SECRET, HEADER_SECRET, QUERY_SECRET, CLIENT_SECRET = (
    f"canary-{name}-7f3a9c2e51b8d04e" for name in ("env", "header", "query", "client")
)
CANARIES = (ENV_SECRET, HEADER_SECRET, QUERY_SECRET, CLIENT_SECRET)
NAMES = {"vault", "leaky", "remote", "private"}


def echoing(asked: Asked) -> Reply:
    """A server that refuses everybody, and says with which key they came."""
    return Reply(403, f"no entry with {dict(asked.headers)} and {asked.query}".encode(), {"content-type": "text/plain"})


@pytest.fixture(scope="module")
def guarded(loopback: Loopback, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("guarded")
    with scripted(loopback, "replay") as upstreams, loopback.serving(echoing) as remote:
        url = f"{remote.base_url}/mcp?key={QUERY_SECRET}"
        servers: dict[str, Server] = {
            "vault": python_server(EVERYDAY, policy="auto", env={"API_TOKEN": ENV_SECRET}),
            "leaky": {
                "command": sys.executable,
                "args": ["-m", "tests.e2e.mcp.bad_server"],
                "cwd": PROJECT,
                "env": {"SECRET": ENV_SECRET},
                "policy": "auto",
            },
            "remote": {"url": url, "headers": {"authorization": f"Bearer {HEADER_SECRET}", "x-key": HEADER_SECRET}},
            "private": python_server(EVERYDAY, policy="auto", by_header=False),
        }
        with gateway(folder, upstreams, servers, more='[log]\nlevel = "debug"\n') as running:
            yield running


PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/plain-openai_chat:generateContent",
}
BODIES: dict[str, dict[str, Any]] = {
    "openai_chat": {"messages": [{"role": "user", "content": "Hello"}]},
    "openai_responses": {"input": "Hello"},
    "anthropic": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 100},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
}
NAMED = {"name": "mine", "server_label": "mine"}
SMUGGLED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "servers as in files": lambda stdio: {"mcpServers": {"mine": stdio}},
    "servers as in the configuration": lambda stdio: {"mcp": {"servers": {"mine": stdio}}},
    "a list of servers on pipes": lambda stdio: {"mcp_servers": [{"type": "stdio", **NAMED, **stdio}]},
    "a list of servers with a command": lambda stdio: {"mcp_servers": [{"type": "url", "url": "x", **NAMED, **stdio}]},
    "servers by names": lambda stdio: {"mcp_servers": {"mine": stdio}},
    "a tool with a command": lambda stdio: {"tools": [{"type": "mcp", **NAMED, **stdio}]},
    "a configured server with a command": lambda stdio: {"tools": [{"type": "mcp", "server_label": "vault", **stdio}]},
    "a tool with a command as its address": lambda stdio: {
        "tools": [{"type": "mcp", **NAMED, "server_url": f"stdio:{' '.join(stdio['args'])}"}]
    },
    "servers in a tool": lambda stdio: {"tools": [{"mcpServers": [{**NAMED, **stdio}], "mcp_servers": [stdio]}]},
}


def asked(client: str, more: dict[str, Any]) -> dict[str, Any]:
    """To a model whose upstream speaks another dialect."""
    model = "plain-gemini" if client == "openai_chat" else "plain-openai_chat"
    return {**({} if client == "gemini" else {"model": model}), **BODIES[client], **more}


def plain(running: Running) -> None:
    for name in WIRES:
        running.upstreams[name].play(lambda seen: Turn("Hello."), name)


@pytest.mark.parametrize("smuggle", SMUGGLED.values(), ids=SMUGGLED)
def test_no_request_starts_a_server(
    guarded: Running, tmp_path: Path, smuggle: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    mark = tmp_path / "mark"
    plain(guarded)
    for client, path in PATHS.items():
        command = {"command": "/bin/sh", "args": ["-c", f"touch {mark}"]}
        status, text = guarded.post(path, asked(client, smuggle(command)), {})
        assert status in (200, 400), text
    assert set(guarded.states()) == NAMES
    assert not mark.exists()


HEADERS = ("mine", "vault, mine", "private", "/bin/sh", '{"command": "/bin/sh"}', "vault;mine", "x" * 5_000)


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header[:30])
@pytest.mark.parametrize("client", PATHS)
def test_a_header_can_only_name_servers_that_are_meant_for_it(guarded: Running, client: str, header: str) -> None:
    plain(guarded)
    status, text = guarded.post(PATHS[client], asked(client, {}), {HEADER: header})
    assert status == 400
    assert f"header {HEADER} names the MCP server" in text
    assert "it has vault, leaky, remote" in text
    assert "private" not in text.replace(f"'{header}'", "")
    assert len(text) < 1_000
    assert all(not guarded.upstreams[name].received for name in WIRES)


def leaking(seen: Seen) -> Turn:
    """Looks at all that servers may show of their secrets."""
    if len(seen.results) == 4:
        return Turn("Done.")
    names = ("leaky__die",) if seen.results else ("vault__whoami", "leaky__error", "remote__anything")
    return Turn("Let me see.", tuple(Call(f"call_{name}", name, {}) for name in names))


CLIENTS: tuple[tuple[str, Any, bool], ...] = (
    ("openai_chat", Gemini, True),
    ("gemini", Chat, False),
    ("openai_responses", BetaMessages, True),
)


def test_the_secrets_of_servers_are_seen_by_nobody_else(guarded: Running) -> None:
    seen: list[str] = []
    for number, (name, conversation, streams) in enumerate(CLIENTS):
        upstream = guarded.upstreams[name]
        upstream.play(leaking)
        guarded.until("leaky", state="ready", restarts=number)
        asked_for = {HEADER: "vault, leaky, remote"}
        talk = conversation(guarded.base_url, f"plain-{name}", streams, own=False, extra_headers=asked_for)
        said = talk.say("Show me everything.")
        assert upstream.refused == []
        shown, error, absent, died = (result.text for result in upstream.received[-1].results)
        assert "API_TOKEN" in shown
        assert "[redacted]" in shown
        assert "[redacted]" in error
        assert "There is no tool remote__anything" in absent
        assert "ended before it had answered" in died
        seen += [repr(said.raw), *upstream.bodies]
    seen += _refused(guarded)
    assert "403" in json.dumps(guarded.receipt("mcp.remote"))
    paths = ("/debug/mcp", "/debug/receipts", "/metrics", "/v1/models", "/")
    seen += [*map(guarded.get, paths), guarded.log.read_text()]
    assert [(canary, text[:200]) for canary in CANARIES for text in seen if canary in text] == []


def _refused(guarded: Running) -> Iterator[str]:
    """What clients are told that name servers with keys of their own."""
    for url in ("http://a.example/mcp", f"http://a.example/mcp?key={CLIENT_SECRET}"):
        tool = {"type": "mcp", "server_label": "mine", "server_url": url, "authorization": CLIENT_SECRET}
        yield guarded.post(PATHS["openai_responses"], asked("openai_responses", {"tools": [tool]}), {})[1]
        server = {"type": "url", "name": "mine", "url": url, "authorization_token": CLIENT_SECRET}
        yield guarded.post(PATHS["anthropic"], asked("anthropic", {"mcp_servers": [server]}), {})[1]
