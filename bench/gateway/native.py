"""The two programs in C: compiled when their sources are newer, and run."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bench.gateway.answers import write_answers
from bench.gateway.processes import Cores, pinned, uninterrupted

SOURCES = Path(__file__).parent.parent / "native"
PROGRAMS = {"upstream": ("upstream.c", "answers.c"), "load": ("load.c", "reply.c")}
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")


class NoCompilerError(Exception):
    """The programs are not there and cannot be made."""


class Figures(msgspec.Struct, frozen=True):
    """What the load generator prints. Times are in milliseconds."""

    seconds: float
    requests: int
    errors: int
    bad: int
    """Answers that came whole but are not what the upstream said."""
    marks: int
    """Chunks with text; of a plain answer, its one text."""
    late: int
    """Of these, those that were under way for longer than they should have been."""
    open: int
    """Answers that were under way at the end."""
    whole_p50: float
    whole_p99: float
    first_byte_p50: float
    first_byte_p99: float
    first_mark_p50: float
    first_mark_p99: float
    transit_p50: float
    transit_p99: float
    gap_p50: float
    gap_p99: float
    first_error: str


class Tools:
    """The programs, compiled into a folder."""

    def __init__(self, folder: Path, cores: Cores):
        self.folder = folder
        self.cores = cores
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        folder.mkdir(parents=True, exist_ok=True)
        newest = max(path.stat().st_mtime for path in SOURCES.iterdir())
        for name, sources in PROGRAMS.items():
            program = folder / name
            if program.exists() and program.stat().st_mtime > newest:
                continue
            if compiler is None:
                raise NoCompilerError("a C compiler is needed: `cc` or `gcc`, or another one that CC names")
            subprocess.run([compiler, *FLAGS, "-o", program, *(SOURCES / source for source in sources)], check=True)

    @contextlib.contextmanager
    def upstream(self) -> Iterator[Upstream]:
        answers = self.folder / "answers"
        write_answers(answers)
        command = pinned(self.cores.upstream, [str(self.folder / "upstream"), "0", str(answers)])
        with _running(command) as process:
            assert process.stdout is not None
            yield Upstream(process, int(process.stdout.readline()))

    @contextlib.contextmanager
    def load(self, options: Sequence[str]) -> Iterator[Load]:
        command = pinned(self.cores.load, [str(self.folder / "load"), *options])
        with _running(command) as process:
            yield Load(process)


@contextlib.contextmanager
def _running(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    with contextlib.ExitStack() as stack:
        with uninterrupted():
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
        yield process


class UpstreamEndedError(Exception):
    """Whatever has been measured since is worth nothing."""


class Upstream:
    """An upstream that runs."""

    def __init__(self, process: subprocess.Popen[str], port: int):
        self._process = process
        self.pid = process.pid
        self.port = port

    def check(self) -> None:
        """Raises `UpstreamEndedError`."""
        if (status := self._process.poll()) is not None:
            raise UpstreamEndedError(f"the upstream ended with status {status}")


class LoadError(Exception):
    """The load generator could not go on, which says more of the gateway than of the load."""


class Load:
    """A load generator that runs."""

    def __init__(self, process: subprocess.Popen[str]):
        self._process = process
        self.pid = process.pid

    def wait_for_window(self) -> None:
        """Until the measured time begins."""
        self._line()

    def figures(self) -> Figures:
        """At the end, when all connections have just been closed."""
        return msgspec.json.decode(self._line(), type=Figures)

    def _line(self) -> str:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return line
        assert self._process.stderr is not None
        raise LoadError(self._process.stderr.read().strip() or "the load generator ended")
