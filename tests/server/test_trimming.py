"""An upstream that is to be sent only so much of a conversation is sent no more, whatever it speaks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.gateway import at, gateway
from tests.upstream.bad_server import BadServer, expect, reply
from toolglot.config.assemble import assemble
from toolglot.config.schema import Config, ModelConfig
from toolglot.dialects import DIALECTS
from toolglot.passes.history_policy import HistoryPolicy
from toolglot.server.startup import build_gateway
from toolglot.upstream.demo.transport import DemoTransport
from toolglot.upstream.exchange import history_policy

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


def test_a_model_may_have_another_policy_than_its_upstream_and_that_another_than_all() -> None:
    config = Config(
        history=HistoryPolicy(max_tool_results=2, max_tokens=0, cut_to=1, calls="auto"),
        upstreams={
            "first": at("openai_chat", "demo:", history=HistoryPolicy(max_messages=40)),
            "older": at("openai_chat", "demo:", max_history_messages=5),
        },
        models={
            "m": ModelConfig(upstream="first", history=HistoryPolicy(max_messages=4, cut_to=0.5)),
            "written": ModelConfig(upstream="first", history="cline_xml"),
            "old": ModelConfig(upstream="older"),
        },
        discover=False,
    )
    built = build_gateway(assemble(config, {}).config, DemoTransport(DIALECTS["openai_chat"]))

    def settled(model: str) -> tuple[list[tuple[object, ...]], str | None]:
        (target,) = built.router.resolve(model)
        policy = history_policy(built.upstreams[target.upstream], target)
        return [tuple(limit) for limit in policy.limits], policy.merged.calls

    assert settled("m") == ([("max_messages", 4, 0.5), ("max_tool_results", 2, 0.5)], "auto")
    assert settled("written") == ([("max_messages", 40, 1.0), ("max_tool_results", 2, 1.0)], "cline_xml")
    assert settled("old")[0] == [("max_messages", 5, 1.0), ("max_tool_results", 2, 1.0)]


def test_policies_of_a_model_are_kept_in_the_gateway() -> None:
    policy = HistoryPolicy(result_bytes=300, continuation="Go on.")
    with (
        BadServer([expect(), reply(ANSWER)]) as server,
        gateway(at("openai_chat", server.url), models={"m": ModelConfig(upstream="up", history=policy)}) as running,
    ):
        long = {"role": "tool", "tool_call_id": "a", "content": "x" * 1000}
        answer = running.ask("openai_chat", body={"messages": [TALK[0], called("a"), long]})
        assert answer.status == 200
        *_, cut, asked = server.requests[0].json()["messages"]
        assert len(cut["content"].encode()) <= 300
        assert asked == {"role": "user", "content": "Go on."}
        assert answer.headers["x-toolglot-receipt"].startswith("losses=1; notes=1")
