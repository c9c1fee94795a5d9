"""Answers that must be JSON of a schema, asked for and parsed by each SDK's own helper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types
from pydantic import create_model

from tests.e2e.gateway import Gateways
from tests.e2e.python_ways import anthropic_client, genai_client, openai_client
from tests.e2e.scripted import Seen, upstream
from tests.e2e.wires import WIRES, Turn

from .script import as_json

Forecast: Any = create_model("Forecast", city=(str, ...), degrees=(float, ...), hours=(list[int], ...))
SAID = {"city": "Zürich", "degrees": 17.5, "hours": [6, 18]}
PROMPT = "The weather in Zürich, as JSON."
MODEL = "some-model"


def chat(base_url: str) -> Any:
    completions = openai_client().with_options(base_url=f"{base_url}/v1").chat.completions
    asked: Any = [{"role": "user", "content": PROMPT}]
    return completions.parse(model=MODEL, messages=asked, response_format=Forecast).choices[0].message.parsed


def responses(base_url: str) -> Any:
    client = openai_client().with_options(base_url=f"{base_url}/v1")
    return client.responses.parse(model=MODEL, input=PROMPT, text_format=Forecast).output_parsed


def messages(base_url: str) -> Any:
    client = anthropic_client().with_options(base_url=base_url)
    asked: Any = [{"role": "user", "content": PROMPT}]
    return client.messages.parse(model=MODEL, max_tokens=1024, messages=asked, output_format=Forecast).parsed_output


def generate_content(base_url: str) -> Any:
    config = types.GenerateContentConfig(
        http_options=types.HttpOptions(base_url=base_url),
        response_mime_type="application/json",
        response_schema=Forecast,
    )
    return genai_client().models.generate_content(model=MODEL, contents=PROMPT, config=config).parsed


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("ask", [chat, responses, messages, generate_content])
def test_an_answer_is_asked_for_by_its_schema_and_parsed(
    gateways: Gateways, ask: Callable[[str], Any], dialect: str
) -> None:
    gateway = gateways.to(dialect)
    wanted: list[Any] = []

    def script(seen: Seen) -> Turn:
        wanted.append(seen.wanted)
        return Turn(as_json(SAID))

    gateway.exchange.answer = upstream(dialect, script)
    assert ask(gateway.base_url) == Forecast.model_validate(SAID)
    if ask is not generate_content or dialect != "gemini":  # which is forwarded, with a schema of Google's own kind
        assert set(wanted[-1]["required"]) == set(SAID)
