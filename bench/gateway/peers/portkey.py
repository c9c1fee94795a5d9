"""Portkey's gateway."""

from __future__ import annotations

from bench.gateway.cases import CHAT_TO_ANTHROPIC, CHAT_TO_CHAT, Route
from bench.gateway.peers.record import KEY, Launch, Node, Peer, Place

_PACKAGE = "@portkey-ai/gateway"
_PROVIDERS = {"openai_chat": "openai", "anthropic": "anthropic"}


def _portkey(place: Place) -> Launch:
    program = str(place.home / "node_modules" / _PACKAGE / "build" / "start-server.js")
    return Launch(
        ("node", program, f"--port={place.port}", "--headless"),
        {"NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": "127.0.0.1"},
    )


def _headers(route: Route, place: Place) -> dict[str, str]:
    return {
        "authorization": f"Bearer {KEY}",
        "x-portkey-provider": _PROVIDERS[route.upstream],
        "x-portkey-custom-host": f"{place.upstream_url}/v1",
    }


PORTKEY = Peer(
    name="portkey",
    title="Portkey gateway",
    routes=(CHAT_TO_CHAT, CHAT_TO_ANTHROPIC),
    launch=_portkey,
    # With newer ones every stream ends in an error, on Node 20: the headers of a copied answer cannot be changed.
    install=Node(_PACKAGE, "1.15.2", {"@hono/node-server": "1.7.0"}),
    ready="/",
    health="/",
    headers=_headers,
    settings="production, without its console; @hono/node-server 1.7.0",
)
