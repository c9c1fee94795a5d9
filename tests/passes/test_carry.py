"""Reasoning state in envelopes: out through a client that has no place for it, and back to its owner unchanged."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot import DIALECTS, Exchange
from toolglot.events import unfold
from toolglot.ir import Message, Request, Response, Stop, Text, Thinking, ToolCall, ToolResult, native_of
from toolglot.passes.carry import pack, unpack
from toolglot.receipt import Receipt

SLOTS = {name: dialect.state_slot for name, dialect in DIALECTS.items() if dialect.state_slot}
PAIRS = [(client, owner) for client in SLOTS for owner in SLOTS if client != owner]
SIGNATURE = base64.b64encode(b"signed by its owner").decode()


@given(st.text(), st.dictionaries(st.text(), st.text()), st.booleans())
def test_an_envelope_gives_back_what_was_put_in(owner: str, fields: dict[str, Any], for_call: bool) -> None:
    envelope = pack(owner, fields, for_call)
    assert unpack(envelope) == (owner, for_call, fields)
    assert base64.b64decode(envelope, validate=True), "Gemini's clients want base64"


@pytest.mark.parametrize("other", ["", "EqQB", SIGNATURE, None, 5, "dG9vbGdsb3QA", "dG9vbGdsb3QA!", "dG9vbGdsb3QAWzFd"])
def test_anything_else_is_no_envelope(other: object) -> None:
    assert unpack(other) is None


def respond(client: str, owner: str, *content: Any) -> tuple[Any, Receipt]:
    """The client's response, as its own dialect reads it, for these blocks of the owner."""
    exchange = Exchange(client, owner)
    response = Response(id="r", model="m", content=content, stop=Stop("tool_calls"))
    data = DIALECTS[client].encode_response(exchange.restore(response), None, exchange.receipt)
    return DIALECTS[client].decode_response(data), exchange.receipt


def send_back(client: str, upstream: str, response: Response) -> Request:
    """What the upstream gets when the client puts that response into its history."""
    calls = [block for block in response.content if isinstance(block, ToolCall)]
    history = Request(
        model="gemini-3-pro" if upstream == "gemini" else "m",
        max_output_tokens=100,
        messages=(
            Message(role="user", content=(Text(text="go"),)),
            Message(role="assistant", content=response.content),
            Message(
                role="tool", content=tuple(ToolResult(call_id=call.id, content=(Text(text="ok"),)) for call in calls)
            ),
        ),
    )
    data = DIALECTS[client].encode_request(history, Receipt())
    exchange = Exchange(client, upstream)
    return DIALECTS[upstream].decode_request(exchange.request(data, model=history.model))


def own(owner: str) -> dict[str, dict[str, Any]]:
    slot = SLOTS[owner]
    assert slot is not None
    return {owner: {slot: SIGNATURE}}


@pytest.mark.parametrize(("client", "owner"), PAIRS)
def test_state_on_reasoning_comes_back_to_its_owner_byte_for_byte(client: str, owner: str) -> None:
    given_out, receipt = respond(client, owner, Thinking(text="hm", native=own(owner)), ToolCall(id="c", name="f"))
    assert not receipt.losses
    returned = send_back(client, owner, given_out)
    thinking = [block for message in returned.messages for block in message.content if isinstance(block, Thinking)]
    assert [native_of(block, owner).get(SLOTS[owner] or "") for block in thinking] == [SIGNATURE]


@pytest.mark.parametrize("client", [name for name in SLOTS if name != "gemini"])
def test_state_on_a_call_comes_back_to_its_owner_byte_for_byte(client: str) -> None:
    call = ToolCall(id="c", name="f", arguments="{}", native=own("gemini"))
    given_out, receipt = respond(client, "gemini", Text(text="so"), call, ToolCall(id="d", name="g", arguments="{}"))
    assert not receipt.losses
    returned = send_back(client, "gemini", given_out)
    calls = [block for message in returned.messages for block in message.content if isinstance(block, ToolCall)]
    assert [native_of(block, "gemini").get("thoughtSignature") for block in calls] == [SIGNATURE, None]


@pytest.mark.parametrize(("client", "owner"), PAIRS)
@pytest.mark.parametrize("upstream", list(DIALECTS))
def test_no_vendor_ever_sees_an_envelope(client: str, owner: str, upstream: str) -> None:
    call = ToolCall(id="c", name="f", arguments="{}", native=own(owner))
    given_out, _ = respond(client, owner, Thinking(text="hm", native=own(owner)), call)
    history = Request(
        model="m",
        max_output_tokens=100,
        messages=(
            Message(role="user", content=(Text(text="go"),)),
            Message(role="assistant", content=given_out.content),
            Message(role="tool", content=(ToolResult(call_id="c", content=(Text(text="ok"),)),)),
        ),
    )
    data = DIALECTS[client].encode_request(history, Receipt())
    sent = Exchange(client, upstream).request(data, model="m")
    assert b"dG9vbGdsb3QA" not in sent
    if upstream != owner:
        assert SIGNATURE.encode() not in sent


def test_a_client_without_a_slot_is_told_that_state_is_lost() -> None:
    _, receipt = respond("openai_chat", "gemini", ToolCall(id="c", name="f", arguments="{}", native=own("gemini")))
    assert [line.what for line in receipt.losses] == ["reasoning state"]


def test_streams_carry_the_same_as_responses() -> None:
    call = ToolCall(id="c", name="f", arguments='{"x":1}', native=own("gemini"))
    response = Response(id="r", model="m", content=(Text(text="so"), call), stop=Stop("tool_calls"))
    source = DIALECTS["gemini"].stream_encoder(None, Receipt())
    upstream = b"".join(source.feed(event) for event in unfold(response))
    translation = Exchange("anthropic", "gemini").stream()
    text = (translation.feed(upstream) + translation.close()).decode()
    frames = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    starts = [frame for frame in frames if frame["type"] == "content_block_start"]
    assert [(frame["index"], frame["content_block"]["type"]) for frame in starts] == [
        (0, "text"),
        (1, "thinking"),
        (2, "tool_use"),
    ]
    signatures = [frame["delta"]["signature"] for frame in frames if frame.get("delta", {}).get("signature")]
    assert [unpack(signature) for signature in signatures] == [("gemini", True, {"thoughtSignature": SIGNATURE})]
