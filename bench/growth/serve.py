"""`toolglot serve` with a clock in its loop: each millisecond it notes how much too late it is, in a file."""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
from pathlib import Path
from typing import Any

from toolglot.cli import main
from toolglot.server.run import Server

LATENESS = "TOOLGLOT_BENCH_LATENESS"
EVERY = 0.001
_SECONDS = struct.Struct("d")


class Lateness:
    """The longest lateness, in memory that two processes share. Whoever reads it begins anew."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(_SECONDS.pack(0.0))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SECONDS.size)

    def note(self, seconds: float) -> None:
        if seconds > _SECONDS.unpack(self._memory[:])[0]:
            self._memory[:] = _SECONDS.pack(seconds)

    def taken(self) -> float:
        found: float = _SECONDS.unpack(self._memory[:])[0]
        self._memory[:] = _SECONDS.pack(0.0)
        return found


class Clock:
    """A callback that is due each millisecond."""

    def __init__(self, lateness: Lateness) -> None:
        self._lateness = lateness
        self._loop = asyncio.get_running_loop()
        self._wait()

    def _wait(self) -> None:
        self._due = self._loop.time() + EVERY
        self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._lateness.note(self._loop.time() - self._due)
        self._wait()


def serve() -> None:
    startup, lateness = Server.startup, Lateness(Path(os.environ[LATENESS]))

    async def with_clock(self: Server, *args: Any, **kwargs: Any) -> None:
        await startup(self, *args, **kwargs)
        Clock(lateness)

    Server.startup = with_clock  # type: ignore[method-assign]
    main()


if __name__ == "__main__":
    serve()
