"""What processes use, from /proc: everything in a session, which is what a gateway and all that it starts are in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
TICK = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")

# Fields of /proc/PID/stat after the name, which may have anything in it.
_STATE, _SESSION = 0, 3
_ENDED = ("Z", "X")
_TIMES = slice(11, 15)
"""Its own time and the kernel's for it, and both of its children that have ended."""


class Snapshot(NamedTuple):
    """Processor time so far."""

    threads: dict[str, int]
    """Nanoseconds of every thread."""
    ticks: int
    """Of all processes, ended threads and ended children included; each is a hundredth of a second."""


def members(session: int) -> Iterator[Path]:
    """The folders of the session's processes; those that have ended are none, even if nobody has asked how."""
    for folder in PROC.iterdir():
        if not folder.name.isdigit():
            continue
        if (fields := _fields(folder)) is None or fields[_STATE] in _ENDED:
            continue
        if int(fields[_SESSION]) == session:
            yield folder


def _fields(folder: Path) -> list[str] | None:
    """None of a process that has just ended."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def snapshot(session: int) -> Snapshot:
    threads: dict[str, int] = {}
    ticks = 0
    for folder in members(session):
        if (fields := _fields(folder)) is None:
            continue
        ticks += sum(map(int, fields[_TIMES]))
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            threads |= _threads(folder)
    return Snapshot(threads, ticks)


def _threads(process: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for thread in (process / "task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found[f"{process.name}/{thread.name}"] = int((thread / "schedstat").read_text().split()[0])
    return found


def processor_seconds(process: int) -> float:
    """Processor time so far of a process that has one thread, even if it has just ended."""
    return int((PROC / str(process) / "schedstat").read_text().split()[0]) / 1e9


def seconds_between(before: Snapshot, after: Snapshot) -> float:
    """Processor time. The nanoseconds of the threads are exact, unless one has ended and taken its own with it."""
    if before.threads.keys() <= after.threads.keys():
        used = sum(nanoseconds - before.threads.get(name, 0) for name, nanoseconds in after.threads.items())
        return used / 1e9
    return (after.ticks - before.ticks) * TICK


def memory(session: int) -> int:
    """Bytes that are resident; what processes share is counted for each."""
    total = 0
    for folder in members(session):
        try:
            total += int((folder / "statm").read_text().split()[1]) * PAGE
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


_ESTABLISHED = "01"
# Fields of /proc/net/tcp.
_LOCAL, _TCP_STATE, _INODE = 1, 3, 9


def connections(session: int, port: int) -> list[int]:
    """How many connections to this port each process of the session has, of those that have any."""
    lines = [line.split() for line in (PROC / "net" / "tcp").read_text().splitlines()[1:]]
    sockets = {
        f"socket:[{fields[_INODE]}]"
        for fields in lines
        if fields[_TCP_STATE] == _ESTABLISHED and int(fields[_LOCAL].rpartition(":")[2], 16) == port
    }
    counts = [len(sockets & _open_files(folder)) for folder in members(session)]
    return [count for count in counts if count]


def _open_files(process: Path) -> set[str]:
    found: set[str] = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for file in (process / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.add(str(file.readlink()))
    return found
