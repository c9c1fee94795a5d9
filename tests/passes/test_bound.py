"""State that a client carries goes back to the server and the model that made it, and to no other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import Exchange
from toolglot.passes.envelope import Envelope, pack

ANSWER = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "gpt-5",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEALED-BY-ITS-MAKER"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
        },
    ],
}
FIRST = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(
    ("made_by", "server", "model", "given"),
    [
        ("a", "a", "gpt-5", True),
        ("a", "b", "gpt-5", False),
        ("a", "a", "gpt-5-mini", False),
        ("", "", "gpt-5", True),
        ("", "b", "gpt-5", True),
    ],
    ids=["its own", "another server", "another model", "nobody has said", "nobody had said"],
)
def test_carried_state_goes_back_to_its_maker_alone(made_by: str, server: str, model: str, given: bool) -> None:
    exchange = Exchange("anthropic", "openai_responses", model="gpt-5", issuer=made_by)
    exchange.request(FIRST)
    said = json.loads(exchange.response(ANSWER))
    assert "SEALED-BY-ITS-MAKER" not in json.dumps(said)
    messages = [*FIRST["messages"], {"role": "assistant", "content": said["content"]}]  # type: ignore[misc]
    again = Exchange("anthropic", "openai_responses", model=model, issuer=server)
    sent = again.request({**FIRST, "messages": [*messages, {"role": "user", "content": "Go on"}]})
    assert (b"SEALED-BY-ITS-MAKER" in sent) is given
    assert b"dG9vbGdsb3QA" not in sent  # how every envelope begins
    told = [line.why for line in again.receipt if line.what == "reasoning state"]
    assert any("another server or model created it" in why for why in told) is not given


ENVELOPE = pack(Envelope(owner="openai_chat", state={"$field": "reasoning_content"}, text="Hm."))
MISPLACED: list[tuple[str, Any, str]] = [
    ("anthropic", {"type": "redacted_thinking", "data": ENVELOPE}, ""),
    ("openai_responses", {"type": "compaction", "encrypted_content": ENVELOPE}, ""),
]
MOVED: list[Any] = [
    ({"text": "Hello", "thoughtSignature": ENVELOPE}, '{"text":"Hello"}'),
    ({"functionCall": {"name": "look", "args": {}}, "thoughtSignature": ENVELOPE}, '{"name":"look"'),
]


def asked_with(name: str, part: Any) -> dict[str, Any]:
    """A request in which the assistant has said this, and a word."""
    if name == "gemini":
        said = {"role": "model", "parts": [{"text": "Well."}, part]}
        first, last = ({"role": "user", "parts": [{"text": text}]} for text in ("Hi", "Go on"))
        return {"contents": [first, said, last]}
    if name == "openai_responses":
        return {"model": "m", "input": [{"role": "user", "content": "Hi"}, part, {"role": "user", "content": "Go on"}]}
    said = {"role": "assistant", "content": [part, {"type": "text", "text": "Well."}]}
    return {**FIRST, "messages": [*FIRST["messages"], said, {"role": "user", "content": "Go on"}]}  # type: ignore[misc]


@pytest.mark.parametrize(("name", "part", "left"), MISPLACED, ids=["redacted", "compaction"])
def test_an_envelope_in_any_other_place_reaches_nobody_and_is_told(name: str, part: Any, left: str) -> None:
    for upstream in (name, "openai_chat"):
        exchange = Exchange(name, upstream, model="m")
        sent = exchange.request(asked_with(name, part))
        assert b"dG9vbGdsb3QA" not in sent
        assert "none belongs here" in {line.why for line in exchange.receipt.losses}
        assert upstream != name or left.encode() in sent


@pytest.mark.parametrize(("part", "left"), MOVED, ids=["text", "call"])
def test_an_envelope_that_a_client_has_moved_reaches_its_owner_alone(part: Any, left: str) -> None:
    owner = Exchange("gemini", "openai_chat", model="m")
    assert b'"reasoning_content":"Hm."' in owner.request(asked_with("gemini", part))
    other = Exchange("gemini", "gemini", model="m")
    sent = other.request(asked_with("gemini", part))
    assert left.encode() in sent
    assert b"dG9vbGdsb3QA" not in sent
    assert [line.why for line in other.receipt.losses] == ["it cannot be given back, because its origin is unknown"]
