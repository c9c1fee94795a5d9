from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.dialect import capabilities
from toolglot.dialects import DIALECTS
from toolglot.ir import Cache, Message, Request, Text, Tool
from toolglot.passes import cache
from toolglot.translate import ExchangeCore

from .targets import ANTHROPIC, CHAT, GEMINI, answered, asked, calls, lines, result, to, tool, user


def marked(seconds: int | None = None) -> Message:
    return Message(role="user", content=(Text(text="x", cache=Cache(seconds)),))


def marks(request: Request) -> list[Cache | None]:
    tools = [tool.cache for tool in request.tools if isinstance(tool, Tool)]
    return tools + [b.cache for m in request.messages for b in m.content if isinstance(b, Text)]


def test_breakpoints_go_with_one_line_where_the_target_has_none() -> None:
    context = to(GEMINI)
    request = cache.fit(asked(marked(), marked(300), tools=(tool(cache=Cache()),), cache=Cache()), context)
    assert (marks(request), request.cache) == ([None, None, None], None)
    assert lines(context) == ["note cache"]


def test_the_last_breakpoints_stay() -> None:
    context = to(ANTHROPIC)
    request = cache.fit(asked(*[marked()] * 5, tools=(tool(cache=Cache()),)), context)
    assert marks(request) == [None, None, Cache(), Cache(), Cache(), Cache()]
    assert lines(context) == ["note cache"]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(None, None), (300, 1800), (3600, 43200), (1800, 1800), (90000, 43200)]
)
def test_a_lifetime_is_the_shortest_that_is_long_enough(seconds: int | None, expected: int | None) -> None:
    request = cache.fit(asked(marked(seconds)), to(CHAT))
    assert marks(request) == [Cache(expected)]


def test_breakpoints_on_tools_calls_and_results_go_where_only_parts_may_have_them() -> None:
    context = to(CHAT)
    request = cache.fit(asked(marked(), answered(result("a", cache=Cache())), tools=(tool(cache=Cache()),)), context)
    assert marks(request) == [None, Cache()]
    assert request.messages[1].content == (result("a"),)
    assert lines(context) == ["note tools[0].cache", "note messages[1].content[0].cache"]


def test_a_breakpoint_for_the_whole_request_stands_on_its_last_block_elsewhere() -> None:
    context = to(CHAT)
    request = cache.fit(asked(user(), answered(result("a")), cache=Cache()), context)
    assert request.cache is None
    assert marks(request) == [Cache()]
    assert lines(context) == ["note cache"]


def test_a_breakpoint_for_the_whole_request_goes_where_no_block_can_carry_it() -> None:
    context = to(CHAT)
    request = asked(calls("c"), cache=Cache())
    assert cache.fit(request, context) == asked(calls("c"))
    assert lines(context) == ["note cache"]


def test_legal_breakpoints_stay_as_they_are() -> None:
    request = asked(marked(300), marked(), tools=(tool(cache=Cache(3600)),), cache=Cache())
    context = to(ANTHROPIC)
    assert cache.fit(request, context) == request
    assert not context.receipt


@pytest.mark.parametrize(
    ("on_block", "on_request", "stays"),
    [(43200, 1800, 43200), (1800, 43200, 43200), (43200, None, 43200), (None, 43200, 43200), (1800, None, 1800)],
)
def test_a_breakpoint_for_the_whole_request_never_shortens_that_of_the_last_block(
    on_block: int | None, on_request: int | None, stays: int
) -> None:
    request = cache.fit(asked(marked(on_block), cache=Cache(on_request)), to(CHAT))
    assert marks(request) == [Cache(stays)]


CLAUDE = "anthropic/claude-sonnet-4.5"
"""Claude at an aggregator that speaks Chat Completions."""
CONTROL = {"type": "ephemeral"}
LONG = "word " * 4096
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}


def controls(body: dict[str, Any]) -> list[tuple[str, Any]]:
    """The role of each message that has a breakpoint, and the breakpoint."""
    return [
        (message["role"], part["cache_control"])
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if "cache_control" in part
    ]


def test_marks_of_anthropic_clients_reach_claude_behind_a_chat_api() -> None:
    said = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    got = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Sunny", "cache_control": CONTROL}
    request = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be brief", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "tools": [{"name": "look", "input_schema": SCHEMA, "cache_control": CONTROL}],
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [said]},
            {"role": "user", "content": [got]},
        ],
    }
    exchange = ExchangeCore("anthropic", "openai_chat", model=CLAUDE)
    body = json.loads(exchange.request(json.dumps(request).encode()))
    assert controls(body) == [("system", {"type": "ephemeral", "ttl": "1h"}), ("tool", CONTROL)]
    assert "cache_control" not in json.dumps(body["tools"])
    assert [line.where for line in exchange.receipt if "cache" in line.where] == ["tools[0].cache"]


def test_breakpoints_are_set_for_claude_behind_a_chat_api() -> None:
    call = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    request = {
        "model": "gpt-5",
        "instructions": LONG,
        "tools": [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}],
        "input": [
            {"role": "user", "content": "Hi"},
            call,
            {"type": "function_call_output", "call_id": "call_1", "output": "Sunny"},
        ],
    }
    exchange = ExchangeCore("openai_responses", "openai_chat", model=CLAUDE)
    body = json.loads(exchange.request(json.dumps(request).encode()))
    assert controls(body) == [("system", CONTROL), ("user", CONTROL), ("tool", CONTROL)]


def test_within_chat_claude_gets_what_the_client_wrote_as_cache_control_alone() -> None:
    parts = [
        {"type": "text", "text": "a", "cache_control": CONTROL},
        {"type": "text", "text": "b", "prompt_cache_breakpoint": {"mode": "explicit"}},
    ]
    request = {"model": "gpt-5.6", "messages": [{"role": "user", "content": parts}]}
    exchange = ExchangeCore("openai_chat", "openai_chat", model=CLAUDE)
    (message,) = json.loads(exchange.request(json.dumps(request).encode()))["messages"]
    assert message["content"] == [parts[0], {"type": "text", "text": "b"}]


@pytest.mark.parametrize("model", [CLAUDE, "claude-opus-4.6", "us.anthropic.claude-haiku-4-5-v1:0"])
def test_claude_has_the_same_cache_behind_every_api(model: str) -> None:
    chat, own = (capabilities(DIALECTS[name], model) for name in ("openai_chat", "anthropic"))
    assert (chat.cache.breakpoints, chat.cache.lifetimes) == (own.cache.breakpoints, own.cache.lifetimes)
    assert (chat.cache.by_marks, chat.cache.minimum) == (own.cache.by_marks, own.cache.minimum)
