"""Recognize configurations of other gateways, which people try first, to give better advice than a list of unknown
fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

_ADVICE = "see `Coming from …` in docs/configuration.md"


class OtherGateway(Struct, frozen=True):
    """A gateway, and top-level names of its file that ours does not have."""

    title: str
    names: frozenset[str]


GATEWAYS = (
    OtherGateway("LiteLLM", frozenset({"model_list", "litellm_settings", "general_settings", "router_settings"})),
    OtherGateway("claude-code-router", frozenset({"Providers", "Router"})),
)


def recognize_config(value: Mapping[str, Any]) -> str | None:
    """Return advice for a file with these fields, if it is another gateway's."""
    for gateway in GATEWAYS:
        if gateway.names & value.keys():
            return f"this is a configuration of {gateway.title}; {_ADVICE}"
    return None


def recognize_text(data: bytes) -> str | None:
    """Same, for a file in a format that is not supported here; it may be JSON with comments."""
    if b'"mcpServers"' in data:
        return "this file has MCP servers, not a configuration; use `--mcp-config FILE`, or `files` under `mcp`"
    for gateway in GATEWAYS:
        if any(f'"{name}"'.encode() in data for name in gateway.names):
            return f"this is a configuration of {gateway.title}; {_ADVICE}"
    return None
