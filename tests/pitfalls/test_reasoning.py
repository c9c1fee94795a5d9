"""Pitfalls of reasoning state: signatures forged, altered, given to the wrong model, smuggled in ids, or lost."""

from __future__ import annotations

import json
import re

import pytest

from tests.exchanges import FOREIGN_PAIRS, NAMES
from tests.pitfalls.wires import ask, asked, chat, to
from toolglot.api import translate_request
from toolglot.dialects import DIALECTS
from toolglot.ir import Message, Request, Response, Stop, Text, Thinking, Tool, ToolCall, ToolResult, replace
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

SIGNATURE = "RXJBQ2tnSU1BYmx1ZQ=="
STATE = {
    "anthropic": {"signature": SIGNATURE},
    "openai_responses": {"id": "rs_1", "encrypted_content": SIGNATURE},
    "gemini": {"thoughtSignature": SIGNATURE},
}
TOOL = Tool(name="get_weather", description="The weather", parameters={"type": "object", "properties": {}})
ASK = Message(role="user", content=(Text(text="Weather?"),))


def history(*spoken: Thinking | ToolCall) -> Request:
    results = tuple(
        ToolResult(call_id=block.id, name=block.name, content=(Text(text="18"),))
        for block in spoken
        if isinstance(block, ToolCall)
    )
    messages = (ASK, Message(role="assistant", content=spoken), Message(role="user", content=results))
    return Request(model="m", tools=(TOOL,), messages=messages, max_output_tokens=4000)


CALL = ToolCall(id="call_1", name="get_weather", arguments="{}")


def signed(owner: str) -> Request:
    """A turn whose reasoning this owner has signed, where it signs: on the thinking, or on the call."""
    if owner == "gemini":
        return history(Thinking(text="Hm."), replace(CALL, native={owner: STATE[owner]}))
    return history(Thinking(text="Hm.", native={owner: STATE[owner]}), CALL)


def sent(client: str, upstream: str, request: Request) -> bytes:
    raw = DIALECTS[client].encode_request(request, Receipt())
    return ExchangeCore(client, upstream).request(raw, model="some-model")


@pytest.mark.parametrize("owner", STATE)
def test_a_signature_goes_back_to_its_owner_as_it_was(owner: str) -> None:
    """CLIProxyAPI PR #570, #2172: re-serialising changed the bytes, and Claude refused its own signature."""
    assert SIGNATURE.encode() in sent(owner, owner, signed(owner))


@pytest.mark.parametrize(("owner", "other"), [(o, n) for o in STATE for n in NAMES if n != o])
def test_a_signature_never_reaches_another_vendor(owner: str, other: str) -> None:
    """better-ccflare #52, krouter PR #11: after a switch of models the old signature was sent to the new one."""
    assert SIGNATURE.encode() not in sent(owner, other, signed(owner))


def test_no_signature_is_forged_for_claude() -> None:
    """Antigravity-Manager #608: placeholders give "Invalid `signature` in `thinking` block"."""
    document = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello", "reasoning_content": "Hm."},
            {"role": "user", "content": "So?"},
        ],
    }
    encoded = json.dumps(ask("openai_chat", "anthropic", document, model="claude-sonnet-4-5"))
    assert '"thinking"' not in encoded
    assert '"signature"' not in encoded


def test_thinking_is_off_for_a_turn_whose_thinking_was_lost() -> None:
    """opencode #3077: "Expected `thinking` … but found `tool_use`" when thinking is on and the history has none."""
    document = {
        "model": "m",
        "reasoning_effort": "high",
        "messages": [
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "a", "content": "18"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
    }
    encoded, exchange = asked("openai_chat", "anthropic", document, model="claude-sonnet-4-5")
    assert encoded.get("thinking", {"type": "disabled"})["type"] == "disabled"
    assert any(line.where.startswith("reasoning") for line in exchange.receipt.losses)


SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


@pytest.mark.parametrize("client", [name for name in NAMES if name != "gemini"])
def test_a_thought_signature_travels_outside_of_the_id(client: str) -> None:
    """litellm #16893, #18160: `__thought__` inside ids broke other vendors' limits and was altered on its way."""
    answer = Response(
        id="r",
        model="m",
        content=(
            ToolCall(id="", name="get_weather", arguments="{}", native={"gemini": {"thoughtSignature": SIGNATURE}}),
        ),
        stop=Stop("tool_calls"),
    )
    exchange = ExchangeCore(client, "gemini")
    raw = exchange.response(DIALECTS["gemini"].encode_response(answer, None, Receipt()))
    call = next(block for block in DIALECTS[client].decode_response(raw).content if isinstance(block, ToolCall))
    assert SAFE_ID.fullmatch(call.id)


@pytest.mark.parametrize(("client", "owner"), [(c, u) for c, u in FOREIGN_PAIRS if u in STATE and c in STATE])
def test_state_that_a_client_carries_comes_back_to_its_owner(client: str, owner: str) -> None:
    """agentgateway #3342: a conversation Gemini -> client -> Gemini works, and so for every owner of state."""
    spoken = signed(owner).messages[1].content
    answer = Response(id="r", model="m", content=spoken, stop=Stop("tool_calls"))
    raw = ExchangeCore(client, owner).response(DIALECTS[owner].encode_response(answer, None, Receipt()))
    heard = DIALECTS[client].decode_response(raw)
    calls = [block for block in heard.content if isinstance(block, ToolCall)]
    results = tuple(ToolResult(call_id=call.id, name=call.name, content=(Text(text="18"),)) for call in calls)
    again = Request(
        model="m",
        tools=(TOOL,),
        max_output_tokens=4000,
        messages=(ASK, Message(role="assistant", content=heard.content), Message(role="user", content=results)),
    )
    back = DIALECTS[client].encode_request(again, Receipt())
    assert SIGNATURE.encode() in ExchangeCore(client, owner).request(back, model="some-model")


def test_a_chat_client_without_a_slot_still_has_a_working_conversation() -> None:
    """code_puppy PR #356: without the signature Gemini 3 wants the documented placeholder, never a made-up one."""
    document = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "18"},
            {"role": "tool", "tool_call_id": "b", "content": "19"},
        ],
    }
    encoded = ask("openai_chat", "gemini", document, model="gemini-3-pro")
    model_turn = next(content for content in encoded["contents"] if content["role"] == "model")
    signatures = [part.get("thoughtSignature") for part in model_turn["parts"]]
    assert signatures == ["skip_thought_signature_validator", None]


