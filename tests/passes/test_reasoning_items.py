"""Reasoning items of the Responses API through clients of other APIs: an answer, a history, the next request.

Each item comes back byte for byte before the item that followed it, or a line of the receipt says that it is lost. The
API refuses reasoning "without its required following item".
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchanges import folded, read_events, through
from toolglot.dialects import DIALECTS
from toolglot.events import unfold
from toolglot.passes.answer_state import state_of_answer
from toolglot.passes.kept_state import with_states
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

Item = dict[str, Any]
OWNER = "openai_responses"
MODEL = "gpt-5.4"


def reasoned(number: int) -> Item:
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"ENC{number}"}


def said(words: str, phase: str | None = None) -> Item:
    part = {"type": "output_text", "text": words, "annotations": [], "logprobs": []}
    item = {"type": "message", "id": f"msg_{words.strip()}", "role": "assistant", "status": "completed"}
    return {**item, "content": [part], **({"phase": phase} if phase else {})}


def called(number: int) -> Item:
    item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "f", "arguments": "{}"}
    return {**item, "status": "completed"}


SEARCHED = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
COMMENTARY, FINAL = "commentary", "final_answer"
ANSWERS: dict[str, list[Item]] = {
    "a comment and an answer": [reasoned(1), said("A", COMMENTARY), reasoned(2), said("B", FINAL)],
    "two messages without a phase": [reasoned(1), said("A"), reasoned(2), said("B")],
    "a message that begins with a blank line": [reasoned(1), said("A"), reasoned(2), said("\n\nB", FINAL)],
    "a message that ends with a line break": [reasoned(1), said("A\n", COMMENTARY), reasoned(2), said("B", FINAL)],
    "three messages": [said("A", COMMENTARY), reasoned(1), said("B", COMMENTARY), reasoned(2), said("C", FINAL)],
    "neighbouring messages": [reasoned(1), said("A\n", COMMENTARY), said("B", FINAL)],
    "three messages of one thought": [reasoned(1), said("A\n", FINAL), said("B", FINAL), said("C", FINAL)],
    "messages and calls": [reasoned(1), said("A", COMMENTARY), called(1), reasoned(2), called(2)],
}
CLIENTS = ("openai_chat", "anthropic", "gemini")
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])


def ask(client: str, history: list[Any]) -> bytes:
    if client == "gemini":
        return json.dumps({"contents": [{"role": "user", "parts": [{"text": "go"}]}, *history]}).encode()
    most = {"max_tokens": 100} if client == "anthropic" else {}
    return json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "go"}, *history], **most}).encode()


def wire(output: list[Item]) -> bytes:
    head = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": MODEL}
    return json.dumps({**head, "output": output}).encode()


def answer(client: str, output: list[Item], *, streams: bool) -> tuple[Any, ExchangeCore]:
    """What the client gets for these items."""
    exchange = ExchangeCore(client, OWNER, model=MODEL)
    exchange.request(ask(client, []), model=MODEL, stream=streams)
    if not streams:
        return json.loads(exchange.response(wire(output))), exchange
    source = DIALECTS[OWNER].stream_encoder(None, Receipt())
    events = unfold(DIALECTS[OWNER].decode_response(wire(output)))
    written = through(exchange, [data for event in events if (data := source.feed(event))])
    response = folded(read_events(client, [written]))
    return json.loads(DIALECTS[client].encode_response(response, None, Receipt())), exchange


def history(client: str, given: Any) -> list[Any]:
    """The turn after that answer, as a client writes it that keeps all that it was given."""
    if client == "openai_chat":
        message = {key: value for key, value in given["choices"][0]["message"].items() if value is not None}
        ids = [each["id"] for each in message.get("tool_calls", ())]
        results: list[Any] = [{"role": "tool", "tool_call_id": each, "content": "ok"} for each in ids]
        return [message, *(results or [{"role": "user", "content": "on"}])]
    if client == "anthropic":
        ids = [block["id"] for block in given["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": each, "content": "ok"} for each in ids]
        return [{"role": "assistant", "content": given["content"]}, {"role": "user", "content": results or "on"}]
    content = given["candidates"][0]["content"]
    calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
    results = [{"functionResponse": {"id": each["id"], "name": each["name"], "response": {}}} for each in calls]
    return [content, {"role": "user", "parts": results or [{"text": "on"}]}]


def sent_items(client: str, turn: list[Any], **settings: Any) -> tuple[list[Item], Receipt]:
    """What the API gets of its answer with the next request."""
    exchange = ExchangeCore(client, OWNER, model=MODEL, **settings)
    body = json.loads(exchange.request(ask(client, turn), model=MODEL))
    return [item for item in body["input"] if item.get("role") != "user" and "output" not in item], exchange.receipt


def bare(output: list[Item]) -> list[Item]:
    """The items as they are sent: without the ids and what else nobody needs."""
    return [
        {"type": "message", "role": "assistant", "content": item["content"][0]["text"], **_phase(item)}
        if item["type"] == "message"
        else {key: value for key, value in item.items() if item["type"] != "function_call" or key not in _IDS}
        for item in output
    ]


_IDS = ("id", "status")


def _phase(item: Item) -> Item:
    return {"phase": item["phase"]} if "phase" in item else {}


@BOTH
@EVERY_CLIENT
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_comes_back_item_by_item(name: str, client: str, streams: bool) -> None:
    given, _ = answer(client, ANSWERS[name], streams=streams)
    items, receipt = sent_items(client, history(client, given))
    assert items == bare(ANSWERS[name])
    assert not [line for line in receipt.losses if line.where.startswith("messages")]


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_was_kept_comes_back_item_by_item(name: str) -> None:
    """Ollama's API has one text and no field for state."""
    output = ANSWERS[name]
    states = state_of_answer(DIALECTS[OWNER].decode_response(wire(output)).content, OWNER)
    exchange = ExchangeCore("ollama", OWNER, model=MODEL)
    exchange.request(ask("ollama", []))
    message = json.loads(exchange.response(wire(output)))["message"]
    results = [{"role": "tool", "tool_name": "f", "content": "ok"} for _ in message.get("tool_calls", ())]
    turn = [message, *(results or [{"role": "user", "content": "on"}])]
    items, _ = sent_items("ollama", turn, passes=with_states(REQUEST_PASSES, {0: states}))
    assert [{**item, "call_id": ""} if "call_id" in item else item for item in items] == [
        {**item, "call_id": ""} if "call_id" in item else item for item in bare(output)
    ]


