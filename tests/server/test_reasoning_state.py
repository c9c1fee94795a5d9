"""Reasoning state that clients do not send back: what is kept, for whom, and what becomes of a request if it is not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from tests.e2e.wires import Call, Turn
from tests.server.gateway import LIMITS, Running, at, gateway
from tests.server.socketless import chunk
from tests.server.switching import SCHEMA, Stage, Talk
from tests.server.warp_loop import kept
from tests.upstream.bad_server import BadServer, Gate, Peer, Step, expect, reply, stream
from tests.upstream.judges import Claude, DeepSeek, Gemini, Gpt, Vendor
from toolglot.config.schema import ServerConfig, StoreConfig
from toolglot.gateway.features import reasoning_state
from toolglot.server.run import _open_store
from toolglot.store import StoredState, StoreError
from toolglot.store.sqlite import MEMORY, SqliteStore

T = TypeVar("T")


def staged(work: Callable[[Stage], Awaitable[T]], store: SqliteStore | None = None) -> T:
    async def run() -> T:
        used = store or SqliteStore(MEMORY)
        try:
            return await work(Stage(used))
        finally:
            await used.close()

    return asyncio.run(run())


def lines(talk: Talk) -> list[str]:
    return [f"{line.severity} {line.what}: {line.why}" for line in talk.receipt]


# A store that does not do what it should


class Broken(SqliteStore):
    """Refuses, or never answers."""

    def __init__(self, *, hangs: bool) -> None:
        super().__init__(MEMORY)
        self._hangs = hangs

    async def _fail(self) -> Any:
        if self._hangs:
            await asyncio.Event().wait()
        raise StoreError("failed", "the disk is on fire")

    async def keep_state(self, state: StoredState) -> None:
        await self._fail()

    async def states(
        self, owner: str, issuer: str, calls: Collection[str] = (), hashes: Collection[str] = ()
    ) -> list[StoredState]:
        found: list[StoredState] = await self._fail()
        return found


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("hangs", [True, False])
def test_a_store_that_is_broken_or_slow_fails_no_request(
    hangs: bool, streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasoning_state, "STORE_TIMEOUT", 0.01)

    async def work(stage: Stage) -> list[list[str]]:
        talk = Talk(stage, "openai_chat", keeps=False, streams=streams)
        told = []
        for by in ("claude", "gemini", "claude"):
            await talk.turn(by)
            told.append(lines(talk))
        assert stage.refused == []
        return told

    first, *_ = staged(work, Broken(hangs=hangs))
    assert "loss reasoning state: it could not be stored for the next turn" in first
    assert not [line for line in first if "kept here" in line]
    assert "note reasoning state: it is carried in reasoning_details of the client's message" in first


class Spoilt(SqliteStore):
    async def states(
        self, owner: str, issuer: str, calls: Collection[str] = (), hashes: Collection[str] = ()
    ) -> list[StoredState]:
        return [
            StoredState(owner=owner, issuer=issuer, calls=each, hash="", value=b'[{"type":"nothing"}]')
            for each in calls
        ]


def test_what_cannot_be_read_any_more_is_as_if_it_were_not_there() -> None:
    async def work(stage: Stage) -> set[int]:
        talk = Talk(stage, "openai_chat", keeps=False)
        await talk.turn("gpt")
        lost = await talk.turn("gpt")
        assert stage.refused == []
        return lost

    assert staged(work, Spoilt(MEMORY)) == {0}


@pytest.mark.parametrize("streams", [True, False])
def test_an_answer_that_is_too_large_is_not_kept_and_that_is_told(
    streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasoning_state, "MAX_BYTES", 10)

    async def work(stage: Stage) -> list[str]:
        assert stage.store is not None
        talk = Talk(stage, "openai_chat", keeps=False, streams=streams)
        await talk.turn("deepseek")
        assert (await stage.store.size()).threads == 0
        return lines(talk)

    assert "loss reasoning state: it could not be stored for the next turn" in staged(work)


class SignsAtTheEnd(Gemini):
    """Its answers without calls end with a signature on an empty part."""

    def answer(self, body: Any, turn: Turn) -> Any:
        whole = super().answer(body, turn)
        if not turn.calls:
            parts = whole["candidates"][0]["content"]["parts"]
            signature = parts[-1].pop("thoughtSignature")
            parts.append({"text": "", "thoughtSignature": signature})
            self.issued[-1] = signature, parts[-1]
        return whole


@pytest.mark.parametrize("client", ["anthropic", "openai_chat"])
@pytest.mark.parametrize("streams", [True, False])
def test_a_signature_on_an_empty_part_comes_back_on_one(client: str, streams: bool) -> None:
    async def work(stage: Stage) -> list[set[int]]:
        stage.vendors["gemini"] = SignsAtTheEnd(0)
        talk = Talk(stage, client, streams=streams)
        lost = [await talk.turn("gemini") for _ in range(4)]
        assert stage.refused == []
        return lost

    assert staged(work) == [set()] * 4


def test_a_gateway_can_do_without_a_store() -> None:
    with gateway() as running:
        _open_store(running.service, StoreConfig(path="none"), {})
        assert (running.service.store, running.service.store_failure) == (None, None)
        _open_store(running.service, StoreConfig(path="/dev/null/store"), {})
        assert running.service.store is None
        assert running.service.store_failure is not None

    async def work() -> list[str]:
        talk = Talk(Stage(None), "openai_chat", keeps=False)
        for by in ("claude", "claude"):
            await talk.turn(by)
        assert talk.stage.refused == []
        return lines(talk)

    off = "this turn has tool calls without the target's own reasoning; it is off until the turn ends"
    assert f"loss thinking: {off}" in asyncio.run(work())


# What is kept, and for whom


class Counting(SqliteStore):
    def __init__(self) -> None:
        super().__init__(MEMORY)
        self.kept: list[StoredState] = []

    async def keep_state(self, state: StoredState) -> None:
        self.kept.append(state)
        await super().keep_state(state)


@pytest.mark.parametrize(
    ("client", "keeps", "by", "count"),
    [
        ("anthropic", True, "claude", 1),  # until it has shown that it sends it back
        ("anthropic", False, "claude", 3),
        ("gemini", True, "gemini", 1),
        ("openai_responses", True, "gpt", 1),
        ("openai_chat", True, "deepseek", 3),
        ("openai_chat", False, "plain", 0),
        ("openai_chat", False, "warp", 0),  # which has a way of its own
        ("anthropic", True, "gpt", 3),
    ],
)
def test_nothing_is_kept_that_a_client_sends_back_in_its_own_field(
    client: str, keeps: bool, by: str, count: int
) -> None:
    store = Counting()

    async def work(stage: Stage) -> None:
        talk = Talk(stage, client, keeps=keeps)
        for _ in range(3):
            assert await talk.turn(by) == set()

    staged(work, store)
    assert len(store.kept) == count


def test_no_credential_and_no_address_stand_in_what_is_kept() -> None:
    store = Counting()

    async def work(stage: Stage) -> None:
        await Talk(stage, "openai_chat").turn("claude")

    staged(work, store)
    (state,) = store.kept
    assert len(state.issuer) == len(state.calls) == len(state.hash) == 64
    assert b"wk-1.a0" not in state.value


@contextmanager
def vendor_server(vendor: Vendor, turns: Sequence[Turn], failures: Sequence[Step] = ()) -> Iterator[BadServer]:
    """A real server in front of a vendor, which judges what it is sent. At first it fails in these ways."""
    waiting = iter(turns)

    async def answer(peer: Peer) -> None:
        asked = peer.server.requests[-1]
        body = asked.json()
        vendor.refused += vendor.refusals(body)
        streams = bool(body.get("stream")) or ":streamGenerateContent" in asked.target
        data = vendor.reply(body, next(waiting), stream=streams)
        await (stream(data) if streams else reply(json.loads(data)))(peer)

    with BadServer(*([expect(), failure] for failure in failures), [expect(), answer]) as server:
        yield server


CALLS = Turn("One moment.", (Call("", "look", {"at": "it"}),))
DONE = Turn("Done.")
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]


def ask(running: Running, messages: list[Any], model: str = "m", *, stream: bool = False, key: str = "") -> Any:
    """What a Chat client gets, and keeps: the message, but nothing that its API does not have."""
    body = {"messages": messages, "tools": TOOLS, "reasoning_effort": "high"}
    headers = {"authorization": f"Bearer {key}"} if key else {}
    answer = running.ask("openai_chat", model=model, body=body, stream=stream, headers=headers)
    assert answer.status == 200, answer.body
    if not stream:
        message = answer.json()["choices"][0]["message"]
        return {name: message[name] for name in ("role", "content", "tool_calls") if message.get(name)}
    deltas = [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: {")]
    parts = [chunk["choices"][0]["delta"] for chunk in deltas if chunk["choices"]]
    text = "".join(part.get("content") or "" for part in parts)
    pieces = [piece for part in parts for piece in part.get("tool_calls") or ()]
    function = {
        "name": pieces[0]["function"]["name"],
        "arguments": "".join(piece["function"].get("arguments", "") for piece in pieces),
    }
    return {"role": "assistant", "content": text, "tool_calls": [{**pieces[0], "function": function}]}


def go_on(message: Any) -> list[Any]:
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "fine"}
    return [{"role": "user", "content": "Hi"}, message, result]


HI = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("vendor", [Claude, Gemini, DeepSeek])
def test_a_chat_client_that_keeps_nothing_goes_on_with_a_model_that_wants_it(
    vendor: type[Vendor], stream: bool
) -> None:
    """Through a whole gateway. Between a Chat client and a Chat server the bytes go through as they are."""
    model = vendor()
    with (
        kept() as store,
        vendor_server(model, [CALLS, DONE]) as server,
        gateway({"it": at(model.dialect, server.url, models=(model.model,))}, store=store) as running,
    ):
        message = ask(running, HI, model.model, stream=stream)
        ask(running, go_on(message), model.model)
        assert model.refused == []
        assert 0 in model.returned(server.requests[-1].json())


@pytest.mark.parametrize("vendor", [Claude, Gpt])
def test_state_that_litellm_has_moved_goes_back_to_its_model_and_to_no_other(vendor: type[Vendor]) -> None:
    """Of a whole answer it puts what it does not know into `provider_specific_fields`."""
    model = vendor()
    with vendor_server(model, [CALLS, DONE]) as server, vendor_server(other := DeepSeek(), [DONE]) as second:
        upstreams = {
            "it": at(model.dialect, server.url, models=(model.model,)),
            "other": at(other.dialect, second.url, models=(other.model,)),
        }
        with gateway(upstreams) as running:
            body = {"messages": HI, "tools": TOOLS, "reasoning_effort": "high"}
            message = running.ask("openai_chat", model=model.model, body=body).json()["choices"][0]["message"]
            message["provider_specific_fields"] = {"reasoning_details": message.pop("reasoning_details")}
            history = go_on(message)
            ask(running, history, model.model)
            assert 0 in model.returned(server.requests[-1].json())
            ask(running, history, other.model)
            assert b"provider_specific_fields" not in second.requests[-1].body
            assert b"reasoning_details" not in second.requests[-1].body


def test_state_is_another_keys_business_as_little_as_another_models() -> None:
    """Claude's state is bound to the model; whatever is kept belongs to the key that was shown."""
    model = Claude()
    names = ("claude-sonnet-4-5", "claude-opus-4-1")
    keys = ServerConfig(keys=("one-key", "other-key"))
    with (
        kept() as store,
        vendor_server(model, [CALLS, DONE, DONE, DONE]) as server,
        gateway({"it": at("anthropic", server.url, models=names)}, store=store, server=keys) as running,
    ):
        history = go_on(ask(running, HI, names[0], key="one-key"))
        found = []
        for name, key in ((names[0], "other-key"), (names[1], "one-key"), (names[0], "one-key")):
            ask(running, history, name, key=key)
            found.append(0 in model.returned(server.requests[-1].json()))
    assert found == [False, False, True]
    assert model.refused == []


