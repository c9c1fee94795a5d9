"""What is kept of a conversation with Warp is sent back only where the conversation can go on from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from tests.exchanges import calls_of
from tests.server.gateway import at, gateway
from tests.server.warp_loop import CLIENTS, Client, agent, before, kept, user
from tests.warp_server import frames, story
from tests.warp_server.agent import TOKEN, Agent, Heard, Turn, hear
from tests.warp_server.scripts import Called, Script
from tests.warp_server.server import warp_server
from toolglot.ir import Message, Text, ToolCall, ToolResult, replace
from toolglot.store import Replay
from toolglot.store.sqlite import MEMORY, SqliteStore

UNKNOWN = "note messages: nothing is kept of this conversation: it is told anew"


def answers(calls: Sequence[ToolCall]) -> Message:
    return Message(
        role="tool",
        content=tuple(ToolResult(call_id=call.id, name=call.name, content=(Text(text="Done."),)) for call in calls),
    )


def cancelled(heard: Heard) -> int:
    messages = [message for task in heard.tasks for message in task["messages"]]
    return sum("cancel" in message.get("tool_call_result", {}) for message in messages)


@pytest.mark.parametrize("dialect", CLIENTS)
def test_two_runs_of_the_same_question_are_answered_under_the_ids_of_their_calls(dialect: str) -> None:
    """The words are the same and the ids are not: these tell one from the other."""
    asked: list[Heard] = []

    def script(now: Heard) -> Turn:
        if now.results:
            return Turn(f"{len(now.results)} results.")
        asked.append(now)
        number = len(asked)
        return Turn("", (Called(f"w-{number}", "get_weather", {}), Called(f"t-{number}", "get_time", {})))

    warp = Agent(script)
    with kept() as store, before(warp, store=store) as (running, _):
        one, other = Client(dialect, running), Client(dialect, running)
        calls, others = (calls_of(client.say(user("Weather and time?")).content) for client in (one, other))
        one.say(answers(calls))
        assert UNKNOWN not in one.receipt()
        other.say(answers(others))
        one.say(user("Thanks"))
    assert [heard.fresh for heard in warp.heard[2:]] == [["w-1", "t-1"], ["w-2", "t-2"], []]
    assert [cancelled(heard) for heard in warp.heard] == [0] * 5


@pytest.mark.parametrize("dialect", CLIENTS)
def test_calls_without_ids_are_told_anew_with_ids(dialect: str) -> None:
    calls = [story.add(story.called(number, "", name, {})) for number, name in ((1, "get_weather"), (2, "get_time"))]
    script = Script(frames.stream([*story.opening(), *calls, story.finished()]))
    with (
        kept() as store,
        warp_server(script) as server,
        gateway(at("warp", server.url, key=TOKEN), store=store) as running,
    ):
        client = Client(dialect, running)
        client.say(answers(calls_of(client.say(user("Hi")).content)))
        assert UNKNOWN in client.receipt()
        heard = hear(server.requests[1].headers, server.requests[1].body)
    assert len(set(heard.fresh)) == 2
    assert not heard.conversation
    assert not cancelled(heard)


class Spoilt(SqliteStore):
    """Has something else than what was kept."""

    value = b""

    async def replay(
        self, owner: str, upstream: str, hashes: Sequence[str], calls: Collection[str] = ()
    ) -> Replay | None:
        found = await super().replay(owner, upstream, hashes, calls)
        return found and replace(found, value=self.value)


NO_TASKS: tuple[Any, ...] = (None, {}, "CgA=", [], [1], ["?"], ["/////w=="], [""])


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[]", b"{}", *(json.dumps({"tasks": tasks}).encode() for tasks in NO_TASKS)]
)
def test_what_cannot_be_read_any_more_is_as_if_it_were_not_there(value: bytes) -> None:
    warp = agent("native")
    store = Spoilt(MEMORY)
    store.value = value
    with before(warp, store=store) as (running, _):
        client = Client("openai_chat", running)
        client.all_three()
        assert UNKNOWN in client.receipt()
    asyncio.run(store.close())
    assert [heard.conversation for heard in warp.heard] == ["", "", ""]
