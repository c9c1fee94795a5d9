"""Whether a call to a server's tool is run: at once, after somebody has agreed, or never."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from toolglot.agent.tools import ServerTool
from toolglot.config.schema import McpServerConfig, Policy
from toolglot.tools.served import AskedServer, Chosen


def policy_of(config: McpServerConfig, tool: ServerTool, asked: AskedServer | None = None) -> Policy:
    """The operator's word counts first: `never` stays never. Where the operator wants somebody's yes, a client that
    names the server itself may give it beforehand, if the operator lets it; and it may want to be asked about what
    would be run at once.

    A tool that says it only reads needs no yes, unless the client wants to be asked.
    """
    policy = most_specific(config.tools, tool.name) or config.policy
    if policy == "never":
        return policy
    if asked is not None and asked.asks is not None and is_chosen(asked.asks, tool):
        return "ask"
    waives = asked is not None and asked.never_asks is not None and is_chosen(asked.never_asks, tool)
    if waives and (config.may_waive or policy == "auto"):
        return "auto"
    if asked is not None and asked.others_ask and not waives:
        return "ask"
    return "auto" if policy == "ask" and tool.read_only else policy


def most_specific(patterns: Mapping[str, Policy], name: str) -> Policy | None:
    """The policy of the pattern that says most about this name: the name itself, or the one with most letters."""
    if name in patterns:
        return patterns[name]
    matching = [pattern for pattern in patterns if fnmatchcase(name, pattern)]
    return patterns[max(matching, key=lambda pattern: (len(pattern.replace("*", "")), pattern))] if matching else None


def is_chosen(chosen: Chosen, tool: ServerTool) -> bool:
    if chosen.names is not None and tool.name not in chosen.names:
        return False
    return chosen.read_only is None or chosen.read_only == tool.read_only