def test_only_the_first_of_parallel_calls_is_signed_and_all_stay_together() -> None:
    """pipecat PR #3420: in a parallel batch only the first functionCall carries a signature, in one Content."""
    request = history(
        replace(CALL, native={"gemini": STATE["gemini"]}), replace(CALL, id="call_2"), replace(CALL, id="call_3")
    )
    encoded = json.loads(sent("gemini", "gemini", request))
    turns = [content for content in encoded["contents"] if content["role"] == "model"]
    assert len(turns) == 1
    assert [part.get("thoughtSignature") for part in turns[0]["parts"]] == [SIGNATURE, None, None]


def test_thinking_comes_back_as_reasoning_content() -> None:
    """CCR #1378, new-api #4806: DeepSeek and Kimi want `reasoning_content` again with their tool turns."""
    exchange = ExchangeCore("anthropic", "openai_chat")
    choice = {
        "index": 0,
        "message": {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Hm.",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        "finish_reason": "tool_calls",
    }
    raw = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).encode()
    heard = json.loads(exchange.response(raw))
    document = {
        "model": "deepseek-chat",
        "max_tokens": 100,
        "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": heard["content"]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "18"}]},
        ],
    }
    encoded = ask("anthropic", "openai_chat", document)
    assert encoded["messages"][1]["reasoning_content"] == "Hm."


def test_foreign_item_ids_are_not_replayed() -> None:
    """CLIProxyAPI #998, vercel/ai #7543: `rs_`, `msg_` and `fc_` ids of another server give a 404."""
    for client in NAMES:
        if client == "openai_responses":
            continue
        encoded = sent(client, "openai_responses", signed(client) if client in STATE else history(CALL)).decode()
        assert not re.search(r'"id":"(rs|msg|fc)_', encoded)


def test_an_item_reference_stays_in_its_dialect_and_is_told_elsewhere() -> None:
    """hermes PR #10217: references were left in requests to servers that could not resolve them."""
    document = {"model": "m", "input": [{"role": "user", "content": "Hi"}, {"type": "item_reference", "id": "msg_9"}]}
    encoded, exchange = asked("openai_responses", "anthropic", document)
    assert "msg_9" not in json.dumps(encoded)
    assert any("item_reference" in str(line) for line in exchange.receipt.losses)


def test_encrypted_reasoning_is_kept_on_a_stateless_replay() -> None:
    """hermes #102282: `store: false` needs the encrypted content of every reasoning item."""
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SIGNATURE}
    document = {"model": "m", "store": False, "input": [{"role": "user", "content": "Hi"}, item]}
    assert ask("openai_responses", "openai_responses", document)["input"][1]["encrypted_content"] == SIGNATURE


def test_reasoning_of_a_chat_stream_is_thinking_that_claude_clients_accept() -> None:
    """A thinking block needs its signature field; an SDK that finds none drops the block."""
    got = to("anthropic", "openai_chat", chat({"reasoning_content": "Hm."}, {"content": "Hi."}, finish="stop"))
    kinds = [event["delta"]["type"] for event in got if event["type"] == "content_block_delta"]
    assert kinds == ["thinking_delta", "signature_delta", "text_delta"]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("details", [{}, {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]}])
def test_streamed_reasoning_goes_back_in_the_field_that_it_came_in(field: str, details: dict[str, object]) -> None:
    """Groq and newer versions of vLLM read `reasoning` alone."""
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    stream = chat({field: "hm", **details}, {"content": "I look."}, {"tool_calls": [call]})
    said = to("openai_responses", "openai_chat", stream)[-1]["response"]["output"]
    result = {"type": "function_call_output", "call_id": "call_1", "output": "18"}
    history = {"model": "m", "input": [{"role": "user", "content": "Weather?"}, *said, result]}
    sent = translate_request(history, "openai_responses", "openai_chat").json()["messages"][1]
    assert {name: text for name, text in sent.items() if name in ("reasoning", "reasoning_content")} == {field: "hm"}
