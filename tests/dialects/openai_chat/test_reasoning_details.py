"""`reasoning_details`, as OpenRouter sends it: in whole messages and in streams, and back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import Exchange
from toolglot.dialects.openai_chat.dialect import OPENAI_CHAT
from toolglot.events import fold
from toolglot.ir import Message, Request, Text, Thinking, ToolCall, native_of
from toolglot.receipt import Receipt

SIGNED = {"type": "reasoning.text", "text": "Hm. So.", "signature": "c2ln", "format": "anthropic-claude-v1", "index": 0}
HIDDEN = {"type": "reasoning.encrypted", "data": "gAAA==", "id": "rs_1", "format": "openai-responses-v1", "index": 1}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def request(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "go"}, *messages]}


def said(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "so", **fields}


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({"reasoning": "Hm. So."}, ["Hm. So."]),
        ({"reasoning_content": "Hm. So."}, ["Hm. So."]),
        ({"reasoning": "Hm.", "reasoning_content": "So."}, ["So.", "Hm."]),
        ({}, [""]),
        ({"tool_calls": [CALL]}, [""]),
    ],
)
def test_details_ride_on_the_reasoning_of_their_message(fields: dict[str, Any], texts: list[str]) -> None:
    body = request(said(**fields, reasoning_details=[SIGNED, HIDDEN]))
    decoded = OPENAI_CHAT.decode_request(json.dumps(body).encode())
    thinking = [block for block in decoded.messages[1].content if isinstance(block, Thinking)]
    assert [block.text for block in thinking] == texts
    assert native_of(thinking[0], "openai_chat")["reasoning_details"] == [SIGNED, HIDDEN]
    assert json.loads(OPENAI_CHAT.encode_request(decoded, receipt := Receipt())) == body
    assert list(receipt) == []


@pytest.mark.parametrize("odd", [[], None, "x", {"a": 1}, ["x"], [SIGNED, 5]])
def test_a_field_that_is_no_list_of_details_stays_with_the_message(odd: Any) -> None:
    body = request(said(reasoning_details=odd))
    decoded = OPENAI_CHAT.decode_request(json.dumps(body).encode())
    assert decoded.messages[1].content == (Text(text="so"),)
    assert json.loads(OPENAI_CHAT.encode_request(decoded, Receipt())) == body


@pytest.mark.parametrize("others", [{}, {"refusal": None}])
def test_details_that_litellm_has_moved_are_moved_back(others: dict[str, Any]) -> None:
    moved = OPENAI_CHAT.decode_request(
        json.dumps(request(said(provider_specific_fields={"reasoning_details": [HIDDEN], **others}))).encode()
    )
    assert moved == OPENAI_CHAT.decode_request(json.dumps(request(said(reasoning_details=[HIDDEN]))).encode())


def test_what_else_litellm_has_moved_stays_where_it_is() -> None:
    exchange = Exchange("openai_chat", "anthropic")
    exchange.request(request(said(provider_specific_fields={"citations": ["x"], "refusal": None})))
    assert [loss.where for loss in exchange.receipt.losses] == ["messages[1].provider_specific_fields"]
    exchange = Exchange("openai_chat", "anthropic")
    exchange.request(request(said(provider_specific_fields={"refusal": None})))
    assert not exchange.receipt.losses


def test_a_user_has_no_details() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "go", "reasoning_details": [HIDDEN]}]}
    decoded = OPENAI_CHAT.decode_request(json.dumps(body).encode())
    assert decoded.messages[0].content == (Text(text="go"),)
    assert json.loads(OPENAI_CHAT.encode_request(decoded, Receipt())) == body


def test_details_of_several_blocks_are_one_list() -> None:
    blocks = (
        Thinking(text="Hm.", native={"openai_chat": {"reasoning_details": [SIGNED]}}),
        Thinking(native={"openai_chat": {"reasoning_details": [HIDDEN]}}),
    )
    sent = OPENAI_CHAT.encode_request(
        Request(model="m", messages=(Message(role="assistant", content=blocks),)), Receipt()
    )
    (message,) = json.loads(sent)["messages"]
    assert message["reasoning_details"] == [SIGNED, HIDDEN]
    assert message["reasoning_content"] == "Hm."


def response(**fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": said(**fields), "finish_reason": "stop"}
    return {"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


@pytest.mark.parametrize("fields", [{"reasoning": "Hm. So."}, {}, {"reasoning": None, "refusal": None}])
def test_a_whole_answer_has_its_details_as_they_were(fields: dict[str, Any]) -> None:
    body = response(**fields, reasoning_details=[SIGNED, HIDDEN])
    decoded = OPENAI_CHAT.decode_response(json.dumps(body).encode())
    assert isinstance(decoded.content[0], Thinking)
    assert json.loads(OPENAI_CHAT.encode_response(decoded, None, Receipt())) == body


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def piece(text: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning.text", **({} if text is None else {"text": text}), "index": 0, **fields}


END = (chunk({}, "stop"), b"data: [DONE]\n\n")
FORMAT = {"format": "anthropic-claude-v1"}
SIGNED_IN_PIECES = (
    chunk({"role": "assistant", "content": "", "reasoning": "Hm. ", "reasoning_details": [piece("Hm. ", **FORMAT)]}),
    chunk({"content": "", "reasoning": "So.", "reasoning_details": [piece("So.", signature=None, **FORMAT)]}),
    chunk({"content": "", "reasoning": None, "reasoning_details": [piece(signature="c2ln", **FORMAT)]}),
    chunk({"content": "so"}),
)


def decode(*chunks: bytes) -> tuple[Any, Receipt]:
    decoder = OPENAI_CHAT.stream_decoder(receipt := Receipt())
    return [*decoder.feed(b"".join(chunks)), *decoder.close()], receipt


def test_the_pieces_of_a_detail_are_put_together() -> None:
    events, receipt = decode(*SIGNED_IN_PIECES, *END)
    native = {"openai_chat": {"$field": "reasoning", "reasoning_details": [SIGNED]}}
    assert fold(events).content == (Thinking(text="Hm. So.", native=native), Text(text="so"))
    assert list(receipt) == []


def test_pieces_that_belong_together_by_nothing_stay_apart() -> None:
    alone = {"type": "reasoning.summary", "summary": "a"}
    odd = {"type": ["x"], "index": 0}
    details = [alone, alone, HIDDEN, HIDDEN, piece("a"), piece("b", index=1), odd, odd]
    events, _ = decode(chunk({"reasoning_details": details}), *END)
    (block,) = fold(events).content
    assert block == Thinking(native={"openai_chat": {"reasoning_details": details}})


def test_details_before_anything_else_come_first() -> None:
    events, _ = decode(chunk({"reasoning_details": [HIDDEN]}), chunk({"content": "so"}), *END)
    hidden = Thinking(native={"openai_chat": {"reasoning_details": [HIDDEN]}})
    assert fold(events).content == (hidden, Text(text="so"))


def test_details_in_a_text_or_beside_a_call_break_neither() -> None:
    begun = {"index": 0, **CALL, "function": {"name": "look", "arguments": '{"a"'}}
    rest = {"index": 0, "function": {"arguments": ":1}"}}
    text = [chunk({"content": "One "}), chunk({"content": "two.", "reasoning_details": [HIDDEN]})]
    calls = [chunk({"tool_calls": [begun], "reasoning_details": [HIDDEN]}), chunk({"tool_calls": [rest]})]
    whole = ToolCall(id="call_1", name="look", arguments='{"a":1}')
    events, _ = decode(*text, *calls, *END)
    hidden = Thinking(native={"openai_chat": {"reasoning_details": [HIDDEN, HIDDEN]}})
    assert fold(events).content == (Text(text="One two."), whole, hidden)
    events, _ = decode(*calls, *END)
    hidden = Thinking(native={"openai_chat": {"reasoning_details": [HIDDEN]}})
    assert fold(events).content == (hidden, whole)


def test_a_stream_has_its_details_once_and_whole_before_its_end() -> None:
    events, _ = decode(*SIGNED_IN_PIECES, chunk({"reasoning_details": [HIDDEN]}), *END)
    encoder = OPENAI_CHAT.stream_encoder(None, Receipt())
    written = b"".join(encoder.feed(event) for event in events).decode()
    chunks = [json.loads(line[6:]) for line in written.splitlines() if line.startswith("data: {")]
    deltas = [one["choices"][0]["delta"] for one in chunks if one["choices"]]
    assert [delta["reasoning_details"] for delta in deltas if "reasoning_details" in delta] == [[SIGNED, HIDDEN]]
    assert "reasoning_details" in deltas[-2]


def test_a_history_with_details_goes_through_as_it_is() -> None:
    result = {"role": "tool", "tool_call_id": "call_1", "content": "a cat"}
    body = request(said(reasoning="Hm. So.", reasoning_details=[SIGNED, HIDDEN], tool_calls=[CALL]), result)
    data = json.dumps(body).encode()
    for model in (None, "anthropic/claude-sonnet-4.5"):
        exchange = Exchange("openai_chat", "openai_chat", model=model, verbatim=model is None)
        sent = exchange.request(data)
        assert json.loads(sent) == {**body, "model": model or "m"}
        assert list(exchange.receipt) == []
        assert (sent == data) is (model is None)


@pytest.mark.parametrize("target", ["anthropic", "gemini", "openai_responses"])
def test_no_other_vendor_gets_details(target: str) -> None:
    result = {"role": "tool", "tool_call_id": "call_1", "content": "a cat"}
    body = request(said(reasoning_details=[SIGNED, HIDDEN], tool_calls=[CALL]), result)
    exchange = Exchange("openai_chat", target)
    sent = exchange.request(body)
    assert b"gAAA" not in sent
    assert b"c2ln" not in sent
    told = [f"{line.severity} {line.where} {line.what}" for line in exchange.receipt]
    assert "loss messages[1] reasoning" in told


GOOGLE = {"google": {"thought_signature": "c2ln"}}
SINGLE: list[dict[str, Any]] = [
    {"reasoning_text": "Hm.", "reasoning_opaque": "b3BhcXVl"},
    {"reasoning_opaque": "b3BhcXVl"},
    {"extra_content": GOOGLE},
    {"provider_specific_fields": {"thought_signatures": ["c2ln"]}},
    {"provider_specific_fields": {"thought_signatures": ["c2ln"], "citations": ["x"]}},
    {"reasoning_content": "Hm.", "extra_content": GOOGLE, "reasoning_details": [HIDDEN]},
]


@pytest.mark.parametrize("fields", SINGLE)
def test_state_in_members_with_a_single_value_is_written_as_it_came(fields: dict[str, Any]) -> None:
    body = request(said(**fields))
    decoded = OPENAI_CHAT.decode_request(json.dumps(body).encode())
    assert [type(block) for block in decoded.messages[1].content] == [Thinking, Text]
    assert json.loads(OPENAI_CHAT.encode_request(decoded, receipt := Receipt())) == body
    answer = response(**fields)
    heard = OPENAI_CHAT.decode_response(json.dumps(answer).encode())
    assert json.loads(OPENAI_CHAT.encode_response(heard, None, receipt)) == answer
    assert list(receipt) == []


@pytest.mark.parametrize("fields", [fields for fields in SINGLE if "citations" not in str(fields)])
def test_a_stream_has_the_same_state_as_a_whole_answer(fields: dict[str, Any]) -> None:
    whole = OPENAI_CHAT.decode_response(json.dumps(response(**fields)).encode()).content
    first, receipt = decode(chunk({**fields, "content": "so"}), *END)
    last, late = decode(chunk({"content": "so"}), chunk({"content": "", **fields}), *END)
    assert list(receipt) == list(late) == []
    for content in (fold(first).content, fold(last).content):
        assert {(type(block), getattr(block, "text", "")) for block in content} == {
            (type(block), getattr(block, "text", "")) for block in whole
        }
        state = [_state_of(block) for block in content if isinstance(block, Thinking)]
        assert state == [_state_of(block) for block in whole if isinstance(block, Thinking)]


def _state_of(block: Thinking) -> dict[str, Any]:
    return {key: value for key, value in native_of(block, "openai_chat").items() if not key.startswith("$")}


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"extra_content": {"google": {"thought": True}}}, "extra_content"),
        ({"extra_content": "x"}, "extra_content"),
        ({"reasoning_opaque": 5}, "reasoning_opaque"),
        ({"provider_specific_fields": {"citations": ["x"]}}, "provider_specific_fields"),
    ],
)
def test_what_is_no_state_is_reported(fields: dict[str, Any], where: str) -> None:
    exchange = Exchange("anthropic", "openai_chat")
    exchange.response(response(**fields))
    assert [loss.where for loss in exchange.receipt.losses] == [f"choices[0].message.{where}"]
    _, receipt = decode(chunk({**fields, "content": "so"}), chunk({}, "stop"))
    assert [loss.where for loss in receipt.losses] == [f"choices[0].delta.{where}"]


def test_state_of_a_stream_that_comes_twice_is_merged_or_reported() -> None:
    pieces = [{"provider_specific_fields": {"thought_signatures": [each]}, "content": each} for each in ("a", "b")]
    events, receipt = decode(*map(chunk, pieces), *END)
    message = Message(role="assistant", content=fold(events).content)
    sent = json.loads(OPENAI_CHAT.encode_request(Request(model="m", messages=(message,)), receipt))
    assert sent["messages"][0]["provider_specific_fields"] == {"thought_signatures": ["a", "b"]}
    assert list(receipt) == []
    opaque = [{"reasoning_opaque": each, "content": each} for each in ("a", "b")]
    _, receipt = decode(chunk({"content": "x"}), *map(chunk, opaque), *END)
    assert [loss.where for loss in receipt.losses] == ["choices[0].delta.reasoning_opaque"]
