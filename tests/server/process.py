"""`toolglot serve` in a process of its own, as a user runs it: signals, files, logs and all."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.server.gateway import Asking
from tests.waiting import FAILSAFE

READY = re.compile(r"ready at http://[^ \"]*?:([0-9]+)")


class Process(Asking):
    """The gateway's process. `log` is what it has written on standard error so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._written = threading.Condition()
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        super().__init__(int(READY.findall(self.until_logged("ready at http"))[-1]))

    @property
    def log(self) -> str:
        with self._written:
            return "".join(self._lines)

    def until_logged(self, text: str, times: int = 1) -> str:
        """Wait for a line with this text in it; the last such line."""

        def found() -> list[str]:
            return [line for line in self._lines if text in line]

        with self._written:
            if not self._written.wait_for(lambda: len(found()) >= times, FAILSAFE):
                raise TimeoutError(f"nothing was logged of {text!r}: {''.join(self._lines)}")
            return found()[-1].strip()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end; the exit status."""
        status = self._process.wait(FAILSAFE)
        self._reader.join(FAILSAFE)
        return status

    def _read(self) -> None:
        assert self._process.stderr is not None
        # Whoever waits for the process may close the pipe under a read: then there is no more to read.
        with suppress(ValueError):
            for line in self._process.stderr:
                with self._written:
                    self._lines.append(line.decode())
                    self._written.notify_all()


@contextmanager
def serving(
    folder: Path,
    config: str = "",
    *,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] = {},
    launcher: Sequence[str] = (),
) -> Iterator[Process]:
    """Serve with this file until the block is left. The folder is its home; it knows nothing else of the machine. The
    launcher is a command that becomes the gateway's, in a session of its own."""
    file = folder / "toolglot.toml"
    file.write_text(config)
    fixed = ["--config", str(file), "--port", "0", "--no-discover", "--demo-pace", "none"]
    command = [*launcher, sys.executable, "-m", "toolglot", "serve", *fixed, *arguments]
    surroundings = {"HOME": str(folder), "PATH": os.environ.get("PATH", os.defpath), **environment}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=surroundings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=bool(launcher),
    ) as process:
        try:
            running = Process(process)
            yield running
            running.close()
        finally:
            process.kill()
