"""Coding agents, and what points each at a gateway: environment and arguments, never a file of the user's.

A row is a table of templates: `{url}` is the gateway's address, `{key}` what it wants to see, `{model}` the model.
What is marked with `when_model` is left out when no model is named: then the agent asks for the models it knows, and
the gateway's aliases decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolglot.wire import json


class Agent(Struct, frozen=True, kw_only=True):
    name: str
    title: str
    command: str
    install: str
    environment: Mapping[str, str] = {}
    unset: tuple[str, ...] = ()
    """Variables that would lead the agent past the gateway."""
    arguments: tuple[str, ...] = ()
    when_model: Mapping[str, str] = {}
    """More environment, when a model is named."""
    model_arguments: tuple[str, ...] = ()
    settings_variable: str | None = None
    """A variable that names a file of settings which wins over the user's own; it is written to a temporary folder."""
    settings: Mapping[str, Any] = {}


def _toml(name: str, value: str) -> tuple[str, str]:
    return "-c", f"{name}={json.encode_text(value)}"


_CLAUDE = {
    "ANTHROPIC_BASE_URL": "{url}",
    "ANTHROPIC_AUTH_TOKEN": "{key}",
    # Any value of it, also an old one in the user's settings, wins over the token.
    "ANTHROPIC_API_KEY": "",
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_ERROR_REPORTING": "1",
}

_OPENCODE = {
    "provider": {
        "toolglot": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "toolglot",
            "options": {"baseURL": "{url}/v1", "apiKey": "{key}"},
            "models": {"{model}": {}},
        }
    },
    "model": "toolglot/{model}",
    "small_model": "toolglot/{model}",
}

AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            name="claude",
            title="Claude Code",
            command="claude",
            install="npm install -g @anthropic-ai/claude-code",
            environment=_CLAUDE,
            unset=("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "ANTHROPIC_BEDROCK_BASE_URL"),
            # The user's settings win over the environment, and these over the user's settings.
            arguments=("--settings", json.encode_text({"env": _CLAUDE})),
            when_model={
                "ANTHROPIC_MODEL": "{model}",
                "ANTHROPIC_DEFAULT_OPUS_MODEL": "{model}",
                "ANTHROPIC_DEFAULT_SONNET_MODEL": "{model}",
                "ANTHROPIC_DEFAULT_HAIKU_MODEL": "{model}",
            },
            model_arguments=("--model", "{model}"),
        ),
        Agent(
            name="codex",
            title="Codex",
            command="codex",
            install="npm install -g @openai/codex",
            environment={"TOOLGLOT_KEY": "{key}"},
            arguments=(
                *_toml("model_provider", "toolglot"),
                *_toml("model_providers.toolglot.name", "toolglot"),
                *_toml("model_providers.toolglot.base_url", "{url}/v1"),
                *_toml("model_providers.toolglot.env_key", "TOOLGLOT_KEY"),
                *_toml("model_providers.toolglot.wire_api", "responses"),
            ),
            model_arguments=_toml("model", "{model}"),
        ),
        Agent(
            name="gemini",
            title="Gemini CLI",
            command="gemini",
            install="npm install -g @google/gemini-cli",
            environment={"GEMINI_API_KEY": "{key}", "GOOGLE_GEMINI_BASE_URL": "{url}"},
            unset=("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"),
            model_arguments=("-m", "{model}"),
            settings_variable="GEMINI_CLI_SYSTEM_SETTINGS_PATH",
            settings={"security": {"auth": {"selectedType": "gemini-api-key"}}},
        ),
        Agent(
            name="opencode",
            title="opencode",
            command="opencode",
            install="npm install -g opencode-ai",
            environment={"OPENCODE_CONFIG_CONTENT": json.encode_text(_OPENCODE)},
        ),
        Agent(
            name="qwen",
            title="Qwen Code",
            command="qwen",
            install="npm install -g @qwen-code/qwen-code",
            environment={"OPENAI_API_KEY": "{key}", "OPENAI_BASE_URL": "{url}/v1"},
            arguments=("--auth-type", "openai"),
            when_model={"OPENAI_MODEL": "{model}"},
            model_arguments=("--model", "{model}"),
        ),
        Agent(
            name="aider",
            title="aider",
            command="aider",
            install="pip install aider-chat",
            environment={"OPENAI_API_KEY": "{key}", "OPENAI_API_BASE": "{url}/v1"},
            model_arguments=("--model", "openai/{model}"),
        ),
    )
}


def prepared(agent: Agent, url: str, key: str, model: str | None) -> tuple[dict[str, str], list[str]]:
    """The environment and the arguments that an agent gets."""
    values = {"{url}": url, "{key}": key, "{model}": model or ""}

    def fill(template: str) -> str:
        for name, value in values.items():
            # Templates may be JSON texts: what is put in is escaped as their strings are.
            template = template.replace(name, json.encode_text(value)[1:-1])
        return template

    environment = {**agent.environment, **(agent.when_model if model else {})}
    arguments = (*agent.arguments, *(agent.model_arguments if model else ()))
    return {name: fill(value) for name, value in environment.items()}, [fill(argument) for argument in arguments]
