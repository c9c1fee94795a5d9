"""`ask_model` at upstreams that answer, fail, hang and talk without end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import pytest

from tests.server.gateway import at
from tests.upstream.bad_server import BadServer, Gate, Step, expect, gone, never, reply, send, send_for_ever, stream
from tests.upstream.bad_server import chunk as framed
from tests.upstream.bad_server import head as begun
from toolglot.config.assemble import assemble
from toolglot.config.schema import Config, UpstreamConfig
from toolglot.gateway.request_record import RequestRecord
from toolglot.server.startup import build_gateway
from toolglot.tool_server import ask_model
from toolglot.tool_server.arguments import CallError
from toolglot.tool_server.ask_model import ModelAsker
from toolglot.tool_server.tools import ToolOutput
from toolglot.upstream.http_client import HttpTransport

T = TypeVar("T")

KEY = "sk-canary-of-the-upstream"
QUESTION = {"model": "m", "prompt": "How are you?"}


def chunk(text: str, finish: str | None = None, **more: Any) -> bytes:
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]
    told = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": choices, **more}
    return b"data: " + json.dumps(told).encode() + b"\n\n"


USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
FINE = (chunk("I am "), chunk("fine."), chunk("", "stop", usage=USAGE), b"data: [DONE]\n\n")


class Asked:
    """What came of one question."""

    def __init__(self) -> None:
        self.progress: list[tuple[float, str]] = []
        self.records: list[RequestRecord] = []

    def ask(
        self, arguments: Mapping[str, Any], upstream: UpstreamConfig | None = None, timeout: float = 20.0
    ) -> ToolOutput:
        async def progress(done: float, message: str) -> None:
            self.progress.append((done, message))

        async def question(asking: ModelAsker) -> ToolOutput:
            return await asking.ask(arguments, progress)

        return asyncio.run(with_asking(question, upstream, timeout, self.records.append))


async def with_asking(
    use: Callable[[ModelAsker], Awaitable[T]],
    upstream: UpstreamConfig | None,
    timeout: float,
    observe: Callable[[RequestRecord], None] = lambda record: None,
) -> T:
    upstreams = {} if upstream is None else {"up": upstream}
    config = assemble(Config(upstreams=upstreams, discover=False), {}).config
    transport = HttpTransport(10)
    try:
        return await use(ModelAsker(build_gateway(config, transport), timeout, observe))
    finally:
        await transport.close()


def refusal(arguments: Mapping[str, Any], *steps: Step, timeout: float = 20.0) -> tuple[str, RequestRecord]:
    asked = Asked()
    with BadServer(list(steps)) as server, pytest.raises(CallError) as caught:
        asked.ask(arguments, at("openai_chat", server.url, key=KEY), timeout)
    return str(caught.value), asked.records[0]


def test_an_answer_has_its_text_its_end_its_model_and_its_usage() -> None:
    asked = Asked()
    with BadServer([expect(), stream(*FINE)]) as server:
        told = asked.ask({**QUESTION, "system": "Be brief.", "max_output_tokens": 9}, at("openai_chat", server.url))
        sent = json.loads(server.requests[0].body)
    assert told.structured == {
        "text": "I am fine.",
        "stop_reason": "end",
        "model": "m-1",
        "usage": {"input_tokens": 5, "output_tokens": 2},
    }
    assert told.texts == ("I am fine.",)
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert 9 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))
    assert "tools" not in sent
    (record,) = asked.records
    assert (record.status, record.upstream, record.stop) == (200, "up", "end")


def test_a_conversation_goes_before_the_prompt() -> None:
    said = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]
    with BadServer([expect(), stream(*FINE)]) as server:
        Asked().ask({**QUESTION, "messages": said}, at("openai_chat", server.url))
        sent = json.loads(server.requests[0].body)
    assert [message["content"] for message in sent["messages"]] == ["1", "2", "How are you?"]


def test_an_answer_that_was_cut_says_so() -> None:
    with BadServer([expect(), stream(chunk("I am"), chunk("", "length"), b"data: [DONE]\n\n")]) as server:
        told = Asked().ask(QUESTION, at("openai_chat", server.url))
    assert told.structured["stop_reason"] == "length"
    assert told.texts == ("I am", "Stop reason: length.")


def test_progress_is_told_while_the_answer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_model, "PROGRESS_INTERVAL", 0.0)
    asked = Asked()
    with BadServer([expect(), stream(*FINE)]) as server:
        asked.ask(QUESTION, at("openai_chat", server.url))
    assert asked.progress
    assert asked.progress[-1] == (10.0, "10 characters so far")
    assert [done for done, _ in asked.progress] == sorted(done for done, _ in asked.progress)


def test_an_answer_without_end_is_cut_off_and_the_upstream_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_model, "MAX_ANSWER", 5000)
    piece = framed(chunk("x" * 100))
    start = send(begun(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
    with BadServer([expect(), start, send_for_ever(piece)]) as server:
        told = Asked().ask(QUESTION, at("openai_chat", server.url))
    assert 5000 < len(told.structured["text"]) < 2_000_000
    assert told.structured["stop_reason"] == "length"
    assert "more than 5000 characters" in told.structured["cut_off"]


def test_the_time_of_an_answer_is_bounded() -> None:
    message, record = refusal(QUESTION, expect(), never(), timeout=0.2)
    assert message == "no whole answer came within 0.2 seconds"
    assert record.error == "timeout"


def test_a_cancelled_question_leaves_the_upstream() -> None:
    seen, left = Gate(), Gate()

    async def cancelled(asking: ModelAsker) -> None:
        async def progress(done: float, message: str) -> None:
            raise AssertionError

        question = asyncio.create_task(asking.ask(QUESTION, progress))
        await seen.wait()
        question.cancel()
        await left.wait()
        assert question.cancelled()

    records: list[RequestRecord] = []
    with BadServer([expect(seen=seen), gone(left)]) as server:
        asyncio.run(with_asking(cancelled, at("openai_chat", server.url), 20.0, records.append))
    assert records[0].cancelled


def test_an_error_of_the_upstream_is_told_without_its_key() -> None:
    error = {"error": {"message": f"the key {KEY} is over its limit", "type": "invalid_request_error"}}
    message, record = refusal(QUESTION, expect(), reply(error, 400))
    assert "is over its limit" in message
    assert KEY not in message
    assert KEY not in str(record.message)


def test_an_answer_that_breaks_off_is_an_error() -> None:
    message, _ = refusal(QUESTION, expect(), stream(chunk("I am "), complete=False))
    assert "ended" in message or "broke" in message or "closed" in message


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "missing required field `model`"),
        ({"model": "m"}, "prompt: it is empty, and there are no messages"),
        ({"model": "", "prompt": "x"}, "$.model"),
        ({"model": "m", "prompt": 3}, "Expected `str`, got `int` - at `$.prompt`"),
        ({**QUESTION, "max_output_tokens": 0}, "$.max_output_tokens"),
        ({**QUESTION, "messages": [{"role": "system", "content": "x"}]}, "$.messages[0].role"),
        ({"model": "m", "messages": [{"role": "assistant", "content": "x"}]}, "the last one must be the user's"),
        ({"model": "m", "prompt": "x" * 9_000_000}, "more than the limit of 8388608"),
        ({**QUESTION, "tools": []}, "unknown field `tools`"),
    ],
)
def test_a_question_that_cannot_be_asked_is_told_why(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(CallError) as caught:
        Asked().ask(arguments)
    assert told in str(caught.value)


def test_a_model_that_nobody_serves_is_told_with_the_nearest() -> None:
    two = {"a": at("openai_chat", "http://127.0.0.1:9", models=("alpha",)), "b": at("gemini", "http://127.0.0.1:9")}

    async def ask(asking: ModelAsker) -> None:
        async def progress(done: float, message: str) -> None:
            raise AssertionError

        await asking.ask({"model": "alpho", "prompt": "x"}, progress)

    async def held() -> None:
        config = assemble(Config(upstreams=two, discover=False), {}).config
        transport = HttpTransport(10)
        try:
            asking = ModelAsker(build_gateway(config, transport), 5.0)
            assert "alpha" in asking.description
            await ask(asking)
        finally:
            await transport.close()

    with pytest.raises(CallError, match="model: no upstream serves the model 'alpho'; the nearest: alpha"):
        asyncio.run(held())
