"""Decide whether a call to a server's tool runs: at once, after approval, or never."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from toolglot.agent.server_records import ServerTool
from toolglot.config.schema import McpServerConfig, Policy
from toolglot.tools.served import AskedServer, ToolSelection


def call_policy(config: McpServerConfig, tool: ServerTool, asked: AskedServer | None = None) -> Policy:
    """Apply the operator's setting first: `never` stays never. If the operator requires approval, a client that names
    the server itself may give it in advance, if the operator allows that. A client may also require approval for calls
    that would run at once. A tool that declares itself read-only needs no approval, unless the client requires it."""
    policy = most_specific_policy(config.tools, tool.name) or config.policy
    if policy == "never":
        return policy
    if asked is not None and asked.asks is not None and is_tool_chosen(asked.asks, tool):
        return "ask"
    waives = asked is not None and asked.never_asks is not None and is_tool_chosen(asked.never_asks, tool)
    if waives and (config.may_waive or policy == "auto"):
        return "auto"
    if asked is not None and asked.others_ask and not waives:
        return "ask"
    return "auto" if policy == "ask" and tool.read_only else policy


def most_specific_policy(patterns: Mapping[str, Policy], name: str) -> Policy | None:
    """Return the policy of the most specific pattern: the name itself, or the one with the most letters."""
    if name in patterns:
        return patterns[name]
    matching = [pattern for pattern in patterns if fnmatchcase(name, pattern)]
    return patterns[max(matching, key=lambda pattern: (len(pattern.replace("*", "")), pattern))] if matching else None


def is_tool_chosen(chosen: ToolSelection, tool: ServerTool) -> bool:
    if chosen.names is not None and tool.name not in chosen.names:
        return False
    return chosen.read_only is None or chosen.read_only == tool.read_only
