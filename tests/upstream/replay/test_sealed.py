"""State that clients carry in recordings is sealed for the server and the model that were recorded, whatever answers in
their place: the bytes are the same, and what is carried on from there goes back to its maker alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.server.gateway import Answer, Running, at, gateway
from toolglot.config.schema import ModelConfig, RecordConfig, UpstreamConfig

TOOLS = [{"name": "look", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]
ENVELOPE = b"dG9vbGdsb3QA"  # how every envelope begins


def asked(words: str, *before: Answer) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": words}]
    for answer in before:
        content = answer.json()["content"]
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": "sunny"}
            for block in content
            if block["type"] == "tool_use"
        ]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    thinking = {"type": "enabled", "budget_tokens": 1024}
    return {"max_tokens": 4000, "thinking": thinking, "messages": messages, "tools": TOOLS}


def two_turns(running: Running, model: str, words: str) -> list[Answer]:
    first = running.ask("anthropic", model=model, body=asked(words))
    return [first, running.ask("anthropic", model=model, body=asked(words, first))]


def served_by(upstreams: dict[str, str]) -> dict[str, ModelConfig]:
    """Two models, by the upstreams that have one of the same name."""
    return {name: ModelConfig(upstream=upstream, model="gpt-5") for name, upstream in upstreams.items()}


def test_the_state_of_two_servers_in_one_folder_stays_apart(tmp_path: Path) -> None:
    servers: dict[str, UpstreamConfig] = {name: at("openai_responses", "demo:") for name in ("east", "west")}
    models = served_by({"one": "east", "other": "west"})
    words = {"one": "What is the weather in Paris?", "other": "What is the weather in Rome?"}
    with gateway(servers, models=models, record=RecordConfig(directory=str(tmp_path))) as running:
        recorded = {model: two_turns(running, model, said) for model, said in words.items()}
    replaying = {"again": at("openai_responses", f"replay:{tmp_path}")}
    with gateway(replaying, models=served_by({"one": "again", "other": "again"})) as running:
        replayed = {model: two_turns(running, model, said) for model, said in words.items()}
    for model in words:
        assert [answer.status for answer in replayed[model]] == [200, 200]
        assert ENVELOPE in recorded[model][0].body
        assert [answer.body for answer in replayed[model]] == [answer.body for answer in recorded[model]]
