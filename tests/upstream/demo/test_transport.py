"""The demo as an upstream of every dialect: real requests in, real bytes out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from tests.upstream.demo.conversations import TIME, WEATHER, answered, asked
from tests.waiting import FAILSAFE
from toolglot.config.addresses import DEMO_URL
from toolglot.dialect import Dialect
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError
from toolglot.events import Fault, Fold, Open
from toolglot.ir import Message, Reasoning, Request, Response, Text, Thinking, Tool, ToolCall, ToolResult, replace
from toolglot.lint import lint
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore
from toolglot.upstream.demo.stream import NO_PAUSES, DemoPace
from toolglot.upstream.demo.transport import DemoReply, DemoTransport
from toolglot.upstream.transport import Reply, Transport, TransportError, UpstreamCall
from toolglot.upstream.upstream import join_url

LIMIT = 1 << 20
EVERY_DIALECT = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    async def within() -> T:
        return await asyncio.wait_for(work, FAILSAFE)

    return asyncio.run(within())


def call_of(dialect: Dialect, request: Request) -> UpstreamCall:
    request = request if dialect.can.limits.default_output_tokens is None else replace(request, max_output_tokens=1000)
    body = dialect.encode_request(request, Receipt())
    return UpstreamCall(url=join_url(DEMO_URL, dialect.path(request)), headers={}, body=body)


async def whole(dialect: Dialect, call: UpstreamCall) -> tuple[int, bytes]:
    reply = await DemoTransport(dialect, pace=NO_PAUSES, clock=lambda: 1_700_000_000).send(call)
    try:
        return reply.status, await reply.read(LIMIT)
    finally:
        reply.close()


def response_to(dialect: Dialect, request: Request) -> Response:
    """The demo's answer, decoded from the bytes of the dialect."""
    status, body = run(whole(dialect, call_of(dialect, request)))
    assert status == 200
    if not request.stream:
        return dialect.decode_response(body)
    assert lint(dialect, [body]) == []
    decoder = dialect.stream_decoder(Receipt())
    fold = Fold()
    for event in (*decoder.feed(body), *decoder.close()):
        fold.add(event)
    return fold.response()


def test_it_is_a_transport_and_gives_replies() -> None:
    transport: Transport = DemoTransport(DIALECTS["anthropic"])
    reply: Reply = DemoReply(200, {}, [], pace=NO_PAUSES)
    assert reply.status == 200
    run(transport.close())


@EVERY_DIALECT
@pytest.mark.parametrize("stream", [False, True])
def test_a_whole_tool_loop_runs_in_every_dialect(dialect: Dialect, stream: bool) -> None:
    request = asked("What is the weather in Paris and what time is it in Oslo?", WEATHER, TIME, stream=stream)
    response = response_to(dialect, request)
    calls = [block for block in response.content if isinstance(block, ToolCall)]
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [
        ("get_weather", {"city": "Paris"}),
        ("local_time", {"city": "Oslo"}),
    ]
    assert response.stop.reason == "tool_calls"
    assert response.usage is not None
    assert response.usage.input_tokens
    response = response_to(dialect, answered(request, "sunny", "noon"))
    text = "".join(block.text for block in response.content if isinstance(block, Text))
    assert text.endswith("- get_weather (Paris): sunny\n- local_time (Oslo): noon")
    assert response.stop.reason == "end"


@EVERY_DIALECT
@pytest.mark.parametrize("client", DIALECTS)
def test_its_answers_cross_into_every_other_dialect(dialect: Dialect, client: str) -> None:
    exchange = ExchangeCore(client, dialect)
    asking = DIALECTS[client]
    request = asked("What is the weather in Paris?", WEATHER, stream=True, max_output_tokens=1000)
    body = exchange.request(asking.encode_request(request, Receipt()), model="demo", stream=True)
    call = UpstreamCall(url=join_url(DEMO_URL, exchange.path), headers={}, body=body)
    status, data = run(whole(dialect, call))
    stream = exchange.stream()
    written = stream.feed(data) + stream.close()
    assert status == 200
    assert stream.fault is None
    assert lint(client, [written]) == []
    decoder = asking.stream_decoder(Receipt())
    calls = [event.block for event in decoder.feed(written) if isinstance(event, Open)]
    assert [block.name for block in calls if isinstance(block, ToolCall)] == ["get_weather"]


