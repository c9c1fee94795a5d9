"""claude-code-router, which lets Claude Code ask other models."""

from __future__ import annotations

import json

from bench.gateway.cases import ANTHROPIC_TO_CHAT, Route
from bench.gateway.peers.record import KEY, Launch, Node, Peer, Place
from bench.gateway.requests import model_names

_PACKAGE = "@musistudio/claude-code-router"
_PROVIDER = "bench"


def _claude_code_router(place: Place) -> Launch:
    models = model_names("openai_chat")
    provider = {
        "name": _PROVIDER,
        "api_base_url": f"{place.upstream_url}/v1/chat/completions",
        "api_key": KEY,
        "models": models,
    }
    config = {
        "LOG": False,
        "HOST": "127.0.0.1",
        "PORT": place.port,
        "NON_INTERACTIVE_MODE": True,
        "Providers": [provider],
        "Router": {"default": f"{_PROVIDER},{models[0]}"},
    }
    return Launch(
        ("node", str(place.home / "node_modules" / _PACKAGE / "dist" / "cli.js"), "start"),
        {"HOME": str(place.folder)},
        {".claude-code-router/config.json": json.dumps(config)},
    )


def _model(route: Route, model: str) -> str:
    return f"{_PROVIDER},{model}"


CLAUDE_CODE_ROUTER = Peer(
    name="claude-code-router",
    title="claude-code-router",
    routes=(ANTHROPIC_TO_CHAT,),
    launch=_claude_code_router,
    install=Node(_PACKAGE, "2.0.0"),
    ready="/health",
    health="/health",
    model=_model,
    settings="no log",
)
