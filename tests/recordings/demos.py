"""The demo, recorded: as an upstream of each dialect, asked by a client of each dialect, streamed and whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.exchanges import JSON_NAMES, written
from tests.server.gateway import Answer, Running, at, gateway
from toolglot.config.schema import RecordConfig
from toolglot.dialects import DIALECTS
from toolglot.ir import Tool


def model_of(upstream: str) -> str:
    return f"{upstream}-model"


def streams(client: str) -> tuple[bool, ...]:
    return (True,) if client == "warp" else (True, False)


WISH = "What is the weather in Paris, and what time is it in Oslo?"
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_NAMES = ("get_weather", "get_time")
_FUNCTIONS = [{"name": name, "parameters": _SCHEMA} for name in _NAMES]

ASKED: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "messages": [{"role": "user", "content": WISH}],
        "tools": [{"type": "function", "function": function} for function in _FUNCTIONS],
    },
    "openai_responses": {"input": WISH, "tools": [{"type": "function", **function} for function in _FUNCTIONS]},
    "anthropic": {
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": WISH}],
        "tools": [{"name": name, "input_schema": _SCHEMA} for name in _NAMES],
    },
    "gemini": {
        "contents": [{"role": "user", "parts": [{"text": WISH}]}],
        "tools": [{"functionDeclarations": _FUNCTIONS}],
    },
}
# Each with another limit: else an upstream is asked the same for two of them, at different times.
for _number, _client in enumerate(name for name in JSON_NAMES if name not in ASKED):
    _tools = tuple(Tool(name=name, parameters=_SCHEMA) for name in _NAMES)
    ASKED[_client] = written(_client, WISH, tools=_tools, max_output_tokens=999 - _number)
"""A question that leads to two calls; of Warp's client the usual one."""


def ask(running: Running, client: str, upstream: str, stream: bool) -> Answer:
    return running.ask(client, stream=stream, model=model_of(upstream), body=ASKED.get(client))


def record_demos(folder: Path) -> dict[tuple[str, str, bool], Answer]:
    """What each client got from each upstream, streamed or not. The recordings are in the folder, in this order."""
    demos = {f"to_{name}": at(name, "demo:", models=(model_of(name),)) for name in DIALECTS}
    answers: dict[tuple[str, str, bool], Answer] = {}
    with gateway(demos, record=RecordConfig(directory=str(folder))) as running:
        for client in DIALECTS:
            for upstream in DIALECTS:
                for stream in streams(client):
                    answers[client, upstream, stream] = ask(running, client, upstream, stream)
    return answers