@EVERY_DIALECT
@pytest.mark.parametrize("stream", [False, True])
def test_thinking_has_the_state_of_its_dialect(dialect: Dialect, stream: bool) -> None:
    reasoning = Reasoning(mode="on", budget_tokens=1024, effort="high", show=True)
    request = asked("The weather in Paris", WEATHER, stream=stream, reasoning=reasoning)
    content = response_to(dialect, request).content
    thinking = [block for block in content if isinstance(block, Thinking)]
    if "reasoning" not in dialect.can.parameters.fields:  # nobody can ask for it
        assert not thinking
        return
    assert "get_weather" in thinking[0].text
    # Gemini signs its calls and not its thoughts.
    signed = [block for block in content if isinstance(block, ToolCall)] if dialect.name == "gemini" else thinking
    if dialect.state.slot:
        assert signed[0].native[dialect.name][dialect.state.slot]
        assert sum(dialect.state.slot in block.native.get(dialect.name, {}) for block in content) == 1


def test_gemini_signs_the_first_call_of_a_step_and_takes_it_for_its_own() -> None:
    gemini = DIALECTS["gemini"]
    request = replace(asked("The weather in Paris and in Rome", WEATHER), model="gemini-3-pro")
    content = response_to(gemini, request).content
    calls = [block for block in content if isinstance(block, ToolCall)]
    assert ["thoughtSignature" in call.native.get("gemini", {}) for call in calls] == [True, False]
    results = tuple(ToolResult(call_id=call.id, name=call.name, content=(Text(text="rain"),)) for call in calls)
    history = (Message(role="assistant", content=content), Message(role="user", content=results))
    exchange = ExchangeCore("gemini", "gemini")
    went_on = replace(request, messages=(*request.messages, *history))
    exchange.request(gemini.encode_request(went_on, Receipt()), model="gemini-3-pro")
    assert list(exchange.receipt) == []


@EVERY_DIALECT
def test_a_stream_comes_in_pieces_of_words(dialect: Dialect) -> None:
    async def count() -> int:
        reply = await DemoTransport(dialect, pace=NO_PAUSES).send(call_of(dialect, asked("Hello you", stream=True)))
        assert reply.headers["content-type"].startswith(dialect.stream.framing.media_type)
        return len([piece async for piece in reply.chunks()])

    assert run(count()) > 10


@EVERY_DIALECT
def test_a_wrong_request_gets_the_error_of_its_dialect(dialect: Dialect) -> None:
    call = replace(call_of(dialect, asked("Hi")), body=b'{"model": 7')
    status, body = run(whole(dialect, call))
    error = dialect.decode_error(status, {}, body)
    assert (status, error.kind) == (400, "bad_request")
    assert run(whole(dialect, replace(call, body=b"[" * 100_000)))[0] == 400


def test_it_keeps_no_threads_and_says_so_in_the_way_that_sdks_understand() -> None:
    dialect = DIALECTS["anthropic"]
    call = call_of(dialect, asked("Hi"))
    body = {**json.loads(call.body), "thread": {"type": "create"}}
    status, answer = run(whole(dialect, replace(call, body=json.dumps(body).encode())))
    assert status == 400
    assert json.loads(answer)["error"]["details"]["error_code"] == "thread_unsupported_request"


@EVERY_DIALECT
def test_a_schema_of_any_depth_is_answered_or_refused(dialect: Dialect) -> None:
    schema: dict[str, Any] = {}
    for _ in range(300):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    try:
        call = call_of(dialect, asked("Use it", Tool(name="tool", parameters=schema)))
    except DecodeError as error:  # protobuf's readers have a limit of their own
        assert "nested" in str(error)
        return
    status, _ = run(whole(dialect, call))
    assert status in (200, 400)


@EVERY_DIALECT
def test_other_methods_are_not_found(dialect: Dialect) -> None:
    status, body = run(whole(dialect, UpstreamCall(url="demo:/v1/nothing", headers={}, method="DELETE")))
    assert status == 404
    assert dialect.decode_error(status, {}, body).kind == "not_found"


@pytest.mark.parametrize(
    ("name", "path", "member"),
    [
        ("anthropic", "/v1/messages/count_tokens", "input_tokens"),
        ("openai_responses", "/v1/responses/input_tokens", "input_tokens"),
        ("gemini", "/v1beta/models/demo:countTokens", "totalTokens"),
    ],
)
def test_tokens_are_counted_where_the_dialect_counts_them(name: str, path: str, member: str) -> None:
    dialect = DIALECTS[name]
    little = replace(call_of(dialect, asked("Hi")), url=join_url(DEMO_URL, path))
    much = replace(little, body=call_of(dialect, asked("Hi " * 400, WEATHER)).body)
    counts = [json.loads(run(whole(dialect, call))[1])[member] for call in (little, much)]
    assert 0 < counts[0] < 100 < counts[1]


