"""The official SDKs for JavaScript, in one Node process; the loops themselves are in `../js/turns*.mjs`."""

from __future__ import annotations

from functools import partial

from tests.e2e.answers import Answer, Call
from tests.e2e.js_ways import runner

from .clients import Client
from .script import Wish

SCRIPT = "turns.mjs"


def run(way: str, streams: bool, base_url: str, wish: Wish) -> list[Answer]:
    result = runner(SCRIPT).result(way, base_url, streams=streams, **wish.json())
    assert "answer" in result, result
    return [Answer(**{**turn, "calls": [Call(**call) for call in turn["calls"]]}) for turn in result["answer"]]


def _client(way: str, dialect: str, streams: bool, **abilities: bool) -> Client:
    name = f"js-{way}-{'streamed' if streams else 'whole'}"
    return Client(name, dialect, streams, partial(run, way, streams), **abilities)


JAVASCRIPT = [
    client
    for streams in (False, True)
    for client in (
        # The SDK's accumulator keeps the last piece of an extension field instead of joining the pieces.
        _client("chat", "openai_chat", streams, thinking=not streams, returns_state=False),
        _client("run_tools", "openai_chat", streams, thinking=not streams, returns_state=False, pictures=False),
        _client("responses", "openai_responses", streams),
        _client("responses_from_previous", "openai_responses", streams),
        _client("messages", "anthropic", streams, marks_errors=True),
        _client("tool_runner", "anthropic", streams, marks_errors=True),
        _client("chats", "gemini", streams, marks_errors=True),
        _client("automatic", "gemini", streams, usage=False, marks_errors=True),
    )
]

JAVASCRIPT_LEGACY = [_client("functions", "openai_chat", streams) for streams in (False, True)]
