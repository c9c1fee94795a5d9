"""The parent: starts workers, starts those again that die or hang, replaces them one after the other, and ends with
them.

A worker that is stopped, or whose event loop hangs, still has its listening socket, and the kernel gives it connections
that nobody serves. So the parent pings the workers that serve, and kills one that does not answer: its successor takes
over the socket, with all who wait there.

The listening sockets are the parent's, one for each worker where the kernel shares connections out among several. A
successor takes over the very socket, with all who wait to be taken: none is refused or reset while workers change.

The parent has no event loop and no thread, because workers are forks of it: whatever is loaded stays shared memory.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from toolglot.server.reload import ends_with_terminal, has_terminal
from toolglot.server.workers.child import Child
from toolglot.server.workers.errors import GaveUpError
from toolglot.server.workers.hub import Hub
from toolglot.server.workers.line import Answer, Ask, Go, Last, Leave, Leaving, Message, Ping, Pong, Ready

log = logging.getLogger("toolglot.server")

BACK_OFF = (0.0, 0.1, 0.4, 1.0, 2.0)
"""Seconds until a worker that died soon after its start is started again: the first time, the second ... At last it is
given up."""
STEADY = 10.0
"""Seconds after which a worker's end has nothing to do with its start."""
STARTING = 60.0
"""Seconds that a worker has to get ready."""
GRACE = 20.0
"""Seconds that a worker has to tidy up, beside those for its running requests, before it is killed."""
PINGS = 3
"""Pings in the time that a worker may be silent."""
LATE = 1.0
"""Seconds by which the parent may wake too late before it no longer blames its workers: it was stopped itself, with all
of them maybe, as by Ctrl-Z."""
WRONG = 2
"""The exit status of a worker that could never serve: another try would end the same."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2, signal.SIGCHLD)
_AT_FIRST = {signal.SIGINT: signal.SIG_IGN, signal.SIGUSR2: signal.SIG_IGN}
"""What a worker does on a signal until it serves. SIGINT comes from a terminal, which sends it to the parent too."""


class _Slot:
    """A worker's place. `before` serves on while its successor, `child`, gets ready."""

    def __init__(self, number: int, listener: socket.socket) -> None:
        self.number = number
        self.listener = listener
        self.child: Child | None = None
        self.before: Child | None = None
        self.deaths = 0
        self.start_at: float | None = None


