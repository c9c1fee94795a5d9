"""State of the model's that only its own API understands, beside calls that the client never sees: signatures of
thoughts. The model gets it back in the next round and in the next turn, whatever the client can carry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.e2e.wires import WIRES, Event, Turn, Wire

from .conversations import CONVERSATIONS
from .gateways import Running
from .test_matrix import ORDERS, PROMPT, WEATHER, script
from .upstreams import HttpUpstream


def _sign_parts(event: Event) -> Event:
    """Gemini signs the first call of a turn."""
    (candidate,) = event["candidates"]
    calls = [part for part in candidate["content"]["parts"] if "functionCall" in part]
    for part in calls[:1]:
        part["thoughtSignature"] = f"c2ln{part['functionCall']['id'].encode().hex()}"
    return event


def _gemini_events(turn: Turn) -> Iterator[Event]:
    signed = False
    for event in WIRES["gemini"].events(turn):
        has_call = "functionCall" in str(event)
        yield _sign_parts(event) if has_call and not signed else event
        signed = signed or has_call


def _thought(turn: Turn) -> Event:
    return {"type": "thinking", "thinking": "Hm.", "signature": f"sig-{turn.calls[0].id}"}


def _messages_whole(turn: Turn) -> Event:
    message = WIRES["anthropic"].whole(turn)
    return {**message, "content": [*([_thought(turn)] if turn.calls else []), *message["content"]]}


def _messages_events(turn: Turn) -> Iterator[Event]:
    start, *events = WIRES["anthropic"].events(turn)
    yield start
    if turn.calls:
        thought = _thought(turn)
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = (
            {"type": "thinking_delta", "thinking": thought["thinking"]},
            {"type": "signature_delta", "signature": thought["signature"]},
        )
        yield {"type": "content_block_start", "index": 0, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
    for event in events:
        yield {**event, "index": event["index"] + 1} if turn.calls and "index" in event else event


SIGNING: dict[str, Wire] = {
    "gemini": replace(
        WIRES["gemini"], whole=lambda turn: _sign_parts(WIRES["gemini"].whole(turn)), events=_gemini_events
    ),
    "anthropic": replace(WIRES["anthropic"], whole=_messages_whole, events=_messages_events),
}
SIGNATURES: dict[str, list[str]] = {
    "gemini": [f"c2ln{call.encode().hex()}" for call in ("call_1", "call_2")],
    "anthropic": ["sig-call_1", "sig-call_2"],
}


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("upstream", SIGNING)
@pytest.mark.parametrize("client", CONVERSATIONS)
def test_signatures_come_back_with_the_calls_they_belong_to(
    stored: Running, client: str, upstream: str, streams: bool
) -> None:
    behind: Any = stored.upstreams[upstream]
    assert isinstance(behind, HttpUpstream)
    behind.play(script(ORDERS["served first" if streams else "own first"]), CONVERSATIONS[client].dialect)
    behind.wire = SIGNING[upstream]
    conversation = CONVERSATIONS[client](stored.base_url, upstream, streams)
    first = conversation.say(PROMPT)
    conversation.give({first.calls[0].id: WEATHER})
    assert behind.refused == []
    _, second, third = behind.bodies
    assert [second.count(signature) for signature in SIGNATURES[upstream]] == [1, 0]
    assert [third.count(signature) for signature in SIGNATURES[upstream]] == [1, 1]
    one, two = (third.index(signature) for signature in SIGNATURES[upstream])
    assert one < two
