"""Breakpoints that are set for a client: the direct way sets the same ones in the same bytes, and tells the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.direct.request import DirectRequests
from toolglot.passes import CacheMarks
from toolglot.translate import Exchange

SYSTEM = "Be exact. " * 500
TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "Does f.", "parameters": {"type": "object", "properties": {}}},
}
LONG_TOOL = {**TOOL, "function": {**TOOL["function"], "description": "Does f. " * 900}}  # type: ignore[dict-item]


def call(number: int, content: str | None = None) -> dict[str, Any]:
    function = {"name": "f", "arguments": "{}"}
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}],
    }


def result(number: int, text: str = "It went well.") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": text}


def user(text: Any = "Go on.") -> dict[str, Any]:
    return {"role": "user", "content": text}


PARTS = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
SPOKEN = {"role": "assistant", "content": "Done."}
CONVERSATIONS: dict[str, list[Any]] = {
    "first words": [user()],
    "a question without calls": [user(), SPOKEN, user()],
    "a result": [user(), call(1), result(1)],
    "two rounds": [user(), call(1, "Look."), result(1), call(2), result(2)],
    "words behind a result": [user(), call(1), result(1), user("And now?")],
    "words in parts": [user(), call(1), result(1), SPOKEN, user(PARTS)],
    "a blank result": [user(), call(1), result(1, "  "), call(2), result(2)],
    "a long result": [user(), call(1), result(1, "x" * 9000), call(2), result(2)],
}


def body(messages: list[Any], system: str | None, tool: Any) -> bytes:
    leading = [] if system is None else [{"role": "system", "content": system}]
    return json.dumps({"model": "m", "messages": [*leading, *messages], "tools": [tool]}).encode()


@pytest.mark.parametrize("marks", ["auto", "always", "never"])
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("tool", [TOOL, LONG_TOOL], ids=["short tool", "long tool"])
@pytest.mark.parametrize("system", [None, "Be brief.", SYSTEM], ids=["no system", "short system", "long system"])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_direct_way_sets_the_same_breakpoints(
    name: str, system: str | None, tool: Any, repeats: bool, marks: CacheMarks
) -> None:
    def new_exchange() -> Exchange:
        return Exchange(
            "openai_chat", "anthropic", model="claude-sonnet-4-5", cache_marks=marks, prefix_repeats=repeats
        )

    requests, exchange = DirectRequests(new_exchange), new_exchange()
    data = body(CONVERSATIONS[name], system, tool)
    plain = new_exchange().client.direct
    assert plain is not None
    assert plain.read_request is not None
    read = plain.read_request(data)
    assert read is not None
    translated = requests.translate_plain(read, data, lambda plain, tools: repeats)
    assert translated is not None
    assert translated.body == exchange.request(data)
    assert translated.lines == tuple(exchange.receipt)
    if marks == "never":
        assert b"cache_control" not in translated.body
