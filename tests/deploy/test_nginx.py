"""nginx in front of two gateways that share a store, with the committed file; one gateway is killed under load.

The load is bounded: a number of clients with a number of requests each, on loopback.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.deploy.files import NGINX
from tests.needs import need
from tests.server.process import Process, serving
from tests.waiting import FAILSAFE
from toolglot.server.routes import ROUTES

CLIENTS = 8
REQUESTS = 12
"""Of each client. An answer takes a second at most, as the demo writes at the speed of people."""
KILL_AFTER = CLIENTS * REQUESTS // 4
SETTLED = 1.0
"""Seconds after which no request can have met a connection of the gateway that was killed."""

_SBIN = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))


def program() -> str:
    found = shutil.which("nginx", path=_SBIN)
    if found is None:
        need("nginx")
    return str(found)


def file_for(folder: Path, port: int, ports: tuple[int, int]) -> Path:
    """The committed file with other addresses, and with its temporary files in a folder of the test."""
    text = NGINX.read_text()
    for number, own in enumerate(ports, 1):
        assert text.count(f"gateway-{number}:4141") == 1
        text = text.replace(f"gateway-{number}:4141", f"127.0.0.1:{own}")
    assert text.count("listen 4141;") == 1
    text = text.replace("listen 4141;", f"listen 127.0.0.1:{port};")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "\n".join(f"  {kind}_temp_path {folder}/{kind};" for kind in kinds)
    file = folder / "nginx.conf"
    file.write_text(text.replace("http {", f"http {{\n{places}", 1))
    return file


def command(folder: Path, file: Path) -> list[str]:
    user = "user root; " if os.geteuid() == 0 else ""
    options = f"{user}pid {folder}/pid;"
    return [program(), "-e", str(folder / "error.log"), "-p", str(folder), "-c", str(file), "-g", options]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def nginx(folder: Path, ports: tuple[int, int]) -> Iterator[int]:
    port = free_port()
    file = file_for(folder, port, ports)
    command_line = command(folder, file)
    command_line[-1] += " daemon off;"
    with subprocess.Popen(command_line) as process:
        try:
            deadline = time.monotonic() + FAILSAFE
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=FAILSAFE).close()
                    break
                except ConnectionRefusedError:
                    assert process.poll() is None
                    assert time.monotonic() < deadline
            yield port
        finally:
            process.terminate()


def test_nginx_accepts_the_file(tmp_path: Path) -> None:
    checked = subprocess.run(
        [*command(tmp_path, file_for(tmp_path, free_port(), (4141, 4142))), "-t"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert "[warn]" not in checked.stderr


class Outcome(NamedTuple):
    started: float
    is_stream: bool
    status: int
    """0: the connection broke off."""
    is_whole: bool
    response: str = ""
    """Id of the stored response."""


def ask(port: int, is_stream: bool) -> Outcome:
    started = time.monotonic()
    body = json.dumps({"model": "demo", "input": "What is the weather?", "stream": is_stream})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=FAILSAFE)
    status = 0
    try:
        connection.request("POST", "/v1/responses", body, {"content-type": "application/json"})
        reply = connection.getresponse()
        status = reply.status
        text = reply.read().decode()
    except (OSError, http.client.HTTPException):
        return Outcome(started, is_stream, status, False)
    finally:
        connection.close()
    if status != 200:
        return Outcome(started, is_stream, status, False)
    if is_stream:
        last = text.rstrip().rpartition("data: ")[2]
        end = json.loads(last) if last.startswith("{") else {}
        if end.get("type") != "response.completed":
            return Outcome(started, is_stream, status, False)
        return Outcome(started, is_stream, status, True, end["response"]["id"])
    return Outcome(started, is_stream, status, True, json.loads(text)["id"])


def status_of(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=FAILSAFE)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


class Load:
    """Clients that ask one after the other, until each has had its answers."""

    def __init__(self, port: int) -> None:
        self.outcomes: list[Outcome] = []
        self.reached = threading.Event()
        """A quarter of the answers have come."""
        self._lock = threading.Lock()
        self._port = port

    def run(self, number: int) -> None:
        for each in range(REQUESTS):
            outcome = ask(self._port, is_stream=(number + each) % 2 == 0)
            with self._lock:
                self.outcomes.append(outcome)
                if len(self.outcomes) >= KILL_AFTER:
                    self.reached.set()


def test_a_gateway_that_is_killed_costs_what_was_in_flight_and_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with ExitStack() as stack:
        gateways: list[Process] = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            arguments = ["--store", str(tmp_path / "shared.sqlite3"), "--demo-pace", "human"]
            gateways.append(stack.enter_context(serving(tmp_path / name, arguments=arguments)))
        first, second = gateways
        port = stack.enter_context(nginx(tmp_path, (first.port, second.port)))
        load = Load(port)
        clients = [threading.Thread(target=load.run, args=(number,)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        assert load.reached.wait(FAILSAFE)
        counted = [gateway.call("GET", "/metrics").body.decode() for gateway in gateways]
        assert all("toolglot_requests_total{" in text for text in counted)  # both have answered
        first.signal(signal.SIGKILL)
        killed = time.monotonic()
        for client in clients:
            client.join(FAILSAFE)
        assert len(load.outcomes) == CLIENTS * REQUESTS
        failed = [outcome for outcome in load.outcomes if not outcome.is_whole]
        assert len(failed) <= CLIENTS
        assert {outcome.status for outcome in failed} <= {0, 200, 502}  # cut, or refused by nginx
        assert all(outcome.started < killed + SETTLED for outcome in failed)
        assert any(outcome.started > killed + SETTLED for outcome in load.outcomes)
        stored = [outcome.response for outcome in load.outcomes if outcome.is_whole]
        assert len(set(stored)) == len(stored)
        assert {status_of(port, f"/v1/responses/{response}") for response in stored} == {200}


INSIDE = ("/metrics", "/debug/", "/admin/")
"""Paths that are for operators alone."""
PREFIXES = ("", "/", "/v1", "/v1/v1", "/openai", "/openai/v1")


def test_paths_of_operators_are_not_served_and_all_others_are(tmp_path: Path) -> None:
    """nginx answers with a page of its own; the gateway answers everything with JSON."""
    with serving(tmp_path) as only, nginx(tmp_path, (only.port, only.port)) as port:
        for path in {re.sub(r"\{(\w+)\}", "x", route.path) for route in ROUTES}:
            for prefix in PREFIXES:
                is_refused = "text/html" in content_type_of(port, f"{prefix}{path}")
                assert is_refused == path.startswith(INSIDE), f"{prefix}{path}"
        assert "text/html" in content_type_of(port, "/%6detrics")


def content_type_of(port: int, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=FAILSAFE)
    try:
        connection.request("GET", path)
        return connection.getresponse().headers["content-type"]
    finally:
        connection.close()


def test_a_stream_passes_piece_by_piece(tmp_path: Path) -> None:
    """nginx would otherwise collect the whole answer, which comes at the speed of people."""
    with (
        serving(tmp_path, arguments=["--demo-pace", "human"]) as only,
        nginx(tmp_path, (only.port, only.port)) as port,
    ):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=FAILSAFE)
        body = json.dumps({"model": "demo", "input": "What is the weather?", "stream": True})
        connection.request("POST", "/v1/responses", body, {"content-type": "application/json"})
        reply = connection.getresponse()
        pieces = []
        while piece := reply.read1(65536):
            pieces.append(piece)
        connection.close()
    assert len(pieces) > 5
    assert b"response.completed" in pieces[-1]
