"""The loop in its thread, and the main thread that waits for it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from toolglot.chat.background import BackgroundLoop, LeaveError, UserStoppedError


async def _value() -> int:
    return 42


async def _failing() -> None:
    raise ValueError("no")


def test_work_is_done_in_the_loop_and_its_errors_come_out() -> None:
    with BackgroundLoop() as backstage:
        assert backstage.run(_value()) == 42
        with pytest.raises(ValueError, match="no"):
            backstage.run(_failing())


def test_a_question_of_the_loop_is_asked_in_the_main_thread() -> None:
    with BackgroundLoop() as backstage:
        assert backstage.run(backstage.ask(lambda: "an answer")) == "an answer"


def interrupting(number: int = signal.SIGINT) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def test_ctrl_c_stops_what_is_being_done_and_waits_until_it_has_ended() -> None:
    ended: list[str] = []

    async def work() -> None:
        asyncio.get_running_loop().call_soon(interrupting())
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("tidied")

    with BackgroundLoop() as backstage:
        with pytest.raises(UserStoppedError):
            backstage.run(work())
        assert ended == ["tidied"]
        assert backstage.run(_value()) == 42


def test_ctrl_c_twice_leaves_even_if_it_does_not_end() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(interrupting())
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            loop.call_soon(interrupting())
            await asyncio.Event().wait()

    with BackgroundLoop() as backstage:
        with pytest.raises(LeaveError) as left:
            backstage.run(work())
        assert left.value.status == 130


def test_ctrl_c_at_a_question_stops_what_asks() -> None:
    with BackgroundLoop() as backstage:

        def typed() -> str:
            return backstage.read_keyboard(lambda: str(interrupting()()))

        with pytest.raises(UserStoppedError):
            backstage.run(backstage.ask(typed))


def test_ctrl_c_at_the_keyboard_interrupts_the_typing() -> None:
    with BackgroundLoop() as backstage, pytest.raises(KeyboardInterrupt):
        backstage.read_keyboard(lambda: str(interrupting()()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_leave(number: int) -> None:
    async def work() -> None:
        asyncio.get_running_loop().call_soon(interrupting(number))
        await asyncio.Event().wait()

    with BackgroundLoop() as backstage:
        with pytest.raises(LeaveError) as left:
            backstage.run(work())
        assert left.value.status == 128 + number
        with pytest.raises(LeaveError):
            backstage.read_keyboard(lambda: str(interrupting(number)()))


def test_a_signal_that_comes_too_late_stops_nothing_else() -> None:
    with BackgroundLoop() as backstage:
        backstage.run(_value())
        os.kill(os.getpid(), signal.SIGINT)
        assert backstage.run(_value()) == 42


def test_a_wish_to_end_is_not_lost_between_two_lines() -> None:
    with BackgroundLoop() as backstage:
        backstage.run(_value())
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(LeaveError):
            backstage.read_keyboard(lambda: "typed")


def test_what_must_be_finished_is_not_stopped() -> None:
    done: list[str] = []

    async def work() -> None:
        turn = asyncio.Event()
        asyncio.get_running_loop().call_soon(interrupting())
        asyncio.get_running_loop().call_soon(turn.set)
        await turn.wait()
        done.append("all")

    with BackgroundLoop() as backstage:
        backstage.finish(work())
    assert done == ["all"]
