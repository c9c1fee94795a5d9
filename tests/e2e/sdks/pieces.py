"""The pieces in which the arguments of calls come to the official SDKs when they stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.e2e.python_ways import anthropic_client, openai_client

from .script import Wish

Tools = list[tuple[str, str, dict[str, Any]]]


def chat(base_url: str, wish: Wish, tools: Tools) -> list[str]:
    declared: Any = [
        {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
        for name, description, schema in tools
    ]
    create = openai_client().with_options(base_url=f"{base_url}/v1").chat.completions.create
    messages: Any = [{"role": "user", "content": wish.prompt}]
    with create(model=wish.model, messages=messages, tools=declared, stream=True) as chunks:
        deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    return [call.function.arguments for call in calls if call.function and call.function.arguments]


def responses(base_url: str, wish: Wish, tools: Tools) -> list[str]:
    declared: Any = [
        {"type": "function", "name": name, "description": description, "parameters": schema, "strict": False}
        for name, description, schema in tools
    ]
    create = openai_client().with_options(base_url=f"{base_url}/v1").responses.create
    with create(model=wish.model, input=wish.prompt, tools=declared, store=False, stream=True) as events:
        return [event.delta for event in events if event.type == "response.function_call_arguments.delta"]


def messages(base_url: str, wish: Wish, tools: Tools) -> list[str]:
    declared: Any = [
        {"name": name, "description": description, "input_schema": schema} for name, description, schema in tools
    ]
    create = anthropic_client().with_options(base_url=base_url).messages.create
    asked: Any = [{"role": "user", "content": wish.prompt}]
    with create(model=wish.model, max_tokens=4096, messages=asked, tools=declared, stream=True) as events:
        deltas = [event.delta for event in events if event.type == "content_block_delta"]
    return [delta.partial_json for delta in deltas if delta.type == "input_json_delta" and delta.partial_json]


PIECES: dict[str, Callable[[str, Wish, Tools], list[str]]] = {
    "openai_chat": chat,
    "openai_responses": responses,
    "anthropic": messages,
}
"""By the client's dialect. Gemini's has whole calls alone."""
