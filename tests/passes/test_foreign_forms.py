"""Content, tools and choices that a client of Chat sends in the form of another API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import Exchange

SCHEMA = {"type": "object", "properties": {}}
FUNCTION = {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}}
PNG = "iVBORw0KGgo="


def sent(**body: Any) -> tuple[dict[str, Any], list[str]]:
    """The request that a Chat upstream gets from a Chat client, and the places that the receipt names."""
    exchange = Exchange("openai_chat", "openai_chat")
    data = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **body}).encode()
    wire: dict[str, Any] = json.loads(exchange.request(data))
    assert Exchange("openai_chat", "openai_chat").request(json.dumps(wire).encode()) == json.dumps(wire).encode()
    return wire, [line.where for line in exchange.receipt]


def test_content_of_the_messages_api_is_that_of_chat() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "hi"}, image]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "R"},
                {"type": "text", "text": "and"},
            ],
        },
    ]
    wire, places = sent(messages=messages)
    assert wire["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "hi"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "R"},
        {"role": "user", "content": [{"type": "text", "text": "and"}]},
    ]
    assert places == ["messages[0].content[1]", "messages[1].content[0]", "messages[2].content[0]"]


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "f", "description": "d", "input_schema": SCHEMA},
        {"type": "custom", "name": "f", "description": "d", "input_schema": SCHEMA},
        {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA},
    ],
    ids=["Messages", "Messages with a type", "Responses"],
)
def test_tools_of_other_apis_are_those_of_chat(tool: dict[str, Any]) -> None:
    wire, places = sent(tools=[tool])
    assert wire["tools"] == [FUNCTION]
    assert places[-1] == "tools[0]"


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
    ],
)
def test_a_choice_of_another_api_is_one_of_chat(choice: Any, expected: Any) -> None:
    wire, places = sent(tools=[FUNCTION], tool_choice=choice)
    assert (wire["tool_choice"], places) == (expected, ["tool_choice"])


def test_chats_own_forms_are_forwarded_as_they_are() -> None:
    choice = {"type": "function", "function": {"name": "f"}}
    wire, places = sent(tools=[FUNCTION], tool_choice=choice)
    assert (wire["tools"], wire["tool_choice"], places) == ([FUNCTION], choice, [])
