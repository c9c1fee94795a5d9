"""`toolglot serve` as a user runs it: a process of its own, told its upstream on the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from tests.waiting import FAILSAFE

from .loopback import Exchange, Loopback, Reply
from .scripted import Script, upstream


def _address(process: subprocess.Popen[bytes], file: Path, log: Path) -> str:
    """What the gateway writes into the file once it is ready."""
    deadline = monotonic() + FAILSAFE
    while monotonic() < deadline and process.poll() is None:
        if file.exists() and (address := file.read_text().strip()):
            return address
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
    raise AssertionError(f"the gateway did not start:\n{log.read_text(errors='replace')[-2000:]}")


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """The gateway's base URL, without `/v1`. It has the folder as its home and none of the machine's variables."""
    address, log = folder / "address", folder / "gateway.log"
    command = [sys.executable, "-m", "toolglot", "serve", "--port", "0", "--address-file", str(address)]
    environment = {"HOME": str(folder), "PATH": os.environ.get("PATH", os.defpath)}
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*command, "--no-discover", *options], cwd=folder, env=environment, stdout=output, stderr=output
        ) as process,
    ):
        try:
            yield _address(process, address, log)
        finally:
            process.terminate()
            process.wait(FAILSAFE)


@contextmanager
def running_gateway(folder: Path, dialect: str, upstream_url: str) -> Iterator[str]:
    """A gateway to this upstream. Its model `demo` speaks the same dialect."""
    demo = ("--demo-dialect", dialect, "--demo-pace", "none")
    with serving(folder, "--upstream", f"{dialect}={upstream_url}", *demo) as base_url:
        yield base_url


@contextmanager
def configured_gateway(folder: Path, upstream: str) -> Iterator[str]:
    """A gateway to one upstream that is told in a file: the lines of its table."""
    (folder / "toolglot.toml").write_text(f'default_upstream = "it"\n[upstreams.it]\n{upstream}\n')
    with serving(folder, "--config", str(folder / "toolglot.toml")) as base_url:
        yield base_url


@dataclass(frozen=True)
class Behind:
    """A gateway and the scripted upstream behind it."""

    base_url: str
    dialect: str
    exchange: Exchange

    def play(self, script: Script) -> None:
        """From here on the upstream follows this script, and what it was asked before is forgotten."""
        self.exchange.answer = upstream(self.dialect, script)
        self.exchange.asked.clear()


class Gateways:
    """One gateway for each dialect that an upstream can have, started when it is first wanted."""

    def __init__(self, loopback: Loopback, folder: Path) -> None:
        self._loopback = loopback
        self._folder = folder
        self._running: dict[str, Behind] = {}
        self._stack = ExitStack()

    def to(self, dialect: str) -> Behind:
        if dialect not in self._running:
            exchange = self._stack.enter_context(self._loopback.serving(Reply(500, b"no script is played")))
            folder = self._folder / dialect
            folder.mkdir()
            base_url = self._stack.enter_context(running_gateway(folder, dialect, exchange.base_url))
            self._running[dialect] = Behind(base_url, dialect, exchange)
        return self._running[dialect]

    def close(self) -> None:
        self._stack.close()
