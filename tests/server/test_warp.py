"""Clients of every dialect in front of a Warp upstream, in every way to tell it what was said before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.exchanges import calls_of, read_events, spoken
from tests.server.gateway import LIMITS, at, gateway
from tests.server.warp_loop import CLIENTS, SYSTEM, Client, agent, before, kept, user
from tests.upstream.bad_server import BadServer, expect, reply
from tests.warp_server import frames, story
from tests.warp_server.agent import TOKEN, History, Turn, hear, ordered
from tests.warp_server.messages import Tree, decode, encode
from tests.warp_server.scripts import REFUSALS, SCRIPTS, Refused, Script
from tests.warp_server.server import PATH, answering, warp_server
from tests.warp_server.state import added_up
from toolglot.config.assemble import assemble
from toolglot.config.schema import Config, Limits, Retries, ServerConfig, UpstreamConfig
from toolglot.dialects import DIALECTS
from toolglot.dialects.warp.models import MODEL_IDS
from toolglot.doctor.upstreams import check_upstream
from toolglot.errors import MissingExtraError
from toolglot.events import Fault
from toolglot.ir import Message, Request, Text, ToolResult
from toolglot.receipt import Receipt
from toolglot.server.startup import build_gateway
from toolglot.upstream.demo.transport import DemoTransport

HISTORIES: tuple[History, ...] = ("replay", "native", "text")
UNKNOWN = "note messages: this conversation is not stored: it is sent in full"
AGAIN = Retries(attempts=2, first_wait=0)


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", CLIENTS)
def test_three_turns_with_calls_in_parallel(dialect: str, stream: bool, history: History) -> None:
    warp = agent(history)
    with kept() as store, before(warp, store=store, warp_history=history) as (running, _):
        client = Client(dialect, running, stream=stream)
        client.all_three()
        assert UNKNOWN not in client.receipt()
    for heard in warp.heard:  # in the turn of the results, too
        assert any(SYSTEM in text for text in heard.system), heard
    assert [heard.supported_tools for heard in warp.heard] == [[9]] * 3
    assert [bool(heard.conversation) for heard in warp.heard[1:]] == [history == "replay"] * 2


# Replay


def test_what_the_server_sent_survives_a_restart(tmp_path: Path) -> None:
    """The agent itself checks that its tasks come back byte by byte, opaque data and unknown fields included."""
    warp, path = agent("replay"), tmp_path / "store.sqlite3"
    with warp_server(warp) as server:
        upstream = at("warp", server.url, key=TOKEN)
        with kept(path) as store, gateway(upstream, store=store) as running:
            client = Client("anthropic", running)
            calls = client.first()
        with kept(path) as store, gateway(upstream, store=store) as client.running:
            client.second(calls)
        with kept(path) as store, gateway(upstream, store=store) as client.running:
            client.third()
    assert [heard.conversation for heard in warp.heard] == ["", "conversation-1", "conversation-1"]


def test_two_clients_that_say_the_same_do_not_mix() -> None:
    """Of two keys, neither sees what is kept for the other."""
    warp = agent("native")
    server = ServerConfig(keys=("first-key", "second-key"))
    with (
        kept() as store,
        warp_server(warp) as upstream,
        gateway(at("warp", upstream.url, key=TOKEN), store=store, server=server) as running,
    ):
        first = Client("openai_chat", running, headers={"authorization": "Bearer first-key"})
        second = Client("openai_chat", running, headers={"authorization": "Bearer second-key"})
        calls = first.first()
        second.messages = list(first.messages)
        second.second(calls)  # it goes on where the first one is
        first.second(calls)
        assert [heard.conversation for heard in warp.heard] == ["", "", "conversation-1"]
        second.third()
        first.third()
    assert [heard.conversation for heard in warp.heard[3:]] == ["conversation-2", "conversation-1"]


def test_conversations_of_one_client_that_differ_do_not_mix() -> None:
    warp = agent("native")
    with kept() as store, before(warp, store=store) as (running, _):
        one, other = Client("gemini", running), Client("gemini", running, stream=True)
        calls, others = one.first(), calls_of(other.say(user("Weather and time, please?")).content)
        other.second(others)
        one.second(calls)
    assert [heard.conversation for heard in warp.heard] == ["", "", "conversation-2", "conversation-1"]


def test_a_conversation_that_nobody_knows_is_told_anew_and_then_known() -> None:
    warp = agent("native")
    with kept() as store, before(warp, store=store) as (running, _):
        client = Client("openai_responses", running)
        client.messages += [user("Hello"), Message(role="assistant", content=(Text(text="Hello yourself."),))]
        calls = client.first()
        assert UNKNOWN in client.receipt()
        client.second(calls)
        assert UNKNOWN not in client.receipt()
    assert [heard.conversation for heard in warp.heard] == ["", "conversation-1"]


def test_a_client_that_changes_what_was_said_is_told_anew() -> None:
    warp = agent("native")
    with kept() as store, before(warp, store=store) as (running, _):
        client = Client("openai_chat", running)
        calls = client.first()
        client.messages[1] = user("Weather and time, please?")
        client.second(calls)
        assert UNKNOWN in client.receipt()


def test_without_a_store_every_turn_is_told_anew() -> None:
    warp = agent("native")
    with before(warp) as (running, _):
        client = Client("openai_chat", running)
        client.all_three()
        assert UNKNOWN in client.receipt()
    assert [heard.conversation for heard in warp.heard] == ["", "", ""]


def test_a_turn_may_be_asked_again_from_the_answer_before_it() -> None:
    warp = agent("native")
    with kept() as store, before(warp, store=store) as (running, _):
        client = Client("openai_chat", running)
        calls = client.first()
        there = list(client.messages)
        client.second(calls)
        client.messages = there
        client.second(calls)
    assert [heard.conversation for heard in warp.heard] == ["", "conversation-1", "conversation-1"]


SOUND = [
    name
    for name, script in SCRIPTS.items()
    # Whoever streams has passed on what is rolled back; an update of a field that nobody knows changes nothing here.
    if script.error is None and "rolled back" not in name and name != "an update of a field that nobody knows"
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", CLIENTS)
@pytest.mark.parametrize("name", SOUND)
def test_whatever_was_answered_is_known_when_it_comes_back(name: str, dialect: str, stream: bool) -> None:
    with (
        kept() as store,
        warp_server(SCRIPTS[name]) as server,
        gateway(at("warp", server.url, key=TOKEN), store=store) as running,
    ):
        client = Client(dialect, running, stream=stream)
        calls = calls_of(client.say(user("Hi")).content)
        results = tuple(ToolResult(call_id=call.id, name=call.name, content=(Text(text="Done."),)) for call in calls)
        client.ask(Message(role="tool", content=results) if results else user("Thanks"))
        heard = hear(server.requests[1].headers, server.requests[1].body)
        assert heard.conversation == story.CONVERSATION
        assert len(heard.fresh) == len(calls)
        sent = list(added_up(frames.events_of(SCRIPTS[name].body)).tasks.values())
        assert set(messages_of(sent)) <= set(messages_of(heard.tasks))


def messages_of(tasks: Sequence[Tree]) -> list[bytes]:
    return [encode("Message", ordered(message)) for task in tasks for message in task.get("messages", ())]


# What the configuration says


def test_warps_own_tools_may_be_allowed() -> None:
    with (
        warp_server(SCRIPTS["one call"]) as server,
        gateway(at("warp", server.url, key=TOKEN, disable_warp_tools=False)) as running,
    ):
        assert Client("openai_chat", running).ask(user("Hi")).status == 200
        assert hear(server.requests[0].headers, server.requests[0].body).supported_tools == []


@pytest.mark.parametrize(("limit", "cut"), [(None, 13), (0, 0), (100, 0)])
def test_a_long_history_is_cut_as_configured(limit: int | None, cut: int) -> None:
    warp = agent("native")
    warp.script = lambda now: Turn("Fine.")
    fields: dict[str, Any] = {} if limit is None else {"max_history_messages": limit}
    with before(warp, warp_history="native", **fields) as (running, _):
        client = Client("openai_chat", running)
        for number in range(31):
            client.messages += [user(f"{number}?"), Message(role="assistant", content=(Text(text=f"{number}."),))]
        client.say(user("And now?"))
        assert len([line for line in client.receipt() if "at most 50 messages" in line]) == cut
    (task,) = warp.heard[0].tasks
    assert len(task["messages"]) == 62 - cut


def test_its_models_are_listed_without_asking_it() -> None:
    config = assemble(Config(upstreams={"warp": UpstreamConfig(key="k")}, discover=False), {}).config
    built = build_gateway(config, DemoTransport(DIALECTS["openai_chat"]))
    names = [model.name for model in asyncio.run(built.catalog.models())]
    assert [name for name in names if name in MODEL_IDS] == list(MODEL_IDS)
    assert asyncio.run(check_upstream(built.upstreams["warp"])).models == MODEL_IDS
    assert built.router.resolve("warp/some-model-of-tomorrow")[0].model == "some-model-of-tomorrow"


# What goes wrong

KINDS = {
    "billing": ("billing", "rate_limit"),
    "overloaded": ("overloaded", "server"),
    "server": ("server", "overloaded"),
    "bad_request": ("bad_request",),
    "authentication": ("authentication", "bad_request"),
    "too_large": ("too_large", "bad_request"),
}
"""As far as the wires of the clients can tell kinds apart."""


def failing(script: Script | Refused, dialect: str, *, stream: bool, **fields: Any) -> tuple[Client, int]:
    with warp_server(script) as server, gateway(at("warp", server.url, key=TOKEN, **fields)) as running:
        client = Client(dialect, running, stream=stream)
        client.ask(user("Hi"))
        return client, len(server.requests)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", CLIENTS)
@pytest.mark.parametrize("name", [name for name, script in SCRIPTS.items() if script.error is not None])
def test_an_answer_that_fails_is_an_error_of_the_clients_own_kind(name: str, dialect: str, stream: bool) -> None:
    client, _ = failing(SCRIPTS[name], dialect, stream=stream)
    (answer,) = client.answers
    if answer.status == 200:  # it had begun
        assert stream
        last = read_events(dialect, [answer.body])[-1]
        assert isinstance(last, Fault)
        error = last.error
    else:
        error = DIALECTS[dialect].decode_error(answer.status, answer.headers, answer.body)
    assert error.message
    assert error.kind in KINDS[SCRIPTS[name].error or ""]


@pytest.mark.parametrize("dialect", CLIENTS)
@pytest.mark.parametrize(("name", "calls"), [("out of credits", 1), ("overloaded", 2), ("not authorized", 1)])
def test_no_credits_is_final_and_too_much_to_do_is_not(name: str, calls: int, dialect: str) -> None:
    client, asked = failing(REFUSALS[name], dialect, stream=False, retries=AGAIN)
    assert asked == calls
    assert client.answers[0].status in (401, 402, 403, 429, 502)


@pytest.mark.parametrize(
    ("name", "calls"), [("the quota is used up", 1), ("no model can be reached", 2), ("an end inside a frame", 2)]
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_error_at_the_end_of_a_stream_is_final_or_not_as_well(name: str, calls: int, stream: bool) -> None:
    client, asked = failing(SCRIPTS[name], "anthropic", stream=stream, retries=AGAIN)
    assert asked == (calls if client.answers[0].status != 200 else 1)


def test_a_refused_credential_is_not_repeated_to_the_client() -> None:
    key = "wk-1.a0b1c2d3e4f5"
    refusal = [expect(), reply({"error": f"bad {key}"}, 401)]
    with BadServer(refusal) as server, gateway(at("warp", server.url, key=key)) as running:
        answer = Client("openai_chat", running).ask(user("Hi"))
        assert answer.status == 401
        assert key.encode() not in answer.body


# Tokens

FRESH = {"id_token": TOKEN, "refresh_token": "refresh-2", "expires_in": "3600"}


def refreshing(tokens: BadServer, key: str | None = "old-token") -> dict[str, Any]:
    return {
        "key": key,
        "refresh_token": "refresh-1",
        "refresh_key": "the key/1",
        "refresh_url": f"{tokens.url}/v1/token",
    }


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_token_that_is_over_is_renewed_once_and_the_call_made_again(stream: bool) -> None:
    warp = agent("native")
    over = [expect(), reply({"error": "token expired"}, 401)]
    with (
        BadServer(over, [expect(), answering(warp)]) as server,
        BadServer([expect(), reply(FRESH)]) as tokens,
        gateway(at("warp", server.url, **refreshing(tokens))) as running,
    ):
        client = Client("openai_chat", running, stream=stream)
        client.all_three()
        assert [request.headers["authorization"] for request in server.requests] == [
            "Bearer old-token",
            *[f"Bearer {TOKEN}"] * 3,
        ]
        (asked,) = tokens.requests
        assert asked.target == "/v1/token?key=the%20key%2F1"
        assert asked.body == b"grant_type=refresh_token&refresh_token=refresh-1"
        assert TOKEN in running.service.gateway.secrets


def test_without_a_token_one_is_got_first() -> None:
    warp = agent("native")
    with (
        warp_server(warp) as server,
        BadServer([expect(), reply(FRESH)]) as tokens,
        gateway(at("warp", server.url, **refreshing(tokens, None))) as running,
    ):
        Client("openai_chat", running).first()
        assert len(tokens.requests) == len(server.requests) == 1


def test_a_token_that_cannot_be_renewed_is_refused_as_the_upstream_says() -> None:
    with (
        BadServer([expect(), reply({"error": "token expired"}, 401)]) as server,
        BadServer([expect(), reply({"error": "no"}, 400)]) as tokens,
        gateway(at("warp", server.url, **refreshing(tokens))) as running,
    ):
        client = Client("openai_chat", running)
        assert client.ask(user("Hi")).status == 401
        assert b"token expired" in client.answers[0].body
        assert client.ask(user("Hi")).status == 401
        assert len(server.requests) == 2
        assert len(tokens.requests) == 1  # it is left alone for a while


# A client that speaks Warp


def asked(text: str = "Hi", model: str = "demo") -> bytes:
    return DIALECTS["warp"].encode_request(Request(model=model, messages=(user(text),)), Receipt())


PROTOBUF = {"content-type": "application/x-protobuf", "accept": "text/event-stream"}


def test_a_client_of_warps_is_answered_by_any_upstream() -> None:
    with gateway() as running:
        answer = running.call("POST", PATH, asked(), PROTOBUF)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        events = frames.events_of(answer.body)
        assert "init" in events[0]
        assert "done" in events[-1]["finished"]
        assert spoken(DIALECTS["warp"].decode_response(answer.body).content)["text"]


def test_a_client_of_warps_in_front_of_warp_takes_back_what_warp_takes_back() -> None:
    script = SCRIPTS["a transaction that is rolled back"]
    with warp_server(script) as server, gateway(at("warp", server.url, key=TOKEN)) as running:
        answer = running.ask("warp", stream=True)
    assert answer.status == 200, answer.body
    told, expected = (added_up(frames.events_of(body)) for body in (answer.body, script.body))
    assert told.messages("agent_output") == expected.messages("agent_output")


def test_a_client_of_warps_in_front_of_warp_keeps_what_it_sends() -> None:
    """It has its own tasks and settings; nothing is cut, added or kept."""
    past = [story.asked(number, "Hi", server_message_data=story.OPAQUE) for number in range(80)]
    tree = {
        "task_context": {"tasks": [{"id": "t-1", "server_data": "b3BhcXVl", "messages": past}]},
        "input": {"user_inputs": {"inputs": [{"user_query": {"query": "Hi"}}]}},
        "settings": {"model_config": {"base": "auto"}},
        "metadata": {"conversation_id": "c-1"},
    }
    with (
        kept() as store,
        warp_server(SCRIPTS["one call"]) as server,
        gateway(at("warp", server.url, key=TOKEN), store=store) as running,
    ):
        answer = running.call("POST", PATH, encode("Request", tree), PROTOBUF)
        assert answer.status == 200
        assert decode("Request", server.requests[0].body) == tree


def test_errors_for_a_client_of_warps_have_their_form() -> None:
    with gateway(limits=Limits(drain=LIMITS.drain, body=1000), server=ServerConfig(keys=("the-key",))) as running:
        key = {**PROTOBUF, "authorization": "Bearer the-key"}
        assert running.call("POST", PATH, asked(), key).status == 200
        for headers, body, status in (
            (PROTOBUF, asked(), 401),
            (key, asked("x" * 2000), 413),
            (key, b"\xff\xff\xff", 400),
        ):
            answer = running.call("POST", PATH, body, headers)
            assert (answer.status, list(answer.json())) == (status, ["error"])


def test_without_protobuf_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> None:
        raise MissingExtraError("the dialect warp", "protobuf", "warp")

    with gateway() as running:
        monkeypatch.setattr("toolglot.dialects.warp.dialect._load", missing)
        answer = running.call("POST", PATH, b"", PROTOBUF)
        assert answer.status == 501
        assert "pip install '.[warp]'" in answer.json()["error"]


def test_a_client_of_warps_is_told_of_credits_as_warp_tells_it() -> None:
    with warp_server(REFUSALS["out of credits"]) as server, gateway(at("warp", server.url, key=TOKEN)) as running:
        answer = running.call("POST", PATH, asked(model="auto"), PROTOBUF)
        assert (answer.status, answer.headers["x-warp-error-code"]) == (429, "OUT_OF_CREDITS")
        assert "No credits are left." in answer.json()["userDisplayMessage"]