def test_a_client_that_goes_on_by_the_id_of_a_response_has_its_state_with_it() -> None:
    model = Claude()
    tools = [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}]
    with (
        kept() as store,
        vendor_server(model, [CALLS, DONE]) as server,
        gateway({"it": at("anthropic", server.url, models=(model.model,))}, store=store) as running,
    ):
        head = {"tools": tools, "reasoning": {"effort": "high"}}
        first = running.ask("openai_responses", model=model.model, body={**head, "input": "Hi"}).json()
        call = next(item for item in first["output"] if item["type"] == "function_call")
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "fine"}
        body = {**head, "input": [output], "previous_response_id": first["id"]}
        answer = running.ask("openai_responses", model=model.model, body=body)
        assert answer.status == 200, answer.body
        assert model.refused == []
        assert 0 in model.returned(server.requests[-1].json())


def test_a_client_of_deprecated_functions_is_known_by_what_was_said() -> None:
    """It has no ids at all."""
    model = Gemini()
    functions = [{"name": "look", "parameters": SCHEMA}]
    with (
        kept() as store,
        vendor_server(model, [CALLS, DONE]) as server,
        gateway({"it": at("gemini", server.url, models=(model.model,))}, store=store) as running,
    ):
        body = {"messages": HI, "functions": functions}
        message = running.ask("openai_chat", model=model.model, body=body).json()["choices"][0]["message"]
        told = {"role": "assistant", "content": message["content"], "function_call": message["function_call"]}
        result = {"role": "function", "name": "look", "content": "fine"}
        body = {"messages": [*HI, told, result], "functions": functions}
        assert running.ask("openai_chat", model=model.model, body=body).status == 200
        assert model.refused == []
        assert 0 in model.returned(server.requests[-1].json())


class Slow(SqliteStore):
    """Keeps nothing before the gate opens."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(MEMORY)
        self._gate = gate

    async def keep_state(self, state: StoredState) -> None:
        await self._gate.wait()


@pytest.mark.parametrize("client", ["anthropic", "gemini"])
def test_a_keep_alive_while_state_is_stored_does_not_cost_an_answer_that_came_at_once(client: str) -> None:
    end = chunk(content="Hello").replace(b'"finish_reason":null', b'"finish_reason":"stop"') + b"data: [DONE]\n\n"
    answer = chunk(role="assistant", reasoning_content="Hm.") + end
    stored, limits = Gate(), replace(LIMITS, keepalive=0.05)
    with (
        BadServer([expect(), stream(answer)]) as server,
        gateway(at("openai_chat", server.url), limits=limits, store=Slow(stored)) as running,
    ):
        talk = running.begin(client, stream=True)
        begun = talk.until(b"\n\n")  # a keep-alive: nothing of the answer is written before its state is stored
        assert b"Hello" not in begun
        stored.open()
        answered = begun + talk.rest().body
    assert answered.count(b"Hello") == 1
    assert b"HTTP/1.1" not in answered
    assert b"message_stop" in answered or b'"STOP"' in answered
