"""An event loop in a separate thread, so that it never waits for the keyboard, which belongs to the main thread. The
main thread waits for work that runs in the loop, and meanwhile handles the loop's questions and Ctrl-C.
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

STOP_TIMEOUT = 2.0
"""Time limit for stopping, in seconds."""
WAKE_DELAYS = (0.02, 0.1, 0.5)
"""Seconds after a signal at which the main thread is woken."""


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    """Do nothing. The signal only wakes the thread."""


class UserStoppedError(Exception):
    """The user has stopped the current work."""


class LeaveError(BaseException):
    """The user or the system ends the chat. A `BaseException`, so that no `except Exception` catches
    it."""

    def __init__(self, status: int = 0) -> None:
        super().__init__(status)
        self.status = status


class LoopQuestion(Generic[T]):
    """A question from the loop to the user."""

    def __init__(self, put: Callable[[], T]) -> None:
        self.put = put
        """Asks the question, in the main thread."""
        self.answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()


class WorkEnded(Struct, frozen=True):
    task: asyncio.Task[Any]


class SignalReceived(Struct, frozen=True):
    number: int


class BackgroundLoop:
    """An event loop in a background thread. Use it in the main thread: `with BackgroundLoop() as background:
    background.run(…)`."""

    def __init__(self) -> None:
        # Reentrant, because a signal may arrive during a put or get.
        self._inbox: SimpleQueue[LoopQuestion[Any] | WorkEnded | SignalReceived] = SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="toolglot chat", daemon=True)
        self._task: asyncio.Task[Any] | None = None
        self._before: dict[int, Any] = {}
        self._leaving = 0
        self._told, self._telling = socket.socketpair()
        self._wakes = -1
        self.typing = False
        """Whether the main thread waits for the keyboard, which only an exception interrupts."""

    def __enter__(self) -> BackgroundLoop:
        self._thread.start()
        if (nudge := getattr(signal, "SIGURG", None)) is not None:
            self._before[nudge] = signal.signal(nudge, _ignore_signal)
            self._told.setblocking(False)
            self._telling.setblocking(False)
            self._wakes = signal.set_wakeup_fd(self._telling.fileno(), warn_on_full_buffer=False)
            self._loop.call_soon_threadsafe(self._loop.add_reader, self._told, self._wake_main_thread, nudge)
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if (number := getattr(signal, name, None)) is not None:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(_cancel_remaining(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakes)
        self._told.close()
        self._telling.close()

    def _wake_main_thread(self, nudge: int) -> None:
        """Wake the main thread after a signal.

        Python handles a signal before its next step. A signal that arrives just before the main thread waits for a key
        would be handled only after that key, so the thread is woken until it must have been waiting.
        """
        if any(number != nudge for number in self._told.recv(4096)):
            main = threading.main_thread().ident
            assert main is not None
            for seconds in WAKE_DELAYS:
                self._loop.call_later(seconds, signal.pthread_kill, main, nudge)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            self._leaving = number  # handled regardless of what the main thread is doing
        if not self.typing:
            self._inbox.put(SignalReceived(number))
            return
        self.typing = False
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise LeaveError(128 + number)

    def read_keyboard(self, read: Callable[[], str]) -> str:
        """Return the user's input. Raises `KeyboardInterrupt`, `EOFError` and `LeaveError`."""
        self.typing = True
        try:
            if self._leaving:
                raise LeaveError(128 + self._leaving)
            return read()
        finally:
            self.typing = False

    async def ask(self, put: Callable[[], T]) -> T:
        """Ask a question in the main thread and wait for the answer. Called in the loop."""
        question = LoopQuestion(put)
        self._inbox.put(question)
        return await question.answer

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run this in the loop, and wait for it.

        Raises:
            UserStoppedError: Ctrl-C; the work has ended.
            LeaveError: Ctrl-C again while it was ending, or another signal.
        """
        with suppress(Empty):
            while True:
                self._inbox.get_nowait()
        self._loop.call_soon_threadsafe(self._start, work)
        stopping = 0
        while True:
            news = self._inbox.get()
            if isinstance(news, WorkEnded):
                break
            signalled = self._answer_question(news) if isinstance(news, LoopQuestion) else news
            if signalled is not None:
                stopping += 1
                self._cancel()
                if stopping > 1 or signalled.number != signal.SIGINT:
                    raise LeaveError(128 + signalled.number)
        if news.task.cancelled():
            raise UserStoppedError
        result: T = news.task.result()
        return result

    def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a short task in the loop to its end. No signal stops it."""
        self._loop.call_soon_threadsafe(self._start, work)
        while True:
            news = self._inbox.get()
            if isinstance(news, WorkEnded) and news.task is self._task:
                news.task.result()
                return

    def _answer_question(self, question: LoopQuestion[Any]) -> SignalReceived | None:
        try:
            answer = question.put()
        except KeyboardInterrupt:
            return SignalReceived(signal.SIGINT)
        self._loop.call_soon_threadsafe(_set_answer, question.answer, answer)
        return None

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(lambda task: self._inbox.put(WorkEnded(task)))

    def _cancel(self) -> None:
        def cancel() -> None:
            if self._task is not None:
                self._task.cancel()

        self._loop.call_soon_threadsafe(cancel)


async def _cancel_remaining() -> None:
    """Cancel the remaining work, and wait for it only for a short time."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=STOP_TIMEOUT)
    await asyncio.get_running_loop().shutdown_asyncgens()


def _set_answer(future: asyncio.Future[T], answer: T) -> None:
    if not future.done():
        future.set_result(answer)
