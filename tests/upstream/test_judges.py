"""The judges refuse what the real APIs refuse: else nothing would be shown by their silence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.wires import Call, Turn
from tests.upstream.judges import SKIP, Claude, DeepSeek, Gemini, Gpt, Plain, Vendor

CALLS = Turn("So.", (Call("", "look", {"a": 1}), Call("", "look", {"a": 2})))


def messages(*history: Any) -> Any:
    thinking = {"type": "enabled", "budget_tokens": 2000}
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    asked = {"role": "user", "content": "Hi"}
    return {"max_tokens": 9, "thinking": thinking, "tools": tools, "messages": [asked, *history]}


def claude(change: str) -> Any:
    vendor = Claude()
    content = vendor.answer(messages(), CALLS)["content"]
    ids = [block["id"] for block in content if block["type"] == "tool_use"]
    thinking, redacted, text, *calls = content
    changed = {
        "nothing": content,
        "signature": [{**thinking, "signature": "c2ln"}, redacted, text, *calls],
        "text": [{**thinking, "thinking": "Hm"}, redacted, text, *calls],
        "half": [thinking, text, *calls],
        "lost": [text, *calls],
        "behind": [text, *calls, thinking, redacted],
    }[change]
    results = [{"type": "tool_result", "tool_use_id": each, "content": "ok"} for each in ids]
    return vendor, messages({"role": "assistant", "content": changed}, {"role": "user", "content": results})


def gpt(change: str) -> Any:
    vendor = Gpt()
    reasoning, message, *calls = vendor.answer({}, CALLS)["output"]
    outputs = [{"type": "function_call_output", "call_id": call["call_id"], "output": "ok"} for call in calls]
    changed = {
        "nothing": [reasoning, message, *calls],
        "unreasoning": [reasoning, message, *calls],
        "signature": [{**reasoning, "encrypted_content": "c2ln"}, message, *calls],
        "lost": [message, *calls],
        "behind": [message, *calls, reasoning],
        "ids": [reasoning, message, {**calls[0], "id": "fc_r1_1"}, calls[1]],
        "empty": [reasoning, message, *calls, {"type": "message", "role": "assistant", "content": []}],
        "long": [reasoning, message, *calls, {**calls[0], "id": calls[0]["id"], "call_id": "c" * 65}],
    }[change]
    tools = [{"type": "function", "name": "look", "parameters": {}}]
    return vendor, {
        "model": "gpt-4.1" if change == "unreasoning" else vendor.model,
        "tools": tools,
        "input": [{"role": "user", "content": "Hi"}, *changed, *outputs],
    }


def gemini(change: str) -> Any:
    vendor = Gemini()
    thought, text, first, second = vendor.answer({}, CALLS)["candidates"][0]["content"]["parts"]
    unsigned = {"functionCall": first["functionCall"]}
    changed = {
        "nothing": [thought, text, first, second],
        "mark": [text, {**unsigned, "thoughtSignature": SKIP}, second],
        "signature": [text, {**unsigned, "thoughtSignature": "c2ln"}, second],
        "lost": [text, unsigned, second],
        "behind": [text, unsigned, {**second, "thoughtSignature": first["thoughtSignature"]}],
        "half": [text, first, {**second, "thoughtSignature": SKIP}],
    }[change]
    results = [{"functionResponse": {"name": "look", "response": {}}}] * 2
    contents = [{"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": changed}]
    tools = [{"functionDeclarations": [{"name": "look"}]}]
    return vendor, {"contents": [*contents, {"role": "user", "parts": results}], "tools": tools}


def deepseek(change: str) -> Any:
    vendor = DeepSeek()
    message = vendor.answer({}, CALLS)["choices"][0]["message"]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in message["tool_calls"]]
    changed = {
        "nothing": message,
        "lost": {key: value for key, value in message.items() if key != "reasoning_content"},
        "signature": {**message, "signature": "c2ln"},
        "role": {**message, "role": "model"},
    }[change]
    tools = [{"type": "function", "function": {"name": "look"}}]
    return vendor, {"messages": [{"role": "user", "content": "Hi"}, changed, *results], "tools": tools}


def plain(change: str) -> Any:
    said = {"role": "assistant", "content": "So."}
    changed = {
        "nothing": said,
        "role": {"role": "tool", "content": "ok", "tool_call_id": "a"},
        "calls": {**said, "tool_calls": []},
    }[change]
    return Plain(), {"messages": [{"role": "user", "content": "Hi"}, changed]}


@pytest.mark.parametrize(
    ("make", "change", "refused"),
    [
        (claude, "nothing", None),
        (claude, "signature", "invalid `signature`"),
        (claude, "text", "invalid `signature`"),
        (claude, "half", "cannot be modified"),
        (claude, "lost", "expected `thinking`"),
        (claude, "behind", "do not follow their thinking"),
        (gpt, "nothing", None),
        (gpt, "signature", "could not be verified"),
        (gpt, "unreasoning", "only be provided to a reasoning"),
        (gpt, "lost", "without its required 'reasoning' item"),
        (gpt, "behind", "without its required following item"),
        (gpt, "ids", "not found"),
        (gpt, "long", "too long"),
        (gpt, "empty", "a message without content"),
        (gemini, "nothing", None),
        (gemini, "mark", None),
        (gemini, "signature", "not valid"),
        (gemini, "lost", "missing a thought_signature"),
        (gemini, "behind", "not valid"),
        (gemini, "half", "a parallel call is marked"),
        (deepseek, "nothing", None),
        (deepseek, "lost", "must be passed back"),
        (deepseek, "signature", "unknown members"),
        (deepseek, "role", "the role model"),
        (plain, "nothing", None),
        (plain, "role", "tool_call_id"),
        (plain, "calls", "unknown members"),
    ],
)
def test_a_judge_refuses_what_its_api_refuses(make: Any, change: str, refused: str | None) -> None:
    vendor, body = make(change)
    assert isinstance(vendor, Vendor)
    found = list(vendor.refusals(body))
    assert found == [] if refused is None else any(refused in each for each in found), found


@pytest.mark.parametrize("make", [claude, gpt, gemini, deepseek])
def test_a_judge_knows_its_own_state_again(make: Any) -> None:
    vendor, body = make("nothing")
    assert vendor.returned(body) == {0}
    vendor, body = make("lost")
    assert vendor.returned(body) == set()
