"""Kept state goes back into its own conversation, to its own credential and model, however long that is."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.wires import Call, Turn
from tests.server.gateway import Running, at, gateway
from tests.server.test_reasoning_state import CALLS, DONE, HI, TOOLS, ask, go_on, vendor_server
from tests.server.warp_loop import kept
from tests.upstream.judges import Claude, DeepSeek, Gemini, Gpt, Vendor, drawn
from toolglot.config.schema import ModelConfig
from toolglot.dialects import DIALECTS
from toolglot.gateway.features import lookup_limit
from toolglot.gateway.features.issuer import hash_issuer
from toolglot.gateway.features.reasoning_state import ReasoningState, _is_random
from toolglot.ir import Message, Request, Response, Stop, Text, Thinking, ToolCall
from toolglot.passes.answer_state import SealedState, seal
from toolglot.routing import Target
from toolglot.store import StoredState
from toolglot.store.sqlite import MEMORY, SqliteStore
from toolglot.upstream.demo.transport import DemoTransport
from toolglot.upstream.exchange import make_exchange
from toolglot.upstream.upstream import Upstream

# Conversations


@pytest.mark.parametrize(
    ("identity", "name", "is_drawn"),
    [
        ("toolu_01A09q90qw90lq917835lq9s", "look", True),
        ("toolu_vrtx_01A09q90qw90lq917835lq9s", "look", True),
        ("call_abcdefghijklmnop1234", "look", False),  # in doubt
        ("call_3DkXyzLr9nWq8TbVd2mKp5Qa", "look", True),
        ("chatcmpl-tool-9f86d081884c7d659a2feaa0c55ad015", "look", True),
        ("2f1b3c4d-5e6f-4a1b-8c2d-3e4f5a6b7c8d", "look", True),
        ("call_00_deadbeef0123456789abcdef", "look", True),
        ("call_0", "look", False),
        ("call_00000000000000000001", "look", False),
        ("call_0000000000000000a1b2", "look", False),
        ("functions.look:0", "look", False),
        ("functions.getCurrentTemperature:0", "getCurrentTemperature", False),
        ("functions.convert2Celsius3Fahrenheit4Kelvin:0", "convert2Celsius3Fahrenheit4Kelvin", False),
        ("functions_mcp_a1b2c3d4e5f6a7b8c9_0", "mcp.a1b2c3d4e5f6a7b8c9", False),
        ("get-current-temperature-in-city-1", "get-current-temperature-in-city", False),
        ("getCurrentTemperatureOfTheCity", "look", False),
        ("", "look", False),
    ],
)
def test_an_id_is_drawn_by_lot_where_nothing_else_makes_it_long(identity: str, name: str, is_drawn: bool) -> None:
    assert _is_random(identity, name) is is_drawn


class Kimi(DeepSeek):
    """Its ids are counted up, with the tool's name in them."""

    def named(self, turn: Turn, prefix: str) -> Turn:
        calls = [Call(f"functions.{each.name}:{n}", each.name, each.arguments) for n, each in enumerate(turn.calls)]
        return Turn(turn.text, tuple(calls))


class Repeating(DeepSeek):
    """Its ids look like any, but are the same in every conversation."""

    def named(self, turn: Turn, prefix: str) -> Turn:
        calls = [Call(prefix + drawn(n), each.name, each.arguments) for n, each in enumerate(turn.calls)]
        return Turn(turn.text, tuple(calls))


@pytest.mark.parametrize("vendor", [Kimi, Repeating])
def test_two_conversations_with_the_same_call_get_each_its_own_state(vendor: type[DeepSeek]) -> None:
    model = vendor()
    call = Turn("One moment.", (Call("", "getCurrentTemperature", {"city": "Bern"}),))
    with (
        kept() as store,
        vendor_server(model, [call, call, DONE, DONE]) as server,
        gateway({"it": at(model.dialect, server.url, models=(model.model,))}, store=store) as running,
    ):
        words = ({"role": "user", "content": "Divorces?"}, {"role": "user", "content": "Bikes?"})
        answers = [ask(running, [said], model.model) for said in words]
        for number, (said, answer) in enumerate(zip(words, answers, strict=True)):
            ask(running, [said, *go_on(answer)[1:]], model.model)
            sent = [message.get("reasoning_content") for message in server.requests[-1].json()["messages"]]
            assert sent == [None, model.issued[number][0], None]


# Credentials


def test_a_credential_in_a_header_tells_as_much_as_a_key() -> None:
    model = DeepSeek()
    with vendor_server(model, [CALLS, DONE, DONE]) as server, kept() as store:
        upstreams = {
            name: at(model.dialect, server.url, headers={"Authorization": f"Bearer of-{name}"}) for name in ("a", "b")
        }
        models = {f"of-{name}": ModelConfig(upstream=name, model=model.model) for name in upstreams}
        with gateway(upstreams, models=models, store=store) as running:
            history = go_on(ask(running, HI, "of-a"))
            found = []
            for name in ("of-b", "of-a"):
                ask(running, history, name)
                found.append(0 in model.returned(server.requests[-1].json()))
    assert found == [False, True]


