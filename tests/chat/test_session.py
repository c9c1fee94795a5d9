"""Sessions on the demo upstream: answers, tools, consent, other models, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.chat.scripted import Stage, a_stage
from toolglot.agent.server_records import ServerState
from toolglot.chat.conversation import STOPPED, STOPPED_HERE, FailedAnswer
from toolglot.chat.session import Ask, Consent
from toolglot.ir import Text, Thinking, ToolCall, ToolResult
from toolglot.routing import UnknownModelError
from toolglot.tools.served import ServedCall


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def consenting(*answers: Consent) -> tuple[Ask, list[str]]:
    """Somebody who says this, and what they were asked."""
    asked: list[str] = []
    left = list(answers)

    async def ask(call: ServedCall) -> Consent:
        asked.append(call.name)
        return left.pop(0)

    return ask, asked


def blocks(stage: Stage) -> list[str]:
    """The kinds of blocks that models are told."""
    return [type(block).__name__ for message in stage.session.conversation.messages for block in message.content]


def test_an_answer_is_shown_and_kept() -> None:
    async def talk() -> None:
        stage = await a_stage()
        assert await stage.session.answer("hello")
        assert stage.seen().startswith("You said: “hello”.")
        roles = [message.role for message in stage.session.conversation.messages]
        assert roles == ["user", "assistant"]

    run(talk())


def test_a_tool_that_only_reads_is_run_and_shown_safely() -> None:
    async def talk() -> None:
        stage = await a_stage()
        assert await stage.session.answer("What is the weather in Oslo?")
        seen = stage.seen()
        assert '▸ home: weather {"city":"Oslo"}\n  … weather: 1/2 half\n  ✓ weather: Oslo: sunny\n' in seen
        assert "Here is what the tool returned:" in seen
        assert "1 call" in seen
        assert "\x1b" not in seen
        assert blocks(stage) == ["Text", "ToolCall", "ToolResult", "Text"]

    run(talk())


@pytest.mark.parametrize(("consent", "ran"), [("yes", ["add_note"]), ("no", [])])
def test_a_tool_that_changes_something_asks_first(consent: Consent, ran: list[str]) -> None:
    async def talk() -> None:
        ask, asked = consenting(consent)
        stage = await a_stage(ask)
        assert await stage.session.answer('Add a note "milk".')
        assert (asked, stage.host.called) == (["add_note"], ran)
        seen = stage.seen()
        assert ("✓ add_note: Kept: milk" in seen) == bool(ran)
        assert ("✗ add_note: The user did not allow this call" in seen) == (not ran)

    run(talk())


def test_always_is_for_one_tool_and_told_with_the_tools() -> None:
    async def talk() -> None:
        ask, asked = consenting("always")
        stage = await a_stage(ask)
        for _ in range(2):
            assert await stage.session.answer('Add a note "milk".')
        assert (asked, stage.host.called) == (["add_note"], ["add_note", "add_note"])
        told = [line.text.split()[:2] for line in await stage.session.tools()]
        assert ["add_note", "always"] in told
        assert ["weather", "auto"] in told

    run(talk())


def test_where_nobody_can_be_asked_such_a_tool_is_not_offered() -> None:
    async def talk() -> None:
        stage = await a_stage(None)
        assert await stage.session.answer('Add a note "milk".')
        assert "add_note" not in stage.host.called
        assert any("add_note not offered" in line.text for line in stage.session.receipt())

    run(talk())


@pytest.mark.parametrize("model", ["demo-chat", "demo-responses", "demo-anthropic", "demo-gemini", "demo-text"])
def test_another_model_is_told_all_that_was_said_before(model: str) -> None:
    async def talk() -> None:
        stage = await a_stage(model="demo-anthropic" if model != "demo-anthropic" else "demo-gemini", effort="low")
        assert await stage.session.answer("What is the weather in Oslo?")
        before = stage.session.conversation.messages
        place = stage.session.switch(model)
        assert (place.upstream, stage.session.model) == (model if model != "demo-text" else "demo", model)
        assert await stage.session.answer("And the weather in Paris?")
        assert stage.session.conversation.messages[: len(before)] == before
        assert "Paris: sunny" in stage.seen()
        assert stage.host.called == ["weather", "weather"]

    run(talk())


def test_reasoning_is_shown_and_kept_with_its_state() -> None:
    async def talk() -> None:
        stage = await a_stage(model="demo-anthropic", effort="low")
        assert await stage.session.answer("hello")
        assert stage.seen().startswith("The user says: “hello”.")
        (thought,) = (
            block
            for message in stage.session.conversation.messages
            for block in message.content
            if isinstance(block, Thinking)
        )
        assert thought.native

    run(talk())


def test_a_tool_that_fails_is_an_error_for_the_model_and_no_end() -> None:
    async def talk() -> None:
        stage = await a_stage()
        assert await stage.session.answer("Break the glass!")
        assert "✗ break_glass: it is broken" in stage.seen()

    run(talk())


def test_an_answer_that_is_stopped_cancels_its_call_and_the_conversation_goes_on() -> None:
    async def talk() -> None:
        stage = await a_stage()
        task = asyncio.create_task(stage.session.answer("Wait long"))
        await stage.host.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stage.host.cancelled.is_set()
        *_, tool, last = stage.session.conversation.messages
        (result,) = tool.content
        assert isinstance(result, ToolResult)
        assert result.content == (Text(text=STOPPED),)
        assert last.content == (Text(text=STOPPED_HERE),)
        assert await stage.session.answer("What is the weather in Oslo?")
        assert "Oslo: sunny" in stage.seen()

    run(talk())


@pytest.mark.parametrize(
    ("prompt", "why", "kept"),
    [
        ("demo:error 400", "", 1),
        ("hello demo:fault", "", 2),
        ("hello demo:cut", "broke off", 2),
    ],
)
def test_an_answer_that_fails_is_told_and_what_came_of_it_is_kept(prompt: str, why: str, kept: int) -> None:
    async def talk() -> None:
        stage = await a_stage()
        assert not await stage.session.answer(prompt)
        seen = stage.seen()
        assert "Error: " in seen
        assert why in seen
        assert len(stage.session.conversation.messages) == kept
        assert isinstance(stage.session.conversation.entries[-1], FailedAnswer)
        assert await stage.session.answer("hello")

    run(talk())


def test_a_call_that_is_cut_off_is_not_run() -> None:
    async def talk() -> None:
        stage = await a_stage()
        assert not await stage.session.answer("What is the weather in Oslo? demo:cut")
        assert stage.host.called == []
        assert not any(
            isinstance(block, ToolCall) for message in stage.session.conversation.messages for block in message.content
        )

    run(talk())


def test_a_server_that_is_not_there_is_told_once() -> None:
    async def talk() -> None:
        stage = await a_stage(state=ServerState(name="home", state="waiting", why="it \x1b[2Jended"))
        for _ in range(2):
            assert await stage.session.answer("hello")
        assert stage.seen().count("MCP server home is waiting: it ended\n") == 1

    run(talk())


def test_a_model_that_nobody_serves_is_not_switched_to() -> None:
    async def talk() -> None:
        stage = await a_stage()
        with pytest.raises(UnknownModelError, match="demo-gemini"):
            stage.session.switch("demo-gemin")
        assert stage.session.model == "demo"
        assert "demo-gemini" in await stage.session.models()

    run(talk())


def test_the_receipt_is_that_of_the_last_answer() -> None:
    async def talk() -> None:
        stage = await a_stage()
        assert stage.session.receipt()[0].text == "No request has been sent yet."
        assert await stage.session.answer("hello")
        assert stage.session.receipt()[0].text != "No request has been sent yet."

    run(talk())
