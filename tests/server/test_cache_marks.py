"""Cache breakpoints that the gateway sets for a client of Chat Completions at Claude, on both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server.gateway import at, gateway
from tests.upstream.bad_server import BadServer, Script, expect, reply
from toolglot.config.schema import ModelConfig

USAGE = {"input_tokens": 25, "cache_read_input_tokens": 75, "cache_creation_input_tokens": 0, "output_tokens": 2}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "Well."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": USAGE,
}
ONCE: Script = [expect(), reply(ANSWER)]
SYSTEM = {"role": "system", "content": "Be exact. " * 600}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
LOOP: list[dict[str, Any]] = [
    {"role": "user", "content": "Go."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "Gone."},
]
MODELS = {"m": ModelConfig(upstream="up", model="claude-sonnet-4-5")}


def asked(*messages: Any) -> dict[str, Any]:
    return {"messages": [SYSTEM, *messages], "tools": [TOOL]}


def marks(body: bytes) -> int:
    return body.count(b'"cache_control"')


def test_a_tool_loop_is_marked_and_a_first_request_is_marked_once_its_beginning_repeats() -> None:
    said = [[{"role": "user", "content": "One?"}], [{"role": "user", "content": "Two?"}], LOOP]
    with (
        BadServer(ONCE, ONCE, ONCE) as server,
        gateway(at("anthropic", server.url), models=MODELS) as running,
    ):
        for messages in said:
            answer = running.ask("openai_chat", body=asked(*messages))
            assert answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 75
            running.record()  # it is counted now
        assert [marks(request.body) for request in server.requests] == [0, 1, 3]
        metrics = running.call("GET", "/metrics").body.decode()
    assert 'toolglot_cache_read_ratio_bucket{upstream="up",le="0.75"} 3' in metrics
    assert 'toolglot_cache_read_ratio_bucket{upstream="up",le="0.5"} 0' in metrics


@pytest.mark.parametrize(("when", "count"), [("always", [2, 3]), ("never", [0, 0])])
def test_the_configuration_says_when_breakpoints_are_set(when: Any, count: list[int]) -> None:
    with (
        BadServer(ONCE, ONCE) as server,
        gateway(at("anthropic", server.url, cache_marks=when), models=MODELS) as running,
    ):
        running.ask("openai_chat", body=asked(LOOP[0]))
        running.ask("openai_chat", body=asked(*LOOP))
        assert [marks(request.body) for request in server.requests] == count


def test_what_the_client_has_marked_is_all_that_is_marked() -> None:
    control = {"type": "ephemeral"}
    marked = [*LOOP[:2], {**LOOP[2], "cache_control": control}]
    with BadServer(ONCE) as server, gateway(at("anthropic", server.url), models=MODELS) as running:
        running.ask("openai_chat", body=asked(*marked))
        sent = json.loads(server.requests[0].body)
    assert marks(server.requests[0].body) == 1
    assert sent["messages"][-1]["content"][-1]["cache_control"] == control
