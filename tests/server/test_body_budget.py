"""The memory that request bodies take together is bounded, on both ways through the gateway."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.exchanges import written
from tests.server.client_errors import error_told, type_of
from tests.server.gateway import CLIENTS, LIMITS, Answer, Running, at, gateway, request
from tests.server.loopback import status_of, until_close
from tests.upstream.bad_server import BadServer, Gate, Step, expect, gone, pause, reply
from tests.waiting import FAILSAFE
from toolglot.config.schema import Limits
from toolglot.server import body_budget
from toolglot.server.body_budget import (
    ASCII,
    MAX_PER_BYTE,
    MEMBER,
    SMALL_BODY,
    WIDE,
    WIDEST,
    BodyBudget,
    BodyCost,
    BodyHold,
    NoRoomError,
)
from toolglot.server.startup import _divide_limits

KB = 1024
ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
TEXT = "x" * (200 * KB)
"""Of a request that may be answered on its connection."""
CHAT = {"messages": [{"role": "user", "content": TEXT}]}
JSON = {"content-type": "application/json"}
BODIES: dict[str, dict[str, Any]] = {client: written(client, TEXT) for client in CLIENTS}
ONE = replace(LIMITS, bodies=1200 * KB, body_wait=0.2)
"""Room for one such request."""
CROWD = 20
"""Clients that come at once."""
PATIENT = replace(ONE, body_wait=FAILSAFE)


def holding(seen: Gate, go: Gate) -> list[Step]:
    return [expect(seen=seen), pause(go), reply(ANSWER)]


@EVERY_CLIENT
def test_a_body_for_which_there_is_no_room_in_time_is_refused_and_told_to_come_back(client: str) -> None:
    seen, left = Gate(), Gate()
    with (
        BadServer([expect(seen=seen), gone(left)]) as server,
        gateway(at("openai_chat", server.url), limits=ONE) as running,
    ):
        first = running.begin(client, body=BODIES[client])
        seen.wait_blocking()
        used = running.service.bodies.used
        assert 800 * KB < used <= 1200 * KB
        answer = running.ask(client, body=BODIES[client])
        told = error_told(client, answer)
        assert told.type == type_of(client, "overloaded")
        assert "limits.bodies" in told.message
        assert int(answer.headers["retry-after"]) >= 1
        assert running.service.bodies.used == used
        assert running.call("POST", request(client)[0], b"[]", JSON).status == 400  # small ones are not counted
        first.leave()
        left.wait_blocking()
        for _ in range(3):
            running.record()
        assert running.service.bodies.used == 0


@EVERY_CLIENT
def test_a_body_that_waits_is_answered_when_another_is_done(client: str) -> None:
    seen, go = Gate(), Gate()
    with (
        BadServer(holding(seen, go)) as server,
        gateway(at("openai_chat", server.url), limits=PATIENT) as running,
    ):
        first = running.begin(client, body=BODIES[client])
        seen.wait_blocking()
        waiting = [running.begin(client, body=BODIES[client]) for _ in range(3)]
        go.open()
        for talk in (first, *waiting):
            assert talk.rest().status == 200
        for _ in range(4):
            running.record()
        assert running.service.bodies.used == 0


@pytest.mark.parametrize("size", [200 * KB, 2000 * KB])
def test_no_more_bodies_are_held_than_there_is_room_for_however_many_come(size: int) -> None:
    """There is room for five of them."""
    most = [0]
    limits = replace(LIMITS, bodies=5 * ASCII * size, body_wait=FAILSAFE)
    body = {"messages": [{"role": "user", "content": "x" * size}]}
    with (
        BadServer([expect(), reply(ANSWER)]) as server,
        gateway(at("openai_chat", server.url), limits=limits) as running,
    ):
        budget = running.service.bodies
        charge = budget._charge

        def watched(hold: BodyHold, amount: int) -> None:
            charge(hold, amount)
            most[0] = max(most[0], budget.used)

        budget._charge = watched  # type: ignore[method-assign]
        answers: list[Answer] = []
        threads = [
            threading.Thread(target=lambda: answers.append(running.ask("anthropic", body={"max_tokens": 9, **body})))
            for _ in range(CROWD)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(FAILSAFE * 2)
        assert [answer.status for answer in answers] == [200] * CROWD
        for _ in range(CROWD):
            running.record()
        assert budget.used == 0
    assert 0 < most[0] <= limits.bodies + (ASCII + 1) * size  # one upload may go on where all wait for each other


def test_a_body_larger_than_the_budget_is_served_when_it_is_alone() -> None:
    with (
        BadServer([expect(), reply(ANSWER)]) as server,
        gateway(at("openai_chat", server.url), limits=replace(LIMITS, bodies=100 * KB)) as running,
    ):
        assert running.ask("anthropic", body=BODIES["anthropic"]).status == 200


def test_a_compressed_body_counts_as_what_it_inflates_to() -> None:
    seen, left = Gate(), Gate()
    path, body = request("openai_chat", body=CHAT)
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    with (
        BadServer([expect(seen=seen), gone(left)]) as server,
        gateway(at("openai_chat", server.url), limits=ONE) as running,
    ):
        running.begin("openai_chat", body=CHAT)
        seen.wait_blocking()
        assert running.call("POST", path, gzip.compress(body), headers).status == 503


def drip(running: Running, announced: int, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", running.port), timeout=FAILSAFE)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {announced}\r\n\r\n"
    connection.sendall(head.encode() + sent)
    return connection


def test_an_upload_takes_no_room_for_what_it_only_announces() -> None:
    with (
        BadServer([expect(), reply(ANSWER)]) as server,
        gateway(at("openai_chat", server.url), limits=ONE) as running,
        drip(running, 30 * 1024 * KB, b"{"),
        drip(running, 30 * 1024 * KB, b"{"),
    ):
        assert running.ask("anthropic", body=BODIES["anthropic"]).status == 200


def test_an_upload_that_goes_on_too_long_is_given_up_and_its_room_is_free_again() -> None:
    """It sends a byte now and then, so that it is never silent for long."""
    limits = replace(PATIENT, body_time=2.0)
    with (
        BadServer([expect(), reply(ANSWER)]) as server,
        gateway(at("openai_chat", server.url), limits=limits) as running,
        drip(running, 30 * 1024 * KB, b'{"a":"' + b"x" * 250 * KB) as slow,
    ):
        over = threading.Event()

        def go_on() -> None:
            while not over.wait(0.02):
                try:
                    slow.sendall(b"x")
                except OSError:
                    return

        sending = threading.Thread(target=go_on)
        sending.start()
        try:
            assert running.ask("anthropic", body=BODIES["anthropic"]).status == 200
            answer = until_close(slow)
        finally:
            over.set()
            sending.join(FAILSAFE)
        assert status_of(answer) == 408
        assert b"did not arrive completely within 2 seconds" in answer


# The parts


def test_what_a_body_takes_is_estimated_from_its_characters_and_values() -> None:
    size = 100 * KB
    assert BodyCost().add(b"x" * SMALL_BODY) == 0
    assert BodyCost().add(b"x" * size) == ASCII * size
    assert BodyCost().add("é".encode() * (size // 2)) == WIDE * size
    assert BodyCost().add(b"\\u00e9" + b"x" * (size - 6)) == WIDE * size
    for wide in ("😀".encode(), "\U00100000".encode(), b"\\ud83d\\ude00", b"\\uD83D\\uDE00"):
        assert BodyCost().add(wide + b"x" * (size - len(wide))) == WIDEST * size
    members = json.dumps({f"k{number}": "x" for number in range(10_000)}).encode()
    assert BodyCost().add(members) == ASCII * len(members) + 10_000 * MEMBER
    cost = BodyCost()
    cost.add(b"x" * size)
    assert cost.add("😀".encode()) == WIDEST * (size + 4)  # the whole text is wider then
    assert BodyCost().add(b"1," * size) > 10 * ASCII * size


def budgeted(limit: int, work: Callable[[BodyBudget], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(FAILSAFE):
            await work(BodyBudget(lambda: limit))

    asyncio.run(run())


PIECE = b"x" * (100 * KB)
COST = len(PIECE) * ASCII


def test_who_waits_is_served_in_the_order_of_coming() -> None:
    async def work(budget: BodyBudget) -> None:
        holds = [budget.hold() for _ in range(4)]
        assert holds[0].try_add(PIECE)
        holds[0].settle()
        done: list[int] = []

        async def wait(number: int) -> None:
            await holds[number].add(PIECE, FAILSAFE)
            done.append(number)

        tasks = [asyncio.create_task(wait(number)) for number in (1, 2, 3)]
        await asyncio.sleep(0)
        for number in range(3):
            assert done == list(range(1, number + 1))
            holds[number].release()
            await tasks[number]
            holds[number + 1].settle()
        assert budget.used == COST

    budgeted(COST, work)


def test_uploads_that_wait_for_each_other_do_not_wait_for_ever() -> None:
    async def work(budget: BodyBudget) -> None:
        first, second = budget.hold(), budget.hold()
        assert first.try_add(PIECE)
        assert second.try_add(PIECE)
        other = asyncio.create_task(second.add(PIECE, FAILSAFE))
        await asyncio.sleep(0)
        await first.add(PIECE, FAILSAFE)  # the oldest goes on beyond the limit
        assert budget.used == 3 * COST
        first.settle()
        late = budget.hold()
        with pytest.raises(NoRoomError):
            await late.add(PIECE, 0.01)
        assert not other.done()
        first.release()
        await other
        second.settle()
        second.release()
        late.release()
        assert budget.used == 0

    budgeted(2 * COST, work)


def test_the_youngest_upload_is_refused_where_the_oldest_cannot_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_budget, "ACTIVE_SECONDS", 0.02)

    async def work(budget: BodyBudget) -> None:
        done, oldest, younger, youngest = (budget.hold() for _ in range(4))
        for hold in (done, oldest, younger, youngest):
            assert hold.try_add(PIECE)
        done.settle()
        tasks = [asyncio.create_task(hold.add(PIECE, FAILSAFE)) for hold in (younger, youngest)]
        await asyncio.sleep(0)
        waiting = asyncio.create_task(oldest.add(PIECE, FAILSAFE))
        with pytest.raises(NoRoomError):
            await tasks[1]
        youngest.release()
        await waiting
        assert budget.used == 4 * COST
        oldest.release()
        await tasks[0]

    budgeted(4 * COST, work)


def test_who_gives_up_waiting_leaves_nothing_behind() -> None:
    async def work(budget: BodyBudget) -> None:
        held, late = budget.hold(), budget.hold()
        assert held.try_add(PIECE)
        held.settle()
        waiting = asyncio.create_task(late.add(PIECE, FAILSAFE))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        late.release()
        held.release()
        held.release()
        assert budget.used == 0
        assert budget.hold().try_add(PIECE)

    budgeted(COST, work)


def test_each_worker_has_its_share() -> None:
    assert _divide_limits(Limits(bodies=1000), 4).bodies == 250


def test_a_whole_body_is_charged_by_its_length_while_most_of_the_budget_is_free() -> None:
    body = b"[" + b"0" * SMALL_BODY + b"]"
    budget = BodyBudget(lambda: 5 * MAX_PER_BYTE * len(body))
    first = budget.hold_whole(body)
    assert first is not None
    assert budget.used == MAX_PER_BYTE * len(body)
    second = budget.hold_whole(body)  # a quarter of the budget is taken: it is estimated
    assert second is not None
    assert budget.used == MAX_PER_BYTE * len(body) + ASCII * len(body)
    first.release()
    second.release()
    assert budget.used == 0
    full = BodyBudget(lambda: ASCII * len(body))
    assert full.hold_whole(body) is not None
    assert full.hold_whole(body) is None
    assert full.used == ASCII * len(body)


@pytest.mark.parametrize("text", [b'{"":1,', b'"\xf0\x9f\x98\x80",', b"1,", b'{"a":{"b":[', b"\\ud83d"])
def test_no_body_takes_more_than_its_length_is_charged_with(text: bytes) -> None:
    body = text * (2 * SMALL_BODY // len(text))
    assert BodyCost().add(body) <= MAX_PER_BYTE * len(body)