def test_gemini_counts_a_whole_request_too() -> None:
    dialect = DIALECTS["gemini"]
    request = json.loads(call_of(dialect, asked("Hi " * 400)).body)
    body = json.dumps({"generateContentRequest": {"model": "models/demo", **request}}).encode()
    call = UpstreamCall(url="demo:/v1beta/models/demo:countTokens", headers={}, body=body)
    assert json.loads(run(whole(dialect, call))[1])["totalTokens"] > 100


def test_the_model_of_geminis_path_is_named_in_the_answer() -> None:
    dialect = DIALECTS["gemini"]
    call = call_of(dialect, replace(asked("Hi"), model="gemini-3 flash"))
    assert json.loads(run(whole(dialect, call))[1])["modelVersion"] == "gemini-3 flash"


def test_an_answer_has_the_time_of_the_clock() -> None:
    dialect = DIALECTS["openai_chat"]
    assert json.loads(run(whole(dialect, call_of(dialect, asked("Hi"))))[1])["created"] == 1_700_000_000


# Misbehaviour


@EVERY_DIALECT
@pytest.mark.parametrize(("word", "status"), [("429", 429), ("500", 500), ("503", 503), ("", 500)])
def test_it_answers_with_the_error_that_is_asked_for(dialect: Dialect, word: str, status: int) -> None:
    answered_with, body = run(whole(dialect, call_of(dialect, asked(f"Hi demo:error {word}", stream=True))))
    assert answered_with in (status, 529)
    assert dialect.decode_error(answered_with, {}, body).retryable


@EVERY_DIALECT
@pytest.mark.parametrize("stream", [False, True])
def test_it_breaks_off_in_the_middle_of_a_call(dialect: Dialect, stream: bool) -> None:
    async def collect() -> bytes:
        request = asked("The weather in Paris demo:cut", WEATHER, stream=stream)
        reply = await DemoTransport(dialect, pace=NO_PAUSES).send(call_of(dialect, request))
        data = b""
        with pytest.raises(TransportError) as broken:
            async for piece in reply.chunks():
                data += piece
        assert broken.value.failure == "reset"
        return data

    data = run(collect())
    assert data
    if stream:
        decoder = dialect.stream_decoder(Receipt())
        assert isinstance([*decoder.feed(data), *decoder.close()][-1], Fault)


@EVERY_DIALECT
@pytest.mark.parametrize("stream", [False, True])
def test_it_reports_an_error_in_the_middle_of_an_answer(dialect: Dialect, stream: bool) -> None:
    request = asked("The weather in Paris demo:fault", WEATHER, stream=stream)
    status, body = run(whole(dialect, call_of(dialect, request)))
    if not stream:
        assert dialect.decode_error(status, {}, body).retryable
        return
    decoder = dialect.stream_decoder(Receipt())
    last = [*decoder.feed(body), *decoder.close()][-1]
    assert isinstance(last, Fault)
    # The end of Warp's streams has a reason and no words.
    assert "demo:fault" in last.error.message or (dialect.name, last.error.kind) == ("warp", "overloaded")


def test_the_words_for_misbehaviour_are_not_part_of_the_wish() -> None:
    async def ask() -> bytes:
        transport = DemoTransport(DIALECTS["openai_chat"], pace=DemoPace(silence=0.001))
        reply = await transport.send(call_of(DIALECTS["openai_chat"], asked("demo:slow Hello")))
        return await reply.read(LIMIT)

    assert "You said: “Hello”" in json.loads(run(ask()))["choices"][0]["message"]["content"]


def test_closing_a_reply_ends_its_silence() -> None:
    async def close_while_silent() -> None:
        transport = DemoTransport(DIALECTS["anthropic"], pace=DemoPace(silence=3600))
        reply = await transport.send(call_of(DIALECTS["anthropic"], asked("Hi demo:slow", stream=True)))
        reading = asyncio.ensure_future(reply.read(LIMIT))
        await asyncio.sleep(0)
        reply.close()
        with pytest.raises(TransportError):
            await reading

    run(close_while_silent())


def test_closing_a_reply_early_stops_it() -> None:
    async def close_after_one() -> int:
        transport = DemoTransport(DIALECTS["anthropic"], pace=DemoPace(piece=3600))
        reply = await transport.send(call_of(DIALECTS["anthropic"], asked("Hi", stream=True)))
        count = 0
        with pytest.raises(TransportError):
            async for _ in reply.chunks():
                count += 1
                reply.close()
        return count

    assert run(close_after_one()) == 1


def test_an_answer_over_the_limit_is_refused() -> None:
    async def read() -> None:
        reply = await DemoTransport(DIALECTS["anthropic"]).send(call_of(DIALECTS["anthropic"], asked("Hi")))
        with pytest.raises(TransportError) as refused:
            await reply.read(10)
        assert refused.value.failure == "too_large"

    run(read())
