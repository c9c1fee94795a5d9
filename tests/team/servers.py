"""PostgreSQL and Redis from the system's packages, each in a folder and on a port of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from tests.waiting import FAILSAFE, until

S = TypeVar("S", bound="Server")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def find_program(name: str) -> str:
    """A program, also where Debian keeps those of PostgreSQL."""
    folders = [os.environ.get("PATH", os.defpath), "/usr/sbin", *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
    found = shutil.which(name, path=os.pathsep.join(folders))
    assert found, f"{name} is not installed: see .ci/run"
    return found


class Server:
    """A server process that tests stop, pause and start again."""

    IMMEDIATE = signal.SIGKILL
    """Ends the server as a crash does, with its children."""

    def __init__(self, folder: Path, command: Sequence[str], port: int) -> None:
        self.folder, self.port = folder, port
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=self.folder)
        until(self.is_ready, f"server: {(self.folder / 'log').read_text()}")

    def is_ready(self) -> bool:
        raise NotImplementedError

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _send_all(self, number: signal.Signals) -> None:
        """Signal the server, then its children: PostgreSQL has one for each connection."""
        assert self._process is not None
        parent = self._process.pid
        self.send(number)
        for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(int(child), number)

    def kill(self, number: signal.Signals) -> None:
        if self._process is not None:
            self.send(number)
            self._process.wait(FAILSAFE)
            self._process = None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """The server has ended at once, without a word to its clients, and starts again."""
        self.kill(self.IMMEDIATE)
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Connections stay open, and nothing is answered."""
        self._send_all(signal.SIGSTOP)
        try:
            yield
        finally:
            self._send_all(signal.SIGCONT)


def _as_user() -> list[str]:
    """PostgreSQL refuses to run as root."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []


class Postgres(Server):
    IMMEDIATE = signal.SIGQUIT

    def __init__(self, folder: Path) -> None:
        port = free_port()
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        data = folder / "data"
        subprocess.run(
            [*_as_user(), find_program("initdb"), "-D", data, "-U", "team", "-A", "trust", "--no-sync", "-E", "UTF8"],
            check=True,
            capture_output=True,
            cwd=folder,
        )
        options = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": folder, "fsync": "off"}
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        super().__init__(folder, [*_as_user(), find_program("postgres"), "-D", str(data), *settings], port)
        self._databases = 0

    def is_ready(self) -> bool:
        checked = subprocess.run(
            [find_program("pg_isready"), "-h", "127.0.0.1", "-p", str(self.port)], check=False, capture_output=True
        )
        return checked.returncode == 0

    def query(self, statement: str, database: str = "postgres") -> str:
        command = [find_program("psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement, self.url(database)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def url(self, database: str) -> str:
        return f"postgresql://team@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """The URL of a new, empty database."""
        self._databases += 1
        self.query(f"CREATE DATABASE team{self._databases}")
        return self.url(f"team{self._databases}")


class Redis(Server):
    def __init__(self, folder: Path) -> None:
        port = free_port()
        options = {"port": port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": str(folder)}
        settings = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        super().__init__(folder, [find_program("redis-server"), *settings], port)

    def is_ready(self) -> bool:
        try:
            return self.query("PING") == b"+PONG\r\n"
        except OSError:
            return False

    def query(self, command: str) -> bytes:
        """Run a command; the beginning of its reply."""
        with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            connection.sendall(command.encode() + b"\r\n")
            return connection.recv(65536)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"


@contextmanager
def running(make: Callable[[Path], S]) -> Iterator[S]:
    """A server in a temporary folder, which other users may enter."""
    folder = Path(tempfile.mkdtemp(prefix="toolglot-"))
    folder.chmod(0o755)
    server = make(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill(signal.SIGQUIT)
        shutil.rmtree(folder)
