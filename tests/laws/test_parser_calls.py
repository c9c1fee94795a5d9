"""How many values one call of the parser builds: few, whatever a client sends and whatever it is translated to.

A call is not interrupted: in a thread it holds the interpreter, and all clients wait. To build a million members of
objects takes two seconds. Values are counted here, and no time is measured.
"""

from __future__ import annotations

import json as standard
from typing import Any

import msgspec
import pytest

from toolglot.api import translate_request, translate_response
from toolglot.dialects import DIALECTS
from toolglot.wire import incremental_json, json

MOST = 45_000
"""Values of one call: a slice has fewer, and so has a document that is too small to be read in slices."""

MEMBERS = {f"k{number}": number % 10 for number in range(100_000)}
ARGUMENTS = standard.dumps(MEMBERS)
TARGETS = [name for name in DIALECTS if name != "warp"]


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}


def called(arguments: str) -> list[dict[str, Any]]:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ]


REQUESTS: dict[str, dict[str, Any]] = {
    "members of a field": chat(metadata=MEMBERS),
    "members of the request": chat(**MEMBERS),
    "members of a schema": chat(
        tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": MEMBERS}}}]
    ),
    "elements": chat(stop=["a"] * 100_000),
    "parts": chat(messages=[{"role": "user", "content": [{"type": "text", "text": "a"}] * 40_000}]),
    "arguments of a call": chat(messages=called(ARGUMENTS)),
    "a result": chat(messages=[*called("{}")[:2], {"role": "tool", "tool_call_id": "call_1", "content": ARGUMENTS}]),
}


def count(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inside))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many values each call of the parser has built."""
    seen = [0]
    decode = msgspec.json.Decoder().decode

    def counting(raw: bytes | memoryview) -> Any:
        value = decode(raw)
        seen.append(count(value))
        return value

    monkeypatch.setattr(json, "_decode_any", counting)
    monkeypatch.setattr(incremental_json, "_decode", counting)
    return seen


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", REQUESTS)
def test_no_call_of_the_parser_gets_many_values_of_a_request(case: str, target: str, calls: list[int]) -> None:
    # Settings that came before in the same bytes are not read again.
    translate_request({**REQUESTS[case], "user": f"{case} for {target}"}, "openai_chat", target)
    assert len(calls) > 2
    assert max(calls) <= MOST


@pytest.mark.parametrize("target", TARGETS)
def test_no_call_of_the_parser_gets_many_values_of_an_answer(target: str, calls: list[int]) -> None:
    message = called(ARGUMENTS)[1]
    body = {"id": "a", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    translate_response(standard.dumps(body), "openai_chat", target)
    assert max(calls) <= MOST
