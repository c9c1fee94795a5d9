"""Coding agents, and what points each at a gateway: environment and arguments, never a file of the user's.

A row is made of templates. `{url}` is the gateway's address, `{key}` what it wants to see, `{model}` the model, and
`{settings}` the path of a temporary file with the row's `settings`, and `{home}` the temporary folder it is in. What
stands under `when_model` is left out when no model is named: then the agent asks for the models it knows, and the
gateway's aliases decide.

Two rules for every row. It must win over what the user's own files say: an agent that is led past the gateway spends
the user's account, and nobody notices. And no key stands among the arguments: everybody on a machine can read those.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from toolglot.wire import json


class Override(Struct, frozen=True):
    """Codex's `-c NAME=VALUE`, where the value is TOML."""

    name: str
    value: str


Template: TypeAlias = str | Mapping[str, Any]
"""A text, or a document that becomes JSON text."""


class Agent(Struct, frozen=True, kw_only=True):
    name: str
    title: str
    command: str
    install: str
    environment: Mapping[str, Template] = {}
    unset: tuple[str, ...] = ()
    """Variables that would lead the agent past the gateway."""
    arguments: tuple[str | Override, ...] = ()
    when_model: Mapping[str, Template] = {}
    """More environment, when a model is named."""
    model_arguments: tuple[str | Override, ...] = ()
    needs_model: bool = False
    settings: Mapping[str, Any] = {}
    model_settings: Mapping[str, Any] = {}
    """More settings, when a model is named."""
    mirror: str | None = None
    """A folder in the user's home that the agent cannot be without, and whose settings would win. A temporary one takes
    its place: links to all that is in the user's, and one file of our own, the user's settings with ours over them."""
    mirror_variable: str | None = None
    """The variable with a home that is not the usual one."""


class Prepared(Struct, frozen=True):
    """What an agent is started with, beside what the user tells it."""

    environment: dict[str, str]
    unset: tuple[str, ...]
    arguments: list[str]
    settings: dict[str, Any]


_CLAUDE = {
    "ANTHROPIC_BASE_URL": "{url}",
    "ANTHROPIC_AUTH_TOKEN": "{key}",
    # A key would be sent instead of the token, an old one from the user's settings included.
    "ANTHROPIC_API_KEY": "",
    "CLAUDE_CODE_USE_BEDROCK": "0",
    "CLAUDE_CODE_USE_VERTEX": "0",
    "CLAUDE_CODE_USE_FOUNDRY": "0",
    # What it tells its vendor, and nobody else, about a request: for other upstreams it only spoils their caches.
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
_CLAUDE_MODELS = {
    # The last three are for what it does in the background, and for the agents it starts.
    "ANTHROPIC_MODEL": "{model}",
    "ANTHROPIC_DEFAULT_OPUS_MODEL": "{model}",
    "ANTHROPIC_DEFAULT_SONNET_MODEL": "{model}",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL": "{model}",
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
            when_model=_CLAUDE_MODELS,
            # The variables in the user's settings win over the environment, and those of this file over both.
            arguments=("--settings", "{settings}"),
            settings={"env": _CLAUDE},
            model_settings={"env": _CLAUDE_MODELS},
            model_arguments=("--model", "{model}"),
        ),
        Agent(
            name="codex",
            title="Codex",
            command="codex",
            install="npm install -g @openai/codex",
            environment={"TOOLGLOT_KEY": "{key}"},
            arguments=(
                Override("model_provider", "toolglot"),
                Override("model_providers.toolglot.name", "toolglot"),
                Override("model_providers.toolglot.base_url", "{url}/v1"),
                Override("model_providers.toolglot.env_key", "TOOLGLOT_KEY"),
                Override("model_providers.toolglot.wire_api", "responses"),
            ),
            model_arguments=(Override("model", "{model}"),),
        ),
        Agent(
            name="gemini",
            title="Gemini CLI",
            command="gemini",
            install="npm install -g @google/gemini-cli",
            environment={
                "GEMINI_API_KEY": "{key}",
                "GOOGLE_GEMINI_BASE_URL": "{url}",
                "GOOGLE_GENAI_USE_VERTEXAI": "false",
                "GOOGLE_GENAI_USE_GCA": "false",
                "GEMINI_CLI_HOME": "{home}",
            },
            unset=("GOOGLE_API_KEY",),
            model_arguments=("-m", "{model}"),
            # The way of signing in is told by a file alone: without it a base URL is refused, and with the user's own
            # the base URL may be passed over. System settings would win too, but they have to belong to root.
            settings={"security": {"auth": {"selectedType": "gemini-api-key"}}},
            mirror=".gemini",
            mirror_variable="GEMINI_CLI_HOME",
        ),
        Agent(
            name="opencode",
            title="opencode",
            command="opencode",
            install="npm install -g opencode-ai",
            environment={"OPENCODE_CONFIG_CONTENT": _OPENCODE},
            needs_model=True,
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
            # The plain variables lose against its `.env` and configuration files, these do not.
            environment={"AIDER_OPENAI_API_KEY": "{key}"},
            arguments=("--openai-api-base", "{url}/v1"),
            # Without a weak model of its own it would take one of OpenAI's for commit messages.
            model_arguments=("--model", "openai/{model}", "--weak-model", "openai/{model}"),
            needs_model=True,
        ),
    )
}


def prepared(agent: Agent, url: str, key: str, model: str | None, folder: str) -> Prepared:
    """What this agent gets; `folder` is the temporary one, where its settings are going to stand."""
    values = {
        "{url}": url,
        "{key}": key,
        "{model}": model or "",
        "{home}": folder,
        "{settings}": f"{folder}/{settings_path(agent)}",
    }
    environment = {**agent.environment, **(agent.when_model if model else {})}
    arguments: list[str] = []
    for template in (*agent.arguments, *(agent.model_arguments if model else ())):
        filled = _fill(template, values)
        # A JSON string is a TOML string too.
        arguments += [filled] if isinstance(filled, str) else ["-c", f"{filled.name}={json.encode_text(filled.value)}"]
    settings_of = merged(agent.settings, agent.model_settings) if model else agent.settings
    return Prepared(
        {name: _text(_fill(template, values)) for name, template in environment.items()},
        agent.unset,
        arguments,
        _fill(settings_of, values),
    )


def settings_path(agent: Agent) -> str:
    """Where an agent's settings stand in the temporary folder."""
    return f"{agent.mirror}/settings.json" if agent.mirror else "settings.json"


_PLACES = re.compile(r"\{(?:url|key|model|home|settings)\}")


def _fill(template: Any, values: Mapping[str, str]) -> Any:
    if isinstance(template, str):
        # In one go: what is put in is no template.
        return _PLACES.sub(lambda found: values[found[0]], template)
    if isinstance(template, Override):
        return Override(template.name, _fill(template.value, values))
    if isinstance(template, Mapping):
        return {_fill(name, values): _fill(value, values) for name, value in template.items()}
    return template


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.encode_text(value)


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both documents, the second one winning, member by member."""
    result = dict(under)
    for name, value in over.items():
        there = result.get(name)
        result[name] = merged(there, value) if isinstance(there, Mapping) and isinstance(value, Mapping) else value
    return result
