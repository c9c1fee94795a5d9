"""Many clients at the same time: each gets its own answers, and the SDKs' asynchronous clients get them too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from tests.e2e.answers import Answer, Call
from tests.e2e.gateway import Gateways
from tests.e2e.python_ways import (
    MODEL,
    PROMPT,
    anthropic_client,
    chat_answer,
    genai_answer,
    genai_client,
    message_answer,
    openai_client,
    responses_answer,
)
from tests.e2e.recordings import TURNS
from tests.e2e.wires import WIRES

from .clients import Client
from .python_anthropic import ANTHROPIC
from .python_genai import GENAI
from .python_openai import OPENAI
from .script import OUTCOMES, Wish
from .upstreams import Upstream

CITIES = ["Zürich", "Oslo", "Lima", "Cairo", "Tokyo", "Berlin", "Paris", "Rome"]


def test_loops_at_the_same_time_do_not_mix(gateways: Gateways) -> None:
    base_urls = [gateways.to(dialect).base_url for dialect in WIRES]

    def run(client: Client, number: int) -> tuple[Any, str]:
        city = CITIES[number % len(CITIES)]
        wish = Wish(model="demo", prompt=f"What is the weather in {city}, and what time is it there?")
        calling, reporting = client.run(base_urls[number % len(base_urls)], wish)
        assert OUTCOMES["get_weather"].text in reporting.text
        return calling.calls[0].arguments["city"], city

    for made_once in (openai_client, anthropic_client, genai_client):
        made_once()  # here, since two threads could make two of them, and Google's closes itself when it is dropped
    clients = [*OPENAI, *ANTHROPIC, *GENAI]
    with ThreadPoolExecutor(len(CITIES)) as pool:
        for named, city in pool.map(run, [*clients, *clients], range(2 * len(clients))):
            assert named == city


async def chat(base_url: str) -> Answer:
    options: Any = {"include_usage": True}
    asked: Any = [{"role": "user", "content": PROMPT}]
    async with (
        openai.AsyncOpenAI(api_key="test", max_retries=0, base_url=f"{base_url}/v1") as client,
        client.chat.completions.stream(model=MODEL, messages=asked, stream_options=options) as stream,
    ):
        return chat_answer(await stream.get_final_completion())


async def responses(base_url: str) -> Answer:
    async with (
        openai.AsyncOpenAI(api_key="test", max_retries=0, base_url=f"{base_url}/v1") as client,
        client.responses.stream(model=MODEL, input=PROMPT) as stream,
    ):
        return responses_answer(await stream.get_final_response())


async def messages(base_url: str) -> Answer:
    asked: Any = [{"role": "user", "content": PROMPT}]
    async with (
        anthropic.AsyncAnthropic(api_key="test", max_retries=0, base_url=base_url) as client,
        client.messages.stream(model=MODEL, max_tokens=1024, messages=asked) as stream,
    ):
        return message_answer(await stream.get_final_message())


async def generate_content(base_url: str) -> Answer:
    client = genai.Client(api_key="test", http_options=types.HttpOptions(base_url=base_url))
    async with client.aio as asynchronous:
        stream = await asynchronous.models.generate_content_stream(model=MODEL, contents=PROMPT)
        answer = genai_answer([chunk async for chunk in stream])
    client.close()
    return answer


# Google's SDK makes a subclass of a class that warns of it.
@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("ask", [chat, responses, messages, generate_content])
def test_an_asynchronous_client_reads_the_same(
    gateways: Gateways, ask: Callable[[str], Awaitable[Answer]], dialect: str
) -> None:
    gateway = gateways.to(dialect)
    gateway.exchange.answer = Upstream(dialect)

    async def several() -> list[Answer]:
        return await asyncio.gather(*(ask(gateway.base_url) for _ in range(3)))

    expected = TURNS["parallel_calls"]
    for answer in asyncio.run(several()):
        assert (answer.text, answer.output_tokens) == (expected.text, expected.output_tokens)
        assert [Call(None, call.name, call.arguments) for call in answer.calls] == expected.calls
