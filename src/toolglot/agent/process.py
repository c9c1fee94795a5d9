"""One program that speaks on its pipes, in a process group of its own: started, listened to, and surely ended."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import sysconfig
from collections.abc import Mapping
from typing import cast

from toolglot.agent.words import Tail
from toolglot.config.schema import McpServerConfig

_INHERITED = (
    ("APPDATA", "LOCALAPPDATA", "PATH", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE")
    if sys.platform == "win32"
    else ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
)
"""What programs need to run at all. Keys and proxies are not among it: those a server must be given on purpose."""

_CHUNK = 65_536
_STDERR_PAUSE = 0.01
_LATE_OUTPUT = 0.2
_POLL = 0.02
_INPUT, _OUTPUT, _ERRORS = 0, 1, 2


def environment(own: Mapping[str, str], around: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a server: the few harmless ones of our own, and those it is configured with."""
    around = os.environ if around is None else around
    # A value that begins so is a function that an old shell has exported.
    kept = {name: around[name] for name in _INHERITED if name in around and not around[name].startswith("()")}
    return {**kept, **own}


class Process(asyncio.SubprocessProtocol):
    """A running program. Its standard error goes to `tail`, its output to `output`, which is read in chunks and holds
    it up when it writes faster than that."""

    def __init__(self, tail: Tail) -> None:
        loop = asyncio.get_running_loop()
        self.output = asyncio.StreamReader(limit=_CHUNK, loop=loop)
        self.exited = asyncio.Event()
        self._loop = loop
        self._tail = tail
        self._writable = asyncio.Event()
        self._writable.set()
        self._broken = False
        self._discards = False
        self._transport: asyncio.SubprocessTransport

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self.output.set_transport(self._pipe(_OUTPUT))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _ERRORS:
            self._tail.add(data)
            if len(data) >= _CHUNK and not self._discards:
                self._pause_errors()
        elif not self._discards:
            self.output.feed_data(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == _OUTPUT:
            self._end_output()
        elif fd == _INPUT:
            self._broken = True
            self._writable.set()

    def process_exited(self) -> None:
        self.exited.set()
        # A child of it may hold the pipe open for ever.
        self._loop.call_later(_LATE_OUTPUT, self._end_output)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # What we call.

    async def write(self, data: bytes) -> None:
        """Raises `BrokenPipeError` when nobody reads it any more."""
        if not self._broken:
            cast(asyncio.WriteTransport, self._pipe(_INPUT)).write(data)
            await self._writable.wait()
        if self._broken:
            raise BrokenPipeError

    @property
    def ending(self) -> str:
        """What is to be said of its end."""
        code = self._transport.get_returncode()
        if code is None:
            return "it closed its output"
        if code >= 0:
            return f"it ended with exit code {code}"
        try:
            return f"it was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"it was ended by signal {-code}"

    async def stop(self, grace: float, *, faulty: bool = False) -> None:
        """Ends it and all that it has started: by closing its input, then SIGTERM, then SIGKILL, as far as needed. One
        that is `faulty` is not waited for at first."""
        try:
            self._end_output()
            self._discards = True
            _resume(self._pipe(_OUTPUT))
            _resume(self._pipe(_ERRORS))
            self._pipe(_INPUT).close()
            if not faulty:
                await self.exit(grace)
            for number in (signal.SIGTERM, _KILL):
                if not self._signal(number):
                    break
                until = self._loop.time() + grace
                await self.exit(grace)
                await self._emptied(until)
        finally:
            # Also when the waiting itself was cancelled: nothing may be left.
            self._signal(_KILL)
            self._transport.close()

    def _pipe(self, fd: int) -> asyncio.BaseTransport:
        pipe = self._transport.get_pipe_transport(fd)
        assert pipe is not None
        return pipe

    def _pause_errors(self) -> None:
        """Nobody needs all of what a flood says; between its chunks the loop has time for others."""
        pipe = self._pipe(_ERRORS)
        if not pipe.is_closing():
            cast(asyncio.ReadTransport, pipe).pause_reading()
            self._loop.call_later(_STDERR_PAUSE, _resume, pipe)

    def _end_output(self) -> None:
        if not self._discards:
            self._discards = True
            self.output.feed_eof()

    async def exit(self, seconds: float) -> None:
        """Until it has ended, and no longer than this."""
        try:
            async with asyncio.timeout(seconds):
                await self.exited.wait()
        except TimeoutError:
            return

    async def _emptied(self, until: float) -> None:
        """Until nothing is left of its group; there is no event for that."""
        while self._signal(0) and self._loop.time() < until:
            await asyncio.sleep(_POLL)

    def _signal(self, number: int) -> bool:
        """Sends the group a signal; False if nobody is left in it."""
        if sys.platform == "win32":
            if self.exited.is_set():
                return False
            if number:
                self._transport.terminate()
            return True
        try:
            os.killpg(self._transport.get_pid(), number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return not self.exited.is_set()
        return True


_KILL: int = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL


def _resume(pipe: asyncio.BaseTransport) -> None:
    if not pipe.is_closing():
        cast(asyncio.ReadTransport, pipe).resume_reading()


async def spawn(config: McpServerConfig, tail: Tail) -> Process:
    """Starts the server's program.

    Raises:
        OSError: it cannot be started.
        ValueError: there is a NUL in what it is to be started with.
    """
    assert config.command is not None
    variables = environment(config.env)
    program = config.command
    if os.path.basename(program) == program:
        # Found by its own PATH, or beside this very program (which need not be there), and told plainly if it is not.
        beside = sysconfig.get_path("scripts")
        found = shutil.which(program, path=variables.get("PATH")) or shutil.which(program, path=beside)
        if found is None:
            raise FileNotFoundError(f"there is no program {program!r}")
        program = found
    _, process = await asyncio.get_running_loop().subprocess_exec(
        lambda: Process(tail), program, *config.args, env=variables, cwd=config.cwd, start_new_session=True
    )
    return process
