"""Processes of the benchmark: each in a session of its own, on cores of its own, with its output in a file."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from bench.gateway.usage import members

INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM)
GRACE = 5.0
"""Seconds that a process has to end after SIGTERM."""


class Cores(NamedTuple):
    """Which cores do what."""

    gateway: Collection[int]
    upstream: Collection[int]
    load: Collection[int]


def cores() -> Cores:
    """One for each. With two, the upstream and the load share one."""
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(gateway={allowed[-1]}, upstream={allowed[0]}, load={allowed[min(1, max(len(allowed) - 2, 0))]})


def all_cores() -> Cores:
    """Everything may run everywhere."""
    allowed = os.sched_getaffinity(0)
    return Cores(allowed, allowed, allowed)


def listed(cores: Collection[int]) -> str:
    return ",".join(map(str, sorted(cores)))


def obey_interruptions() -> None:
    """So that they end what was started. A shell may have had SIGINT ignored."""
    for number in INTERRUPTIONS:
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def need_taskset() -> None:
    if shutil.which("taskset") is None:
        raise SystemExit("there is no `taskset` here: the benchmark runs on Linux, with util-linux")


def free_port() -> int:
    """A port for a program that cannot choose one itself. It is none of those that the kernel hands out, so that no
    other program gets it by chance before this one listens."""
    while True:
        port = random.SystemRandom().randrange(20_000, 30_000)
        with contextlib.suppress(OSError), socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            return port


def allow_many_files() -> int:
    """How many files this process and those that it starts may have open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """An interruption waits until this is over, so that nothing is started that nobody will end."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: came.append(number)) for number in INTERRUPTIONS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


def pinned(cores: Collection[int], command: Sequence[str]) -> list[str]:
    return ["taskset", "--cpu-list", listed(cores), *command]


class Process:
    """A process that runs, and whatever it has started."""

    def __init__(
        self,
        command: Sequence[str],
        cores: Collection[int],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ):
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                pinned(cores, command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=log.parent,
                env={**os.environ, **(environment or {})},
            )
        self.session = self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def told(self, size: int = 2000) -> str:
        """The end of its output."""
        return self.log.read_bytes()[-size:].decode("utf-8", "replace").strip()

    def signal(self, number: signal.Signals) -> None:
        for folder in members(self.session):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(folder.name), number)

    def stop(self) -> None:
        """Ends it and all of its session; it may have been halted."""
        with uninterrupted():
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE)
            while any(members(self.session)):
                self.signal(signal.SIGKILL)
                time.sleep(0.005)
            self._process.wait()


@contextlib.contextmanager
def halted(processes: Sequence[Process]) -> Iterator[None]:
    """Keeps processes from running meanwhile, so that what is measured has the core to itself."""
    for process in processes:
        process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.signal(signal.SIGCONT)


class NotReadyError(Exception):
    """A gateway did not start."""


def wait_until_ready(process: Process, port: int, path: str, status: int, patience: float) -> None:
    """Until it answers this path with this status."""
    _wait(process, lambda: status_of(port, path) == status, patience)


def read_port(process: Process, path: Path, patience: float) -> int:
    """The port in a file that the process writes."""
    _wait(process, lambda: path.exists() and path.read_text().isdigit(), patience)
    return int(path.read_text())


def _wait(process: Process, done: Callable[[], bool], patience: float) -> None:
    end = time.monotonic() + patience
    while not done():
        if not process.running:
            raise NotReadyError(f"it ended: {process.told()}")
        if time.monotonic() > end:
            raise NotReadyError(f"not ready after {patience:.0f} s: {process.told()}")
        time.sleep(0.005)


def status_of(port: int, path: str, patience: float = 60.0) -> int | None:
    """The status of a GET; None if there was no answer. By hand, since a library's start would be measured too."""
    try:
        with socket.create_connection(("127.0.0.1", port), patience) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
            head = connection.recv(64)
    except OSError:
        return None
    return int(head[9:12]) if head.startswith(b"HTTP/1.") and head[9:12].isdigit() else None
