"""A program that communicates over pipes, in its own process group: started, read, and reliably stopped."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from toolglot.agent.safe_text import ErrorTail
from toolglot.config.schema import McpServerConfig

_INHERITED_VARIABLES = (
    ("APPDATA", "LOCALAPPDATA", "PATH", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE")
    if sys.platform == "win32"
    else ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
)
"""Variables that programs need to run. Keys and proxies are not included: a server must be given those
explicitly."""

_CHUNK = 65_536
_STDERR_PAUSE = 0.01
_LATE_OUTPUT = 0.2
_POLL = 0.02
_INPUT, _OUTPUT, _ERRORS = 0, 1, 2


def process_environment(own: Mapping[str, str], around: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a server: the few harmless inherited ones, and the configured ones."""
    around = os.environ if around is None else around
    # Such a value is a function exported by an old shell.
    kept = {name: around[name] for name in _INHERITED_VARIABLES if name in around and not around[name].startswith("()")}
    return {**kept, **own}


class ServerProcess(asyncio.SubprocessProtocol):
    """A running program. Its standard error goes to `tail`. Its output goes to `output`, which is read in chunks and
    applies backpressure.
    """

    def __init__(self, tail: ErrorTail) -> None:
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

    # Called by the event loop.

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
        # A child process may hold the pipe open forever.
        self._loop.call_later(_LATE_OUTPUT, self._end_output)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # Called by us.

    async def write(self, data: bytes) -> None:
        """Write to the program's input. Raises `BrokenPipeError` if the program no longer reads."""
        if not self._broken:
            cast(asyncio.WriteTransport, self._pipe(_INPUT)).write(data)
            await self._writable.wait()
        if self._broken:
            raise BrokenPipeError

    @property
    def exit_text(self) -> str:
        """Describe how it ended."""
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
        """Stop the process and its child processes: close its input, then send SIGTERM, then SIGKILL, as far as needed.
        A `faulty` process gets no time to exit by itself."""
        try:
            self._end_output()
            self._discards = True
            _resume_reading(self._pipe(_OUTPUT))
            _resume_reading(self._pipe(_ERRORS))
            self._pipe(_INPUT).close()
            if not faulty:
                await self.wait_exit(grace)
            for number in (signal.SIGTERM, _KILL):
                if not self._signal(number):
                    break
                until = self._loop.time() + grace
                await self.wait_exit(grace)
                await self._wait_group_ended(until)
        finally:
            self.kill()  # even if the waiting itself was canceled: nothing may be left

    def kill(self) -> None:
        """End it and all its child processes at once."""
        self._signal(_KILL)
        self._transport.close()

    def _pipe(self, fd: int) -> asyncio.BaseTransport:
        pipe = self._transport.get_pipe_transport(fd)
        assert pipe is not None
        return pipe

    def _pause_errors(self) -> None:
        """Pause reading. A flood of output is not needed in full, and the loop can do other work meanwhile."""
        pipe = self._pipe(_ERRORS)
        if not pipe.is_closing():
            cast(asyncio.ReadTransport, pipe).pause_reading()
            self._loop.call_later(_STDERR_PAUSE, _resume_reading, pipe)

    def _end_output(self) -> None:
        if not self._discards:
            self._discards = True
            self.output.feed_eof()

    async def wait_exit(self, seconds: float) -> None:
        """Wait until it has ended, up to this time. The task may have been canceled: `asyncio.timeout` would cancel it
        again on Python before 3.11.3."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.exited.wait(), seconds)

    async def _wait_group_ended(self, until: float) -> None:
        """Wait until its process group is empty; there is no event for that."""
        while self._signal(0) and self._loop.time() < until:
            await asyncio.sleep(_POLL)

    def _signal(self, number: int) -> bool:
        """Send the group a signal; False if it is empty."""
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


def _resume_reading(pipe: asyncio.BaseTransport) -> None:
    if not pipe.is_closing():
        cast(asyncio.ReadTransport, pipe).resume_reading()


async def spawn_server(config: McpServerConfig, tail: ErrorTail) -> ServerProcess:
    """Start the server's program.

    Raises:
        OSError: it cannot be started.
        ValueError: its command line or environment contains a NUL.
    """
    assert config.command is not None
    variables = process_environment(config.env)
    program = config.command
    if os.path.basename(program) == program:
        # Found by its own PATH, or next to this program (which need not be on the PATH), with a clear error if it is
        # not.
        beside = sysconfig.get_path("scripts")
        found = shutil.which(program, path=variables.get("PATH")) or shutil.which(program, path=beside)
        if found is None:
            raise FileNotFoundError(f"there is no program {program!r}")
        program = found
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            lambda: ServerProcess(tail), program, *config.args, env=variables, cwd=config.cwd, start_new_session=True
        )
    )
    try:
        _, process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        # With only the event loop, the program would keep running if its start is canceled twice: by a timeout, and by
        # the end of the host.
        starting.add_done_callback(_kill_started)
        with suppress(OSError, ValueError):
            _, process = await asyncio.shield(starting)
            await process.exited.wait()
        raise
    return process


def _kill_started(starting: asyncio.Task[tuple[asyncio.SubprocessTransport, ServerProcess]]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result()[1].kill()