PLAIN = Upstream(
    name="u",
    dialect=DIALECTS["openai_chat"],
    base_url="http://u.test",
    transport=DemoTransport(DIALECTS["openai_chat"]),
)


def issued(**fields: Any) -> str:
    given = {name: getattr(PLAIN, name) for name in ("name", "dialect", "base_url", "transport")}
    return hash_issuer(Upstream(**{**given, **fields}))


@pytest.mark.parametrize(
    ("fields", "is_another"),
    [
        ({"key": "k"}, True),
        ({"base_url": "http://v.test"}, True),
        ({"headers": {"X-Api-Key": "k"}}, True),
        ({"headers": {"authorization": "Bearer k"}}, True),
        ({"headers": {"cookie": "k"}}, True),
        ({"headers": {"X-Mine": "k"}, "key_header": "x-mine"}, True),
        ({"headers": {"OpenAI-Organization": "o"}}, True),
        ({"headers": {"user-agent": "me"}}, False),
        ({"name": "other"}, False),
    ],
)
def test_an_issuer_is_an_address_and_whatever_credential_it_is_shown(
    fields: Mapping[str, Any], is_another: bool
) -> None:
    assert (issued(**fields) != issued()) is is_another


# What a client carries itself


def echoed(running: Running, messages: list[Any], model: str) -> Any:
    """What a Chat client has that keeps all that it is given."""
    body = {"messages": messages, "tools": TOOLS, "reasoning_effort": "high"}
    answer = running.ask("openai_chat", model=model, body=body)
    assert answer.status == 200, answer.body
    return answer.json()["choices"][0]["message"]


def test_a_client_that_echoes_its_messages_gets_by_without_a_store() -> None:
    """Through a whole gateway: Claude, GPT, Gemini, and Claude again."""
    vendors = {"claude": Claude(), "gpt": Gpt(), "gemini": Gemini()}
    with ExitStack() as stack:
        servers = {name: stack.enter_context(vendor_server(each, [CALLS] * 2)) for name, each in vendors.items()}
        upstreams = {name: at(each.dialect, servers[name].url, models=(each.model,)) for name, each in vendors.items()}
        running = stack.enter_context(gateway(upstreams))
        history: list[Any] = [*HI]
        for name in ("claude", "gpt", "gemini", "claude"):
            message = echoed(running, history, vendors[name].model)
            history += go_on(message)[1:]
            others = {other for other in vendors if other != name}
            sent = servers[name].requests[-1].body
            assert b"dG9vbGdsb3QA" not in sent
            assert not any(state.encode() in sent for other in others for state in issued_by(vendors[other]))
        assert 0 in vendors["claude"].returned(servers["claude"].requests[-1].json())
    assert [each.refused for each in vendors.values()] == [[], [], []]


def issued_by(vendor: Vendor) -> list[str]:
    """The signatures of its answers: long texts that nobody else could have written."""
    return re.findall(r"[A-Za-z0-9+/]{60,}", json.dumps(vendor.issued))


def test_what_a_client_carries_goes_to_the_upstream_and_the_model_that_made_it_alone() -> None:
    model = Claude()
    with vendor_server(model, [CALLS, DONE, DONE, DONE]) as server:
        names = ("claude-sonnet-4-5", "claude-opus-4-1")
        upstreams = {name: at(model.dialect, server.url, models=names) for name in ("a", "b")}
        models = {
            f"{upstream}-{name}": ModelConfig(upstream=upstream, model=name) for upstream in upstreams for name in names
        }
        with gateway(upstreams, models=models) as running:
            history = go_on(echoed(running, HI, f"a-{names[0]}"))
            found = []
            for name in (f"b-{names[0]}", f"a-{names[1]}", f"a-{names[0]}"):
                echoed(running, history, name)
                found.append(0 in model.returned(server.requests[-1].json()))
    assert found == [False, False, True]
    assert model.refused == []


def test_what_a_client_has_sent_itself_counts_more_than_what_is_kept() -> None:
    model = Claude()
    with (
        kept() as store,
        vendor_server(model, [CALLS, DONE]) as server,
        gateway({"it": at(model.dialect, server.url, models=(model.model,))}, store=store) as running,
    ):
        history = go_on(echoed(running, HI, model.model))
        states = (Thinking(text="Other", native={"anthropic": {"signature": "b3RoZXI="}}), Text(text=""))
        history[1]["reasoning_details"][0]["data"] = seal(SealedState("anthropic", "", states))
        echoed(running, history, model.model)
        (thinking, *_) = server.requests[-1].json()["messages"][1]["content"]
        assert thinking == {"type": "thinking", "thinking": "Other", "signature": "b3RoZXI="}


