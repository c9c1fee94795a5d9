"""Whole exchanges with a model that knows nothing but text: its client notices nothing."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchanges import JSON_NAMES as NAMES
from tests.exchanges import JSON_PAIRS as PAIRS
from tests.exchanges import calls_of, folded, meaning, read_events
from tests.forms import is_json
from tests.laws.mutations import at
from tests.lint.streams import WHOLE_CALLS
from tests.textcalls.conversations import (
    MODEL,
    SEVERAL,
    TOOLS,
    USAGE,
    answered,
    ask,
    asking,
    document_of,
    exchange_of,
    heard,
    stream_of,
    user,
)
from toolglot.dialects import DIALECTS
from toolglot.errors import RefusedError
from toolglot.events import Finish
from toolglot.ir import Message, Request, Response, Text, Tool, ToolCall, ToolResult
from toolglot.receipt import Receipt
from toolglot.textcalls import FORMATS
from toolglot.textcalls.prompts.render import calls_text
from toolglot.translate import ExchangeCore
from toolglot.wire.json import is_object

FIRST = (
    ToolCall(id="abc123DEF", name="get_weather", arguments='{"city":"Paris","days":2}'),
    ToolCall(id="abc123DEG", name="get_weather", arguments='{"city":"Łódź <b>\\"x\\"</b>"}'),
)
SECOND = (ToolCall(id="abc123DEH", name="get_time", arguments="{}"),)
RESULTS = {"get_weather": "sunny, 21 °C", "get_time": "12:00"}


def whole(client: str, written: bytes) -> Response:
    return DIALECTS[client].decode_response(written)


class Loop:
    """A client's conversation, turn by turn, in its own dialect."""

    def __init__(self, client: str, upstream: str, format_name: str, *, streams: bool) -> None:
        self._sides = client, upstream, format_name
        self._streams = streams
        self._called = 0
        self.messages: list[Message] = [user("What is the weather?")]
        self.exchange = exchange_of(*self._sides)

    def turn(self, said: str, calls: tuple[ToolCall, ...]) -> Response:
        """The model says this and calls these; the client runs them."""
        client, upstream, format_name = self._sides
        self.exchange = exchange_of(*self._sides)
        ask(self.exchange, asking(*self.messages, stream=self._streams))
        written = "\n".join(part for part in (said, calls_text(format_name, calls, self._called)) if part)
        self._called += len(calls)
        if self._streams:
            response = answered(self.exchange, [stream_of(upstream, written, pieces=3)])
        else:
            response = whole(client, self.exchange.response(document_of(upstream, written)))
        results = tuple(
            ToolResult(call_id=call.id, name=call.name, content=(Text(text=RESULTS[call.name]),))
            for call in calls_of(response.content)
        )
        self.messages.append(Message(role="assistant", content=response.content))
        if results:
            self.messages.append(Message(role="user", content=results))
        return response


def said_and_called(response: Response) -> tuple[str, list[tuple[str, object]]]:
    text = "".join(block.text for block in response.content if isinstance(block, Text)).strip()
    return text, [(call.name, meaning(call.arguments)) for call in calls_of(response.content)]


def wanted(calls: tuple[ToolCall, ...]) -> list[tuple[str, object]]:
    return [(call.name, meaning(call.arguments)) for call in calls]


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("format_name", SEVERAL)
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_loop_of_three_turns_is_as_if_the_calls_were_native(
    client: str, upstream: str, format_name: str, streams: bool
) -> None:
    loop = Loop(client, upstream, format_name, streams=streams)
    turns = (("I look it up.", FIRST), ("", SECOND), ("It is sunny, and noon.", ()))
    seen: set[str] = set()
    for said, calls in turns:
        response = loop.turn(said, calls)
        assert said_and_called(response) == (said, wanted(calls))
        assert response.stop.reason == ("tool_calls" if calls else "end")
        assert response.usage is not None
        assert (response.usage.input_tokens, response.usage.output_tokens) == (30, 12)
        ids = [call.id for call in calls_of(response.content)]
        assert all(ids)
        assert len({*seen, *ids}) == len(seen) + len(calls)
        seen.update(ids)
        assert all(call.complete for call in calls_of(response.content))
        assert not loop.exchange.receipt.losses


@pytest.mark.parametrize("empty", [None, []], ids=["null", "list"])
@pytest.mark.parametrize(("dialect", "place"), [("openai_chat", ("choices", 0, "message")), ("ollama", ("message",))])
def test_a_call_in_the_text_reaches_the_client_beside_an_empty_list_of_calls(
    dialect: str, place: tuple[str | int, ...], empty: object
) -> None:
    """vLLM sends `"tool_calls": []`, other servers null."""
    exchange = exchange_of(dialect, dialect, SEVERAL[0])
    ask(exchange, asking(user("What time is it?"), stream=False))
    document = json.loads(document_of(dialect, calls_text(SEVERAL[0], SECOND, 0)))
    at(document, place)["tool_calls"] = empty
    response = whole(dialect, exchange.response(json.dumps(document).encode()))
    assert said_and_called(response) == ("", wanted(SECOND))


