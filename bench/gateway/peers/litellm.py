"""LiteLLM's proxy."""

from __future__ import annotations

import json

from bench.gateway.cases import RESPONSES_TO_CHAT, ROUTES, Route
from bench.gateway.peers.record import KEY, Launch, Peer, Place, Python
from bench.gateway.requests import model_names

_TRANSLATED = "translated-"
"""What begins the names of the models that LiteLLM must not ask by the Responses API, which the upstream speaks too."""

_ENVIRONMENT = {
    "LITELLM_LOG": "ERROR",
    # Prices come from a file of the package instead of from the network, which would be part of the start.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # Without a key, as the others are run.
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}


def _entry(name: str, model: str, url: str, **more: object) -> dict[str, object]:
    return {"model_name": name, "litellm_params": {"model": model, "api_base": url, "api_key": KEY, **more}}


def _litellm(place: Place) -> Launch:
    models = []
    for name in model_names("openai_chat"):
        url = f"{place.upstream_url}/v1"
        models.append(_entry(name, f"openai/{name}", url))
        models.append(_entry(f"{_TRANSLATED}{name}", f"openai/{name}", url, use_chat_completions_api=True))
    models += [_entry(name, f"anthropic/{name}", place.upstream_url) for name in model_names("anthropic")]
    config = {
        "model_list": models,
        "litellm_settings": {"use_chat_completions_url_for_anthropic_messages": True, "telemetry": False},
    }
    program = str(place.home / "bin" / "litellm")
    return Launch(
        (program, "--config", "config.json", "--host", "127.0.0.1", "--port", str(place.port)),
        _ENVIRONMENT,
        {"config.json": json.dumps(config)},
    )


def _model(route: Route, model: str) -> str:
    return f"{_TRANSLATED}{model}" if route == RESPONSES_TO_CHAT else model


LITELLM = Peer(
    name="litellm",
    title="LiteLLM proxy",
    routes=ROUTES,
    launch=_litellm,
    install=Python(("litellm[proxy]==1.106.2",), "litellm"),
    ready="/health/readiness",
    health="/health/liveliness",
    model=_model,
    start_patience=120.0,
    settings="one worker, log of errors alone, prices from the package, Messages told to ask by Chat Completions",
)
