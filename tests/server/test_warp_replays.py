"""What is kept of a conversation with Warp is sent back only where the conversation can go on from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest

from tests.exchanges import calls_of, spoken
from tests.server.gateway import at, gateway
from tests.server.warp_loop import CLIENTS, Client, agent, before, kept, user
from tests.upstream.bad_server import BadServer, Peer, expect, stream
from tests.warp_server import frames, story
from tests.warp_server.agent import TOKEN, Agent, Heard, Turn, hear
from tests.warp_server.messages import decode
from tests.warp_server.scripts import Called, Script
from tests.warp_server.server import HEADERS, warp_server
from toolglot.dialects import DIALECTS
from toolglot.gateway.features import conversation_replay
from toolglot.ir import Message, ResponseFormat, Text, ToolCall, ToolChoice, ToolResult, replace
from toolglot.store import StoredReplay
from toolglot.store.sqlite import MEMORY, SqliteStore

UNKNOWN = "note messages: this conversation is not stored: it is sent in full"


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


def test_a_conversation_is_kept_for_the_credential_that_it_was_held_with() -> None:
    """Which may stand in any header, and in two gateways with one store."""
    told = []
    with kept() as store, warp_server(Agent(lambda heard: Turn("Well."))) as server:
        first: list[Message] = []
        for session in ("mine", "yours", "mine"):
            upstream = at("warp", server.url, key=TOKEN, headers={"cookie": session})
            with gateway(upstream, store=store) as running:
                client = Client("openai_chat", running)
                client.messages = list(first) or client.messages
                client.say(user("Go on" if first else "Hi"))
                first = first or client.messages
                told.append(UNKNOWN in client.receipt())
    assert told == [False, True, False]


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


@pytest.mark.parametrize("dialect", CLIENTS)
def test_a_conversation_stays_known_when_its_system_text_changes(dialect: str) -> None:
    warp = agent("replay")
    with kept() as store, before(warp, store=store) as (running, _):
        client = Client(dialect, running)
        calls = client.first()
        steps: list[Callable[[], None]] = [lambda: client.second(calls), client.third]
        for number, step in enumerate(steps):
            text = f"This is turn {number + 2}."
            client.messages[0] = Message(role="system", content=(Text(text=text),))
            step()
            assert UNKNOWN not in client.receipt()
            assert warp.heard[-1].system[0] == text
    assert [heard.conversation for heard in warp.heard] == ["", "conversation-1", "conversation-1"]


def test_conversations_that_differ_in_white_space_do_not_mix() -> None:
    warp = Agent(lambda now: Turn("OK."))
    with kept() as store, before(warp, store=store) as (running, _):
        one, other = Client("openai_chat", running), Client("openai_chat", running)
        one.say(user("if x:\n    a()\nb()"))
        other.say(user("if x:\n    a()\n    b()"))
        one.say(user("Why?"))
        other.say(user("Why?"))
    assert [heard.conversation for heard in warp.heard] == ["", "", "conversation-1", "conversation-2"]


ASKED_FOR: dict[str, dict[str, Any]] = {
    "a call": {"tool_choice": ToolChoice(mode="required")},
    "JSON": {"response_format": ResponseFormat(kind="json_schema", name="x", schema={"type": "object"})},
}


@pytest.mark.parametrize("throughout", [False, True])
@pytest.mark.parametrize("dialect", CLIENTS)
@pytest.mark.parametrize("name", ASKED_FOR)
def test_a_line_of_ours_is_no_part_of_the_conversation(name: str, dialect: str, throughout: bool) -> None:
    warp = agent("native")
    with kept() as store, before(warp, store=store) as (running, _):
        client = Client(dialect, running)
        client.more = ASKED_FOR[name]
        calls = client.first()
        client.more = client.more if throughout else {}
        client.second(calls)
        assert UNKNOWN not in client.receipt()
        client.third()
        assert UNKNOWN not in client.receipt()
    assert [heard.conversation for heard in warp.heard] == ["", "conversation-1", "conversation-1"]
    assert [query for heard in warp.heard for query in heard.queries if query] == ["Weather and time?", "Thanks"]
    past = [message for task in warp.heard[-1].tasks for message in task["messages"]]
    queries = [message["user_query"].get("query", "") for message in past if "user_query" in message]
    assert [query for query in queries if query] == ["Weather and time?"]
    has_line = name != "a call" or "required" in DIALECTS[dialect].can.tools.choices
    assert any("system-reminder" in text for text in warp.heard[0].system) == has_line


def server_of(*bodies: bytes) -> BadServer:
    """A server that answers each request with the next of these."""
    waiting = iter(bodies)

    async def step(peer: Peer) -> None:
        await stream(next(waiting), headers=HEADERS)(peer)

    return BadServer([expect(), step])


def body_of(*events: Any) -> bytes:
    return frames.stream([*story.opening(), *events, story.finished()])


TEXT = "agent_output.text"
END = frames.stream([story.init(), story.add(story.said("end", "Good-bye")), story.finished()])
LATER: dict[str, tuple[bytes, str, str]] = {
    "text that is written anew": (
        body_of(story.add(story.said(3, "Hello wrold")), story.update(story.said(3, "Hello world"), TEXT)),
        "Hello world",
        "Hello wrold",
    ),
    "text that grows behind another": (
        body_of(
            story.add(story.said(3, "A")),
            story.add(story.said(4, "B")),
            story.append({"id": "m-3", "agent_output": {"text": "a"}}, TEXT),
        ),
        "AaB",
        "ABa",
    ),
    "a message that says something late": (
        body_of(
            story.add({"id": "m-3"}), story.add(story.said(4, "B")), story.update(story.said(3, "A"), "agent_output")
        ),
        "AB",
        "BA",
    ),
}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("dialect", CLIENTS)
@pytest.mark.parametrize("name", LATER)
def test_an_answer_is_known_as_the_client_was_given_it(name: str, dialect: str, streams: bool) -> None:
    body, in_the_end, as_it_came = LATER[name]
    with (
        kept() as store,
        server_of(body, END) as server,
        gateway(at("warp", server.url, key=TOKEN), store=store) as running,
    ):
        client = Client(dialect, running, stream=streams)
        said = spoken(client.say(user("Hi")).content)["text"]
        assert "".join(said.split()) == "".join((as_it_came if streams else in_the_end).split())
        client.say(user("Thanks"))
        assert UNKNOWN not in client.receipt()
        assert hear(server.requests[1].headers, server.requests[1].body).conversation == story.CONVERSATION


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("history", ["replay", "native"])
@pytest.mark.parametrize("task_id", ["", "task-anew"])
def test_a_server_may_tell_again_what_it_was_sent(task_id: str, history: str, streams: bool) -> None:
    first = body_of(*story.spoken("Let me look."), story.add(story.called(9, "c9", "get_time", {})))

    async def step(peer: Peer) -> None:
        tasks = decode("Request", peer.server.requests[-1].body).get("task_context", {}).get("tasks", [])
        body = first
        if tasks:
            task = task_id or tasks[0]["id"]
            again = [{**message, "task_id": task} for message in tasks[0]["messages"]]
            end = story.add(story.said("end", "It is noon.", task=task), task=task)
            body = frames.stream([story.init(), story.create_task(task, "", *again), end, story.finished()])
        await stream(body, headers=HEADERS)(peer)

    with (
        kept() as store,
        BadServer([expect(), step]) as server,
        gateway(at("warp", server.url, key=TOKEN, warp_history=history), store=store) as running,
    ):
        client = Client("openai_chat", running, stream=streams)
        calls = calls_of(client.say(user("Hi")).content)
        response = client.say(answers(calls))
        assert (spoken(response.content)["text"], calls_of(response.content)) == ("It is noon.", [])
        client.ask(user("Thanks"))
        tasks = hear(server.requests[2].headers, server.requests[2].body).tasks
        past = [message for task in tasks for message in task["messages"]]
        assert sum("tool_call" in message and "call_mcp_tool" in message["tool_call"] for message in past) == 1


@pytest.mark.parametrize("streams", [False, True])
def test_what_is_too_much_to_keep_is_told(streams: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_replay, "MAX_BYTES", 1_000)
    body = body_of(*story.spoken("Hi" * 1_000))
    with (
        kept() as store,
        server_of(body) as server,
        gateway(at("warp", server.url, key=TOKEN), store=store) as running,
    ):
        client = Client("openai_chat", running, stream=streams)
        client.say(user("Hi"))
        assert (
            "note messages: this answer is not stored and will be sent in full: the answer has more than 1000 bytes"
            in client.receipt()
        )


class Spoilt(SqliteStore):
    """Has something else than what was kept."""

    value = b""

    async def replay(
        self, owner: str, upstream: str, hashes: Sequence[str], calls: Collection[str] = ()
    ) -> StoredReplay | None:
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
