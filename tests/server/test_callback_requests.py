"""Requests that are answered on their connections, without the ASGI app.

The tests of `conftest.BOTH_CLIENTS` show that clients see the same from the app.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from bench.socketless import Socketless, without_sockets
from msgspec.structs import replace

from tests.server import gateway as serving_gateway
from tests.server.gateway import LIMITS, at, gateway
from tests.server.socketless import ANSWER, TALK, TOOL, asked, chunk, compact
from tests.upstream.bad_server import BadServer, Gate, Step, close, expect, gone, head, never, reply, send, stream
from toolglot.config.schema import Retries
from toolglot.dialects import DIALECTS
from toolglot.gateway.callback_driver import CallbackDriver
from toolglot.store.sqlite import SqliteStore

END = chunk(content="!").replace(b'"finish_reason":null', b'"finish_reason":"stop"') + b"data: [DONE]\n\n"
WORDS = [chunk(role="assistant", content=""), chunk(content="Hello"), END]
RETRIES = Retries(attempts=3, first_wait=0.001, longest_wait=0.001)
THOUGHTS = [chunk(role="assistant", content=""), chunk(reasoning_content="Hm."), chunk(content="Hello"), END]


def body(**fields: Any) -> dict[str, Any]:
    return {"max_tokens": 100, "messages": TALK, "tools": [TOOL], **fields}


def each(*steps: Step) -> BadServer:
    """A server that answers one request after the other, each on a connection of its own."""
    return BadServer(*[[expect(), step] for step in steps])


def answer() -> Step:
    return reply(ANSWER)


STRANGE = ANSWER.replace(b'"refusal":null', b'"refusal":null,"audio":{"id":"a"}')


@pytest.mark.parametrize(
    "strange",
    [
        reply({"error": {"message": "Not that.", "type": "invalid_request_error"}}, 400),
        send(head(200, {"content-type": "application/json", "content-length": str(len(STRANGE))}) + STRANGE),
        send(head(200, {"content-type": "application/json"}) + ANSWER),
    ],
    ids=["an error", "an answer with more in it", "an answer that ends with its connection"],
)
def test_an_odd_answer_is_read_and_nobody_is_asked_again(strange: Step) -> None:
    with (
        BadServer([expect(), answer()], [expect(), strange, close()], [never()]) as server,
        gateway(at("openai_chat", server.url)) as running,
    ):
        first = running.ask("anthropic", body=body())
        second = running.ask("anthropic", body=body())
        assert [running.record().attempts for _ in range(2)] == [1, 1]
    assert first.status == 200
    assert second.status in (200, 400)
    assert len(server.requests) == 2


def test_a_busy_upstream_is_asked_again() -> None:
    busy = reply({"error": {"message": "Busy."}}, 503)
    steps = [answer(), busy, busy, answer()]
    with each(*steps) as server, gateway(replace(at("openai_chat", server.url), retries=RETRIES)) as running:
        assert [running.ask("anthropic", body=body()).status for _ in range(2)] == [200, 200]
        assert [running.record().attempts for _ in range(2)] == [1, 3]


def test_reasoning_of_a_stream_is_stored_for_the_next_turn(tmp_path: Path) -> None:
    """The client's API has no field for what a Chat upstream wants back."""
    store = SqliteStore(tmp_path / "store.sqlite3")
    steps = [stream(*WORDS), stream(*THOUGHTS), stream(*WORDS)]
    with each(*steps) as server, gateway(at("openai_chat", server.url), store=store) as running:
        said = [running.ask("anthropic", stream=True, body=body()) for _ in range(2)]
        assert [each.status for each in said] == [200, 200]
        longer = [*TALK, {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Go on."}]
        running.ask("anthropic", stream=True, body=body(messages=longer))
    assert [b"Hm." in request.body for request in server.requests] == [False, False, True]


def test_a_client_that_leaves_takes_its_upstream_along() -> None:
    left = Gate()
    broken = [expect(), stream(WORDS[0], WORDS[1], complete=False), gone(left)]
    with BadServer([expect(), stream(*WORDS)], broken) as server, gateway(at("openai_chat", server.url)) as running:
        running.ask("anthropic", stream=True, body=body())
        talk = running.begin("anthropic", stream=True, body=body())
        assert b"Hello" in talk.until(b"Hello")
        talk.leave()
        left.wait_blocking()
        assert [running.record().cancelled for _ in range(2)] == [False, True]
        assert running.service.in_flight == 0


def test_a_silent_upstream_is_waited_for() -> None:
    """Which keeps the client's connection alive meanwhile."""
    spoken = Gate()
    scripts = [expect(), stream(*WORDS)], [expect(seen=spoken), never()]
    limits = replace(LIMITS, keepalive=0.05)
    with BadServer(*scripts) as server, gateway(at("openai_chat", server.url), limits=limits) as running:
        running.ask("anthropic", stream=True, body=body())
        talk = running.begin("anthropic", stream=True, body=body())
        spoken.wait_blocking()
        assert b"ping" in talk.until(b"ping")
        talk.leave()


def test_how_much_of_a_history_was_sent_before_is_noted() -> None:
    with each(answer(), answer()) as server, gateway(at("openai_chat", server.url)) as running:
        longer = [*TALK, {"role": "assistant", "content": "It is empty."}, {"role": "user", "content": "Thanks."}]
        running.ask("anthropic", body=body())
        running.ask("anthropic", body=body(messages=longer))
        first, second = running.record(), running.record()
        assert (first.is_simple, second.is_simple) == (True, True)
        [(upstream, share)] = second.prefix_reuse
        assert upstream == "up"
        assert 0.5 < share < 1


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("client", sorted({manifest.name for manifest in DIALECTS.manifests.values()}))
def test_the_usual_request_of_every_dialect_is_answered_on_its_connection(client: str, streams: bool) -> None:
    """Else the tests of both clients of a driver would show nothing."""
    with each(stream(*WORDS) if streams else answer()) as server, gateway(at("openai_chat", server.url)) as running:
        assert running.ask(client, stream=streams).status == 200
        assert running.record().is_simple


def test_a_client_that_has_not_taken_its_last_answer_is_waited_for_by_the_app() -> None:
    async def work(stage: Socketless) -> tuple[bool, bool]:
        client, _ = stage.client()
        client.pause_writing()
        client.data_received(asked())
        return isinstance(client.cycle, CallbackDriver), client.flow.write_paused

    assert without_sockets(work) == (False, True)


def test_clients_that_go_just_before_their_streams_are_looked_after_are_cleared_up_once() -> None:
    async def work(stage: Socketless) -> tuple[int, int]:
        for _ in range(3):
            client, _ = stage.client()
            await stage.upstream()
            client.data_received(asked(stream=True))
            client.connection_lost(None)
        stage.service.sweep._tick()
        before = stage.service.in_flight
        for _ in range(4):  # on a busy machine, the time for one turn may be over after one client
            await asyncio.sleep(0)
        return before, stage.service.in_flight

    assert without_sockets(work) == (3, 0)


def test_a_fault_in_looking_after_one_stream_does_not_cost_the_others_their_turn() -> None:
    class Faulty:
        def tick(self, now: float, silence: float) -> None:
            raise ValueError

    class Sound:
        seen = 0

        def tick(self, now: float, silence: float) -> None:
            self.seen += 1

    async def work(stage: Socketless) -> int:
        sound, crossings = Sound(), stage.service.sweep
        for each in (Faulty(), sound, Faulty()):
            crossings.add(each)  # type: ignore[arg-type]
        crossings._tick()
        return sound.seen

    assert without_sockets(work) == 1


def test_the_limit_of_requests_counts_when_the_body_is_there() -> None:
    """Not when the head came: many may have come at once."""

    async def work(stage: Socketless) -> bool:
        client, _ = stage.client()
        request = asked()
        split = request.index(b"\r\n\r\n") + 4
        client.data_received(request[:split])
        stage.service.in_flight = stage.service.gateway.config.limits.concurrent_requests
        client.data_received(request[split:])
        return isinstance(client.cycle, CallbackDriver)

    assert not without_sockets(work)


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [*[{"role": "system", "content": "Be brief."}] * 5, {"role": "user", "content": "Hi"}]},
        {
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": {"name": "f"}}] * 5,
        },
    ],
    ids=["messages", "tools"],
)
def test_a_request_over_a_limit_is_refused(fields: dict[str, Any]) -> None:
    limits = replace(LIMITS, messages=5, tools=3)
    with each(never()) as server, gateway(at("openai_chat", server.url), limits=limits) as running:
        assert running.ask("openai_chat", body=fields).status == 400


