"""Configurations of other gateways, which people try first: recognised, so that they get better advice than a list of
fields that are not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

_ADVICE = "docs/configuration.md, under `Coming from …`, says what becomes of it"


class Foreign(Struct, frozen=True):
    """A gateway, and names that stand at the top of its file and not of ours."""

    title: str
    names: frozenset[str]


GATEWAYS = (
    Foreign("LiteLLM", frozenset({"model_list", "litellm_settings", "general_settings", "router_settings"})),
    Foreign("claude-code-router", frozenset({"Providers", "Router"})),
)


def recognised(value: Mapping[str, Any]) -> str | None:
    """What to tell of a file with these fields, if it is another gateway's."""
    for gateway in GATEWAYS:
        if gateway.names & value.keys():
            return f"this is a configuration of {gateway.title}; {_ADVICE}"
    return None


def recognised_text(data: bytes) -> str | None:
    """The same of a file in a format that is not read here; it may be JSON with comments."""
    if b'"mcpServers"' in data:
        return "these are MCP servers and no configuration; `--mcp-config FILE`, or `files` under `mcp`, takes them"
    for gateway in GATEWAYS:
        if any(f'"{name}"'.encode() in data for name in gateway.names):
            return f"this is a configuration of {gateway.title}; {_ADVICE}"
    return None
