"""Bifrost, from its Go module."""

from __future__ import annotations

import json

from bench.gateway.cases import ANTHROPIC_TO_CHAT, CHAT_TO_ANTHROPIC, CHAT_TO_CHAT, Route
from bench.gateway.peers.record import KEY, PATHS, Go, Launch, Peer, Place

_PROVIDERS = {"openai_chat": "openai", "anthropic": "anthropic"}


def _bifrost(place: Place) -> Launch:
    key = {"name": "bench", "value": KEY, "models": ["*"], "weight": 1.0}
    provider = {"keys": [key], "network_config": {"base_url": place.upstream_url}}
    config = {"client": {"enable_logging": False}, "providers": dict.fromkeys(_PROVIDERS.values(), provider)}
    program = str(place.home / "bin" / "bifrost-http")
    return Launch(
        (program, "-host", "127.0.0.1", "-port", str(place.port), "-app-dir", "data", "-log-level", "error"),
        files={"data/config.json": json.dumps(config)},
    )


def _model(route: Route, model: str) -> str:
    return f"{_PROVIDERS[route.upstream]}/{model}"


BIFROST = Peer(
    name="bifrost",
    title="Bifrost",
    routes=(ANTHROPIC_TO_CHAT, CHAT_TO_CHAT, CHAT_TO_ANTHROPIC),
    launch=_bifrost,
    install=Go("github.com/maximhq/bifrost/transports/bifrost-http", "latest"),
    ready="/health",
    health="/health",
    model=_model,
    paths={**PATHS, "anthropic": "/anthropic/v1/messages"},
    settings="no log",
)
