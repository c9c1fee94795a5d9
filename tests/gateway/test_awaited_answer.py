"""Answers for callers that await them, of transports that only remember."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any

import pytest

from tests.gateway.stage import Stage, shown
from toolglot.errors import ApiError
from toolglot.gateway.awaited_answer import AwaitedAnswer
from toolglot.gateway.commands import RELEASE, Await, Flow, Raised, StreamEnd, WholeAnswer, Write
from toolglot.gateway.flow import answer
from toolglot.gateway.sweep import DriverSweep
from toolglot.upstream.transport import TransportError, UpstreamCall

DRAINING = ApiError(kind="overloaded", status=503, message="draining")


class ScriptedReply:
    """A reply whose chunks are there at once; `None` waits until it is cancelled, an error breaks off."""

    def __init__(self, script: list[bytes | TransportError | None], status: int) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self.closed = False
        self._script = script

    async def read(self, limit: int) -> bytes:
        body = b"".join([chunk async for chunk in self.chunks()])
        if len(body) > limit:
            raise TransportError("too_large", "too large")
        return body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while self._script:
            step = self._script.pop(0)
            if step is None:
                await asyncio.get_running_loop().create_future()
            elif isinstance(step, TransportError):
                raise step
            else:
                yield step

    def close(self) -> None:
        self.closed = True


class ScriptedTransport:
    def __init__(self, *scripts: list[bytes | TransportError | None] | TransportError, status: int = 200) -> None:
        self._scripts = list(scripts)
        self._status = status
        self.replies: list[ScriptedReply] = []
        self.bodies: list[bytes] = []

    async def send(self, call: UpstreamCall) -> ScriptedReply:
        self.bodies.append(call.body)
        script = self._scripts.pop(0)
        if isinstance(script, TransportError):
            raise script
        if script == [None]:
            await asyncio.get_running_loop().create_future()
        self.replies.append(ScriptedReply(script, self._status))
        return self.replies[-1]

    async def close(self) -> None: ...


def staged(transport: ScriptedTransport, *, stream: bool, **options: Any) -> tuple[Stage, AwaitedAnswer]:
    stage = Stage(stream=stream, **options)
    stage.translations["a"].transport = transport
    return stage, AwaitedAnswer(answer(stage.context, stage.targets), stage.context, DriverSweep(lambda: 15.0))


async def said(running: AwaitedAnswer) -> str:
    commands: list[str] = []
    while (command := await running.next_command()) is not None:
        commands.append(shown(command))
    return " | ".join([*commands, shown(running.result())])


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def timed() -> None:
        async with asyncio.timeout(10):
            await work()

    asyncio.run(timed())


def test_a_whole_answer() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"h", b"i"])
        _, running = staged(transport, stream=False)
        assert await running.next_command() is None
        result = running.result()
        assert isinstance(result, WholeAnswer)
        assert result.body == b"HI"
        assert transport.replies[0].closed

    run(work)


def test_a_stream_and_the_rest_of_its_upstreams_bytes() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"a", b"_", b"b.", b"ignored"])
        _, running = staged(transport, stream=True)
        assert await said(running) == "begin | A | = B."
        await running.drain()
        assert transport.replies[0]._script == []
        assert transport.replies[0].closed
        await running.aclose()

    run(work)


def test_an_upstream_that_does_not_end_is_given_up_with_the_answer() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"a.", None])
        _, running = staged(transport, stream=True)
        assert await said(running) == "= A."
        assert not transport.replies[0].closed
        draining = asyncio.create_task(running.drain())
        await asyncio.sleep(0)
        running._driver.tick(asyncio.get_running_loop().time() + 2.0, 15.0)
        await draining
        assert transport.replies[0].closed

    run(work)


def two_rounds(first: Stage, second: Stage) -> Flow:
    """The answer of one model, then that of another."""
    for stage in (first, second):
        yield from answer(stage.context, stage.targets)
        yield RELEASE
    return StreamEnd(b"")


def test_a_released_reply_is_read_on_beside_the_next_and_given_up_if_it_does_not_end() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"a.", b"ignored"], [b"b.", b"ignored", None])
        first, second = Stage(stream=True), Stage(stream=True)
        first.translations["a"].transport = second.translations["a"].transport = transport
        running = AwaitedAnswer(two_rounds(first, second), first.context, sweep := DriverSweep(lambda: 15.0))
        assert await said(running) == "= "
        await until(lambda: all(len(reply._script) == 0 for reply in transport.replies))
        await until(lambda: [reply.closed for reply in transport.replies] == [True, False])
        (drain,) = sweep
        drain.tick(asyncio.get_running_loop().time() + 2.0, 15.0)
        assert transport.replies[1].closed
        assert list(sweep) == []

    run(work)


def test_an_answer_that_is_released_when_complete_leaves_the_rest_to_its_driver() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"a.", b"ignored", None])
        _, running = staged(transport, stream=True)
        assert await said(running) == "= A."
        await running.release()
        assert not transport.replies[0].closed
        await until(lambda: transport.replies[0]._script == [])
        running._driver.tick(asyncio.get_running_loop().time() + 2.0, 15.0)
        assert transport.replies[0].closed

    run(work)


def test_an_answer_that_is_released_early_is_given_up() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"a", None])
        _, running = staged(transport, stream=True)
        assert shown(await running.next_command()) == "begin"
        await running.release()
        assert transport.replies[0].closed

    run(work)


def test_a_released_reply_is_given_up_with_the_answer() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"a.", None], [b"b."])
        first, second = Stage(stream=True), Stage(stream=True)
        first.translations["a"].transport = second.translations["a"].transport = transport
        running = AwaitedAnswer(two_rounds(first, second), first.context, sweep := DriverSweep(lambda: 15.0))
        assert await said(running) == "= "
        await running.aclose()
        assert [reply.closed for reply in transport.replies] == [True, True]
        assert list(sweep) == []

    run(work)


def test_an_answer_over_the_limit_breaks_off() -> None:
    async def work() -> None:
        _, running = staged(ScriptedTransport([b"a" * 60, b"b" * 60]), stream=True)
        assert await said(running) == f"begin | {'A' * 60} | = <server>"

    run(work)


def test_a_retry_closes_the_reply_before_it() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"_", TransportError("reset", "broke")], [b"a."])
        stage, running = staged(transport, stream=True)
        stage.context.environment = type(stage.context.environment)(lambda: stage.now, lambda: 0.0, lambda: 0.0)
        assert await said(running) == "= A."
        assert [reply.closed for reply in transport.replies] == [True, True]

    run(work)


def test_an_upstream_is_read_no_faster_than_the_caller_takes_its_pieces() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"a", b"b", b"c", b"d."])
        _, running = staged(transport, stream=True)
        assert shown(await running.next_command()) == "begin"
        for _ in range(10):
            await asyncio.sleep(0)
        assert transport.replies[0]._script == [b"c", b"d."]
        assert await said(running) == "A | B | C | = D."
        await running.aclose()

    run(work)


def test_what_a_flow_awaits_is_reported_once_the_caller_has_taken_what_was_written() -> None:
    async def work() -> None:
        count = 0

        async def step() -> None:
            nonlocal count
            count += 1

        def flow() -> Flow:
            while count < 3:
                yield Await(step)
                yield Write(b"%d" % count)
            return StreamEnd(b"")

        running = AwaitedAnswer(flow(), Stage(stream=True).context)
        assert shown(await running.next_command()) == "1"
        for _ in range(10):
            await asyncio.sleep(0)
        assert count == 2
        assert await said(running) == "2 | 3 | = "
        await running.aclose()

    run(work)


def test_keepalives_are_written_while_an_upstream_is_waited_for() -> None:
    async def work() -> None:
        stage, running = staged(ScriptedTransport([None]), stream=True)
        waiting = asyncio.create_task(running.next_command())
        await asyncio.sleep(0)
        now = asyncio.get_running_loop().time()
        running._driver.tick(now + 14.0, 15.0)
        await asyncio.sleep(0)
        assert not waiting.done()
        running._driver.tick(now + 15.0, 15.0)
        assert shown(await waiting) == "begin early"
        running._driver.tick(now + 31.0, 15.0)  # the caller has not taken what was written before
        assert shown(await running.next_command()) == ":beat"
        waiting = asyncio.create_task(running.next_command())
        await asyncio.sleep(0)
        running._driver.tick(now + 46.0, 15.0)
        assert shown(await waiting) == ":beat"
        await running.aclose()
        assert stage.open == 0

    run(work)


def test_a_silence_that_ends_the_answer_gives_up_the_upstream() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"a;", None])
        stage, running = staged(transport, stream=True)
        waiting = asyncio.create_task(said(running))
        await until(lambda: stage.context.begun and not running.full)
        now = asyncio.get_running_loop().time()
        running._driver.tick(now, 15.0)
        running._driver.tick(now + 6.0, 15.0)
        assert await waiting == "begin | A; | = <END>"
        await running.aclose()
        assert transport.replies[0].closed

    run(work)


def test_a_caller_that_leaves_ends_the_flow() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"a", None])
        stage, running = staged(transport, stream=True)
        waiting = asyncio.create_task(said(running))
        await until(lambda: bool(transport.replies) and not transport.replies[0]._script)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await running.aclose()
        assert stage.open == 0
        assert transport.replies[0].closed
        assert not stage.record.cancelled

    run(work)


def test_a_server_that_waits_no_longer_ends_a_stream_in_words() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"a", None])
        stage, running = staged(transport, stream=True)
        waiting = asyncio.create_task(said(running))
        await until(lambda: bool(transport.replies) and not transport.replies[0]._script)
        running.stop(DRAINING)
        assert await waiting == "begin | A | = <overloaded>"
        assert stage.open == 0
        assert transport.replies[0].closed

    run(work)


def test_a_server_that_waits_no_longer_ends_the_wait_for_a_retry() -> None:
    async def work() -> None:
        stage, running = staged(ScriptedTransport(TransportError("reset", "broke")), stream=True)
        waiting = asyncio.create_task(said(running))
        await until(lambda: running._driver._backoff is not None)
        running._driver.tick(asyncio.get_running_loop().time() + 100.0, 15.0)  # no keep-alive
        running.stop(DRAINING)
        assert await waiting == "= error 503 overloaded"
        assert stage.open == 0

    run(work)


def test_what_a_coroutine_raises_is_raised_in_the_flow_and_a_defect_closes_it() -> None:
    closed: list[str] = []

    def flow() -> Flow:
        async def broken() -> None:
            raise ValueError("no")

        try:
            outcome = yield Await(broken)
            if isinstance(outcome, Raised):
                raise outcome.error
        finally:
            closed.append("closed")
        return StreamEnd(b"")

    async def work() -> None:
        running = AwaitedAnswer(flow(), Stage().context)
        assert await running.next_command() is None
        with pytest.raises(ValueError, match="no"):
            running.result()
        assert closed == ["closed"]

    run(work)
