"""Thought signatures of Gemini through clients of other APIs: an answer, the client's history, the next request.

Google's documentation has them on calls, on the last text, on an empty part at the end of a stream, on images and on
thoughts. Each comes back byte for byte on the part that it stood on, or a line of the receipt says that it is lost.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from tests.exchanges import folded, read_events, through
from toolglot.dialects import DIALECTS
from toolglot.passes.answer_state import state_of_answer
from toolglot.passes.kept_state import with_states
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

Part = dict[str, Any]


def signature(number: int) -> str:
    return b64encode(f"signature {number} of Gemini".encode()).decode()


def signed(part: Part, number: int = 0) -> Part:
    return {**part, "thoughtSignature": signature(number)} if number else part


def text(words: str, number: int = 0) -> Part:
    return signed({"text": words}, number)


def thought(words: str, number: int = 0) -> Part:
    return signed({"text": words, "thought": True}, number)


def call(name: str, number: int = 0) -> Part:
    return signed({"functionCall": {"id": f"id_{name}", "name": name, "args": {"x": 1}}}, number)


def image(number: int = 0) -> Part:
    return signed({"inlineData": {"mimeType": "image/png", "data": "aGk="}}, number)


PLACES: dict[str, tuple[Part, ...]] = {
    "a thought": (thought("hm", 1), text("so"), call("f", 2)),
    "two thoughts": (thought("a", 1), thought("b", 2), text("so", 3)),
    "thoughts around a text": (thought("a", 1), text("so"), thought("b", 2), call("f", 3)),
    "a text": (text("so", 1),),
    "the first of two texts": (text("so ", 1), text("and on")),
    "the second of two texts": (text("so "), text("and on", 1)),
    "two texts": (text("so ", 1), text("and on", 2)),
    "the second of three texts": (text("a\n"), text("é😀 ", 1), text("c")),
    "an empty text at the end": (text("so"), text("", 1)),
    "an empty text behind a thought": (thought("hm"), text("so"), text("", 1)),
    "a part with nothing else": (text("so"), {"thoughtSignature": signature(1)}),
    "an empty text at the beginning": (text("", 1), text("so")),
    "an empty text before a call": (text("", 1), call("f", 2)),
    "an empty text behind a call": (call("f", 1), text("", 2)),
    "a text and an empty text": (text("so", 1), text("", 2)),
    "a call": (call("f", 1),),
    "a call behind a text": (text("so"), call("f", 1)),
    "a text and a call": (text("so", 1), call("f", 2)),
    "the first of parallel calls": (call("f", 1), call("g")),
    "two parallel calls": (call("f", 1), call("g", 2)),
}
IN_PIECES = {
    "the second of two texts": [text("so and on", 1)],
    "the second of three texts": [text("a\né😀 ", 1), text("c")],
}
"""A stream brings a text in pieces: what stands before a signature without a break is one text with it."""
CLIENTS = ("openai_chat", "openai_responses", "anthropic")
MODELS = {
    "gemini": "gemini-3-pro",
    "openai_chat": "gpt-4o",
    "openai_responses": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
}
EVERY_PLACE = pytest.mark.parametrize("place", PLACES)
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])


def frame(parts: list[Part], **end: str) -> bytes:
    return json.dumps({"candidates": [{"content": {"role": "model", "parts": parts}, **end}]}).encode()


def ask(client: str, history: list[Any], model: str = "gemini-3-pro") -> bytes:
    first = {"role": "user", "content": "go"}
    if client == "openai_responses":
        return json.dumps({"model": model, "input": [first, *history]}).encode()
    most = {"max_tokens": 100} if client == "anthropic" else {}
    return json.dumps({"model": model, "messages": [first, *history], **most}).encode()


def answer(client: str, parts: tuple[Part, ...], *, streams: bool) -> tuple[Any, Receipt]:
    """What the client gets for these parts, and what it is told beside it."""
    exchange = ExchangeCore(client, "gemini")
    exchange.request(ask(client, []))
    if not streams:
        return json.loads(exchange.response(frame(list(parts), finishReason="STOP"))), exchange.receipt
    *frames, last = [[part] for part in parts]
    chunks = [*(frame(each) for each in frames), frame(last, finishReason="STOP")]
    written = through(exchange, [b"data: " + chunk + b"\r\n\r\n" for chunk in chunks])
    response = folded(read_events(client, [written]))
    return json.loads(DIALECTS[client].encode_response(response, None, Receipt())), exchange.receipt


def history(client: str, given: Any) -> list[Any]:
    """The turn after that answer, as a client writes it that keeps all that it was given."""
    if client == "openai_chat":
        message = {key: value for key, value in given["choices"][0]["message"].items() if value is not None}
        ids = [each["id"] for each in message.get("tool_calls", ())]
        results: list[Any] = [{"role": "tool", "tool_call_id": each, "content": "ok"} for each in ids]
        return [message, *(results or [{"role": "user", "content": "on"}])]
    if client == "anthropic":
        ids = [block["id"] for block in given["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": each, "content": "ok"} for each in ids]
        return [{"role": "assistant", "content": given["content"]}, {"role": "user", "content": results or "on"}]
    ids = [item["call_id"] for item in given["output"] if item["type"] == "function_call"]
    results = [{"type": "function_call_output", "call_id": each, "output": "ok"} for each in ids]
    return [*given["output"], *(results or [{"role": "user", "content": "on"}])]


def sent_parts(client: str, given: Any) -> tuple[list[Part], Receipt]:
    """What Gemini gets of its answer with the next request."""
    exchange = ExchangeCore(client, "gemini")
    body = json.loads(exchange.request(ask(client, history(client, given))))
    return [part for each in body["contents"] if each["role"] == "model" for part in each["parts"]], exchange.receipt


@BOTH
@EVERY_CLIENT
@EVERY_PLACE
def test_a_signature_comes_back_on_the_part_that_it_stood_on(place: str, client: str, streams: bool) -> None:
    parts = PLACES[place]
    given, _ = answer(client, parts, streams=streams)
    expected = IN_PIECES.get(place, list(parts)) if streams else list(parts)
    expected = [each if "text" in each or "functionCall" in each else {"text": "", **each} for each in expected]
    if client == "anthropic":
        expected = without_state_of_the_last_text(expected)
        assert given["content"][-1]["type"] in ("text", "tool_use")
        assert given["content"][-1].get("text") != ""
    assert sent_parts(client, given)[0] == expected


def without_state_of_the_last_text(parts: list[Part]) -> list[Part]:
    """Claude Code prints the last block of an answer: nothing may stand behind the last text."""
    *others, last = parts
    if "functionCall" in last:
        return parts
    bare = {name: value for name, value in last.items() if name != "thoughtSignature"}
    return [*others, bare] if bare.get("text") else without_state_of_the_last_text(others)


@BOTH
@EVERY_CLIENT
def test_a_signature_on_an_image_is_told_as_lost(client: str, streams: bool) -> None:
    given, receipt = answer(client, (text("here"), image(1)), streams=streams)
    assert [line.where for line in receipt.losses if line.what == "reasoning state"] == ["content[1]"]
    parts, _ = sent_parts(client, given)
    assert [part for part in parts if "thoughtSignature" in part] == []


@BOTH
@EVERY_CLIENT
@pytest.mark.parametrize("upstream", ["openai_chat", "openai_responses", "anthropic"])
@EVERY_PLACE
def test_another_model_gets_no_signature_and_no_empty_text(
    place: str, upstream: str, client: str, streams: bool
) -> None:
    given, _ = answer(client, PLACES[place], streams=streams)
    body = ExchangeCore(client, upstream).request(ask(client, history(client, given), MODELS[upstream]))
    assert not any(signature(number).encode() in body for number in (1, 2, 3))
    assert b"dG9vbGdsb3QA" not in body  # the beginning of what a client carries for us
    for message in json.loads(body)["input" if upstream == "openai_responses" else "messages"]:
        content = message.get("content")
        if message.get("role") == "assistant":
            assert content or message.get("tool_calls"), message
            for block in content if isinstance(content, list) else ():
                assert block.get("text") != ""


@pytest.mark.parametrize("change", ["longer", "gone"])
def test_a_signature_of_a_text_that_the_client_has_changed_is_not_lost(change: str) -> None:
    given, _ = answer("openai_chat", (text("so "), text("and on", 1), call("f", 2)), streams=False)
    message = given["choices"][0]["message"]
    message["content"] = "so, and on" if change == "longer" else None
    parts, _ = sent_parts("openai_chat", given)
    assert [part["thoughtSignature"] for part in parts if "thoughtSignature" in part] == [signature(1), signature(2)]


@EVERY_PLACE
def test_a_signature_that_the_gateway_kept_comes_back_on_its_part(place: str) -> None:
    """For a client that sends back the documented fields of a Chat message alone."""
    parts = list(PLACES[place])
    given, _ = answer("openai_chat", PLACES[place], streams=False)
    message = given["choices"][0]["message"]
    given["choices"][0]["message"] = {key: message.get(key) for key in ("role", "content", "tool_calls")}
    for each in message.get("tool_calls") or ():
        each.pop("extra_content", None)
    kept = state_of_answer(DIALECTS["gemini"].decode_response(frame(parts)).content, "gemini")
    exchange = ExchangeCore("openai_chat", "gemini", passes=with_states(REQUEST_PASSES, {0: kept}))
    body = json.loads(exchange.request(ask("openai_chat", history("openai_chat", given))))
    sent = [part for each in body["contents"] if each["role"] == "model" for part in each["parts"]]
    assert sent == [each if "text" in each or "functionCall" in each else {"text": "", **each} for each in parts]
