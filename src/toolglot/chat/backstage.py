"""An event loop in a thread of its own, so that it never waits for the keyboard, which the main thread has.

The main thread waits for the end of what it has given the loop to do, and meanwhile for questions that come from there
and for Ctrl-C.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any, Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")

PATIENCE = 2.0
"""Seconds."""
NUDGES = (0.02, 0.1, 0.5)
"""Seconds after a signal at which the main thread is woken."""


def _heed_not(number: int, frame: FrameType | None) -> None:
    """To be woken is all."""


class StoppedError(Exception):
    """The user has stopped what was being done."""


class LeaveError(BaseException):
    """The user wants to leave, or the system wants us to. No `except Exception` on the way may keep them."""

    def __init__(self, status: int = 0) -> None:
        super().__init__(status)
        self.status = status


class Question(Generic[T]):
    """Something that the loop wants to know of the user."""

    def __init__(self, put: Callable[[], T]) -> None:
        self.put = put
        """Asks, in the main thread."""
        self.answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()


class Ended(Struct, frozen=True):
    task: asyncio.Task[Any]


class Signalled(Struct, frozen=True):
    number: int


class Backstage:
    """`with Backstage() as backstage: backstage.run(…)`, in the main thread."""

    def __init__(self) -> None:
        # Reentrant, so that a signal may come while something is put in or taken out.
        self._inbox: SimpleQueue[Question[Any] | Ended | Signalled] = SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="toolglot chat", daemon=True)
        self._task: asyncio.Task[Any] | None = None
        self._before: dict[int, Any] = {}
        self._leaving = 0
        self._told, self._telling = socket.socketpair()
        self._wakes = -1
        self.typing = False
        """The main thread waits for the keyboard: only an exception gets it away from there."""

    def __enter__(self) -> Backstage:
        self._thread.start()
        if (nudge := getattr(signal, "SIGURG", None)) is not None:
            self._before[nudge] = signal.signal(nudge, _heed_not)
            self._told.setblocking(False)
            self._telling.setblocking(False)
            self._wakes = signal.set_wakeup_fd(self._telling.fileno(), warn_on_full_buffer=False)
            self._loop.call_soon_threadsafe(self._loop.add_reader, self._told, self._nudge, nudge)
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if (number := getattr(signal, name, None)) is not None:
                self._before[number] = signal.signal(number, self._signalled)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(_abandon(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakes)
        self._told.close()
        self._telling.close()

    def _nudge(self, nudge: int) -> None:
        """A signal has come. Python sees to it before its next step, and one that comes right before the main thread
        waits for a key would be seen to with that key: so it is woken, until it must have been waiting."""
        if any(number != nudge for number in self._told.recv(4096)):
            main = threading.main_thread().ident
            assert main is not None
            for seconds in NUDGES:
                self._loop.call_later(seconds, signal.pthread_kill, main, nudge)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            self._leaving = number  # whatever the main thread is at, it gets there
        if not self.typing:
            self._inbox.put(Signalled(number))
            return
        self.typing = False
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise LeaveError(128 + number)

    def typed(self, read: Callable[[], str]) -> str:
        """What the keyboard says. Raises `KeyboardInterrupt`, `EOFError` and `LeaveError`."""
        self.typing = True
        try:
            if self._leaving:
                raise LeaveError(128 + self._leaving)
            return read()
        finally:
            self.typing = False

    async def ask(self, put: Callable[[], T]) -> T:
        """From the loop: have something asked in the main thread, and wait for the answer."""
        question = Question(put)
        self._inbox.put(question)
        return await question.answer

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the loop do this, and wait for it.

        Raises:
            StoppedError: Ctrl-C; what was being done has ended.
            LeaveError: Ctrl-C once more while it was ending, or another signal.
        """
        with suppress(Empty):
            while True:
                self._inbox.get_nowait()
        self._loop.call_soon_threadsafe(self._start, work)
        stopping = 0
        while True:
            news = self._inbox.get()
            if isinstance(news, Ended):
                break
            signalled = self._asked(news) if isinstance(news, Question) else news
            if signalled is not None:
                stopping += 1
                self._cancel()
                if stopping > 1 or signalled.number != signal.SIGINT:
                    raise LeaveError(128 + signalled.number)
        if news.task.cancelled():
            raise StoppedError
        result: T = news.task.result()
        return result

    def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Have the loop do this to its end, which must be near: no signal stops it."""
        self._loop.call_soon_threadsafe(self._start, work)
        while True:
            news = self._inbox.get()
            if isinstance(news, Ended) and news.task is self._task:
                news.task.result()
                return

    def _asked(self, question: Question[Any]) -> Signalled | None:
        try:
            answer = question.put()
        except KeyboardInterrupt:
            return Signalled(signal.SIGINT)
        self._loop.call_soon_threadsafe(_set, question.answer, answer)
        return None

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(lambda task: self._inbox.put(Ended(task)))

    def _cancel(self) -> None:
        def cancel() -> None:
            if self._task is not None:
                self._task.cancel()

        self._loop.call_soon_threadsafe(cancel)


async def _abandon() -> None:
    """End what is left to do, and wait for it no longer than one who leaves will wait."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=PATIENCE)
    await asyncio.get_running_loop().shutdown_asyncgens()


def _set(future: asyncio.Future[T], answer: T) -> None:
    if not future.done():
        future.set_result(answer)
