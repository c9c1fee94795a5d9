"""The parent: starts workers, restarts those that die or hang, replaces them one by one, and ends with them.

A worker that is stopped, or whose event loop hangs, still has its listening socket, and the kernel gives it connections
that are not served. So the parent pings the serving workers, and kills one that does not answer: its successor takes
over the socket, with all waiting connections.

The listening sockets belong to the parent, one per worker if the kernel distributes connections. A successor takes over
the same socket with its backlog: no connection is refused or reset while workers change.

The parent has no event loop and no thread, because workers are forks of it: everything loaded stays shared memory.
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
from contextlib import nullcontext, suppress

from toolglot.server.reload import ends_with_terminal, has_terminal
from toolglot.server.service_manager import ServiceManager
from toolglot.server.workers.broadcast import QuestionBroadcast
from toolglot.server.workers.errors import GaveUpError
from toolglot.server.workers.ipc import (
    AskOthers,
    FinalCounts,
    IpcMessage,
    Ping,
    Pong,
    StartServing,
    StopServing,
    WorkerAnswer,
    WorkerLeaving,
    WorkerReady,
)
from toolglot.server.workers.worker_process import WorkerProcess

log = logging.getLogger("toolglot.server")

BACK_OFF = (0.0, 0.1, 0.4, 1.0, 2.0)
"""Seconds until a worker that died soon after its start is restarted: the first time, the second … Then it is given
up."""
STEADY_AFTER = 10.0
"""Seconds after which a worker's end is unrelated to its start."""
START_TIMEOUT = 60.0
"""Seconds for a worker to become ready."""
KILL_GRACE = 20.0
"""Seconds for a worker to clean up, in addition to those for its running requests, before it is killed."""
PINGS_PER_LIMIT = 3
"""Pings within the time that a worker may be silent."""
LATE_WAKEUP = 1.0
"""If the parent wakes up this many seconds late, it does not blame its workers: it was stopped itself, perhaps with all
of them, as by Ctrl-Z."""
WRONG_STATUS = 2
"""Exit status of a worker that can never serve: a restart would end the same way."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2, signal.SIGCHLD)
_INITIAL_HANDLERS = {signal.SIGINT: signal.SIG_IGN, signal.SIGUSR2: signal.SIG_IGN}
"""Signal handlers of a worker until it serves. A terminal sends SIGINT to the parent as well."""


class _SupervisedSlot:
    """A worker's slot. `before` continues to serve until its successor, `child`, is ready."""

    def __init__(self, number: int, listener: socket.socket) -> None:
        self.number = number
        self.listener = listener
        self.child: WorkerProcess | None = None
        self.before: WorkerProcess | None = None
        self.deaths = 0
        self.start_at: float | None = None


