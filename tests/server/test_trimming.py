"""An upstream that is to be sent only so much of a conversation is sent no more, whatever it speaks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.gateway import at, gateway
from tests.upstream.bad_server import BadServer, expect, reply

ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Fine."}, "finish_reason": "stop"}],
}
SYSTEM = {"role": "system", "content": "Be brief."}


def called(name: str) -> dict[str, Any]:
    call = {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def result(name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": name}


TALK = [
    {"role": "user", "content": "Look."},
    *(message for name in ("a", "b", "c") for message in (called(name), result(name))),
    {"role": "assistant", "content": "Seen."},
    {"role": "user", "content": "And?"},
]
BODY = {"messages": [SYSTEM, *TALK]}


@pytest.mark.parametrize(
    ("fields", "left", "losses"),
    [
        ({}, [SYSTEM, *TALK], 0),
        ({"max_history_messages": 4}, [SYSTEM, *TALK[5:]], 5),
        ({"max_history_messages": 3}, [SYSTEM, *TALK[7:]], 7),
        ({"max_tool_results": 1}, [SYSTEM, TALK[0], *TALK[5:]], 2),
        ({"max_tool_results": 2, "max_history_messages": 2}, [SYSTEM, *TALK[7:]], 6),
    ],
)
def test_the_oldest_goes_and_is_told(fields: dict[str, Any], left: list[Any], losses: int) -> None:
    with (
        BadServer([expect(), reply(ANSWER)]) as server,
        gateway(at("openai_chat", server.url, **fields)) as running,
    ):
        answer = running.ask("openai_chat", body=BODY)
        assert answer.status == 200
        assert server.requests[0].json()["messages"] == left
        assert answer.headers["x-toolglot-receipt"].startswith(f"losses={losses};")


def test_in_strict_mode_nothing_goes() -> None:
    with (
        BadServer([expect(), reply(ANSWER)]) as server,
        gateway(at("openai_chat", server.url, max_history_messages=4), strict=True) as running,
    ):
        assert running.ask("openai_chat", body=BODY).status == 400
        assert server.requests == []
