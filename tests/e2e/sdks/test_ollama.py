"""Ollama's Python package at the gateway: chats and prompts, streamed and not, tools, thinking, images, formats."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.loopback import Loopback
from tests.server.gateway import Running, at, gateway
from tests.server.test_ollama_clients import ASKED as WEBUI_ASKED
from tests.server.test_ollama_clients import SETTINGS, TOOL, Heard, OpenWebUi, scripted_upstream
from toolglot.dialects import DIALECTS

ollama = pytest.importorskip("ollama")

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()
ASKED = [{"role": "user", "content": "What is the weather in Paris?"}]
UPSTREAMS = tuple(DIALECTS)


def get_weather(city: str) -> str:
    """Tell the weather.

    Args:
        city: The name of a city
    """
    return f"17 degrees in {city}"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    demos = {f"to_{name}": at(name, "demo:", models=(f"{name}-model",)) for name in UPSTREAMS}
    with gateway(demos) as started:
        yield started


@pytest.fixture(scope="module")
def host(running: Running) -> str:
    return f"http://127.0.0.1:{running.port}"


def whole(parts: Any) -> tuple[str, list[Any]]:
    """The text and the calls of an answer, streamed or not."""
    answers = [parts] if hasattr(parts, "message") else list(parts)
    assert [answer.done for answer in answers] == [False] * (len(answers) - 1) + [True]
    return "".join(answer.message.content or "" for answer in answers), [
        call for answer in answers for call in answer.message.tool_calls or ()
    ]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_the_package_completes_a_tool_loop(host: str, upstream: str, stream: bool) -> None:
    client = ollama.Client(host=host)
    model = f"{upstream}-model"
    _, calls = whole(client.chat(model=model, messages=ASKED, tools=[get_weather], stream=stream))
    assert [(call.function.name, dict(call.function.arguments)) for call in calls] == [
        ("get_weather", {"city": "Paris"})
    ]
    results = [
        {"role": "tool", "tool_name": call.function.name, "content": get_weather(**call.function.arguments)}
        for call in calls
    ]
    spoken = {"role": "assistant", "content": "", "tool_calls": calls}
    text, calls = whole(
        client.chat(model=model, messages=[*ASKED, spoken, *results], tools=[get_weather], stream=stream)
    )
    assert "17 degrees in Paris" in text
    assert calls == []


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_the_asynchronous_client_completes_a_tool_loop(host: str, upstream: str) -> None:
    async def loop() -> tuple[str, list[Any]]:
        client, model = ollama.AsyncClient(host=host), f"{upstream}-model"
        parts = [part async for part in await client.chat(model, ASKED, tools=[get_weather], stream=True)]
        _, calls = whole(parts)
        result = {"role": "tool", "tool_name": "get_weather", "content": get_weather("Paris")}
        spoken = {"role": "assistant", "content": "", "tool_calls": calls}
        return whole(await client.chat(model, [*ASKED, spoken, result], tools=[get_weather]))

    text, _ = asyncio.run(loop())
    assert "17 degrees in Paris" in text


@pytest.mark.parametrize("upstream", [name for name in UPSTREAMS if name != "warp"])
def test_thinking_images_and_formats_are_taken(host: str, upstream: str) -> None:
    client, model = ollama.Client(host=host), f"{upstream}-model"
    seen = client.chat(model, [{"role": "user", "content": "Look.", "images": [PNG]}], think=True)
    assert seen.message.content
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    told = client.chat(model, ASKED, format=schema, options={"temperature": 0.5, "num_predict": 500})
    assert isinstance(json.loads(told.message.content), dict)
    assert (told.prompt_eval_count or 0) > 0


def test_a_prompt_a_list_and_a_model_are_read(host: str) -> None:
    client = ollama.Client(host=host)
    assert client.generate("openai_chat-model", "Hello you").response.startswith("You said")
    parts = list(client.generate("gemini-model", "Hello you", stream=True))
    assert "".join(part.response for part in parts).startswith("You said")
    listed = [model.model for model in client.list().models]
    assert "demo:toolglot" in listed
    assert all("tools" in client.show(name).capabilities for name in (*listed, "demo"))
    assert client.generate("demo:toolglot", "Hello you").response.startswith("You said")
    assert client.ps().models == []


def test_errors_are_the_packages_own(host: str) -> None:
    with pytest.raises(ollama.ResponseError) as refused:
        ollama.Client(host=host).chat("unheard-of", ASKED)
    assert refused.value.status_code == 404


def test_open_webui_sends_what_the_package_sends_except_for_calls_and_results(running: Running) -> None:
    """The package drops the ids of calls, names the tool of a result and leaves out empty text. Open WebUI does not."""
    call = {"id": "call_0", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}
    webui = OpenWebUi(running).body(
        "m:latest", [*WEBUI_ASKED, *OpenWebUi.remember(Heard(calls={0: call}), {"call_0": "17 degrees"})]
    )
    said, result = webui["messages"][-2:]
    (spoken,) = said["tool_calls"]
    assert (said.pop("content"), spoken.pop("id"), spoken.pop("index")) == ("", "call_0", 0)
    assert result.pop("tool_call_id") == "call_0"
    result["tool_name"] = "get_weather"
    server = Loopback()
    try:
        with server.serving(scripted_upstream("ollama")) as upstream:
            chat = {"model": "m:latest", "messages": webui["messages"], "tools": [TOOL], "stream": True, **SETTINGS}
            list(ollama.Client(host=upstream.base_url).chat(**chat))
            (asked,) = upstream.asked
    finally:
        server.close()
    assert (asked.path, asked.json()) == ("/api/chat", webui)
