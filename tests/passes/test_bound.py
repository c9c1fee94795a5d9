"""State that a client carries goes back to the server that made it, and to no other."""

from __future__ import annotations

import json

import pytest

from toolglot import Exchange

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
        ("", "", "gpt-5", True),
        ("", "b", "gpt-5", True),
    ],
    ids=["its own", "another server", "nobody has said", "nobody had said"],
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
    assert any("another server has made it" in why for why in told) is not given
