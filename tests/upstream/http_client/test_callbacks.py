"""The short way: requests without a coroutine, and answers told from inside the reading of the socket."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.upstream.bad_server import (
    LAST_CHUNK,
    BadServer,
    Gate,
    chunk,
    close,
    expect,
    gone,
    head,
    never,
    pause,
    reply,
    reset,
    send,
    send_for_ever,
)
from tests.upstream.calls import pass_time
from tests.upstream.conformance.clients import Client
from tests.upstream.http_client.receivers import Kept, Told, begun, connected, on_both_loops, plain
from toolglot.upstream.http_client import HttpTransport, InFlightRequest, adopt_reply
from toolglot.upstream.transport import Timeouts, TransportError

CHUNKED = head(200, {"transfer-encoding": "chunked"})
AGAIN = [expect(), reply(b"{}", keep_alive=True)]


@on_both_loops
def test_an_answer_in_one_read_is_told_in_one_read(client: Client) -> None:
    async def test() -> None:
        raw = CHUNKED + chunk(b"a") + chunk(b"b") + chunk(b"c") + LAST_CHUNK
        opened = HttpTransport(10, {})
        turns: list[int] = []
        async with BadServer([expect(), send(raw)]) as server:
            turn = [0]
            kept = Kept(lambda told: turns.append(turn[0]))
            await connected(opened, server.url, kept)
            while not kept.over.is_set():
                turn[0] += 1
                await asyncio.sleep(0)
            assert kept.told == [("head", (200, {"transfer-encoding": "chunked"})), ("body", b"abc"), ("end", None)]
            assert len(set(turns)) == 1
        await opened.close()

    client.run(test)


@on_both_loops
def test_a_request_goes_out_at_once_where_there_is_an_idle_connection(client: Client) -> None:
    async def test() -> None:
        opened = HttpTransport(10, {})
        async with BadServer(AGAIN * 3) as server:
            assert begun(opened, server.url, Kept()) is None
            first, second, third = Kept(), Kept(), Kept()
            await connected(opened, server.url, first)
            assert begun(opened, server.url, Kept()) is None  # the only one is in use
            await first.over.wait()
            assert begun(opened, server.url, second, b"second") is not None
            await second.over.wait()
            await connected(opened, server.url, third, b"third")  # takes what is idle too
            await third.over.wait()
            assert (server.connections, [each.body for each in server.requests]) == (1, [b"{}", b"second", b"third"])
            assert [kept.body for kept in (first, second, third)] == [b"{}"] * 3
        await opened.close()

    client.run(test)


@on_both_loops
def test_at_its_end_the_connection_can_be_used_at_once(client: Client) -> None:
    async def test() -> None:
        opened, last = HttpTransport(1, {}), Kept()

        def go_on(told: Told) -> None:
            if told[0] == "end":
                assert begun(opened, server.url, last) is not None

        async with BadServer(AGAIN * 2) as server:
            await connected(opened, server.url, Kept(go_on))
            await last.over.wait()
            assert server.connections == 1
        await opened.close()

    client.run(test)


@on_both_loops
def test_no_more_begin_than_may_be_in_use(client: Client) -> None:
    async def test() -> None:
        opened, on = HttpTransport(2, {}), Gate()
        slow = [expect(), pause(on), reply(b"{}", keep_alive=True)]
        async with BadServer(slow * 2) as server:
            kept = [Kept() for _ in range(2)]
            for each in kept:
                await connected(opened, server.url, each)
            with pytest.raises(TransportError) as caught:
                await connected(opened, server.url, Kept(), connect=0.05)
            assert caught.value.failure == "pool"
            on.open()
            for each in kept:
                await each.over.wait()
            assert begun(opened, server.url, Kept()) is not None
            assert begun(opened, server.url, Kept()) is not None
            assert begun(opened, server.url, Kept()) is None
        await opened.close()

    client.run(test)


@on_both_loops
@pytest.mark.parametrize("when", ["head", "body"])
def test_who_gives_up_is_told_nothing_more(client: Client, when: str) -> None:
    async def test() -> None:
        opened, left = HttpTransport(1, {}), Gate()
        sendings: list[Any] = []
        script = [expect(), send(CHUNKED + chunk(b"1") + LAST_CHUNK), gone(left)]
        async with BadServer(script, [expect(), reply(b"{}")]) as server:
            kept = Kept(lambda told: sendings[0].abort() if told[0] == when else None)
            sendings.append(await connected(opened, server.url, kept))
            await left.wait()
            assert kept.kinds == ["head", "body"][: ["head", "body"].index(when) + 1]
            sendings[0].abort()  # once more does nothing
            other = Kept()
            await connected(opened, server.url, other)  # the place is free
            sendings[0].abort()  # nor does it harm the next
            await other.over.wait()
            assert other.kinds == ["head", "body", "end"]
        await opened.close()

    client.run(test)


@on_both_loops
def test_a_receiver_that_pauses_is_told_no_more_until_it_resumes(client: Client) -> None:
    async def test() -> None:
        opened, count = HttpTransport(2, {}), [0]
        script = [expect(), send(head(200)), send_for_ever(b"x" * 65536, count)]
        async with BadServer(script) as server, BadServer([never()]) as silent:
            kept = Kept()
            sending = await connected(opened, server.url, kept, idle=1.0)
            while not kept.body:
                await asyncio.sleep(0)
            sending.pause()
            read, before = len(kept.body), -1
            while count[0] != before:  # until the sockets' own buffers are full
                before = count[0]
                for _ in range(50):
                    await asyncio.sleep(0)
            await pass_time(opened, silent.url, 1.5)  # which is no silence of the upstream's
            assert len(kept.body) == read
            sending.resume()
            while len(kept.body) < read + 1024 * 1024:
                await asyncio.sleep(0)
            sending.abort()
        await opened.close()

    client.run(test)


@on_both_loops
def test_a_pause_ends_with_the_answer(client: Client) -> None:
    async def test() -> None:
        opened, last, sendings = HttpTransport(1, {}), Kept(), list[InFlightRequest]()
        async with BadServer(AGAIN * 2) as server:
            first = Kept(lambda told: sendings[0].pause())
            sendings.append(await connected(opened, server.url, first))
            await first.over.wait()
            assert first.kinds == ["head", "body", "end"]
            assert begun(opened, server.url, last) is not None
            await last.over.wait()
            assert last.kinds == ["head", "body", "end"]
        await opened.close()

    client.run(test)


@on_both_loops
def test_each_part_of_a_body_gives_the_next_one_its_time(client: Client) -> None:
    async def test() -> None:
        opened, kept, gates = HttpTransport(2, {}), Kept(), [Gate() for _ in range(6)]
        script = [expect(), send(CHUNKED)]
        for gate in gates:
            script += [pause(gate), send(chunk(b"."))]
        async with BadServer([*script, send(LAST_CHUNK)]) as server, BadServer([never()]) as silent:
            await connected(opened, server.url, kept, idle=2.0)
            for gate in gates:
                await pass_time(opened, silent.url, 0.4)
                gate.open()
            await kept.over.wait()
            assert (kept.kinds[-1], kept.body) == ("end", b"......")
        await opened.close()

    client.run(test)


@on_both_loops
@pytest.mark.parametrize(
    ("script", "timeouts", "kinds", "failure"),
    [
        ([expect(), close()], {}, ["broken"], "reset"),
        ([expect(), never()], {"first_byte": 0.05}, ["broken"], "timeout"),
        ([expect(), send(CHUNKED + chunk(b"1")), never()], {"idle": 0.05}, ["head", "body", "broken"], "timeout"),
        ([expect(), send(CHUNKED + chunk(b"1") + b"zz\r\n"), never()], {}, ["head", "body", "broken"], "reset"),
        ([expect(), send(CHUNKED + b"zz\r\n"), never()], {}, ["head", "broken"], "reset"),
        ([expect(), send(head(200, {"content-length": "2"}) + b"1"), close()], {}, ["head", "body", "broken"], "reset"),
    ],
)
def test_a_break_is_told_last(
    client: Client, script: list[Any], timeouts: dict[str, float], kinds: list[str], failure: str
) -> None:
    async def test() -> None:
        opened = HttpTransport(1, {})
        async with BadServer(script, [expect(), reply(b"{}")]) as server:
            kept = Kept()
            await connected(opened, server.url, kept, b"{}", **timeouts)
            await kept.over.wait()
            assert (kept.kinds, kept.failure) == (kinds, failure)
            other = Kept()
            await connected(opened, server.url, other)
            await other.over.wait()
            assert server.connections == 2
        await opened.close()

    client.run(test)


@on_both_loops
@pytest.mark.parametrize("when", ["head", "body", "end"])
def test_a_receiver_that_fails_takes_its_connection_with_it_and_no_more(client: Client, when: str) -> None:
    async def test() -> None:
        opened, seen = HttpTransport(1, {}), []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: seen.append(context["exception"]))

        def fail(told: Told) -> None:
            if told[0] == when:
                raise RuntimeError(when)

        left = Gate()
        async with BadServer([*AGAIN, gone(left)], [expect(), reply(b"{}")]) as server:
            await connected(opened, server.url, Kept(fail))
            await left.wait()
            assert [str(error) for error in seen] == [when]
            other = Kept()
            await connected(opened, server.url, other)
            await other.over.wait()
            assert other.kinds == ["head", "body", "end"]
        await opened.close()

    client.run(test)


# Taking over


@on_both_loops
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("when", ["head", "body"])
def test_another_may_read_the_rest(client: Client, when: str, apart: bool) -> None:
    async def test() -> None:
        opened, on = HttpTransport(1, {}), Gate()
        first, second = CHUNKED + chunk(b"1"), chunk(b"2") + LAST_CHUNK
        script = [expect(), send(first), pause(on), send(second)] if apart else [expect(), send(first + second)]
        replies: list[Any] = []

        def hand_over(told: Told) -> None:
            if told[0] == when:
                body = told[1] if when == "body" else b""
                replies.append(adopt_reply(sendings[0], 200, {"x": "y"}, body))

        async with BadServer(script) as server:
            kept = Kept(hand_over)
            sendings = [await connected(opened, server.url, kept)]
            while not replies:
                await asyncio.sleep(0)
            on.open()
            assert (replies[0].status, replies[0].headers) == (200, {"x": "y"})
            assert await replies[0].read(10) == b"12"
            replies[0].close()
            assert kept.kinds == ["head", "body"][: ["head", "body"].index(when) + 1]
        await opened.close()

    client.run(test)


@on_both_loops
def test_a_connection_that_is_lost_before_anything_was_sent_is_told_all_the_same(client: Client) -> None:
    async def test() -> None:
        opened, kept = HttpTransport(1, {}), Kept()
        async with BadServer([close()], [expect(), reply(b"{}")]) as server:
            destination, head = plain(opened, server.url)
            connection = await opened._connection(destination, Timeouts(), fresh=False)
            while connection._parser is not None:
                await asyncio.sleep(0)
            connection.send(head, b"{}", Timeouts(), kept, 0.0)
            assert kept.told == []  # not before whoever sends knows what is sent
            await kept.over.wait()
            assert kept.failure == "reset"
            other = Kept()
            await connected(opened, server.url, other)
            await other.over.wait()
            assert other.kinds == ["head", "body", "end"]
        await opened.close()

    client.run(test)


@on_both_loops
def test_where_an_idle_connection_was_dead_no_other_idle_one_is_trusted(client: Client) -> None:
    """A server that has closed one may have closed them all: who tries again would run into each of them."""

    async def test() -> None:
        opened = HttpTransport(10, {})
        held = Gate()
        scripts = [[expect(), pause(held), reply(b"{}", keep_alive=True), expect(), reset()], [*AGAIN, never()], AGAIN]
        async with BadServer(*scripts) as server:
            first, second, third, fourth = (Kept() for _ in range(4))
            await connected(opened, server.url, first)
            await connected(opened, server.url, second)  # while the other one is in use
            await second.over.wait()
            held.open()
            await first.over.wait()
            assert begun(opened, server.url, third) is not None
            await third.over.wait()
            assert third.told[-1][0] == "broken"
            assert begun(opened, server.url, fourth) is None  # the second one is idle, and not used
            await connected(opened, server.url, fourth)
            await fourth.over.wait()
            assert (fourth.body, server.connections) == (b"{}", 3)
        await opened.close()

    client.run(test)
