"""Which requests are answered on their connection, and which by the app: by path, query, headers and body."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.socketless import Socketless, without_sockets

from toolglot.store.sqlite import SqliteStore

TURNS = [{"role": "user", "content": "Hello"}]
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
GEMINI = "/v1beta/models/m"

TAKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "Chat": ("/v1/chat/completions", {"model": "m", "messages": TURNS}),
    "Chat below a prefix": ("/openai/v1/chat/completions", {"model": "m", "messages": TURNS}),
    "Messages": ("/v1/messages", {"model": "m", "max_tokens": 9, "messages": TURNS}),
    "Messages with a query": ("/v1/messages?beta=true", {"model": "m", "max_tokens": 9, "messages": TURNS}),
    "Responses that are not stored": ("/v1/responses", {"model": "m", "input": "Hello", "store": False}),
    "Responses that are stored by default": ("/v1/responses", {"model": "m", "input": "Hello"}),
    "Responses that are to be stored": ("/v1/responses", {"model": "m", "input": "Hello", "store": True}),
    "a stream of Responses": ("/v1/responses", {"model": "m", "input": "Hello", "stream": True}),
    "a response that goes on from another": (
        "/v1/responses",
        {"model": "m", "input": "Hello", "previous_response_id": "resp_1"},
    ),
    "a response of a conversation": ("/v1/responses", {"model": "m", "input": "Hello", "conversation": "conv_1"}),
    "a reference to a stored item": (
        "/v1/responses",
        {"model": "m", "input": [{"type": "item_reference", "id": "msg_1"}]},
    ),
    "Gemini": (f"{GEMINI}:generateContent", CONTENTS),
    "Gemini with a key in the query": (f"{GEMINI}:generateContent?key=k", CONTENTS),
    "Gemini with an escaped name": ("/v1beta/models/a%2Fb:generateContent", CONTENTS),
    "a stream of Gemini": (f"{GEMINI}:streamGenerateContent?alt=sse", CONTENTS),
    "Ollama's chat": ("/api/chat", {"model": "m", "messages": TURNS}),
    "Ollama's completion": ("/api/generate", {"model": "m", "prompt": "Hello"}),
}
LEFT: dict[str, tuple[str, dict[str, Any]]] = {
    "a response in the background": ("/v1/responses", {"model": "m", "input": "Hello", "background": True}),
    "a stream of Gemini as an array": (f"{GEMINI}:streamGenerateContent", CONTENTS),
    "a count of tokens": ("/v1/messages/count_tokens", {"model": "m", "messages": TURNS}),
    "an unknown path": ("/v1/nowhere", {"model": "m", "messages": TURNS}),
    "no model": ("/v1/chat/completions", {"messages": TURNS}),
    "a request that makes no sense": ("/v1/chat/completions", {"model": "m", "messages": 7}),
    "an MCP server that is not configured": (
        "/v1/responses",
        {"model": "m", "input": "Hello", "tools": [{"type": "mcp", "server_label": "s", "server_url": "https://s"}]},
    ),
}


def is_taken(path: str, body: bytes, store: Path, headers: dict[str, str] | None = None) -> bool:
    async def work(stage: Socketless) -> bool:
        stage.service.store = opened = SqliteStore(store)
        client, _ = stage.client()
        fields = [(name.encode(), value.encode()) for name, value in {"host": "localhost", **(headers or {})}.items()]
        try:
            pending = stage.admission.admit(path.encode(), fields)
            driver = None if pending is None else stage.admission.driver(client, pending.head, body)
            if driver is not None:
                assert driver.record.client is not None
                driver.clear_up()
            assert stage.service.in_flight == 0
            return driver is not None
        finally:
            await opened.close()

    return without_sockets(work)


@pytest.mark.parametrize("what", TAKEN)
def test_the_connection_answers(what: str, tmp_path: Path) -> None:
    path, body = TAKEN[what]
    assert is_taken(path, json.dumps(body).encode(), tmp_path / "store")


@pytest.mark.parametrize("what", LEFT)
def test_the_app_answers(what: str, tmp_path: Path) -> None:
    path, body = LEFT[what]
    assert not is_taken(path, json.dumps(body).encode(), tmp_path / "store")


@pytest.mark.parametrize("header", ["origin", "content-encoding", "expect", "x-toolglot-strict", "x-toolglot-mcp"])
def test_the_app_answers_requests_with_a_header_that_only_it_reads(header: str, tmp_path: Path) -> None:
    path, body = TAKEN["Chat"]
    assert not is_taken(path, json.dumps(body).encode(), tmp_path / "store", {header: "1"})
