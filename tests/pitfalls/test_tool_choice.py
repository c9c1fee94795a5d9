"""A choice among fewer tools, at an upstream that has no word for it."""

from __future__ import annotations

from typing import Any

from toolglot import Exchange
from toolglot.wire import json


def responses_tool(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}}


def test_tools_that_are_not_allowed_are_named_in_the_receipt_when_claude_reasons() -> None:
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}
    document = {
        "model": "m",
        "input": "Go.",
        "reasoning": {"effort": "high"},
        "tools": [responses_tool(name) for name in "fgh"],
        "tool_choice": allowed,
    }
    exchange = Exchange("openai_responses", "anthropic", model="claude-opus-4-5")
    sent = json.decode(exchange.request(document))
    assert [tool["name"] for tool in sent["tools"]] == ["f"]
    why = "only the tools of the choice are offered, which costs the prompt cache"
    lines = [str(line) for line in exchange.receipt.losses if line.where.startswith("tools")]
    assert lines == [f"loss: tools[1]: tool g: {why}", f"loss: tools[2]: tool h: {why}"]
