"""Requests of Ollama's clients: results by name, calls without arguments, images as data URLs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import DIALECTS, translate_request
from toolglot.receipt import Receipt

USER = {"role": "user", "content": "Hello"}
CALLED = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"function": {"name": name, "arguments": {"of": name}}} for name in ("first", "second")],
}


def to_anthropic(*messages: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    result = translate_request(json.dumps({"model": "m", "messages": messages}).encode(), "ollama", "anthropic")
    return json.loads(result.data)["messages"], [line.where for line in result.receipt.losses]


def round_trip(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    """The same messages, read and written."""
    codec, receipt = DIALECTS["ollama"], Receipt()
    data = codec.encode_request(
        codec.decode_request(json.dumps({"model": "m", "messages": messages}).encode()), receipt
    )
    assert not list(receipt)
    return list(json.loads(data)["messages"])


@pytest.mark.parametrize("member", ["tool_name", "name"])
def test_results_go_to_their_calls_by_the_name_of_the_tool(member: str) -> None:
    results = [{"role": "tool", member: name, "content": f"of {name}"} for name in ("second", "first")]
    messages, losses = to_anthropic(USER, CALLED, *results)
    names = {block["id"]: block["name"] for block in messages[1]["content"]}
    assert {names[block["tool_use_id"]]: block["content"] for block in messages[2]["content"]} == {
        "first": "of first",
        "second": "of second",
    }
    assert losses == []
    assert round_trip(USER, CALLED, *results) == [USER, CALLED, *results]


def test_a_name_beside_the_name_of_the_tool_is_a_loss() -> None:
    result = {"role": "tool", "tool_name": "first", "name": "other", "content": "x"}
    assert to_anthropic(USER, CALLED, result)[1] == ["messages[2].name"]
    assert round_trip(USER, CALLED, result) == [USER, CALLED, result]


def test_arguments_that_are_null_are_none() -> None:
    called = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "first", "arguments": None}}]}
    result = {"role": "tool", "tool_name": "first", "content": "x"}
    messages, losses = to_anthropic(USER, called, result)
    assert messages[1]["content"][0]["input"] == {}
    assert losses == []
    assert round_trip(USER, called, result) == [USER, called, result]


def test_an_image_may_be_a_data_url() -> None:
    asked = {"role": "user", "content": "Look", "images": ["data:image/webp;base64,aGk="]}
    messages, losses = to_anthropic(asked)
    assert messages[0]["content"][1]["source"] == {"type": "base64", "media_type": "image/webp", "data": "aGk="}
    assert losses == []
    assert round_trip(asked) == [asked]


@pytest.mark.parametrize("arguments", ['{"a":', "[1]", "free text"])
def test_broken_arguments_in_history_are_wrapped_and_keep_their_result(arguments: str) -> None:
    """As text, the call would leave its result without one: a server refuses that or mixes it up."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    history = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "bad"},
    ]
    sent = translate_request({"model": "m", "messages": history}, "openai_chat", "ollama")
    _, assistant, result = json.loads(sent.data)["messages"]
    assert assistant["tool_calls"] == [{"id": "a", "function": {"name": "f", "arguments": {"_raw": arguments}}}]
    assert (result["role"], result["tool_call_id"], assistant["content"]) == ("tool", "a", "")
    assert [line.where for line in sent.receipt.losses] == ["messages[1].content[0].arguments"]
