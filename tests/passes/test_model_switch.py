"""Three turns of one conversation in the library, without a store: a model of one API, one of another, the first again.

Everything that a model wants back of its own answers is in the request that it gets, byte for byte, nothing of it is in
a request to another one, and no line of a receipt tells as lost what came back.
"""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import permutations
from typing import Any

import pytest

from tests.exchanges import folded, read_events, through, write_events
from toolglot.dialects import DIALECTS
from toolglot.events import unfold
from toolglot.ir import Block, Response, Stop, Text, Thinking, ToolCall
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "openai_responses": "gpt-5",
    "gemini": "gemini-3-pro",
    "openai_chat": "deepseek-reasoner",
}
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}


def state(kind: str, turn: int) -> str:
    return b64encode(f"{kind} of turn {turn}, opaque to others".encode()).decode()


def answer(upstream: str, turn: int, *, calls: bool) -> tuple[Response, list[str]]:
    """An answer of that API, and what must come back to it."""
    own, more = state("state", turn), state("more state", turn)
    words, call = Text(text=f"Turn {turn}."), ToolCall(id=f"call_{turn}Ab3dE5gH7jK9mN1p", name="f", arguments='{"x":1}')
    match upstream:
        case "anthropic":
            redacted = Thinking(native={"anthropic": {"data": more, "$redacted": True}})
            before = [Thinking(text="Hm.", native={"anthropic": {"signature": own}}), redacted]
        case "openai_responses":
            before = [Thinking(text="Hm.", native={"openai_responses": {"encrypted_content": own, "id": f"rs_{turn}"}})]
        case "gemini":
            before = [Thinking(text="Hm.", native={"gemini": {"thought": True}})]
            signed = {"gemini": {"thoughtSignature": own}}
            words, call = (words, _with(call, signed)) if calls else (_with(words, signed), call)
        case _:
            entry = {"type": "reasoning.encrypted", "data": own, "id": "r", "format": "unknown", "index": 0}
            before = [Thinking(text="Hm.", native={"openai_chat": {"reasoning_details": [entry]}})]
    content: tuple[Block, ...] = (*before, words, *([call] if calls else []))
    stop = Stop("tool_calls" if calls else "end")
    states = [own, more] if upstream == "anthropic" else [own]
    return Response(id="r1", model=MODELS[upstream], content=content, stop=stop), states


def _with(block: Any, native: dict[str, dict[str, Any]]) -> Any:
    return type(block)(**{**{name: getattr(block, name) for name in block.__struct_fields__}, "native": native})


def ask(client: str, model: str, history: list[Any]) -> bytes:
    function = {"name": "f", "parameters": SCHEMA}
    body: dict[str, Any]
    match client:
        case "gemini":
            declared = [{"name": "f", "parametersJsonSchema": SCHEMA}]
            body = {"contents": history, "tools": [{"functionDeclarations": declared}]}
        case "anthropic":
            tools = [{"name": "f", "input_schema": SCHEMA}]
            body = {"model": model, "max_tokens": 100, "messages": history, "tools": tools}
        case "openai_responses":
            body = {"model": model, "input": history, "tools": [{"type": "function", **function, "strict": False}]}
        case _:
            body = {"model": model, "messages": history, "tools": [{"type": "function", "function": function}]}
    return json.dumps(body).encode()


def said(client: str, words: str) -> Any:
    return {"role": "user", "parts": [{"text": words}]} if client == "gemini" else {"role": "user", "content": words}


def kept(client: str, given: Any) -> list[Any]:
    """The answer and what follows it, as a client writes it that keeps what it was given."""
    ids: list[str]
    match client:
        case "gemini":
            content = given["candidates"][0]["content"]
            ids = [part["functionCall"]["id"] for part in content["parts"] if "functionCall" in part]
            results = [{"functionResponse": {"id": each, "name": "f", "response": {"output": "ok"}}} for each in ids]
            return [content, {"role": "user", "parts": results} if results else said(client, "on")]
        case "anthropic":
            ids = [block["id"] for block in given["content"] if block["type"] == "tool_use"]
            answers = [{"type": "tool_result", "tool_use_id": each, "content": "ok"} for each in ids]
            return [{"role": "assistant", "content": given["content"]}, {"role": "user", "content": answers or "on"}]
        case "openai_responses":
            ids = [item["call_id"] for item in given["output"] if item["type"] == "function_call"]
            outputs = [{"type": "function_call_output", "call_id": each, "output": "ok"} for each in ids]
            return [*given["output"], *(outputs or [said(client, "on")])]
        case _:
            message = {key: value for key, value in given["choices"][0]["message"].items() if value is not None}
            ids = [each["id"] for each in message.get("tool_calls", ())]
            told = [{"role": "tool", "tool_call_id": each, "content": "ok"} for each in ids]
            return [message, *(told or [said(client, "on")])]


def reply(exchange: ExchangeCore, response: Response, *, streams: bool) -> Any:
    client, upstream = exchange.client.name, exchange.upstream.name
    if not streams:
        return json.loads(exchange.response(DIALECTS[upstream].encode_response(response, None, Receipt())))
    written = through(exchange, [write_events(upstream, unfold(response))])
    return json.loads(DIALECTS[client].encode_response(folded(read_events(client, [written])), None, Receipt()))


NOT_ON_LAST_TEXTS = {("anthropic", "gemini")}
"""Gemini puts state on the last text, which has to be the last block of a message: Claude Code prints that one."""


BEHIND_STREAMED_TEXTS = {("anthropic", "openai_chat")}
"""A Chat stream may have its state behind the text. Without a store it cannot come back, for the same reason."""


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("calls", [False, True], ids=["words", "calls"])
@pytest.mark.parametrize(("first", "second"), list(permutations(MODELS, 2)))
@pytest.mark.parametrize("client", MODELS)
def test_each_model_gets_its_own_state_back_and_none_of_the_others(
    client: str, first: str, second: str, calls: bool, streams: bool
) -> None:
    history = [said(client, "go")]
    issued: list[tuple[str, str]] = []
    for turn, upstream in enumerate((first, second, first, second)):
        exchange = ExchangeCore(client, upstream)
        sent = exchange.request(ask(client, MODELS[upstream], history), model=MODELS[upstream])
        assert b"dG9vbGdsb3QA" not in sent  # the beginning of what a client carries for us
        for owner, each in issued:
            is_lost = (client, owner) in NOT_ON_LAST_TEXTS or (streams and (client, owner) in BEHIND_STREAMED_TEXTS)
            comes_back = owner == upstream and (calls or not is_lost)
            assert (each.encode() in sent) == comes_back, f"turn {turn}: state of {owner} at {upstream}"
        response, states = answer(upstream, turn, calls=calls)
        issued += [(upstream, each) for each in states]
        history += kept(client, reply(exchange, response, streams=streams))
        is_lost = streams and not calls and (client, upstream) in BEHIND_STREAMED_TEXTS
        assert any(line.what == "reasoning state" for line in exchange.receipt.losses) == is_lost
