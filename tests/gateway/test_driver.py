"""The driver on transports that only remember, and on a clock that a test sets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any

import pytest

from tests.gateway.stage import Stage, shown
from toolglot.errors import ApiError
from toolglot.gateway.commands import Await, Flow, Raised, StreamEnd, WholeAnswer
from toolglot.gateway.driver import FlowDriver
from toolglot.gateway.flow import answer
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


def staged(transport: ScriptedTransport, *, stream: bool, **options: Any) -> tuple[Stage, FlowDriver]:
    stage = Stage(stream=stream, **options)
    stage.translations["a"].transport = transport
    return stage, FlowDriver(answer(stage.context, stage.targets), stage.context)


async def said(driver: FlowDriver) -> str:
    commands: list[str] = []
    while (command := await driver.next_command()) is not None:
        commands.append(shown(command))
    return " | ".join([*commands, shown(driver.result)])


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def timed() -> None:
        async with asyncio.timeout(10):
            await work()

    asyncio.run(timed())


def test_a_whole_answer() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"h", b"i"])
        _, driver = staged(transport, stream=False)
        result = await driver.run()
        assert isinstance(result, WholeAnswer)
        assert result.body == b"HI"
        assert transport.replies[0].closed

    run(work)


def test_a_stream_and_what_its_upstream_says_behind_the_end() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"a", b"_", b"b.", b"ignored"])
        _, driver = staged(transport, stream=True)
        assert await said(driver) == "begin | A | = B."
        await driver.drain()
        assert transport.replies[0]._script == []
        driver.close()
        assert transport.replies[0].closed

    run(work)


def test_an_answer_over_the_limit_breaks_off() -> None:
    async def work() -> None:
        _, driver = staged(ScriptedTransport([b"a" * 60, b"b" * 60]), stream=True)
        assert await said(driver) == f"begin | {'A' * 60} | = <server>"

    run(work)


def test_a_retry_closes_the_reply_before_it() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"_", TransportError("reset", "broke")], [b"a."])
        stage, driver = staged(transport, stream=True)
        stage.context.environment = type(stage.context.environment)(lambda: stage.now, lambda: 0.0, lambda: 0.0)
        assert await said(driver) == "= A."
        assert [reply.closed for reply in transport.replies] == [True, False]

    run(work)


def test_silence_is_broken_while_an_upstream_is_waited_for() -> None:
    async def work() -> None:
        stage, driver = staged(ScriptedTransport([None]), stream=True)
        waiting = asyncio.create_task(said(driver))
        await asyncio.sleep(0)
        stage.now = 14.0
        assert driver.break_silence(0.0) == []
        stage.now = 15.0
        assert list(map(shown, driver.break_silence(0.0))) == ["begin early", ":beat"]
        assert list(map(shown, driver.break_silence(0.0))) == [":beat"]
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert stage.open == 0
        assert driver.break_silence(0.0) == []

    run(work)


def test_a_silence_that_ends_the_answer_gives_up_the_upstream() -> None:
    async def work() -> None:
        transport = ScriptedTransport([b"a;", None])
        stage, driver = staged(transport, stream=True)
        waiting = asyncio.create_task(said(driver))
        while driver.waiting_since is None or not stage.context.begun:
            await asyncio.sleep(0)
        stage.now = 5.0
        assert driver.break_silence(5.0) == []
        assert await waiting == "begin | A; | = <END>"
        assert waiting.cancelling() == 0
        driver.close()
        assert transport.replies[0].closed

    run(work)


def test_a_server_that_waits_no_longer_ends_a_stream_in_words() -> None:
    async def work() -> None:
        stage, _ = staged(ScriptedTransport([b"a", None]), stream=True)
        driver = FlowDriver(answer(stage.context, stage.targets), stage.context, lambda: DRAINING)
        waiting = asyncio.create_task(said(driver))
        while not stage.context.begun or driver.waiting_since is None:
            await asyncio.sleep(0)
        waiting.cancel()
        assert await waiting == "begin | A | = <overloaded>"
        assert stage.open == 0

    run(work)


def test_a_server_that_waits_no_longer_ends_the_wait_for_a_retry() -> None:
    async def work() -> None:
        stage, _ = staged(ScriptedTransport(TransportError("reset", "broke")), stream=True)
        driver = FlowDriver(answer(stage.context, stage.targets), stage.context, lambda: DRAINING)
        waiting = asyncio.create_task(said(driver))
        while not driver.is_backing_off:
            await asyncio.sleep(0)
        assert driver.break_silence(-100.0) == []
        waiting.cancel()
        assert await waiting == "= error 503 overloaded"

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
        stage = Stage()
        with pytest.raises(ValueError, match="no"):
            await FlowDriver(flow(), stage.context).run()
        assert closed == ["closed"]

    run(work)
