"""The table of agents: what each is told, and what never stands where others can read it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from toolglot.cli.agent_process import agent_environment
from toolglot.cli.agents import AGENTS, AgentTarget, PreparedAgent, merge_documents
from toolglot.cli.agents import prepare_agent as prepare

URL = "http://127.0.0.1:4141"
KEY = 'k"\\{model}'
"""A key with everything in it that a template or a quoted string could trip over."""


def prepared(name: str, model: str | None = "m", *, key: str = KEY, window: int | None = None) -> PreparedAgent:
    return prepare(AGENTS[name], AgentTarget(url=URL, key=key, model=model, window=window), "/agent")


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
    "claude": Told(
        CLAUDE,
        ["--settings", "/agent/settings.json", "--model", "m"],
        {"env": CLAUDE, "permissions": {"disableAutoMode": "disable"}},
    ),
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
            "GEMINI_CLI_HOME": "/agent",
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
    told = prepared(name)
    assert Told(told.environment, told.arguments, told.settings) == CASES[name]


def test_opencode_gets_a_whole_configuration_in_one_variable() -> None:
    told = prepared("opencode", 'm"x')
    content = json.loads(told.environment.pop("OPENCODE_CONFIG_CONTENT"))
    assert content["provider"]["toolglot"]["options"] == {"baseURL": f"{URL}/v1", "apiKey": KEY}
    assert content["provider"]["toolglot"]["models"] == {'m"x': {}}
    assert (content["model"], content["small_model"]) == ('toolglot/m"x', 'toolglot/m"x')
    assert (told.environment, told.arguments, told.settings) == ({}, [], {})


def test_a_name_with_quotes_stays_one_toml_string() -> None:
    assert prepared("codex", 'a"b').arguments[-1] == 'model="a\\"b"'


@pytest.mark.parametrize("name", AGENTS)
def test_no_key_stands_among_the_arguments(name: str) -> None:
    assert not any("SECRET" in argument for argument in prepared(name, key="SECRET").arguments)


@pytest.mark.parametrize("name", [name for name, agent in AGENTS.items() if not agent.needs_model])
def test_without_a_model_nothing_speaks_of_one(name: str) -> None:
    told = prepared(name, None)
    assert not any("MODEL" in variable for variable in told.environment)
    assert not any(argument in ("--model", "-m") or argument.startswith("model=") for argument in told.arguments)
    assert "MODEL" not in str(told.settings)


def test_a_limit_for_answers_that_the_user_has_set_wins_over_ours() -> None:
    claude = prepared("claude", window=40_000)
    own = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "4096", "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "1"}
    environment = agent_environment(claude, own, "http://127.0.0.1:1")
    assert environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "4096"
    assert environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "40000"
    assert agent_environment(claude, {}, "http://127.0.0.1:1")["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "10000"


def test_what_a_model_holds_is_told_to_agents_that_can_be_told() -> None:
    claude = prepared("claude", window=40_000)
    assert claude.environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "40000"
    assert claude.settings["env"]["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "40000"
    assert claude.environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "10000"
    assert "CLAUDE_CODE_MAX_OUTPUT_TOKENS" not in claude.settings["env"]  # the user's settings win
    assert prepared("codex", window=40_000).arguments[-2:] == ["-c", "model_context_window=40000"]
    content = json.loads(prepared("opencode", window=40_000).environment["OPENCODE_CONFIG_CONTENT"])
    assert content["provider"]["toolglot"]["models"] == {"m": {"limit": {"context": 40_000, "output": 10_000}}}
    assert content["provider"]["toolglot"]["npm"] == "@ai-sdk/openai-compatible"


def test_of_two_documents_the_second_wins_member_by_member() -> None:
    under = {"a": {"x": 1, "y": [1]}, "b": 1, "c": {"z": 1}}
    assert merge_documents(under, {"a": {"y": [2]}, "b": {"q": 1}}) == {
        "a": {"x": 1, "y": [2]},
        "b": {"q": 1},
        "c": {"z": 1},
    }
    assert under["a"] == {"x": 1, "y": [1]}