@pytest.mark.parametrize("upstream", NAMES)
def test_what_the_upstream_gets_has_no_tools_and_no_calls(upstream: str) -> None:
    loop = Loop("anthropic", upstream, "hermes_json", streams=True)
    loop.turn("", FIRST)
    exchange = exchange_of("anthropic", upstream, "hermes_json")
    sent = json.loads(ask(exchange, asking(*loop.messages)))
    assert not sent.keys() & {"tools", "tool_choice", "toolConfig", "parallel_tool_calls"}
    told = json.dumps({**sent, "stop": None, "stop_sequences": None, "generationConfig": None})
    assert "tool_use" not in told
    assert "functionCall" not in told
    shape = DIALECTS[upstream].request
    said = json.dumps([sent.get(shape.history_key), sent.get(shape.system_key or "")])
    assert said.count("<tool_response>") == 1 + 2  # the example, and two results


@pytest.mark.parametrize("dialect", NAMES)
def test_one_dialect_on_both_sides_is_not_forwarded_when_tools_are_text(dialect: str) -> None:
    exchange = exchange_of(dialect, dialect, "hermes_json")
    ask(exchange, asking(user("Hello")))
    assert not exchange.verbatim
    response = answered(exchange, [stream_of(dialect, calls_text("hermes_json", SECOND))])
    assert wanted(SECOND) == [(call.name, meaning(call.arguments)) for call in calls_of(response.content)]


@pytest.mark.parametrize("dialect", NAMES)
def test_a_request_without_tools_and_calls_is_forwarded_as_it_is(dialect: str) -> None:
    exchange = exchange_of(dialect, dialect, "hermes_json")
    request = asking(user("Say <tool_call> twice."), tools=())
    written = exchange.client.encode_request(request, Receipt())
    assert exchange.request(written, model=MODEL, stream=True) == written
    assert exchange.verbatim
    stream = stream_of(dialect, 'It is <tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>')
    translation = exchange.stream()
    assert translation.feed(stream) + translation.close() == stream


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_strict_mode_has_nothing_against_tools_as_text(client: str, upstream: str, strict: bool) -> None:
    native = ExchangeCore(client, upstream, strict=strict)
    ask(native, asking(user("Hello")))
    exchange = exchange_of(client, upstream, "anthropic_xml")
    exchange.strict = strict
    ask(exchange, asking(user("Hello")))
    response = answered(exchange, [stream_of(upstream, calls_text("anthropic_xml", FIRST))])
    assert len(calls_of(response.content)) == 2
    assert not exchange.receipt.losses


@pytest.mark.parametrize("format_name", SEVERAL)
@pytest.mark.parametrize("upstream", NAMES)
@given(data=st.data())
def test_any_cutting_of_the_bytes_gives_the_same_answer(upstream: str, format_name: str, data: st.DataObject) -> None:
    client = data.draw(st.sampled_from(NAMES))
    stream = stream_of(upstream, "So:\n" + calls_text(format_name, FIRST), pieces=data.draw(st.integers(1, 40)))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=12)))
    bounds = [0, *cuts, len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(bounds)]
    expected, response = (
        answered(exchange, chunks)
        for exchange, chunks in (
            (asked(client, upstream, format_name), [stream]),
            (asked(client, upstream, format_name), pieces),
        )
    )
    assert response == expected
    assert said_and_called(response)[1] == wanted(FIRST)


def asked(client: str, upstream: str, format_name: str) -> ExchangeCore:
    exchange = exchange_of(client, upstream, format_name)
    ask(exchange, asking(user("Hello")))
    return exchange


