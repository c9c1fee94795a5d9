"""What the SDKs ask beside answers: which models there are, and how many tokens a request has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from google.genai import types

from tests.e2e.gateway import Gateways
from tests.e2e.js_ways import runner
from tests.e2e.loopback import Asked, Reply, whole
from tests.e2e.needs import MISSING_JS
from tests.e2e.python_ways import anthropic_client, genai_client, openai_client
from tests.e2e.wires import WIRES

from .javascript import SCRIPT
from .python_anthropic import MESSAGES_TOOLS
from .python_openai import RESPONSES_TOOLS
from .script import Wish, as_json

COUNTED = 4242
COUNTS: dict[str, tuple[str, Any]] = {
    "openai_responses": ("/responses/input_tokens", {"object": "response.input_tokens", "input_tokens": COUNTED}),
    "anthropic": ("/messages/count_tokens", {"input_tokens": COUNTED}),
    "gemini": (":countTokens", {"totalTokens": COUNTED}),
}
"""Where an upstream of each dialect counts tokens, if it does, and what it says."""


def count_upstream(dialect: str, asked: Asked) -> Reply:
    path, count = COUNTS[dialect]
    return whole(as_json(count).encode()) if asked.path.endswith(path) else Reply(404, b"{}")


# ── Python ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def openai_models(base_url: str, wish: Wish) -> dict[str, Any]:
    models = openai_client().with_options(base_url=f"{base_url}/v1").models
    return {"ids": [model.id for model in models.list()], "one": models.retrieve(wish.model).id}


def anthropic_models(base_url: str, wish: Wish) -> dict[str, Any]:
    models = anthropic_client().with_options(base_url=base_url).models
    return {"ids": [model.id for model in models.list()], "one": models.retrieve(wish.model).id}


def genai_models(base_url: str, wish: Wish) -> dict[str, Any]:
    options = types.HttpOptions(base_url=base_url)
    models = genai_client().models
    listed = models.list(config=types.ListModelsConfig(http_options=options))
    one = models.get(model=wish.model, config=types.GetModelConfig(http_options=options))
    return {"ids": [_plain(model) for model in listed], "one": _plain(one)}


def _plain(model: types.Model) -> str:
    return (model.name or "").removeprefix("models/")


def responses_count(base_url: str, wish: Wish) -> int:
    responses = openai_client().with_options(base_url=f"{base_url}/v1").responses
    return int(responses.input_tokens.count(model=wish.model, input=wish.prompt, tools=RESPONSES_TOOLS).input_tokens)


def messages_count(base_url: str, wish: Wish) -> int:
    messages: Any = [{"role": "user", "content": wish.prompt}]
    client = anthropic_client().with_options(base_url=base_url)
    counted = client.messages.count_tokens(model=wish.model, messages=messages, tools=MESSAGES_TOOLS)
    return int(counted.input_tokens)


def genai_count(base_url: str, wish: Wish) -> int:
    config = types.CountTokensConfig(http_options=types.HttpOptions(base_url=base_url))
    return genai_client().models.count_tokens(model=wish.model, contents=wish.prompt, config=config).total_tokens or 0


# ── all of them ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _in_javascript(way: str, base_url: str, wish: Wish) -> Any:
    result = runner(SCRIPT).result(way, base_url, **wish.json())
    assert "answer" in result, result
    return result["answer"]


def both(*asking: Callable[[str, Wish], Any]) -> list[Any]:
    python = [pytest.param(ask, id=f"python-{ask.__name__}") for ask in asking]
    names = [] if MISSING_JS else [ask.__name__ for ask in asking]
    return python + [pytest.param(partial(_in_javascript, name), id=f"js-{name}") for name in names]


@pytest.mark.parametrize("ask", both(openai_models, anthropic_models, genai_models))
def test_an_sdk_lists_the_models_and_asks_for_one(gateways: Gateways, ask: Callable[[str, Wish], Any]) -> None:
    models = ask(gateways.to("openai_chat").base_url, Wish(model="demo"))
    assert "demo" in models["ids"]
    assert models["one"] == "demo"


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("count", both(responses_count, messages_count, genai_count))
def test_tokens_are_counted_by_the_upstream_or_else_here(
    gateways: Gateways, count: Callable[[str, Wish], int], dialect: str
) -> None:
    gateway = gateways.to(dialect)
    gateway.exchange.asked.clear()
    if dialect in COUNTS:
        gateway.exchange.answer = partial(count_upstream, dialect)
        assert count(gateway.base_url, Wish()) == COUNTED
        assert len(gateway.exchange.asked) == 1
    gateway.exchange.answer = lambda _: Reply(404, b"{}")
    few, many = Wish(), Wish(prompt=Wish().prompt * 10)
    assert 0 < count(gateway.base_url, few) < count(gateway.base_url, many) < 1000
