"""The official JavaScript SDKs, each in one Node process that answers a line with a line."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from .answers import Answer, Call, Failure, Way

FOLDER = Path(__file__).parent / "js"
NODE = FOLDER / "node_modules" / ".bin" / "node"
"""The newest SDKs need a newer Node than many machines have; `setup.sh` installs one beside them."""


class Runner:
    """A Node process with one SDK loaded."""

    def __init__(self, script: str) -> None:
        self._process = subprocess.Popen(
            [NODE, script], cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def ask(self, way: str, base_url: str) -> Answer | Failure:
        return _result(self.result(way, base_url))

    def result(self, way: str, base_url: str, **wish: Any) -> dict[str, Any]:
        """What the script says, which is told the rest of the wish too."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"way": way, "base_url": base_url, **wish}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"node ended with {self._process.wait()}"
        return dict(json.loads(line))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _result(result: dict[str, Any]) -> Answer | Failure:
    if failure := result.get("failure"):
        return Failure(**failure)
    assert "answer" in result, result.get("accident")
    fields = result["answer"]
    return Answer(**{**fields, "calls": [Call(**call) for call in fields["calls"]]})


@cache
def runner(script: str) -> Runner:
    """The one process for this script; `close_runners` ends it."""
    process = Runner(script)
    _running.append(process)
    return process


_running: list[Runner] = []


def close_runners() -> None:
    while _running:
        _running.pop().close()
    runner.cache_clear()


def _way(script: str, dialect: str, streams: bool, name: str) -> Way:
    return Way(f"js-{name}", dialect, streams, lambda base_url: runner(script).ask(name, base_url))


JS_WAYS = [
    _way("openai.mjs", "openai_chat", False, "chat_create"),
    _way("openai.mjs", "openai_chat", True, "chat_stream"),
    _way("openai.mjs", "openai_chat", True, "chat_create_stream"),
    _way("openai.mjs", "openai_responses", False, "responses_create"),
    _way("openai.mjs", "openai_responses", True, "responses_stream"),
    _way("openai.mjs", "openai_responses", True, "responses_create_stream"),
    _way("anthropic.mjs", "anthropic", False, "messages_create"),
    _way("anthropic.mjs", "anthropic", True, "messages_stream"),
    _way("anthropic.mjs", "anthropic", True, "messages_create_stream"),
    _way("genai.mjs", "gemini", False, "generate_content"),
    _way("genai.mjs", "gemini", True, "generate_content_stream"),
]

JS_LOOPS = [
    _way("openai.mjs", "openai_chat", True, "chat_loop"),
    _way("openai.mjs", "openai_responses", True, "responses_loop"),
    _way("anthropic.mjs", "anthropic", True, "messages_loop"),
    _way("genai.mjs", "gemini", True, "generate_content_loop"),
]


def _ai_way(provider: str, dialect: str, streams: bool) -> Way:
    name = f"{provider}_streamed" if streams else provider
    return Way(f"ai-{name}", dialect, streams, lambda base_url: runner("ai.mjs").ask(name, base_url))


AI_LOOPS = [
    _ai_way(provider, dialect, streams)
    for provider, dialect in (
        ("openai_chat", "openai_chat"),
        ("openai_compatible", "openai_chat"),
        ("openai_responses", "openai_responses"),
        ("anthropic", "anthropic"),
        ("google", "gemini"),
    )
    for streams in (False, True)
]
"""The Vercel AI SDK, which runs the loop by itself, with each of its providers."""