class Supervisor:
    """
    Args:
        listeners: the sockets, one for each worker.
        work: what a worker does, in its own process, with its socket and its line; the exit status.
        prepare: called before workers are replaced; False leaves them as they are.
        on_ready: called once, when all workers serve.
        drain: seconds that a worker's running requests have, unless it says otherwise.
        patience: seconds that a worker may leave a ping unanswered.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        work: Callable[[socket.socket, socket.socket], int],
        *,
        prepare: Callable[[], bool],
        on_ready: Callable[[], None],
        drain: float,
        patience: float,
    ) -> None:
        self._slots = [_Slot(number, listener) for number, listener in enumerate(listeners, 1)]
        self._work = work
        self._prepare = prepare
        self._on_ready = on_ready
        self._drain = drain
        self._silence = patience
        self._hub = Hub()
        self._children: dict[int, Child] = {}
        self._waiting: deque[_Slot] = deque()  # to be replaced, after
        self._replacing: _Slot | None = None
        self._begun = False
        self._ending = False
        self._failure: str | None = None
        self._ends_with_terminal = ends_with_terminal()
        self._at_first = {**_AT_FIRST, signal.SIGHUP: signal.getsignal(signal.SIGHUP)}
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()

    def run(self) -> None:
        """Until a signal ends it and all workers are gone. Raises `GaveUpError`."""
        self._listen_to_signals()
        try:
            for slot in self._slots:
                self._start(slot)
            while self._children or not self._ending:
                self._turn()
        finally:
            signal.set_wakeup_fd(-1)
        if self._failure is not None:
            raise GaveUpError(self._failure)

    def _listen_to_signals(self) -> None:
        for end in (self._woken, self._wake):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda _number, _frame: None)  # the number comes by the socket

    def _turn(self) -> None:
        """Wait for something to happen, and see to it."""
        for child in self._children.values():
            if child.is_open:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if child.wants_to_send else 0)
                self._selector.modify(child.line, events, child)
        before = time.monotonic()
        patience = self._patience(before)
        found = self._selector.select(patience)
        if patience is not None and time.monotonic() - before - patience > LATE:
            self._restart_silence_clocks()
        if any(key.data is None for key, _ in found):
            self._hear_signals()
        for key, events in found:
            if key.data is not None and key.data.is_open:
                if events & selectors.EVENT_WRITE:
                    key.data.send()
                self._hear(key.data)
        self._keep_time(time.monotonic())

    def _patience(self, now: float) -> float | None:
        times = [self._hub.until, *(slot.start_at for slot in self._slots)]
        times += [child.kill_at for child in self._children.values()]
        times += [child.ping_at for child in self._children.values()]
        pinged = [child.pinged_at for child in self._children.values()]
        times += [None if since is None else since + self._silence for since in pinged]
        return min((max(at - now, 0.0) for at in times if at is not None), default=None)

    def _keep_time(self, now: float) -> None:
        self._hub.give_up(now, self._children.values())
        for child in list(self._children.values()):
            if child.kill_at is not None and child.kill_at <= now:
                log.warning("worker %d (process %d) takes too long, and is killed", child.number, child.pid)
                child.kill_at = None
                child.signal(signal.SIGKILL)
            if child.stage == "serving":
                self._check_pulse(child, now)
        for slot in self._slots:
            if slot.start_at is not None and slot.start_at <= now and not self._ending:
                self._start(slot)

    def _check_pulse(self, child: Child, now: float) -> None:
        """Ping a worker that serves, and kill it if it has not answered in time."""
        if self._is_overdue(child, now) and child.is_open:
            self._hear(child)  # this process may have been busy itself, and the answer is there
        if self._is_overdue(child, now):
            text = "worker %d (process %d) has not answered for %g seconds, and is killed"
            log.error(text, child.number, child.pid, self._silence)
            child.pinged_at = None  # once: what follows is its end
            child.signal(signal.SIGKILL)
        elif child.ping_at is not None and child.ping_at <= now:
            child.ping_at, child.pinged_at = None, now
            child.say(Ping())

    def _is_overdue(self, child: Child, now: float) -> bool:
        return child.pinged_at is not None and child.pinged_at + self._silence <= now

    def _restart_silence_clocks(self) -> None:
        """Give all workers time anew: this process was not there to hear them."""
        now = time.monotonic()
        for child in self._children.values():
            if child.pinged_at is not None:
                child.pinged_at = now

    # Signals

    def _hear_signals(self) -> None:
        numbers = set[int]()
        with suppress(BlockingIOError):
            while data := self._woken.recv(1024):
                numbers.update(data)
        if numbers & {signal.SIGTERM, signal.SIGINT}:
            self._end(again=signal.SIGINT in numbers and self._ending)
        if signal.SIGHUP in numbers:
            self._reload()
        if signal.SIGUSR2 in numbers:
            self._replace()
        self._bury()

    def _end(self, *, again: bool = False) -> None:
        """Have all workers leave; whoever asks again wants it now."""
        if again:
            for child in self._children.values():
                child.signal(signal.SIGINT)
        if self._ending:
            return
        self._ending = True
        self._waiting.clear()
        for slot in self._slots:
            slot.listener.close()
            slot.start_at = None
        for child in self._children.values():
            self._dismiss(child, successor=False)

    def _reload(self) -> None:
        if self._ends_with_terminal and not has_terminal():
            self._end()
        for child in self._children.values():
            # Who is not ready may have read the file, and not listen yet.
            child.reload_wanted = child.stage == "starting"
            if child.stage in ("ready", "serving"):
                child.signal(signal.SIGHUP)

    def _replace(self) -> None:
        if self._ending or not self._begun:
            return
        if self._replacing is not None:
            log.warning("the workers are being replaced already")
        elif self._prepare():
            log.info("the workers are replaced")
            self._waiting.extend(self._slots)
            self._replace_next()

    def _replace_next(self) -> None:
        slot = self._replacing = self._waiting.popleft() if self._waiting else None
        if slot is not None:
            slot.before, slot.deaths = slot.child, 0
            self._start(slot)
        else:
            log.info("all workers are new; those before them finish what they have begun")

    # Workers

    def _start(self, slot: _Slot) -> None:
        slot.start_at = None
        ours, theirs = socket.socketpair()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or both would write what waits there
        # A signal for the worker must not be taken by the parent's handlers in it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                self._be_worker(slot, ours, theirs, mask)
        except OSError as error:
            ours.close()
            self._lose(slot, f"cannot be started: {error.strerror}", time.monotonic())
            return
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            theirs.close()
        child = slot.child = self._children[pid] = Child(pid, slot.number, ours, time.monotonic())
        child.kill_at = child.began + STARTING
        self._selector.register(ours, selectors.EVENT_READ, child)
        log.info("worker %d is process %d", slot.number, pid)

    def _be_worker(self, slot: _Slot, ours: socket.socket, line: socket.socket, mask: Iterable[int]) -> None:
        """In the new process, which never comes back from here."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, self._at_first.get(number, signal.SIG_DFL))
            self._selector.close()
            lines = [child.line for child in self._children.values()]
            for each in (ours, self._woken, self._wake, *lines):
                each.close()
            for other in self._slots:
                if other.listener is not slot.listener:
                    other.listener.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            status = self._work(slot.listener, line)
        except Exception:
            log.exception("worker %d failed", slot.number)
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError):
                    stream.flush()
            os._exit(status)

    def _dismiss(self, child: Child, *, successor: bool) -> None:
        child.stage, child.ping_at, child.pinged_at = "leaving", None, None
        child.kill_at = time.monotonic() + self._drain + GRACE
        child.say(Leave(successor))

    def _hear(self, child: Child) -> None:
        for message in child.heard():
            self._obey(child, message)
        if not child.is_open:
            self._selector.unregister(child.line)
            self._hub.silent(child, self._children.values())

    def _obey(self, child: Child, message: Message) -> None:
        match message:
            case Ready():
                self._is_ready(child)
            case Leaving():
                self._is_leaving(child, message.seconds)
            case Pong() if child.stage == "serving":
                child.ping_at, child.pinged_at = time.monotonic() + self._silence / PINGS, None
            case Last():
                child.counted = message.body
            case Ask():
                self._hub.asked(child, message, self._children.values(), time.monotonic())
            case Answer():
                self._hub.answered(child, message, self._children.values())
            case _:
                pass

    def _is_ready(self, child: Child) -> None:
        child.hears = True
        if child.stage != "starting":
            return  # it was told to leave meanwhile
        child.stage, child.kill_at = "ready", None
        if child.reload_wanted:
            child.signal(signal.SIGHUP)
        if self._begun:
            self._go(self._slots[child.number - 1], child)
        elif all(slot.child is not None and slot.child.stage == "ready" for slot in self._slots):
            self._begun = True
            for slot in self._slots:
                if slot.child is not None:
                    self._go(slot, slot.child)
            self._on_ready()

    def _go(self, slot: _Slot, child: Child) -> None:
        child.stage, child.ping_at = "serving", time.monotonic() + self._silence / PINGS
        child.say(Go())
        if slot.before is not None:
            self._dismiss(slot.before, successor=True)
        elif self._replacing is slot:
            self._replace_next()

    def _is_leaving(self, child: Child, seconds: float) -> None:
        asked, child.stage = child.stage == "leaving", "leaving"
        child.ping_at = child.pinged_at = None
        child.kill_at = time.monotonic() + seconds + GRACE
        slot = self._slots[child.number - 1]
        if slot.before is child:
            self._is_replaced(slot)
        elif slot.child is child and not asked and not self._ending:
            log.warning("worker %d (process %d) leaves, and another one takes its place", child.number, child.pid)
            self._start(slot)

    def _is_replaced(self, slot: _Slot) -> None:
        """Who was there before takes no more connections."""
        slot.before = None
        if slot.child is not None and slot.child.stage == "serving" and self._replacing is slot:
            self._replace_next()

    def _bury(self) -> None:
        """See which workers have ended."""
        for child in list(self._children.values()):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                if child.is_open:
                    self._hear(child)  # what it said last; nobody is left who could hold its end of the line
                del self._children[pid]
                self._hub.gone(child, self._children.values())
                child.line.close()
                self._miss(child, os.waitstatus_to_exitcode(status))

    def _miss(self, child: Child, status: int) -> None:
        """What the end of a worker means for its place."""
        slot = self._slots[child.number - 1]
        if slot.before is child:
            self._is_replaced(slot)
        elif slot.child is child and not self._ending and child.stage != "leaving":
            how = f"ended with status {status}" if status >= 0 else f"was killed by {signal.Signals(-status).name}"
            self._lose(slot, f"(process {child.pid}) {how}", child.began, final=status == WRONG and not self._begun)

    def _lose(self, slot: _Slot, how: str, began: float, *, final: bool = False) -> None:
        """A worker that was started at this time is gone, and nobody has sent it away."""
        slot.child, slot.before = slot.before, None
        if slot.child is not None:
            self._waiting.clear()
            self._replacing = None
            log.error("the new worker %d %s: the others stay as they are", slot.number, how)
            return
        now = time.monotonic()
        slot.deaths = 1 if now - began >= STEADY else slot.deaths + 1
        if final or slot.deaths > len(BACK_OFF):
            self._failure = f"worker {slot.number} {how}, {slot.deaths} times in a row soon after its start"
            self._end()
            return
        slot.start_at = now + BACK_OFF[slot.deaths - 1]
        log.warning("worker %d %s, and is started again", slot.number, how)
