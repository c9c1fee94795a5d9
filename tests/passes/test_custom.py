from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.ir import Message, Tool, ToolCall, ToolResult
from toolglot.passes import custom

from .targets import ANTHROPIC, CHAT, answered, asked, lines, result, to, user

NESTED = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /x+/"}}
FLAT = {"type": "grammar", "syntax": "lark", "definition": "start: /x+/"}


@pytest.mark.parametrize("wanted", [NESTED, FLAT])
def test_a_custom_tool_is_a_function_that_tells_its_grammar(wanted: dict[str, Any]) -> None:
    context = to(ANTHROPIC)
    request = custom.wrap(
        asked(user(), tools=(Tool(name="p", kind="custom", description="Patch.", format=wanted),)), context
    )
    (tool,) = request.tools
    assert isinstance(tool, Tool)
    assert (tool.kind, tool.format) == ("function", None)
    assert tool.description == "Patch.\n\nThe input is free text that must match this lark grammar:\nstart: /x+/"
    assert tool.parameters["required"] == ["input"]
    assert tool.parameters["properties"]["input"]["type"] == "string"
    assert lines(context) == ["note tools[0]", "loss tools[0].format"]


@pytest.mark.parametrize("description", ["Patch.", None])
def test_a_custom_tool_without_a_grammar_keeps_its_description_alone(description: str | None) -> None:
    request = custom.wrap(asked(user(), tools=(Tool(name="p", kind="custom", description=description),)), to(ANTHROPIC))
    (tool,) = request.tools
    assert isinstance(tool, Tool)
    assert tool.description == description


def test_calls_and_results_of_custom_tools_become_those_of_functions() -> None:
    text = 'print("ü")\n'
    batch = Message(role="assistant", content=(ToolCall(id="c", name="p", kind="custom", arguments=text),))
    request = custom.wrap(asked(user(), batch, answered(result("c", kind="custom"))), to(ANTHROPIC))
    call, answer = request.messages[1].content[0], request.messages[2].content[0]
    assert isinstance(call, ToolCall)
    assert isinstance(answer, ToolResult)
    assert (call.kind, json.loads(call.arguments), answer.kind) == ("function", {"input": text}, "function")


def test_custom_tools_stay_where_the_target_has_them() -> None:
    request = asked(user(), tools=(Tool(name="p", kind="custom", format=NESTED),))
    assert custom.wrap(request, to(CHAT)) is request
