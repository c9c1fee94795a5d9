"""Coding agents, and the environment and arguments that point each at a gateway. The user's files are never changed.

A row consists of templates. `{url}` is the gateway's address, `{key}` its key, `{model}` the model, `{window}` and
`{output}` its limits in tokens, `{settings}` the path of a temporary file with the row's settings, and `{home}` the
temporary folder of that file. A leading `#` makes a number. If no model is named, the agent requests the models that it
knows, and the gateway's aliases decide.

Two rules for every row. It must override the user's own files: an agent that bypasses the gateway spends the user's
account unnoticed. And the arguments contain no key, because every user of a machine can read them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolglot.wire import json


class Override(Struct, frozen=True):
    """Codex's `-c NAME=VALUE`, where the value is TOML."""

    name: str
    value: str | int


class AgentSettings(Struct, frozen=True, kw_only=True):
    """Settings for an agent. A document among the variables becomes JSON text."""

    environment: Mapping[str, Any] = {}
    arguments: tuple[str | Override, ...] = ()
    settings: Mapping[str, Any] = {}


class Agent(Struct, frozen=True, kw_only=True):
    name: str
    title: str
    command: str
    install: str
    always: AgentSettings
    with_model: AgentSettings = AgentSettings()
    """Additional settings if a model is named."""
    with_window: AgentSettings = AgentSettings()
    """Additional settings if the model's window is known, because agents overestimate the window of unknown models."""
    unset: tuple[str, ...] = ()
    """Variables that would make the agent bypass the gateway."""
    defaults: tuple[str, ...] = ()
    """Default variables. The user's own values take precedence."""
    needs_model: bool = False
    usual_model: str | None = None
    """A model that the agent requests by default."""
    first_request: int | None = None
    """Tokens of its first request, mostly instructions and tools, with room for an answer."""
    mirror: str | None = None
    """A folder in the user's home that the agent needs, and whose settings would take precedence. A temporary folder
    replaces it: links to the user's files, and one new file with the user's settings merged with ours.
    """
    mirror_variable: str | None = None
    """The variable for a home folder other than the default."""


class AgentTarget(Struct, frozen=True, kw_only=True):
    """The gateway, model and key of an agent."""

    url: str
    key: str
    model: str | None = None
    window: int | None = None
    output: int | None = None


class PreparedAgent(Struct, frozen=True):
    """Environment, arguments and settings of an agent, in addition to the user's arguments."""

    environment: dict[str, str]
    unset: tuple[str, ...]
    arguments: list[str]
    settings: dict[str, Any]
    defaults: tuple[str, ...] = ()


_CLAUDE = {
    "ANTHROPIC_BASE_URL": "{url}",
    "ANTHROPIC_AUTH_TOKEN": "{key}",
    # A key would take precedence over the token, even an old key in the user's settings.
    "ANTHROPIC_API_KEY": "",
    "CLAUDE_CODE_USE_BEDROCK": "0",
    "CLAUDE_CODE_USE_VERTEX": "0",
    "CLAUDE_CODE_USE_FOUNDRY": "0",
    # Data that only the vendor needs. At other upstreams, it only causes cache misses.
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
_CLAUDE_MODELS = {
    # The last three are for background work and subagents.
    "ANTHROPIC_MODEL": "{model}",
    "ANTHROPIC_DEFAULT_OPUS_MODEL": "{model}",
    "ANTHROPIC_DEFAULT_SONNET_MODEL": "{model}",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL": "{model}",
}
# Auto mode asks its vendor's server whether a command is safe. No other upstream can answer that, and the first command
# is blocked. `disable` is the only value of this setting.
_CLAUDE_PERMISSIONS = {"disableAutoMode": "disable"}
_CLAUDE_WINDOW = {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "{window}"}
# It requests answers of up to 32,000 tokens, which do not fit a small window. The user's own limit takes precedence.
_CLAUDE_OUTPUT = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "{output}"}

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
_OPENCODE_WINDOW = {
    "provider": {"toolglot": {"models": {"{model}": {"limit": {"context": "#{window}", "output": "#{output}"}}}}}
}

MAX_OUTPUT = 32_000
"""Maximum tokens of an answer, if only the model's window is known."""

AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            name="claude",
            title="Claude Code",
            command="claude",
            install="npm install -g @anthropic-ai/claude-code",
            # Variables in the user's settings override the environment, and those of this file override both.
            always=AgentSettings(
                environment=_CLAUDE,
                arguments=("--settings", "{settings}"),
                settings={"env": _CLAUDE, "permissions": _CLAUDE_PERMISSIONS},
            ),
            with_model=AgentSettings(
                environment=_CLAUDE_MODELS, arguments=("--model", "{model}"), settings={"env": _CLAUDE_MODELS}
            ),
            with_window=AgentSettings(
                environment={**_CLAUDE_WINDOW, **_CLAUDE_OUTPUT}, settings={"env": _CLAUDE_WINDOW}
            ),
            defaults=tuple(_CLAUDE_OUTPUT),
            usual_model="claude-sonnet-4-5",
            first_request=20_000,
        ),
        Agent(
            name="codex",
            title="Codex",
            command="codex",
            install="npm install -g @openai/codex",
            always=AgentSettings(
                environment={"TOOLGLOT_KEY": "{key}"},
                arguments=(
                    Override("model_provider", "toolglot"),
                    Override("model_providers.toolglot.name", "toolglot"),
                    Override("model_providers.toolglot.base_url", "{url}/v1"),
                    Override("model_providers.toolglot.env_key", "TOOLGLOT_KEY"),
                    Override("model_providers.toolglot.wire_api", "responses"),
                ),
            ),
            with_model=AgentSettings(arguments=(Override("model", "{model}"),)),
            with_window=AgentSettings(arguments=(Override("model_context_window", "#{window}"),)),
            usual_model="gpt-5-codex",
            first_request=16_000,
        ),
        Agent(
            name="gemini",
            title="Gemini CLI",
            command="gemini",
            install="npm install -g @google/gemini-cli",
            always=AgentSettings(
                environment={
                    "GEMINI_API_KEY": "{key}",
                    "GOOGLE_GEMINI_BASE_URL": "{url}",
                    "GOOGLE_GENAI_USE_VERTEXAI": "false",
                    "GOOGLE_GENAI_USE_GCA": "false",
                    "GEMINI_CLI_HOME": "{home}",
                },
                # Only a file can set the authentication method. Without it, a base URL is refused, and with the user's
                # own method, the base URL may be ignored. System settings would also take precedence, but must belong
                # to root.
                settings={"security": {"auth": {"selectedType": "gemini-api-key"}}},
            ),
            with_model=AgentSettings(arguments=("-m", "{model}")),
            usual_model="gemini-2.5-pro",
            first_request=12_000,
            unset=("GOOGLE_API_KEY",),
            mirror=".gemini",
            mirror_variable="GEMINI_CLI_HOME",
        ),
        Agent(
            name="opencode",
            title="opencode",
            command="opencode",
            install="npm install -g opencode-ai",
            always=AgentSettings(environment={"OPENCODE_CONFIG_CONTENT": _OPENCODE}),
            with_window=AgentSettings(environment={"OPENCODE_CONFIG_CONTENT": _OPENCODE_WINDOW}),
            needs_model=True,
        ),
        Agent(
            name="qwen",
            title="Qwen Code",
            command="qwen",
            install="npm install -g @qwen-code/qwen-code",
            always=AgentSettings(
                environment={"OPENAI_API_KEY": "{key}", "OPENAI_BASE_URL": "{url}/v1"},
                arguments=("--auth-type", "openai"),
            ),
            with_model=AgentSettings(environment={"OPENAI_MODEL": "{model}"}, arguments=("--model", "{model}")),
            usual_model="qwen3-coder-plus",
        ),
        Agent(
            name="aider",
            title="aider",
            command="aider",
            install="pip install aider-chat",
            # Its `.env` and configuration files override the plain variables, but not these.
            always=AgentSettings(
                environment={"AIDER_OPENAI_API_KEY": "{key}"}, arguments=("--openai-api-base", "{url}/v1")
            ),
            # Without this setting, it uses one of OpenAI's models for commit messages.
            with_model=AgentSettings(arguments=("--model", "openai/{model}", "--weak-model", "openai/{model}")),
            needs_model=True,
        ),
    )
}


def prepare_agent(agent: Agent, wish: AgentTarget, folder: str) -> PreparedAgent:
    """Return the agent's environment, arguments and settings. `folder` is the temporary folder for its settings."""
    values = {
        "{url}": wish.url,
        "{key}": wish.key,
        "{model}": wish.model or "",
        "{window}": str(wish.window or 0),
        "{output}": str(wish.output or min((wish.window or 0) // 4, MAX_OUTPUT)),
        "{home}": folder,
        "{settings}": f"{folder}/{settings_path(agent)}",
    }
    parts = [agent.always]
    if wish.model is not None:
        parts += [agent.with_model] if wish.window is None else [agent.with_model, agent.with_window]
    environment: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    arguments: list[str] = []
    for part in parts:
        environment = merge_documents(environment, part.environment)
        settings = merge_documents(settings, part.settings)
        for template in part.arguments:
            filled = _fill(template, values)
            # A string or number in JSON is also valid TOML.
            override = isinstance(filled, Override)
            arguments += ["-c", f"{filled.name}={json.encode_text(filled.value)}"] if override else [filled]
    return PreparedAgent(
        {name: _text(_fill(template, values)) for name, template in environment.items()},
        agent.unset,
        arguments,
        _fill(settings, values),
        agent.defaults,
    )


def settings_path(agent: Agent) -> str:
    """Return where an agent's settings are in the temporary folder."""
    return f"{agent.mirror}/settings.json" if agent.mirror else "settings.json"


_PLACES = re.compile(r"\{(?:url|key|model|window|output|home|settings)\}")


def _fill(template: Any, values: Mapping[str, str]) -> Any:
    if isinstance(template, str):
        # In one pass, because inserted values are not templates.
        text = _PLACES.sub(lambda found: values[found[0]], template)
        return int(text[1:]) if template.startswith("#") else text
    if isinstance(template, Override):
        return Override(template.name, _fill(template.value, values))
    if isinstance(template, Mapping):
        return {_fill(name, values): _fill(value, values) for name, value in template.items()}
    return template


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.encode_text(value)


def merge_documents(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two documents member by member; the second one wins."""
    result = dict(under)
    for name, value in over.items():
        there = result.get(name)
        result[name] = (
            merge_documents(there, value) if isinstance(there, Mapping) and isinstance(value, Mapping) else value
        )
    return result
