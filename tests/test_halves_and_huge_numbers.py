"""What JSON text can hold and no value can: half of a surrogate pair, and numbers out of range."""

from __future__ import annotations

import json
import re
from itertools import permutations
from typing import Any

import pytest

from tests.exchanges import JSON_NAMES, NAMES, folded, read_events, write_events
from tests.forms import forwards
from toolglot import Exchange
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError
from toolglot.events import unfold
from toolglot.ir import Message, Request, Response, Stop, Text, ToolCall
from toolglot.receipt import Receipt
from toolglot.wire import json as wire_json

HALVES = {"at the end": ("a<", "a"), "inside": ("a<b", "a\ufffdb"), "the second": (">b", "\ufffdb"), "alone": ("<", "")}
"""`<` and `>` stand for the halves of a character; what is left of the text."""


def halved(data: bytes) -> bytes:
    return data.replace(b"<", rb"\ud83d").replace(b">", rb"\ude00")


def answer_of(text: str) -> Response:
    return Response(id="r", model="m", content=(Text(text="first "), Text(text=text)), stop=Stop("end"))


def text_of(response: Response) -> str:
    return "".join(block.text for block in response.content if isinstance(block, Text))


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize(("client", "upstream"), list(permutations(JSON_NAMES, 2)))
def test_half_a_character_costs_a_whole_answer_no_more_than_a_stream(client: str, upstream: str, kind: str) -> None:
    text, left = HALVES[kind]
    response, dialect = answer_of(text), DIALECTS[upstream]
    whole = Exchange(client, upstream)
    written = whole.response(halved(dialect.encode_response(response, None, Receipt())))
    assert text_of(DIALECTS[client].decode_response(written)).replace("\n", "") == "first " + left
    streamed = Exchange(client, upstream)
    translation = streamed.stream()
    stream = translation.feed(halved(write_events(upstream, unfold(response)))) + translation.close()
    assert text_of(folded(read_events(client, [stream]))).replace("\n", "") == "first " + left
    for exchange in (whole, streamed):
        assert [line.what for line in exchange.receipt.losses if line.what == "half a character"] == [
            "half a character"
        ]


@pytest.mark.parametrize("model", [None, "other"])
@pytest.mark.parametrize("dialect", [name for name in JSON_NAMES if forwards(name)])
def test_a_client_of_the_same_dialect_gets_the_half_as_it_came(dialect: str, model: str | None) -> None:
    data = halved(DIALECTS[dialect].encode_response(answer_of("a<b"), None, Receipt()))
    exchange = Exchange(dialect, dialect, model=model)
    asked = Request(model="m", messages=(Message(role="user", content=(Text(text="x"),)),), max_output_tokens=9)
    exchange.request(DIALECTS[dialect].encode_request(asked, Receipt()))
    assert rb"a\ud83db" in exchange.response(data)
    assert not exchange.receipt.losses


ARGUMENTS = {
    "half a character": r'{"x":"a\ud83d"}',
    "second half": r'{"x":"\ude00b"}',
    "half a key": r'{"\ud83d":1}',
    "huge": '{"x":1e999}',
    "huge and negative": '{"x":[-1e400]}',
    "lines": '{\n"x":1e999\r\n}',
}


def called(arguments: str) -> Response:
    call = ToolCall(id="call_1", name="f", arguments=arguments)
    return Response(id="r", model="m", content=(call,), stop=Stop("tool_calls"))


def chat_answer(arguments: str) -> bytes:
    return DIALECTS["openai_chat"].encode_response(called(arguments), None, Receipt())


def chat_stream(arguments: str) -> bytes:
    return write_events("openai_chat", unfold(called(arguments)))


