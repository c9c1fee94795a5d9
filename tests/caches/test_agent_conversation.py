"""A conversation of thirty turns with tools, through every pair of dialects, at upstreams that cache by their vendors'
rules: as much of it is read from the cache as for a client of the upstream's own dialect."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.caches.vendors import AnthropicCache, anthropic_prompt, new_cache
from toolglot.dialects import DIALECTS
from toolglot.ir import (
    Cache,
    Message,
    Request,
    Response,
    Stop,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    replace,
    used_by_both,
)
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

TURNS = 30
PAUSE = 20.0
"""Seconds between two requests."""
NAMES = ("openai_chat", "openai_responses", "anthropic", "gemini")
MODELS = {
    "openai_chat": "gpt-4.1",
    "openai_responses": "gpt-5.1",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro",
}
TOOLS = tuple(
    Tool(
        name=f"tool_{number}",
        description=f"Tool {number} reads, writes or runs something. " * 8,
        parameters={"type": "object", "properties": {"path": {"type": "string", "description": "Where. " * 10}}},
    )
    for number in range(12)
)
SYSTEM = "You are an agent that mends code, step by step, and asks its tools. " * 90


def asked_at_first() -> Request:
    system = Message(role="system", content=(Text(text=SYSTEM),))
    user = Message(role="user", content=(Text(text="Find out why the test fails. " * 12),))
    return Request(model="m", messages=(system, user), tools=TOOLS, max_output_tokens=1000)


def answer_of(turn: int, usage: Usage) -> Response:
    """Two calls with a word before them; one turn has more calls than Anthropic looks back over."""
    calls = tuple(
        ToolCall(
            id=f"call_{turn}_{number}", name=f"tool_{number % 12}", arguments=f'{{"path":"src/{turn}/{number}.py"}}'
        )
        for number in range(24 if turn == 12 else 2)
    )
    said = Text(text=f"Step {turn}: look further. " * 6)
    native = {"gemini": {"thoughtSignature": "c2lnbmVk"}}
    return Response(
        id=f"r{turn}",
        model="m",
        content=(said, replace(calls[0], native=native), *calls[1:]),
        stop=Stop("tool_calls"),
        usage=replace(usage, output_tokens=80),
    )


def results_of(turn: int, content: tuple[object, ...]) -> Iterator[Message]:
    for call in content:
        if isinstance(call, ToolCall):
            lines = "".join(f"{turn}.{line}: def function_{line}(): return {line}\n" for line in range(20))
            yield Message(
                role="tool", content=(ToolResult(call_id=call.id, name=call.name, content=(Text(text=lines),)),)
            )


def with_native_marks(request: Request) -> Request:
    """As clients of Anthropic's own API mark: tools, system text, and the last two turns of the user."""
    messages = list(request.messages)
    messages[0] = replace(messages[0], content=(replace(messages[0].content[0], cache=Cache()),))
    heard = [index for index in range(1, len(messages)) if messages[index].role != "assistant"]
    ends = [index for index in heard if index + 1 not in heard]
    for index in ends[-2:]:
        last = messages[index].content[-1]
        assert isinstance(last, Text | ToolResult)
        messages[index] = replace(
            messages[index], content=(*messages[index].content[:-1], replace(last, cache=Cache()))
        )
    return replace(request, messages=tuple(messages), tools=(*TOOLS[:-1], replace(TOOLS[-1], cache=Cache())))


class Played:
    """The conversation, and what the client was told of its tokens."""

    def __init__(self, client: str, upstream: str, *, marks: bool, turns: int = TURNS, pause: float = PAUSE) -> None:
        self.told: Usage | None = None
        self.billed: Usage | None = None
        self.receipts: list[Receipt] = []
        self.bodies: list[bytes] = []
        cache, request = new_cache(upstream), asked_at_first()
        for turn in range(turns):
            exchange = ExchangeCore(client, upstream, model=MODELS[upstream])
            sent = with_native_marks(request) if marks else request
            url = MODELS["gemini"] if client == "gemini" else None
            body = exchange.request(DIALECTS[client].encode_request(sent, Receipt()), model=url)
            usage = cache.ask(body, turn * pause)
            self.bodies.append(body)
            self.receipts.append(exchange.receipt)
            answer = DIALECTS[upstream].encode_response(answer_of(turn, usage), None, Receipt())
            heard = DIALECTS[client].decode_response(exchange.response(answer))
            self.billed = used_by_both(self.billed, usage)
            self.told = used_by_both(self.told, heard.usage)
            spoken = Message(role="assistant", content=heard.content)
            request = replace(request, messages=(*request.messages, spoken, *results_of(turn, heard.content)))

    @property
    def share(self) -> float:
        assert self.told is not None
        return (self.told.cached_tokens or 0) / (self.told.input_tokens or 1)


@pytest.fixture(scope="module")
def native() -> dict[str, float]:
    return {name: Played(name, name, marks=name == "anthropic").share for name in NAMES}


@pytest.mark.parametrize("upstream", NAMES)
@pytest.mark.parametrize("client", NAMES)
def test_as_much_is_read_from_the_cache_as_for_a_native_client(
    client: str, upstream: str, native: dict[str, float]
) -> None:
    played = Played(client, upstream, marks=client == "anthropic")
    assert native[upstream] > 0.85
    assert played.share == pytest.approx(native[upstream], abs=0.02)
    assert played.told is not None
    assert played.billed is not None
    told = {name: getattr(played.told, name) for name in DIALECTS[client].answer.counts if name not in _OUTPUT}
    assert told == {name: getattr(played.billed, name) for name in told}


_OUTPUT = ("output_tokens", "reasoning_tokens")


@pytest.mark.parametrize("client", ["openai_chat", "openai_responses", "gemini"])
def test_the_rule_is_told_once_a_request_and_only_where_it_marks(client: str) -> None:
    played = Played(client, "anthropic", marks=False, turns=4)
    ours = [[line.what for line in receipt if line.where == "cache"] for receipt in played.receipts]
    assert ours == [[], ["breakpoints"], ["breakpoints"], ["breakpoints"]]
    marks = [len(anthropic_prompt(json.loads(body)).marks) for body in played.bodies]
    assert marks == [0, 4, 4, 4]


def test_nothing_is_read_after_the_lifetime() -> None:
    played = Played("openai_chat", "anthropic", marks=False, turns=4, pause=301.0)
    assert played.share == 0.0


def test_the_scripted_cache_looks_back_over_twenty_blocks_only() -> None:
    def body(blocks: int, *marked: int) -> bytes:
        texts = [{"type": "text", "text": "x" * 4096} for _ in range(blocks)]
        content = [
            {**text, "cache_control": {"type": "ephemeral"}} if index in marked else text
            for index, text in enumerate(texts)
        ]
        return json.dumps({"messages": [{"role": "user", "content": content}]}).encode()

    for more, is_read in ((19, True), (20, False)):
        cache = AnthropicCache(minimum=1024)
        cache.ask(body(2, 1), 0.0)
        assert bool(cache.ask(body(2 + more, 1 + more), 1.0).cached_tokens) is is_read
