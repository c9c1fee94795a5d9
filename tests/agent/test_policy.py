"""Whose word counts when a tool is to be run."""

from __future__ import annotations

import pytest

from toolglot.agent.policy import call_policy, most_specific_policy
from toolglot.agent.server_records import ServerTool
from toolglot.config.schema import McpServerConfig, Policy
from toolglot.ir import Tool
from toolglot.tools.served import AskedServer, ToolSelection

READS = ServerTool(server="s", name="read", tool=Tool(name="read"), read_only=True, destructive=False)
WRITES = ServerTool(server="s", name="write", tool=Tool(name="write"))
ALL = ToolSelection()


def asked(
    asks: ToolSelection | None = None, never: ToolSelection | None = None, *, others: bool = False
) -> AskedServer:
    return AskedServer(label="s", where="tools[0]", asks=asks, never_asks=never, others_ask=others)


@pytest.mark.parametrize(
    ("policy", "tools", "client", "tool", "expected"),
    [
        ("ask", {}, None, READS, "auto"),
        ("ask", {}, None, WRITES, "ask"),
        ("auto", {}, None, WRITES, "auto"),
        ("never", {}, None, READS, "never"),
        ("auto", {"write": "never"}, None, WRITES, "never"),
        ("never", {"read": "auto"}, None, READS, "auto"),
        ("auto", {"read": "ask"}, None, READS, "auto"),
        ("auto", {"write": "ask"}, None, WRITES, "ask"),
        # The client's wishes.
        ("auto", {}, asked(ALL), WRITES, "ask"),
        ("ask", {}, asked(ALL), READS, "ask"),
        ("ask", {}, asked(never=ALL), WRITES, "auto"),
        ("never", {}, asked(never=ALL), WRITES, "never"),
        ("auto", {}, asked(ToolSelection(names=("write",))), WRITES, "ask"),
        ("auto", {}, asked(ToolSelection(names=("write",))), READS, "auto"),
        ("ask", {}, asked(never=ToolSelection(read_only=True), others=True), READS, "auto"),
        ("auto", {}, asked(never=ToolSelection(read_only=True), others=True), WRITES, "ask"),
    ],
)
def test_the_operator_decides_and_the_client_may_be_more_careful_or_say_yes(
    policy: Policy, tools: dict[str, Policy], client: AskedServer | None, tool: ServerTool, expected: Policy
) -> None:
    config = McpServerConfig(command="x", policy=policy, tools=tools)
    assert call_policy(config, tool, client) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("read_file", "auto"), ("read_secret", "never"), ("read_secrets", "ask"), ("other", None)],
)
def test_of_several_patterns_the_one_that_says_most_counts(name: str, expected: Policy | None) -> None:
    patterns: dict[str, Policy] = {"read_*": "auto", "read_secret": "never", "read_s*": "ask"}
    assert most_specific_policy(patterns, name) == expected