class WorkerSupervisor:
    """
    Args:
        listeners: the sockets, one for each worker.
        work: runs a worker in its own process, with its socket and its line; returns the exit status.
        prepare: called before workers are replaced; if it returns False, they are not replaced.
        on_ready: called once, when all workers serve.
        manager: notified when the workers reload or stop.
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
        manager: ServiceManager,
        drain: float,
        patience: float,
    ) -> None:
        self._slots = [_SupervisedSlot(number, listener) for number, listener in enumerate(listeners, 1)]
        self._work = work
        self._prepare = prepare
        self._on_ready = on_ready
        self._manager = manager
        self._drain = drain
        self._silence = patience
        self._hub = QuestionBroadcast()
        self._children: dict[int, WorkerProcess] = {}
        self._waiting: deque[_SupervisedSlot] = deque()  # to be replaced, after
        self._replacing: _SupervisedSlot | None = None
        self._begun = False
        self._ending = False
        self._failure: str | None = None
        self._ends_with_terminal = ends_with_terminal()
        self._at_first = {**_INITIAL_HANDLERS, signal.SIGHUP: signal.getsignal(signal.SIGHUP)}
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()

    def run(self) -> None:
        """Run until a signal ends it and all workers are gone. Raises `GaveUpError`."""
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
            signal.signal(number, lambda _number, _frame: None)  # the number arrives through the socket

    def _turn(self) -> None:
        """Wait for an event, and handle it."""
        for child in self._children.values():
            if child.is_open:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if child.wants_to_send else 0)
                self._selector.modify(child.line, events, child)
        before = time.monotonic()
        patience = self._next_timeout(before)
        found = self._selector.select(patience)
        if patience is not None and time.monotonic() - before - patience > LATE_WAKEUP:
            self._restart_silence_clocks()
        if any(key.data is None for key, _ in found):
            self._read_signals()
        for key, events in found:
            if key.data is not None and key.data.is_open:
                if events & selectors.EVENT_WRITE:
                    key.data.send()
                self._receive(key.data)
        self._check_deadlines(time.monotonic())

    def _next_timeout(self, now: float) -> float | None:
        times = [self._hub.next_deadline, *(slot.start_at for slot in self._slots)]
        times += [child.kill_at for child in self._children.values()]
        times += [child.ping_at for child in self._children.values()]
        pinged = [child.pinged_at for child in self._children.values()]
        times += [None if since is None else since + self._silence for since in pinged]
        return min((max(at - now, 0.0) for at in times if at is not None), default=None)

    def _check_deadlines(self, now: float) -> None:
        self._hub.expire(now, self._children.values())
        for child in list(self._children.values()):
            if child.kill_at is not None and child.kill_at <= now:
                log.warning("worker %d (process %d) takes too long, and is killed", child.number, child.pid)
                child.kill_at = None
                child.signal(signal.SIGKILL)
            if child.stage == "serving":
                self._check_ping(child, now)
        for slot in self._slots:
            if slot.start_at is not None and slot.start_at <= now and not self._ending:
                self._start(slot)

    def _check_ping(self, child: WorkerProcess, now: float) -> None:
        """Ping a serving worker, and kill it if it has not answered in time."""
        if self._is_overdue(child, now) and child.is_open:
            self._receive(child)  # this process may have been busy itself, and the answer may be there
        if self._is_overdue(child, now):
            text = "worker %d (process %d) has not answered for %g seconds, and is killed"
            log.error(text, child.number, child.pid, self._silence)
            child.pinged_at = None  # only once: its end follows
            child.signal(signal.SIGKILL)
        elif child.ping_at is not None and child.ping_at <= now:
            child.ping_at, child.pinged_at = None, now
            child.queue_message(Ping())

    def _is_overdue(self, child: WorkerProcess, now: float) -> bool:
        return child.pinged_at is not None and child.pinged_at + self._silence <= now

    def _restart_silence_clocks(self) -> None:
        """Restart the ping timeouts of all workers: this process could not receive."""
        now = time.monotonic()
        for child in self._children.values():
            if child.pinged_at is not None:
                child.pinged_at = now

    # Signals

    def _read_signals(self) -> None:
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
        self._reap()

    def _end(self, *, again: bool = False) -> None:
        """Make all workers leave; a second request ends them at once."""
        if again:
            for child in self._children.values():
                child.signal(signal.SIGINT)
        if self._ending:
            return
        self._ending = True
        self._manager.stopping()
        self._waiting.clear()
        for slot in self._slots:
            slot.listener.close()
            slot.start_at = None
        for child in self._children.values():
            self._dismiss(child, successor=False)

    def _reload(self) -> None:
        if self._ends_with_terminal and not has_terminal():
            self._end()
        with self._manager.reloading() if self._begun and not self._ending else nullcontext():
            for child in self._children.values():
                # A worker that is not ready may have read the file, and does not listen yet.
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
            log.info("all workers are new; the old ones finish their running requests")

    # Workers

    def _start(self, slot: _SupervisedSlot) -> None:
        slot.start_at = None
        ours, theirs = socket.socketpair()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # otherwise both processes would write the buffer
        # The parent's handlers must not handle a signal for the worker.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                self._run_in_child(slot, ours, theirs, mask)
        except OSError as error:
            ours.close()
            self._on_unexpected_exit(slot, f"cannot be started: {error.strerror}", time.monotonic())
            return
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            theirs.close()
        child = slot.child = self._children[pid] = WorkerProcess(pid, slot.number, ours, time.monotonic())
        child.kill_at = child.began + START_TIMEOUT
        self._selector.register(ours, selectors.EVENT_READ, child)
        log.info("worker %d is process %d", slot.number, pid)

    def _run_in_child(
        self, slot: _SupervisedSlot, ours: socket.socket, line: socket.socket, mask: Iterable[int]
    ) -> None:
        """Runs in the new process, and never returns."""
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

    def _dismiss(self, child: WorkerProcess, *, successor: bool) -> None:
        child.stage, child.ping_at, child.pinged_at = "leaving", None, None
        child.kill_at = time.monotonic() + self._drain + KILL_GRACE
        child.queue_message(StopServing(successor))

    def _receive(self, child: WorkerProcess) -> None:
        for message in child.receive():
            self._handle_message(child, message)
        if not child.is_open:
            self._selector.unregister(child.line)
            self._hub.on_silence(child, self._children.values())

    def _handle_message(self, child: WorkerProcess, message: IpcMessage) -> None:
        match message:
            case WorkerReady():
                self._on_ready_message(child)
            case WorkerLeaving():
                self._on_leaving(child, message.seconds)
            case Pong() if child.stage == "serving":
                child.ping_at, child.pinged_at = time.monotonic() + self._silence / PINGS_PER_LIMIT, None
            case FinalCounts():
                child.counted = message.body
            case AskOthers():
                self._hub.on_ask(child, message, self._children.values(), time.monotonic())
            case WorkerAnswer():
                self._hub.on_answer(child, message, self._children.values())
            case _:
                pass

    def _on_ready_message(self, child: WorkerProcess) -> None:
        child.hears = True
        if child.stage != "starting":
            return  # it was asked to leave meanwhile
        child.stage, child.kill_at = "ready", None
        if child.reload_wanted:
            child.signal(signal.SIGHUP)
        if self._begun:
            self._start_serving(self._slots[child.number - 1], child)
        elif all(slot.child is not None and slot.child.stage == "ready" for slot in self._slots):
            self._begun = True
            for slot in self._slots:
                if slot.child is not None:
                    self._start_serving(slot, slot.child)
            self._on_ready()

    def _start_serving(self, slot: _SupervisedSlot, child: WorkerProcess) -> None:
        child.stage, child.ping_at = "serving", time.monotonic() + self._silence / PINGS_PER_LIMIT
        child.queue_message(StartServing())
        if slot.before is not None:
            self._dismiss(slot.before, successor=True)
        elif self._replacing is slot:
            self._replace_next()

    def _on_leaving(self, child: WorkerProcess, seconds: float) -> None:
        asked, child.stage = child.stage == "leaving", "leaving"
        child.ping_at = child.pinged_at = None
        child.kill_at = time.monotonic() + seconds + KILL_GRACE
        slot = self._slots[child.number - 1]
        if slot.before is child:
            self._on_replaced(slot)
        elif slot.child is child and not asked and not self._ending:
            log.warning("worker %d (process %d) is leaving and is replaced", child.number, child.pid)
            self._start(slot)

    def _on_replaced(self, slot: _SupervisedSlot) -> None:
        """Handle a former worker that accepts no more connections."""
        slot.before = None
        if slot.child is not None and slot.child.stage == "serving" and self._replacing is slot:
            self._replace_next()

    def _reap(self) -> None:
        """Find the workers that have ended."""
        for child in list(self._children.values()):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                if child.is_open:
                    self._receive(child)  # its last messages; no other process holds its end of the socket
                del self._children[pid]
                self._hub.on_exit(child, self._children.values())
                child.line.close()
                self._on_exit(child, os.waitstatus_to_exitcode(status))

    def _on_exit(self, child: WorkerProcess, status: int) -> None:
        """Handle the end of a worker in its slot."""
        slot = self._slots[child.number - 1]
        if slot.before is child:
            self._on_replaced(slot)
        elif slot.child is child and not self._ending and child.stage != "leaving":
            how = f"ended with status {status}" if status >= 0 else f"was killed by {signal.Signals(-status).name}"
            self._on_unexpected_exit(
                slot, f"(process {child.pid}) {how}", child.began, final=status == WRONG_STATUS and not self._begun
            )

    def _on_unexpected_exit(self, slot: _SupervisedSlot, how: str, began: float, *, final: bool = False) -> None:
        """Handle the unexpected end of a worker that started at this time."""
        slot.child, slot.before = slot.before, None
        if slot.child is not None:
            self._waiting.clear()
            self._replacing = None
            log.error("the new worker %d %s: the others stay as they are", slot.number, how)
            return
        now = time.monotonic()
        slot.deaths = 1 if now - began >= STEADY_AFTER else slot.deaths + 1
        if final or slot.deaths > len(BACK_OFF):
            self._failure = f"worker {slot.number} {how}, {slot.deaths} times in a row soon after its start"
            self._end()
            return
        slot.start_at = now + BACK_OFF[slot.deaths - 1]
        log.warning("worker %d %s, and is restarted", slot.number, how)
