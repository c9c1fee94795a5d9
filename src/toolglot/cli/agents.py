"""Coding agents, and what points each at a gateway: environment and arguments, never a file of the user's.

A row consists of templates. `{url}` is the gateway's address, `{key}` its key, `{model}` the model, `{window}` and
`{output}` its limits in tokens, `{settings}` the path of a temporary file with the row's settings, and `{home}` the
temporary folder it is in; a leading `#` makes a number. If no model is named, the agent asks for the models it knows,
and the gateway's aliases decide.

Two rules for every row. It must override the user's own files: an agent that bypasses the gateway spends the user's
account unnoticed. And no key is in the arguments: every user of a machine can read those.
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
    """In addition, if a model is named."""
    with_window: AgentSettings = AgentSettings()
    """In addition, if the model's window is known: agents overestimate the window of unknown models."""
    unset: tuple[str, ...] = ()
    """Variables that would make the agent bypass the gateway."""
    defaults: tuple[str, ...] = ()
    """Variables of ours that the user's own values win over."""
    needs_model: bool = False
    usual_model: str | None = None
    """A model that the agent requests by itself."""
    first_request: int | None = None
    """Tokens that its first request needs, mostly for instructions and tools, with room for an answer."""
    mirror: str | None = None
    """A folder in the user's home that the agent cannot be without, and whose settings would win. A temporary one takes
    its place: links to all that is in the user's, and one file of our own, the user's settings with ours over them."""
    mirror_variable: str | None = None
    """The variable for a home folder other than the default."""


class AgentTarget(Struct, frozen=True, kw_only=True):
    """The gateway, model and key that an agent is configured with."""

    url: str
    key: str
    model: str | None = None
    window: int | None = None
    output: int | None = None


class PreparedAgent(Struct, frozen=True):
    """Environment, arguments and settings that an agent is started with, in addition to the user's arguments."""

    environment: dict[str, str]
    unset: tuple[str, ...]
    arguments: list[str]
    settings: dict[str, Any]
    defaults: tuple[str, ...] = ()


_CLAUDE = {
    "ANTHROPIC_BASE_URL": "{url}",
    "ANTHROPIC_AUTH_TOKEN": "{key}",
    # A key would be sent instead of the token, an old one from the user's settings included.
    "ANTHROPIC_API_KEY": "",
    "CLAUDE_CODE_USE_BEDROCK": "0",
    "CLAUDE_CODE_USE_VERTEX": "0",
    "CLAUDE_CODE_USE_FOUNDRY": "0",
    # Data about a request that only its vendor needs: at other upstreams it only causes cache misses.
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
_CLAUDE_MODELS = {
    # The last three are for its background work, and for the subagents it starts.
    "ANTHROPIC_MODEL": "{model}",
    "ANTHROPIC_DEFAULT_OPUS_MODEL": "{model}",
    "ANTHROPIC_DEFAULT_SONNET_MODEL": "{model}",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL": "{model}",
}
# Auto mode asks its vendor's server whether a command is safe. No other upstream can answer that, and the first command
# is blocked. `disable` is the only value of this setting.
_CLAUDE_PERMISSIONS = {"disableAutoMode": "disable"}
_CLAUDE_WINDOW = {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "{window}"}
# It asks for answers of up to 32,000 tokens, which a small window has no room for. The user's own limit wins.
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
"""Tokens of an answer, if only the model's window is known."""

AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            name="claude",
            title="Claude Code",
            command="claude",
            install="npm install -g @anthropic-ai/claude-code",
            # The variables in the user's settings win over the environment, and those of this file over both.
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
                # Only a file can set the way of signing in: without it a base URL is refused, and with the user's
                # own the base URL may be passed over. System settings would win too, but have to belong to root.
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
            # The plain variables lose against its `.env` and configuration files, these do not.
            always=AgentSettings(
                environment={"AIDER_OPENAI_API_KEY": "{key}"}, arguments=("--openai-api-base", "{url}/v1")
            ),
            # Without a weak model of its own it would take one of OpenAI's for commit messages.
            with_model=AgentSettings(arguments=("--model", "openai/{model}", "--weak-model", "openai/{model}")),
            needs_model=True,
        ),
    )
}


def prepare_agent(agent: Agent, wish: AgentTarget, folder: str) -> PreparedAgent:
    """Return what this agent gets; `folder` is the temporary one for its settings."""
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
        # In one go: what is put in is no template.
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
