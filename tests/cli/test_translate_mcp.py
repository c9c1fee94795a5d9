"""`toolglot translate` where one side is MCP: definitions and results of tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import Result

from tests.cli.run import run
from toolglot.dialects import DIALECTS

TOOL = {
    "name": "weather",
    "title": "Weather",
    "description": "Weather now.",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "annotations": {"readOnlyHint": True},
}
RESULT = {"content": [{"type": "text", "text": "Rain."}], "structuredContent": {"rain": True}}
OF_CALL = ("--call-id", "call_1", "--name", "weather")


def translate(source: str, target: str, kind: str, value: Any, *options: str) -> Result:
    data = value if isinstance(value, str) else json.dumps(value)
    return run("translate", "--from", source, "--to", target, "--kind", kind, *options, data=data)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tools_go_to_every_dialect_and_back(dialect: str) -> None:
    there = translate("mcp", dialect, "tools", {"jsonrpc": "2.0", "id": 1, "result": {"tools": [TOOL]}})
    assert there.exit_code == 0
    assert there.stderr.splitlines()[:2] == [
        "note: tools[0].title: people see it, a model never does",
        f"loss: tools[0].annotations: {dialect} has no known equivalent",
    ]
    back = translate(dialect, "mcp", "tools", there.stdout)
    known = {name: TOOL[name] for name in ("name", "description", "inputSchema")}
    assert (json.loads(back.stdout), back.stderr) == ([known], "")


def test_tools_as_text_lose_what_is_told() -> None:
    result = translate("mcp", "text:hermes_json", "tools", [TOOL])
    assert '"name": "weather"' in result.stdout
    assert result.stderr == (
        "note: tools[0].title: people see it, a model never does\n"
        "loss: tools[0].annotations: plain text has no known equivalent\n"
    )
    assert translate("mcp", "text:hermes_json", "tools", [TOOL], "--strict").exit_code == 3


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_result_goes_to_every_dialect_and_back(dialect: str) -> None:
    there = translate("mcp", dialect, "result", RESULT, *OF_CALL)
    assert (there.exit_code, there.stderr) == (0, f"loss: structuredContent: {dialect} has no known equivalent\n")
    assert len(json.loads(there.stdout)) == 1
    back = translate(dialect, "mcp", "result", there.stdout)
    assert json.loads(back.stdout) == {"content": RESULT["content"]}


def test_a_result_as_text() -> None:
    result = translate("mcp", "text:hermes_json", "result", RESULT, *OF_CALL)
    assert result.stdout == "<tool_response>\nRain.\n</tool_response>\n"
    assert result.stderr == "loss: structuredContent: plain text has no known equivalent\n"


def test_a_result_as_text_has_its_text_alone() -> None:
    content = [
        {"type": "image", "data": "QUJD", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///n", "text": "hi"}, "_meta": {"a": 1}},
        {"type": "hologram"},
    ]
    result = translate("mcp", "text:hermes_json", "result", {"content": content, "isError": True}, *OF_CALL)
    assert "[image left out: plain text cannot hold it]\nfile:///n:\nhi" in result.stdout
    assert [line.partition(": ")[2].partition(":")[0] for line in result.stderr.splitlines()] == [
        "content[1]._meta",
        "content[0]",
        "content[2]",
    ]


@pytest.mark.parametrize(
    ("source", "target", "options", "told"),
    [
        ("mcp", "anthropic", (), "an MCP result does not name its call: give --call-id"),
        ("mcp", "gemini", OF_CALL[:2], "the target needs a tool name, and an MCP result has none: give --name"),
        ("mcp", "text:hermes_json", OF_CALL[:2], "give --name"),
        ("text:hermes_json", "mcp", (), "a single result can only be written as text"),
        ("mcp", "anthropic+text:hermes_json", OF_CALL, "a single result can only be written as text"),
        ("mcp", "text:hermes_json", (*OF_CALL, "--pretty"), "--pretty does not apply here"),
        ("mcp", "anthropic", (*OF_CALL, "--status", "400"), "--status cannot be combined with --kind result"),
    ],
)
def test_what_a_result_needs_is_told(source: str, target: str, options: tuple[str, ...], told: str) -> None:
    result = translate(source, target, "result", RESULT, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


def test_only_results_have_a_call() -> None:
    result = translate("mcp", "anthropic", "tools", [TOOL], "--call-id", "x")
    assert "--call-id cannot be combined with --kind tools" in result.stderr


@pytest.mark.parametrize("target", ["anthropic", "text:hermes_json"])
def test_what_is_no_result_is_told_with_its_place(target: str) -> None:
    result = translate("mcp", target, "result", {"content": [3]}, *OF_CALL)
    assert result.exit_code == 2
    assert result.stderr == "toolglot: <stdin>: $.content[0]: expected an object, got a whole number\n"


def test_a_result_of_a_dialect_without_a_name_becomes_text_when_it_is_given_one() -> None:
    message = {"role": "tool", "tool_call_id": "a", "content": "x"}
    assert "use --name" in translate("openai_chat", "text:hermes_json", "result", message).stderr
    named = translate("openai_chat", "text:hermes_json", "result", message, "--name", "f")
    assert named.stdout == "<tool_response>\nx\n</tool_response>\n"
