"""Parallel calls of which the slow one's result comes after the next answer of the model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchanges import FOREIGN_PAIRS
from toolglot.api import translate_request
from toolglot.dialects import DIALECTS
from toolglot.ir import Block, Message, Request, Text, Tool, ToolCall, ToolResult
from toolglot.passes.history import INTERRUPTED
from toolglot.receipt import Receipt


def called(*ids: str) -> Message:
    return Message(role="assistant", content=tuple(ToolCall(id=each, name=f"f_{each}", arguments="{}") for each in ids))


def resulted(*ids: str) -> tuple[Message, ...]:
    results = (ToolResult(call_id=each, name=f"f_{each}", content=(Text(text=f"result {each}"),)) for each in ids)
    return tuple(Message(role="tool", content=(each,)) for each in results)


def spoken(role: str, text: str) -> Message:
    return Message(role=role, content=(Text(text=text),))


BEGIN = spoken("user", "Begin")
HM = spoken("assistant", "Hm")
ORDERS: dict[str, tuple[Message, ...]] = {
    "after text": (BEGIN, called("c1", "c2"), *resulted("c1"), HM, *resulted("c2")),
    "after text, and more is said": (BEGIN, called("c1", "c2"), *resulted("c1"), HM, *resulted("c2"), HM, BEGIN),
    "after another call": (BEGIN, called("c1", "c2"), *resulted("c1"), called("c3"), *resulted("c2", "c3")),
    "after another call's result": (BEGIN, called("c1", "c2"), *resulted("c1"), called("c3"), *resulted("c3", "c2")),
    "after several turns": (BEGIN, called("c1", "c2"), BEGIN, HM, BEGIN, HM, *resulted("c2", "c1")),
}


def blocks(request: Request) -> list[Block]:
    return [block for message in request.messages for block in message.content]


def sent(client: str, upstream: str, document: bytes) -> tuple[Request, Receipt]:
    translated = translate_request(document, client, upstream, model="some-model")
    data = translated.data
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return DIALECTS[upstream].decode_request(raw), translated.receipt


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("client", "upstream"), FOREIGN_PAIRS)
def test_a_late_result_reaches_its_call_and_nothing_is_made_up(client: str, upstream: str, order: str) -> None:
    tools = tuple(Tool(name=f"f_c{number}", parameters={"type": "object", "properties": {}}) for number in (1, 2, 3))
    asked = Request(model="some-model", max_output_tokens=100, tools=tools, messages=ORDERS[order])
    got, receipt = sent(client, upstream, DIALECTS[client].encode_request(asked, Receipt()))
    there = blocks(got)
    calls = {block.id: number for number, block in enumerate(there) if isinstance(block, ToolCall)}
    results = [(number, block) for number, block in enumerate(there) if isinstance(block, ToolResult)]
    assert len(calls) == len(results) == sum(isinstance(block, ToolCall) for block in blocks(asked))
    for number, block in results:
        assert number > calls[block.call_id]
        call = there[calls[block.call_id]]
        assert isinstance(call, ToolCall)
        assert call.name.removeprefix("f_") in json.dumps([part.text for part in block.content if type(part) is Text])
    assert INTERRUPTED not in repr(got)
    assert not [line for line in receipt.losses if line.where != "max_output_tokens"]
    assert [line.why for line in receipt.notes if line.what.startswith("result of")]
    assert got.messages[-1].role != "assistant"


def gemini_call(name: str) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}}}


def gemini_result(name: str) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": f"of {name}"}}}


def test_a_late_result_without_an_id_is_given_to_the_call_of_its_name() -> None:
    """Gemini clients that drop ids: the unanswered call of the latest turn, not an older one."""
    said = {"role": "model", "parts": [{"text": "Hm"}]}
    contents = [
        {"role": "user", "parts": [{"text": "Begin"}]},
        {"role": "model", "parts": [gemini_call("g")]},
        {"role": "user", "parts": [{"text": "Stop"}]},
        {"role": "model", "parts": [gemini_call("f"), gemini_call("g")]},
        {"role": "user", "parts": [gemini_result("f")]},
        said,
        {"role": "user", "parts": [gemini_result("g")]},
    ]
    document = json.dumps({"contents": contents}).encode()
    got, receipt = sent("gemini", "openai_chat", document)
    results = [block for block in blocks(got) if isinstance(block, ToolResult)]
    calls = [block for block in blocks(got) if isinstance(block, ToolCall)]
    assert [result.call_id for result in results] == [call.id for call in calls]
    texts = [part.text for result in results for part in result.content if isinstance(part, Text)]
    assert [INTERRUPTED in texts[0], texts[1:]] == [True, ["of f", "of g"]]
    assert not receipt.losses


def chat_call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}


def chat_result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def test_results_with_ids_that_each_answer_counts_anew_are_all_kept() -> None:
    messages = [
        {"role": "user", "content": "Begin"},
        {"role": "assistant", "tool_calls": [chat_call("call_0"), chat_call("call_1")]},
        chat_result("call_0", "A"),
        {"role": "assistant", "tool_calls": [chat_call("call_0"), chat_call("call_1")]},
        chat_result("call_0", "B"),
        chat_result("call_1", "C"),
        chat_result("call_1", "D"),
    ]
    got, receipt = sent("openai_chat", "anthropic", json.dumps({"model": "m", "messages": messages}).encode())
    results = [block for block in blocks(got) if isinstance(block, ToolResult)]
    assert [part.text for result in results for part in result.content if isinstance(part, Text)] == [
        "A",
        "D",
        "B",
        "C",
    ]
    assert not receipt.losses