# Models


def test_a_model_that_does_not_reason_is_not_given_what_another_one_thought() -> None:
    model = Gpt()
    names = (model.model, "gpt-4.1")
    with (
        kept() as store,
        vendor_server(model, [CALLS, DONE, DONE]) as server,
        gateway({"it": at(model.dialect, server.url, models=names)}, store=store) as running,
    ):
        history = go_on(ask(running, HI, names[0]))
        found = []
        for name in reversed(names):
            ask(running, history, name)
            found.append(0 in model.returned(server.requests[-1].json()))
    assert found == [False, True]
    assert model.refused == []


# Long conversations


class Asked(SqliteStore):
    def __init__(self, path: str | Path = MEMORY) -> None:
        super().__init__(path)
        self.keys: Collection[str] = ()

    async def states(
        self, owner: str, issuer: str, calls: Collection[str] = (), hashes: Collection[str] = ()
    ) -> list[StoredState]:
        self.keys = [*calls, *hashes]
        return await super().states(owner, issuer, calls, hashes)


async def look_up(states: ReasoningState, target: Target, request: Request) -> None:
    if names := states.search(DIALECTS["anthropic"], PLAIN, target, request, 0):
        await states.find(names)


def looked_up(answers: int) -> tuple[int, list[str]]:
    """How many answers of a conversation with so many are looked for, and what the receipt says of it."""

    async def work() -> tuple[int, list[str]]:
        store, target = Asked(), Target(asked="m", rule="r", upstream="u", model="m")
        messages = [
            message
            for number in range(answers)
            for message in (
                Message(role="user", content=(Text(text="Go on"),)),
                Message(role="assistant", content=(ToolCall(id=f"c{number}", name="look", arguments="{}"),)),
            )
        ]
        request = Request(model="m", messages=(*messages, Message(role="user", content=(Text(text="?"),))))
        try:
            states = ReasoningState(store, "me")
            await look_up(states, target, request)
            exchange = make_exchange(DIALECTS["anthropic"], PLAIN, target)
            states.watch(exchange)
            return len(set(store.keys)), [line.why for line in exchange.receipt]
        finally:
            await store.close()

    return asyncio.run(work())


def test_every_answer_of_a_long_conversation_is_looked_up() -> None:
    """The prompt would not begin as the last one did, if the first of them went without its state from some turn on."""
    assert looked_up(700) == (700, [])


def test_what_is_too_long_for_that_loses_many_at_once_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_limit, "MAX_LOOKUPS", 20)
    monkeypatch.setattr(lookup_limit, "SKIP_STEP", 10)
    assert [looked_up(answers)[0] for answers in (20, 21, 30, 31)] == [20, 11, 20, 11]
    assert looked_up(21)[1] == ["it is not looked up any more for the first 10 answers of such a long conversation"]


TARGET = Target(asked="m", rule="r", upstream="u", model="m")


def conversation(arguments: str = "{}") -> Request:
    """One answer, and a question behind it."""
    call = ToolCall(id="c1", name="look", arguments=arguments)
    asked, more = (Message(role="user", content=(Text(text=text),)) for text in ("Look", "And?"))
    return Request(model="m", messages=(asked, Message(role="assistant", content=(call,)), more))


def test_nothing_is_looked_up_where_nothing_is_kept_of_an_upstream(tmp_path: Path) -> None:
    async def work() -> list[tuple[int, bool]]:
        store, told = Asked(tmp_path / "store.sqlite3"), []
        for owner in ("you", "me"):
            await store.keep_state(
                StoredState(owner=owner, issuer=hash_issuer(PLAIN, "m"), calls="c", hash="h", value=b"[]")
            )
            states = ReasoningState(store, "me")
            await look_up(states, TARGET, conversation())
            told.append((len(store.keys), states.kept))
        await store.close()
        return told

    assert asyncio.run(work()) == [(0, True), (1, True)]


def test_state_of_a_conversation_that_cannot_be_named_is_lost_and_that_is_told(tmp_path: Path) -> None:
    async def work() -> list[str]:
        store, too_deep = SqliteStore(tmp_path / "store.sqlite3"), '{"a":' + "[" * 900 + "]" * 900 + "}"
        states = ReasoningState(store, "me")
        await look_up(states, TARGET, conversation(too_deep))
        exchange = make_exchange(DIALECTS["anthropic"], PLAIN, TARGET, keeps_state=states.kept)
        states.watch(exchange)
        thought = Thinking(text="Hm.", native={"openai_chat": {"$field": "reasoning_content"}})
        exchange.restored = Response(content=(thought, Text(text="Yes.")), stop=Stop(reason="end"))
        await states.store(exchange, whole=True)
        assert (await store.size()).threads == 0
        await store.close()
        return [line.why for line in exchange.receipt]

    assert asyncio.run(work()) == ["it could not be stored for the next turn"]