def test_the_phase_of_a_comment_does_not_move_to_the_answer() -> None:
    given, _ = answer("openai_chat", ANSWERS["a comment and an answer"], streams=False)
    message, *rest = history("openai_chat", given)
    items, receipt = sent_items("openai_chat", [{**message, "content": "A, and B"}, *rest])
    assert [item.get("phase") for item in items if item["type"] == "message"] == [None]
    assert [item for item in items if item["type"] == "reasoning"] == []
    assert [line.what for line in receipt.losses if line.where.startswith("messages")] == ["reasoning", "phase"]


UNFOLLOWED: dict[str, tuple[list[Item], list[Item]]] = {
    "a search": ([reasoned(1), SEARCHED, said("A")], [said("A")]),
    "a search and reasoning": (
        [reasoned(1), SEARCHED, reasoned(2), said("A"), reasoned(3), called(1)],
        [reasoned(2), said("A"), reasoned(3), called(1)],
    ),
    "reasoning": ([reasoned(1), reasoned(2), called(1)], [reasoned(2), called(1)]),
    "nothing": ([said("A"), reasoned(1)], [said("A")]),
}
"""Answers by what follows their first reasoning, and what of them goes back."""


@BOTH
@EVERY_CLIENT
@pytest.mark.parametrize("name", UNFOLLOWED)
def test_reasoning_without_the_item_that_followed_it_is_left_out(name: str, client: str, streams: bool) -> None:
    output, expected = UNFOLLOWED[name]
    given, exchange = answer(client, output, streams=streams)
    items, receipt = sent_items(client, history(client, given))
    assert items == bare(expected)
    told = [line.why for each in (exchange.receipt, receipt) for line in each.losses]
    assert [
        why
        for why in told
        if why == "the block that followed it was not sent back, and its API refuses it without that block"
    ]


@pytest.mark.parametrize("name", UNFOLLOWED)
def test_reasoning_without_the_item_that_followed_it_is_not_kept(name: str) -> None:
    output, expected = UNFOLLOWED[name]
    states = state_of_answer(DIALECTS[OWNER].decode_response(wire(output)).content, OWNER)
    exchange = ExchangeCore("ollama", OWNER, model=MODEL)
    exchange.request(ask("ollama", []))
    message = json.loads(exchange.response(wire(output)))["message"]
    turn = [message, {"role": "user", "content": "on"}]
    items, _ = sent_items("ollama", turn, passes=with_states(REQUEST_PASSES, {0: states}))
    assert [item["id"] for item in items if item["type"] == "reasoning"] == [
        item["id"] for item in expected if item["type"] == "reasoning"
    ]


def test_reasoning_is_left_out_with_the_call_that_it_led_to() -> None:
    given, _ = answer("openai_chat", [reasoned(1), called(1), called(2), reasoned(2), called(3)], streams=False)
    message, *results = history("openai_chat", given)
    shorter = {**message, "tool_calls": message["tool_calls"][1:]}
    items, receipt = sent_items("openai_chat", [shorter, *results[1:]])
    assert items == bare([called(2), reasoned(2), called(3)])
    assert [line.what for line in receipt.losses] == ["reasoning"]


@pytest.mark.parametrize("keeps", [True, False])
def test_a_phase_that_a_client_cannot_carry_is_lost_unless_it_is_kept(keeps: bool) -> None:
    exchange = ExchangeCore("ollama", OWNER, model=MODEL, keeps_state=keeps)
    exchange.request(ask("ollama", []))
    exchange.response(wire([said("A", FINAL)]))
    lines = [(line.severity, line.where) for line in exchange.receipt if line.what == "reasoning state"]
    assert lines == [("note" if keeps else "loss", "content[0]")]


def test_pieces_of_a_streamed_text_are_one_text() -> None:
    """Google's SDKs keep a part for each chunk."""
    output = [reasoned(1), said("Hello", COMMENTARY), said("World", FINAL)]
    given, _ = answer("gemini", output, streams=False)
    content, *rest = history("gemini", given)
    pieces = [{"text": "Hel"}, {"text": "lo"}, {"text": "\n\nWo"}, {"text": "rld"}]
    parts = [part for part in content["parts"] if not part.get("text") or "thought" in part]
    content = {**content, "parts": [parts[0], *pieces, *parts[1:]]}
    items, _ = sent_items("gemini", [content, *rest])
    assert items == bare(output)
