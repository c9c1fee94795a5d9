"""SDKs whose requests are translated in their own process: `toolglot.httpx_transport` in place of the network.

The upstream is a gateway's demo model, asked in each dialect.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, cast

import anthropic
import httpx
import httpx2
import openai
import pytest
from google import genai
from google.genai import types

import toolglot
from tests.e2e.gateway import Gateways
from toolglot.textcalls import TextCalls

UPSTREAMS = ("openai_chat", "openai_responses", "anthropic", "gemini", "ollama")
PROMPT = "What is the weather in Paris?"
SCHEMA: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
RESULT = "17 degrees and sunny"


def transport_to(gateways: Gateways, upstream: str, **settings: Any) -> toolglot.httpx_transport:
    """A transport to the demo model of a gateway, in this dialect."""
    base_url = gateways.to("openai_chat").base_url
    return toolglot.httpx_transport(
        upstream, dialect=upstream, base_url=base_url, key="k", **{"model": "demo", **settings}
    )


def openai_sdk(transport: toolglot.httpx_transport) -> openai.OpenAI:
    return openai.OpenAI(api_key="unused", max_retries=0, http_client=httpx2.Client(transport=transport))


def chat(transport: toolglot.httpx_transport) -> str:
    """A tool loop of Chat Completions, whole."""
    client = openai_sdk(transport)
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    called: Any = client.chat.completions.create(model="gpt-5", messages=messages, tools=tools).choices[0].message
    (call,) = called.tool_calls
    assert call.function.arguments.replace(" ", "") == '{"city":"Paris"}'
    messages += [called, {"role": "tool", "tool_call_id": call.id, "content": RESULT}]
    return (
        client.chat.completions.create(model="gpt-5", messages=messages, tools=tools).choices[0].message.content or ""
    )


def responses(transport: toolglot.httpx_transport) -> str:
    """A tool loop of the Responses API, streamed."""
    client = openai_sdk(transport)
    tools: Any = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
    items: list[Any] = [{"role": "user", "content": PROMPT}]
    with client.responses.stream(model="gpt-5", input=items, tools=tools, store=False) as stream:
        output = stream.get_final_response().output
    (call,) = [item for item in output if item.type == "function_call"]
    items += [item.model_dump(exclude_none=True) for item in output if item.type in ("function_call", "reasoning")]
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": RESULT})
    with client.responses.stream(model="gpt-5", input=items, tools=tools, store=False) as stream:
        text: str = stream.get_final_response().output_text
        return text


def messages(transport: toolglot.httpx_transport) -> str:
    """A tool loop of the Messages API, streamed."""
    client = anthropic.Anthropic(api_key="unused", max_retries=0, http_client=httpx2.Client(transport=transport))
    settings: Any = {
        "model": "claude-opus-5-5",
        "max_tokens": 1000,
        "tools": [{"name": "weather", "input_schema": SCHEMA}],
    }
    history: list[Any] = [{"role": "user", "content": PROMPT}]
    with client.messages.stream(messages=history, **settings) as stream:
        answer = stream.get_final_message()
    (call,) = [block for block in answer.content if block.type == "tool_use"]
    history += [
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": RESULT}]},
    ]
    with client.messages.stream(messages=history, **settings) as stream:
        text: str = stream.get_final_text()
        return text


def gemini(transport: toolglot.httpx_transport) -> str:
    """A tool loop of the Gemini API, streamed."""
    client_of_httpx: Any = httpx.Client(transport=cast(Any, transport))
    options = types.HttpOptions(httpx_client=client_of_httpx)
    client = genai.Client(api_key="unused", http_options=options)
    declaration = types.FunctionDeclaration(name="weather", parameters_json_schema=SCHEMA)
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[declaration])])
    history: list[Any] = [types.Content(role="user", parts=[types.Part(text=PROMPT)])]
    parts: list[types.Part] = []
    for chunk in client.models.generate_content_stream(model="gemini-3-pro", contents=history, config=config):
        parts += cast("Any", chunk.candidates)[0].content.parts or []
    (call,) = [part.function_call for part in parts if part.function_call]
    result = types.Part.from_function_response(name="weather", response={"output": RESULT})
    assert result.function_response is not None
    result.function_response.id = call.id
    history += [types.Content(role="model", parts=parts), types.Content(role="user", parts=[result])]
    answer = client.models.generate_content(model="gemini-3-pro", contents=history, config=config)
    return answer.text or ""


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("loop", [chat, responses, messages, gemini], ids=lambda loop: loop.__name__)
def test_an_sdk_completes_a_tool_loop_on_an_upstream_of_any_dialect(
    gateways: Gateways, loop: Callable[[toolglot.httpx_transport], str], upstream: str
) -> None:
    finished: list[toolglot.Exchange] = []
    with transport_to(gateways, upstream, on_answer=finished.append) as transport:
        assert RESULT in loop(transport)
    assert [exchange.upstream.name for exchange in finished] == [upstream] * 2
    assert not transport.receipt.losses


async def ask_openai(transport: toolglot.httpx_transport) -> str:
    async with openai.AsyncOpenAI(
        api_key="unused", max_retries=0, http_client=httpx2.AsyncClient(transport=transport)
    ) as client:
        asked: Any = [{"role": "user", "content": "Hello"}]
        stream = await client.chat.completions.create(model="gpt-5", messages=asked, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])


async def ask_anthropic(transport: toolglot.httpx_transport) -> str:
    async with anthropic.AsyncAnthropic(
        api_key="unused", max_retries=0, http_client=httpx2.AsyncClient(transport=transport)
    ) as client:
        asked: Any = [{"role": "user", "content": "Hello"}]
        answer = await client.messages.create(model="claude-opus-5-5", max_tokens=100, messages=asked)
        text: str = cast("Any", answer.content[0]).text
        return text


async def ask_gemini(transport: toolglot.httpx_transport) -> str:
    client_of_httpx: Any = httpx.AsyncClient(transport=cast(Any, transport))
    options = types.HttpOptions(httpx_async_client=client_of_httpx)
    client = genai.Client(api_key="unused", http_options=options)
    stream = await client.aio.models.generate_content_stream(model="gemini-3-pro", contents="Hello")
    return "".join([chunk.text or "" async for chunk in stream])


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("ask", [ask_openai, ask_anthropic, ask_gemini], ids=lambda ask: ask.__name__)
def test_an_asynchronous_sdk_gets_its_answer_too(
    gateways: Gateways, ask: Callable[[toolglot.httpx_transport], Awaitable[str]], upstream: str
) -> None:
    async def run() -> str:
        async with transport_to(gateways, upstream) as transport:
            return await ask(transport)

    assert asyncio.run(run())


def test_an_error_of_the_upstream_is_the_sdks_own() -> None:
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down"}}
    busy = httpx2.MockTransport(lambda request: httpx2.Response(429, json=body, headers={"retry-after": "7"}))
    transport = toolglot.httpx_transport("anthropic", key="k", transport=busy)
    asked: Any = [{"role": "user", "content": "Hello"}]
    with pytest.raises(openai.RateLimitError, match="Slow down") as raised:
        openai_sdk(transport).chat.completions.create(model="gpt-5", messages=asked)
    assert raised.value.response.headers["retry-after"] == "7"


class BrokenStream(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A Chat stream that breaks off in the middle of a text."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __iter__(self) -> Iterator[bytes]:
        yield b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"}}]}\n\n'
        raise self._error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for data in self:
            yield data


def broken_transport(error: Exception) -> toolglot.httpx_transport:
    broken = httpx2.MockTransport(lambda request: httpx2.Response(200, stream=BrokenStream(error)))
    return toolglot.httpx_transport("openai_chat", base_url="http://upstream/v1", transport=broken)


@pytest.mark.parametrize(
    "error",
    [
        httpx2.ReadError("connection reset"),
        httpx2.ReadTimeout("timed out"),
        httpx2.DecodingError("invalid distance code"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_stream_that_breaks_off_never_looks_complete(error: Exception) -> None:
    transport = broken_transport(error)
    asked: Any = [{"role": "user", "content": "Hello"}]
    events = list(openai_sdk(transport).responses.create(model="gpt-5", input="Hello", stream=True))
    assert events[-1].type == "response.failed"
    claude = anthropic.Anthropic(api_key="unused", max_retries=0, http_client=httpx2.Client(transport=transport))
    with (
        pytest.raises((anthropic.APIError, type(error))),
        claude.messages.stream(model="claude-opus-5-5", max_tokens=9, messages=asked) as stream,
    ):
        stream.get_final_message()
    # A client of Chat reads a broken connection, and the SDK's error says how it broke.
    with pytest.raises(openai.APIConnectionError) as raised:
        list(openai_sdk(transport).chat.completions.create(model="gpt-5", messages=asked, stream=True))
    assert raised.value.__cause__ is error
    with pytest.raises(openai.APIConnectionError) as raised:
        asyncio.run(ask_openai(transport))
    assert raised.value.__cause__ is error


@pytest.mark.parametrize("field", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}])
def test_a_request_that_continues_a_stored_response_is_refused(field: Any) -> None:
    transport = toolglot.httpx_transport(
        "anthropic", key="k", transport=httpx2.MockTransport(lambda _: httpx2.Response(500))
    )
    with pytest.raises(openai.APIStatusError) as raised:
        openai_sdk(transport).responses.create(model="gpt-5", input="and 2?", **field)
    assert raised.value.status_code in (400, 404)


def test_an_answer_that_is_not_stored_says_so(gateways: Gateways) -> None:
    answer = openai_sdk(transport_to(gateways, "anthropic")).responses.create(model="gpt-5", input="Hello")
    assert answer.model_dump()["store"] is False


def test_an_upstream_that_cannot_be_reached_is_the_sdks_own_error() -> None:
    transport = toolglot.httpx_transport("openai_chat", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(openai.APIConnectionError):
        openai_sdk(transport).chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "Hello"}])


def test_a_request_that_would_lose_data_is_refused_in_strict_mode(gateways: Gateways) -> None:
    transport = transport_to(gateways, "anthropic", strict=True)
    asked: Any = [{"role": "user", "content": "Hello"}]
    with pytest.raises(openai.BadRequestError, match="seed"):
        openai_sdk(transport).chat.completions.create(model="gpt-5", messages=asked, seed=7)


def test_the_receipt_names_what_was_lost(gateways: Gateways) -> None:
    transport = transport_to(gateways, "anthropic")
    asked: Any = [{"role": "user", "content": "Hello"}]
    openai_sdk(transport).chat.completions.create(model="gpt-5", messages=asked, seed=7)
    assert [line.where for line in transport.receipt.losses] == ["seed"]


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_every_sdk_lists_the_models_of_any_upstream(gateways: Gateways, upstream: str) -> None:
    with transport_to(gateways, upstream) as transport:
        listed = {model.id for model in openai_sdk(transport).models.list()}
        claude = anthropic.Anthropic(api_key="unused", max_retries=0, http_client=httpx2.Client(transport=transport))
        assert {model.id for model in claude.models.list()} == listed
        options = types.HttpOptions(httpx_client=cast(Any, httpx.Client(transport=cast(Any, transport))))
        google = genai.Client(api_key="unused", http_options=options)
        assert {(model.name or "").removeprefix("models/") for model in google.models.list()} == listed
        (first, *_) = sorted(listed)
        assert openai_sdk(transport).models.retrieve(first).id == first
        with pytest.raises(openai.NotFoundError, match="no model 'nothing'"):
            openai_sdk(transport).models.retrieve("nothing")


def test_an_asynchronous_sdk_lists_models_too(gateways: Gateways) -> None:
    async def run() -> list[str]:
        async with transport_to(gateways, "anthropic") as transport:
            http_client = httpx2.AsyncClient(transport=transport)
            client = openai.AsyncOpenAI(api_key="unused", max_retries=0, http_client=http_client)
            return [model.id async for model in client.models.list()]

    assert "demo" in asyncio.run(run())


def test_a_list_that_the_upstream_refuses_is_the_sdks_own_error() -> None:
    body = {"type": "error", "error": {"type": "authentication_error", "message": "No such key"}}
    refusing = httpx2.MockTransport(lambda request: httpx2.Response(401, json=body))
    transport = toolglot.httpx_transport("anthropic", key="k", transport=refusing)
    with pytest.raises(openai.AuthenticationError, match="No such key"):
        openai_sdk(transport).models.list()


def refuse_temperature(request: Any) -> httpx2.Response:
    """A Chat server whose model takes no temperature."""
    asked = json.loads(request.content)
    if "temperature" in asked:
        message = "Unsupported parameter: 'temperature' is not supported with this model."
        error = {"message": message, "type": "invalid_request_error", "param": "temperature"}
        return httpx2.Response(400, json={"error": error})
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hello"}}
    return httpx2.Response(200, json={"id": "c", "model": "m", "choices": [choice]})


class AsyncTransport(httpx2.AsyncBaseTransport):
    """The same server for an asynchronous client."""

    async def handle_async_request(self, request: Any) -> httpx2.Response:
        return refuse_temperature(request)


def test_a_known_refusal_is_fixed_by_a_second_request() -> None:
    asked: Any = [{"role": "user", "content": "Hello"}]
    settings: Any = {"model": "m", "max_tokens": 9, "messages": asked, "extra_body": {"temperature": 0.5}}
    server = httpx2.MockTransport(refuse_temperature)
    transport = toolglot.httpx_transport("openai_chat", base_url="http://upstream/v1", transport=server)
    client = anthropic.Anthropic(api_key="unused", max_retries=0, http_client=httpx2.Client(transport=transport))
    assert client.messages.create(**settings).content[0].text == "Hello"
    assert [line.where for line in transport.receipt.losses] == ["temperature"]
    assert "sent a second time" in [line.what for line in transport.receipt.notes]

    async def run() -> Any:
        transport = toolglot.httpx_transport("openai_chat", base_url="http://upstream/v1", transport=AsyncTransport())
        http_client = httpx2.AsyncClient(transport=transport)
        client = anthropic.AsyncAnthropic(api_key="unused", max_retries=0, http_client=http_client)
        return await client.messages.create(**settings)

    assert asyncio.run(run()).content[0].text == "Hello"


def test_a_refusal_that_has_to_lose_something_stands_in_strict_mode() -> None:
    server = httpx2.MockTransport(refuse_temperature)
    transport = toolglot.httpx_transport("openai_chat", base_url="http://upstream/v1", transport=server, strict=True)
    client = anthropic.Anthropic(api_key="unused", max_retries=0, http_client=httpx2.Client(transport=transport))
    asked: Any = [{"role": "user", "content": "Hello"}]
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        client.messages.create(model="m", max_tokens=9, messages=asked, extra_body={"temperature": 0.5})


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_writes_a_call_nobody_can_run_is_asked_once_more(stream: bool) -> None:
    """Its calls are text. The second answer continues the first."""
    answers = iter(['<tool_call>{"name": "wether", "arguments": {}}</tool_call>', "It is sunny."])

    def answer(request: Any) -> httpx2.Response:
        message = {"role": "assistant", "content": next(answers)}
        choice = {"index": 0, "delta" if stream else "message": message, "finish_reason": "stop"}
        document = {"id": "c", "model": "m", "choices": [choice]}
        if not stream:
            return httpx2.Response(200, json=document)
        return httpx2.Response(200, content=f"data: {json.dumps(document)}\n\ndata: [DONE]\n\n".encode())

    transport = toolglot.httpx_transport(
        "openai_chat",
        base_url="http://upstream/v1",
        transport=httpx2.MockTransport(answer),
        text_calls=TextCalls(format="hermes_json", bad_calls="ask"),
    )
    client = anthropic.Anthropic(api_key="unused", max_retries=0, http_client=httpx2.Client(transport=transport))
    settings: Any = {"model": "m", "max_tokens": 9, "tools": [{"name": "weather", "input_schema": SCHEMA}]}
    asked: Any = [{"role": "user", "content": PROMPT}]
    if stream:
        with client.messages.stream(messages=asked, **settings) as events:
            assert events.get_final_text() == "It is sunny."
    else:
        assert client.messages.create(messages=asked, **settings).content[0].text == "It is sunny."


def test_an_endpoint_that_is_not_a_models_is_an_error_that_says_so(gateways: Gateways) -> None:
    with pytest.raises(openai.NotFoundError, match="only answers requests to models"):
        openai_sdk(transport_to(gateways, "anthropic")).responses.retrieve("resp_1")


def test_a_vendor_that_is_misspelled_is_suggested() -> None:
    with pytest.raises(ValueError, match="did you mean 'anthropic'"):
        toolglot.httpx_transport("antropic")


def test_without_httpx_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolglot.in_process.find_spec", lambda name: None)
    with pytest.raises(toolglot.MissingExtraError, match=r"needs the package httpx.*\[httpx\]"):
        toolglot.httpx_transport("anthropic")


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("stream", [True, False])
def test_on_answer_gets_the_usage_and_the_stop_of_an_answer(gateways: Gateways, upstream: str, stream: bool) -> None:
    finished: list[tuple[Any, Any]] = []
    asked: Any = [{"role": "user", "content": "Hello"}]
    on_answer = lambda exchange: finished.append((exchange.usage, exchange.stop))  # noqa: E731
    client = openai_sdk(transport_to(gateways, upstream, on_answer=on_answer))
    options: Any = {"stream_options": {"include_usage": True}} if stream else {}
    answer = client.chat.completions.create(model="gpt-5", messages=asked, stream=stream, **options)
    if stream:
        assert not finished
        assert len(list(cast(Any, answer))) > 1
    ((usage, stop),) = finished
    assert usage.output_tokens > 0
    assert stop.reason == "end"


def answering(*reply: Any, vendor: str = "anthropic", **settings: Any) -> openai.OpenAI:
    """An SDK whose upstream has only this reply."""
    server = httpx2.MockTransport(lambda request: httpx2.Response(reply[0], **reply[1]))
    return openai_sdk(toolglot.httpx_transport(vendor, transport=server, **settings))


def test_a_refused_request_without_a_key_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    body = {"type": "error", "error": {"type": "authentication_error", "message": "x-api-key header is required"}}
    asked: Any = [{"role": "user", "content": "Hello"}]
    with pytest.raises(openai.AuthenticationError, match=r"set ANTHROPIC_API_KEY.*x-api-key header is required"):
        answering(401, {"json": body}).chat.completions.create(model="m", messages=asked)
    with pytest.raises(openai.AuthenticationError) as raised:
        answering(401, {"json": body}, key="k").chat.completions.create(model="m", messages=asked)
    assert "ANTHROPIC_API_KEY" not in str(raised.value)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("status", "message"),
    [(200, "answered with text/html; is its base URL right"), (404, "status 404 and a web page"), (302, "status 302;")],
)
def test_a_web_page_is_an_error_that_asks_for_the_base_url(stream: bool, status: int, message: str) -> None:
    client = answering(status, {"html": "<!doctype html><title>Hello</title>"}, key="k")
    asked: Any = [{"role": "user", "content": "Hello"}]
    with pytest.raises(openai.APIStatusError, match=f"The upstream 'anthropic' .*{message}"):
        client.chat.completions.create(model="m", messages=asked, stream=stream)
    with pytest.raises(openai.APIStatusError, match=message):
        client.models.list()
