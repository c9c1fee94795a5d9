"""The table of agents: what each is told, and what never stands where others can read it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from toolglot.cli.agents import AGENTS, merged, prepared

URL = "http://127.0.0.1:4141"
KEY = 'k"\\{model}'
"""A key with everything in it that a template or a quoted string could trip over."""


@dataclass(frozen=True)
class Told:
    environment: dict[str, str]
    arguments: list[str] = field(default_factory=list)
    settings: dict[str, object] = field(default_factory=dict)


CLAUDE = {
    "ANTHROPIC_BASE_URL": URL,
    "ANTHROPIC_AUTH_TOKEN": KEY,
    "ANTHROPIC_API_KEY": "",
    "CLAUDE_CODE_USE_BEDROCK": "0",
    "CLAUDE_CODE_USE_VERTEX": "0",
    "CLAUDE_CODE_USE_FOUNDRY": "0",
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "ANTHROPIC_MODEL": "m",
    "ANTHROPIC_DEFAULT_OPUS_MODEL": "m",
    "ANTHROPIC_DEFAULT_SONNET_MODEL": "m",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL": "m",
}

CASES = {
    "claude": Told(CLAUDE, ["--settings", "/tmp/f/settings.json", "--model", "m"], {"env": CLAUDE}),
    "codex": Told(
        {"TOOLGLOT_KEY": KEY},
        [
            *("-c", 'model_provider="toolglot"'),
            *("-c", 'model_providers.toolglot.name="toolglot"'),
            *("-c", f'model_providers.toolglot.base_url="{URL}/v1"'),
            *("-c", 'model_providers.toolglot.env_key="TOOLGLOT_KEY"'),
            *("-c", 'model_providers.toolglot.wire_api="responses"'),
            *("-c", 'model="m"'),
        ],
    ),
    "gemini": Told(
        {
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": URL,
            "GOOGLE_GENAI_USE_VERTEXAI": "false",
            "GOOGLE_GENAI_USE_GCA": "false",
            "GEMINI_CLI_HOME": "/tmp/f",
        },
        ["-m", "m"],
        {"security": {"auth": {"selectedType": "gemini-api-key"}}},
    ),
    "qwen": Told(
        {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{URL}/v1", "OPENAI_MODEL": "m"},
        ["--auth-type", "openai", "--model", "m"],
    ),
    "aider": Told(
        {"AIDER_OPENAI_API_KEY": KEY},
        ["--openai-api-base", f"{URL}/v1", "--model", "openai/m", "--weak-model", "openai/m"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_agent_is_told_the_gateway_the_key_and_the_model(name: str) -> None:
    told = prepared(AGENTS[name], URL, KEY, "m", "/tmp/f")
    assert Told(told.environment, told.arguments, told.settings) == CASES[name]


def test_opencode_gets_a_whole_configuration_in_one_variable() -> None:
    told = prepared(AGENTS["opencode"], URL, KEY, 'm"x', "/tmp/f")
    content = json.loads(told.environment.pop("OPENCODE_CONFIG_CONTENT"))
    assert content["provider"]["toolglot"]["options"] == {"baseURL": f"{URL}/v1", "apiKey": KEY}
    assert content["provider"]["toolglot"]["models"] == {'m"x': {}}
    assert (content["model"], content["small_model"]) == ('toolglot/m"x', 'toolglot/m"x')
    assert (told.environment, told.arguments, told.settings) == ({}, [], {})


def test_a_name_with_quotes_stays_one_toml_string() -> None:
    assert prepared(AGENTS["codex"], URL, KEY, 'a"b', "/tmp/f").arguments[-1] == 'model="a\\"b"'


@pytest.mark.parametrize("name", AGENTS)
def test_no_key_stands_among_the_arguments(name: str) -> None:
    assert not any("SECRET" in argument for argument in prepared(AGENTS[name], URL, "SECRET", "m", "/tmp/f").arguments)


@pytest.mark.parametrize("name", [name for name, agent in AGENTS.items() if not agent.needs_model])
def test_without_a_model_nothing_speaks_of_one(name: str) -> None:
    told = prepared(AGENTS[name], URL, KEY, None, "/tmp/f")
    assert not any("MODEL" in variable for variable in told.environment)
    assert not any(argument in ("--model", "-m") or argument.startswith("model=") for argument in told.arguments)
    assert "MODEL" not in str(told.settings)


def test_of_two_documents_the_second_wins_member_by_member() -> None:
    under = {"a": {"x": 1, "y": [1]}, "b": 1, "c": {"z": 1}}
    assert merged(under, {"a": {"y": [2]}, "b": {"q": 1}}) == {"a": {"x": 1, "y": [2]}, "b": {"q": 1}, "c": {"z": 1}}
    assert under["a"] == {"x": 1, "y": [1]}
