"""`toolglot serve --workers 2`, and a way to choose the worker that answers: the kernel deals connections out by their
ports, so one is made again until it has come to the right process."""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.server.process import Process, serving
from tests.waiting import FAILSAFE

STARTED = re.compile(r"worker (\d+) is process (\d+)")
REQUESTS = 'toolglot_requests_total{route="/v1/chat/completions"'


class Workforce:
    """The running gateway and its workers."""

    def __init__(self, running: Process) -> None:
        self.running = running
        self._connections: list[http.client.HTTPConnection] = []
        self.asked = 0

    @property
    def workers(self) -> list[int]:
        """The processes that were started last, in the order of their numbers."""
        newest = {int(number): int(pid) for number, pid in STARTED.findall(self.running.log)}
        return [newest[number] for number in sorted(newest)]

    def connected(self, pid: int) -> http.client.HTTPConnection:
        """A connection to this worker that has been used once, and is kept."""
        until = time.monotonic() + FAILSAFE
        while time.monotonic() < until:
            connection = http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=FAILSAFE)
            self._connections.append(connection)
            before = _sockets(pid)
            assert said(connection, "GET", "/ready")["status"] == "ready"
            if _sockets(pid) - before:
                return connection
            connection.close()
        raise TimeoutError(f"no connection has come to {pid}")

    def chat(self, connection: http.client.HTTPConnection, text: str = "hi") -> http.client.HTTPResponse:
        """A request, to its last end: it is counted, and then logged, when its answer is on its way."""
        self.asked += 1
        body = {"model": "demo", "messages": [{"role": "user", "content": text}]}
        response, data = exchanged(connection, "POST", "/v1/chat/completions", body)
        assert response.status == 200, data
        self.running.until_logged('"route":"/v1/chat/completions"', times=self.asked)
        return response

    def counted(self, connection: http.client.HTTPConnection) -> int:
        """The chat requests of all workers, as one of them tells it."""
        _, data = exchanged(connection, "GET", "/metrics")
        return sum(int(line.rpartition(" ")[2]) for line in data.decode().splitlines() if line.startswith(REQUESTS))

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    def terminate(self, pid: int) -> None:
        os.kill(pid, signal.SIGTERM)

    def until_refused(self) -> None:
        """Until nobody listens any more."""
        while True:
            with suppress(ConnectionResetError):  # it was waiting to be taken when the socket was closed
                try:
                    socket.create_connection(("127.0.0.1", self.running.port)).close()
                except ConnectionRefusedError:
                    return

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


@contextmanager
def workforce(
    folder: Path, config: str = "", *, arguments: Sequence[str] = (), environment: Mapping[str, str] = {}
) -> Iterator[Workforce]:
    """Two workers."""
    given = ["--workers", "2", "--log", "json", *arguments]
    with serving(folder, config, arguments=given, environment=environment) as running:
        together = Workforce(running)
        try:
            yield together
        finally:
            together.close()


def exchanged(
    connection: http.client.HTTPConnection, method: str, path: str, body: Any = None
) -> tuple[http.client.HTTPResponse, bytes]:
    """One request on a connection, and its answer."""
    data = None if body is None else json.dumps(body).encode()
    connection.request(method, path, data, {"content-type": "application/json"})
    response = connection.getresponse()
    return response, response.read()


def said(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> Any:
    response, data = exchanged(connection, method, path, body)
    assert response.status == 200, data
    return json.loads(data)


def until_gone(pid: int) -> None:
    """Wait for the end of a process that is not ours."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            # It can be read from when the process has ended.
            assert select.select([descriptor], [], [], FAILSAFE)[0], f"process {pid} does not end"
        finally:
            os.close(descriptor)


def _sockets(pid: int) -> set[str]:
    """What tells the sockets apart that this process has."""
    found = set[str]()
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            found.add(os.readlink(handle))
    return {name for name in found if name.startswith("socket:")}