def arguments_on_the_wire(client: str, data: Any) -> Any:
    match client:
        case "openai_chat":
            return json.loads(data["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])
        case "openai_responses":
            return json.loads(data["output"][0]["arguments"])
        case "anthropic":
            assert data["stop_reason"] == "tool_use"
            return data["content"][0]["input"]
        case "gemini":
            return data["candidates"][0]["content"]["parts"][0]["functionCall"]["args"]
        case _:
            return data["message"]["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize("kind", ARGUMENTS)
@pytest.mark.parametrize("client", JSON_NAMES)
def test_arguments_that_only_text_can_hold_reach_every_client(client: str, kind: str) -> None:
    exchange = Exchange(client, "openai_chat")
    written = exchange.response(chat_answer(ARGUMENTS[kind]))
    assert arguments_on_the_wire(client, json.loads(written)) == json.loads(ARGUMENTS[kind])
    assert not exchange.receipt.losses


@pytest.mark.parametrize("kind", ARGUMENTS)
@pytest.mark.parametrize("client", JSON_NAMES)
def test_such_arguments_reach_clients_of_streams_too(client: str, kind: str) -> None:
    exchange = Exchange(client, "openai_chat")
    translation = exchange.stream()
    translation.feed(chat_stream(ARGUMENTS[kind]))
    translation.close()
    assert translation.fault is None
    assert translation.stop is not None
    assert translation.stop.reason == "tool_calls"
    assert not exchange.receipt.losses


@pytest.mark.parametrize("upstream", ["anthropic", "gemini", "ollama"])
def test_a_server_that_takes_objects_gets_such_arguments_of_a_history_as_text(upstream: str) -> None:
    """Anthropic's server refuses a whole request with half a character in it."""
    asked = Request(
        model="m",
        messages=(
            Message(role="user", content=(Text(text="x"),)),
            Message(role="assistant", content=called(ARGUMENTS["half a character"]).content),
        ),
        max_output_tokens=9,
    )
    exchange = Exchange("openai_chat", upstream)
    sent = exchange.request(DIALECTS["openai_chat"].encode_request(asked, Receipt()))
    assert rb'"_raw":"{\"x\":\"a\\ud83d\"}"' in sent
    assert "half a character or a number that is out of range" in exchange.receipt.losses[0].why


@pytest.mark.parametrize("client", NAMES)
def test_arguments_that_are_nested_too_deeply_are_not_called_invalid(client: str) -> None:
    arguments = '{"x":' + "[" * 1200 + "]" * 1200 + "}"
    exchange = Exchange(client, "openai_chat")
    written = exchange.response(chat_answer(arguments))
    assert b"[[[[" in written or client == "warp"
    lines = " ".join(line.why for line in exchange.receipt)
    assert "not valid JSON" not in lines
    assert b"not valid JSON" not in written
    assert client == "openai_chat" or "nested too deeply" in lines


@pytest.mark.parametrize("dialect", JSON_NAMES)
def test_a_request_with_half_a_character_says_what_and_where(dialect: str) -> None:
    asked = Request(model="m", messages=(Message(role="user", content=(Text(text="a<b"),)),), max_output_tokens=9)
    with pytest.raises(DecodeError, match=r"a lone surrogate at byte \d+ is not Unicode text") as raised:
        DIALECTS[dialect].decode_request(halved(DIALECTS[dialect].encode_request(asked, Receipt())))
    assert raised.value.where.startswith(("$.messages[0]", "$.input", "$.contents[0]"))


CALLS_IN_OBJECTS = {
    "anthropic": "$.content[0].input",
    "gemini": "$.candidates[0].content.parts[0].functionCall.args",
    "ollama": "$.message.tool_calls[0].function.arguments",
}
"""Path of a call's arguments in an answer, of dialects that write objects."""
UNREADABLE = {"huge": "1e999", "long": "9" * 5000, "wrong": "01", "half": r'"\ud83d"', "twice": '{"b":1,"b":2}'}


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("dialect", CALLS_IN_OBJECTS)
def test_an_error_in_the_arguments_of_a_call_names_their_path_in_the_document(dialect: str, kind: str) -> None:
    asked = Message(role="assistant", content=called('{"a":[1,"HERE"]}').content)
    request = Request(model="m", messages=(asked,), max_output_tokens=9)
    value = UNREADABLE[kind].encode()
    codec, end = DIALECTS[dialect], ".b" if kind == "twice" else ""
    with pytest.raises(DecodeError) as refused:
        codec.decode_request(codec.encode_request(request, Receipt()).replace(b'"HERE"', value))
    assert re.fullmatch(rf"\$\.(messages|contents)\[0\]\..+\.a\[1\]{end}", refused.value.where)
    answer = codec.encode_response(called('{"a":[1,"HERE"]}'), None, Receipt()).replace(b'"HERE"', value)
    with pytest.raises(DecodeError) as unread:
        codec.decode_response(answer)
    assert unread.value.where == f"{CALLS_IN_OBJECTS[dialect]}.a[1]{end}"


@pytest.mark.parametrize(
    ("text", "left", "count"),
    [
        (rb'"\ud83d\ude00"', rb'"\ud83d\ude00"', 0),
        (rb'"\\ud83d"', rb'"\\ud83d"', 0),
        (rb'"\\\ud83d"', rb'"\\"', 1),
        (rb'"\ud83d\ud83d\ude00"', rb'"\ufffd\ud83d\ude00"', 1),
        (rb'"\ud83d\ude00\ude00 "', rb'"\ud83d\ude00\ufffd "', 1),
        (rb'"\uD83Dx\uDE00"', rb'"\ufffdx"', 2),
    ],
)
def test_only_surrogates_without_a_partner_are_replaced(text: bytes, left: bytes, count: int) -> None:
    assert wire_json.replace_lone_surrogates(text) == (left, count)
