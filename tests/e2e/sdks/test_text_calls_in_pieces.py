"""A long argument of a call that is written as text reaches the client in pieces, while the model is still at it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.gateway import Gateways
from tests.e2e.python_ways import anthropic_client, openai_client
from toolglot.textcalls.prompts.render import PROMPTS

NOTE = "first the umbrella, and then the \\ boots: " + " ".join(f"{number} €" for number in range(100))
PROMPT = f'Store a note with the text "{NOTE}"'
NAME, DESCRIPTION = "store_note", "Store a note."
SCHEMA: Any = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
ENOUGH = 20
"""Pieces of the argument, at least. The demo writes four hundred characters in more than a hundred."""


def chat(base_url: str, model: str) -> list[str]:
    function: Any = {"name": NAME, "description": DESCRIPTION, "parameters": SCHEMA}
    with (
        openai_client()
        .with_options(base_url=f"{base_url}/v1")
        .chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": PROMPT}],
            tools=[{"type": "function", "function": function}],
            stream=True,
        ) as chunks
    ):
        deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    return [call.function.arguments or "" for call in calls if call.function]


def responses(base_url: str, model: str) -> list[str]:
    function: Any = {"type": "function", "name": NAME, "description": DESCRIPTION, "parameters": SCHEMA}
    with (
        openai_client()
        .with_options(base_url=f"{base_url}/v1")
        .responses.create(model=model, input=PROMPT, tools=[function], store=False, stream=True) as events
    ):
        return [event.delta for event in events if event.type == "response.function_call_arguments.delta"]


def messages(base_url: str, model: str) -> list[str]:
    with (
        anthropic_client()
        .with_options(base_url=base_url)
        .messages.create(
            model=model,
            max_tokens=4096,
            messages=[{"role": "user", "content": PROMPT}],
            tools=[{"name": NAME, "description": DESCRIPTION, "input_schema": SCHEMA}],
            stream=True,
        ) as events
    ):
        deltas = [event.delta for event in events if event.type == "content_block_delta"]
    return [delta.partial_json for delta in deltas if delta.type == "input_json_delta"]


@pytest.mark.parametrize("text_format", PROMPTS)
@pytest.mark.parametrize("pieces_of", [chat, responses, messages], ids=lambda function: function.__name__)
def test_a_long_argument_comes_in_pieces(
    gateways: Gateways, pieces_of: Callable[[str, str], list[str]], text_format: str
) -> None:
    """Gemini's dialect, which has whole calls alone, is the only one that cannot."""
    pieces = [piece for piece in pieces_of(gateways.to("openai_chat").base_url, f"demo-text-{text_format}") if piece]
    assert json.loads("".join(pieces)) == {"text": NOTE}
    assert len(pieces) >= ENOUGH
