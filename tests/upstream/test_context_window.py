"""A configured `context_window` becomes the request's own setting, where the upstream's API has one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.dialects import find
from toolglot.routing import Target
from toolglot.upstream.demo.stream import NO_PAUSES
from toolglot.upstream.demo.transport import DemoTransport
from toolglot.upstream.exchange import make_exchange
from toolglot.upstream.upstream import Upstream

HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
WINDOW = 32_768


def sent(client: str, upstream: str, request: dict[str, Any], window: int | None = WINDOW) -> Any:
    dialect = find(upstream)
    place = Upstream(
        name="up",
        dialect=dialect,
        base_url="http://127.0.0.1:1",
        transport=DemoTransport(dialect, pace=NO_PAUSES),
    )
    target = Target(upstream="up", model="m", asked="m", rule="a test", context_window=window)
    exchange = make_exchange(find(client), place, target)
    return json.loads(exchange.request(json.dumps(request).encode()))


@pytest.mark.parametrize(
    ("client", "members", "expected"),
    [
        ("anthropic", {"max_tokens": 100}, {"num_ctx": WINDOW, "num_predict": 100}),
        ("openai_chat", {}, {"num_ctx": WINDOW}),
        ("ollama", {}, {"num_ctx": WINDOW}),
        ("ollama", {"options": {"num_gpu": 1}}, {"num_ctx": WINDOW, "num_gpu": 1}),
        ("ollama", {"options": {"num_ctx": 8192}}, {"num_ctx": 8192}),
        ("ollama", {"options": None}, {"num_ctx": WINDOW}),
    ],
)
def test_ollama_is_asked_for_the_configured_window_unless_the_client_asks_for_one(
    client: str, members: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert sent(client, "ollama", {**HELLO, **members})["options"] == expected


@pytest.mark.parametrize(("upstream", "window"), [("ollama", None), ("openai_chat", WINDOW)])
def test_nothing_is_sent_without_a_window_or_where_servers_set_it(upstream: str, window: int | None) -> None:
    assert sent("openai_chat", upstream, HELLO, window).keys() <= {"model", "messages", "stream"}