def test_the_receipt_of_a_stream_has_what_its_first_piece_has_lost() -> None:
    other = {"index": 1, "delta": {"content": "Or"}, "finish_reason": None}
    two = chunk(content="Hello").replace(b"]", b"," + compact(other) + b"]", 1)
    steps = [stream(WORDS[0] + two, END)] * 2
    with each(*steps) as server, gateway(at("openai_chat", server.url)) as running:
        answers = [running.ask("anthropic", stream=True, body=body()) for _ in range(2)]
    for answer in answers:
        told = answer.headers["x-toolglot-receipt"]
        assert told.startswith("losses=1;")
        assert told.endswith("lost=choices[1]")


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    "fields",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"input": [{"type": "item_reference", "id": "i"}]},
    ],
    ids=["response", "conversation", "item"],
)
def test_what_is_refused_after_a_look_at_the_store_is_refused_as_by_the_app(
    fields: dict[str, Any], streams: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for answered_by in ("app", "connection"):
        monkeypatch.setattr(serving_gateway, "ANSWERED_BY", answered_by)
        store = SqliteStore(tmp_path / answered_by)
        with gateway(at("openai_chat", "http://127.0.0.1:1/v1"), store=store) as running:
            refused = running.ask("openai_responses", stream=streams, body={"input": "Hello", **fields})
            record = running.record()
        own = {"date", "x-request-id"}
        headers = {name: value for name, value in refused.headers.items() if name not in own}
        seen.append((refused.status, headers, refused.body, record.error, record.message, record.is_simple))
    assert seen[0] == seen[1]
    assert seen[0][0] in (400, 404)