@pytest.mark.parametrize("client", NAMES)
def test_arguments_reach_the_client_while_the_call_is_being_written(client: str) -> None:
    exchange = asked(client, "openai_chat", "hermes_json")
    translation = exchange.stream()
    stream = stream_of("openai_chat", calls_text("hermes_json", FIRST[:1]))
    place = stream.index(b"chat.completion.chunk", len(stream) * 3 // 4)
    before = translation.feed(stream[:place])
    if client in WHOLE_CALLS and is_json(client):  # the calls are whole, or not there
        assert b"get_weather" not in before
    else:
        assert b"get_weather" in before
        assert b"Par" in b"".join(before.split(b'"')) or b"P" in before
    assert not translation.ended


CUSTOM = Tool(name="apply.patch", description="Applies a patch.", kind="custom", namespace=None)


@pytest.mark.parametrize("upstream", NAMES)
def test_a_custom_tool_is_told_as_a_function_and_called_as_a_custom_one(upstream: str) -> None:
    exchange = exchange_of("openai_responses", upstream, "qwen3_coder")
    ask(exchange, asking(user("Patch it."), tools=(*TOOLS, CUSTOM)))
    written = ToolCall(id="1", name="apply_patch", arguments=json.dumps({"input": "*** a\n+ b"}))
    response = answered(exchange, [stream_of(upstream, calls_text("qwen3_coder", (written,)))])
    (called,) = calls_of(response.content)
    assert (called.name, called.kind, called.arguments) == ("apply.patch", "custom", "*** a\n+ b")


def test_names_that_the_wire_would_not_take_need_no_change() -> None:
    long = "mcp__" + "a_long_name_" * 8
    exchange = exchange_of("gemini", "openai_chat", "hermes_json")
    ask(exchange, asking(user("Go."), tools=(Tool(name=long, parameters={"type": "object"}),)))
    assert long in json.dumps(
        json.loads(exchange.upstream.encode_request(exchange.sent or Request(model=""), Receipt()))
    )
    response = answered(exchange, [stream_of("openai_chat", calls_text("hermes_json", (ToolCall(id="", name=long),)))])
    assert [call.name for call in calls_of(response.content)] == [long]


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_an_answer_that_came_whole_where_a_stream_was_asked_for_is_read_too(client: str, upstream: str) -> None:
    exchange = asked(client, upstream, "hermes_json")
    response = answered(exchange, [document_of(upstream, calls_text("hermes_json", FIRST))])
    assert said_and_called(response)[1] == wanted(FIRST)
    assert response.usage is not None
    assert response.usage.output_tokens == USAGE.output_tokens


def test_an_error_of_the_upstream_is_told_as_ever() -> None:
    exchange = asked("anthropic", "openai_chat", "hermes_json")
    translation = exchange.stream()
    written = translation.feed(b'data: {"error":{"message":"no","type":"server_error"}}\n\n')
    assert translation.fault is not None
    assert read_events("anthropic", [written])


def test_the_bytes_of_a_client_fold_to_what_it_reads() -> None:
    exchange = asked("openai_chat", "anthropic", "deepchat")
    translation = exchange.stream()
    written = translation.feed(stream_of("anthropic", "Yes.\n" + calls_text("deepchat", FIRST))) + translation.close()
    assert b'"finish_reason":"tool_calls"' in written
    assert len(calls_of(folded(read_events("openai_chat", [written])).content)) == 2


@pytest.mark.parametrize("upstream", NAMES)
def test_a_thread_of_anthropic_is_refused_wherever_the_conversation_has_to_be_told_whole(upstream: str) -> None:
    """The SDK's tool runner then sends the whole conversation; its later requests hold new results alone otherwise."""
    body = {
        "model": MODEL,
        "max_tokens": 9,
        "thread": {"type": "create"},
        "messages": [{"role": "user", "content": "Hi"}],
    }
    with pytest.raises(RefusedError, match="keeps no threads"):
        exchange_of("anthropic", upstream, "hermes_json").request(body)


@pytest.mark.parametrize("name", ["get_weather", "get_\\ud83d"])
@pytest.mark.parametrize(
    "arguments",
    ['{"city":"\\ud3d\\ude00 x"}', "{'city':'\\ude00'}", '{"\\ud83d":1,}', '{"a":1,"\\ud83d":1,"\\ud83d":2,}'],
)
@pytest.mark.parametrize("format_name", sorted(FORMATS))
def test_half_a_character_in_a_broken_call_breaks_no_answer(format_name: str, arguments: str, name: str) -> None:
    call = ToolCall(id="abc123DEF", name="get_weather", arguments='{"city":"Paris"}')
    written = re.sub(r'\{"city": ?"Paris"\}|Paris', lambda found: arguments, calls_text(format_name, [call]))
    written = written.replace("get_weather", name)
    for client in ("openai_responses", "gemini"):  # text of JSON, and an object
        exchange = exchange_of(client, "openai_chat", format_name)
        ask(exchange, asking(user("Hi"), stream=True))
        events = heard(exchange, [stream_of("openai_chat", written, pieces=3)])
        for made in calls_of(folded(events).content) if isinstance(events[-1], Finish) else ():
            assert not made.complete or is_object(made.arguments)
        exchange = exchange_of(client, "openai_chat", format_name)
        ask(exchange, asking(user("Hi"), stream=False))
        whole(client, exchange.response(document_of("openai_chat", written)))
        assert str(exchange.receipt).encode()
