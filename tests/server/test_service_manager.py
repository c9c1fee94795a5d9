"""What systemd hears from the gateway, through a real socket."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.process import serving
from tests.waiting import FAILSAFE
from toolglot.server.service_manager import ServiceManager


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(tmp_path / "notify"))
        made.settimeout(FAILSAFE)
        yield made


def heard(listener: socket.socket) -> dict[str, str]:
    lines = listener.recv(4096).decode().splitlines()
    return dict(line.split("=", 1) for line in lines)


WORKERS = pytest.mark.parametrize("workers", [1, 2])


@WORKERS
def test_the_manager_hears_of_the_start_of_a_reload_and_of_the_end(
    workers: int, listener: socket.socket, tmp_path: Path
) -> None:
    arguments = ["--workers", str(workers)]
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    with serving(tmp_path, arguments=arguments, environment=environment) as process:
        ready = heard(listener)
        assert ready["READY"] == "1"
        assert f"http://127.0.0.1:{process.port}" in ready["STATUS"]
        process.signal(signal.SIGHUP)
        reloading = heard(listener)
        assert reloading["RELOADING"] == "1"
        assert re.fullmatch("[0-9]+", reloading["MONOTONIC_USEC"])
        assert heard(listener) == ready
        process.signal(signal.SIGTERM)
        assert heard(listener)["STOPPING"] == "1"
        assert process.wait() in (0, -signal.SIGTERM)


def test_a_reload_that_fails_ends_as_ready_too(listener: socket.socket, tmp_path: Path) -> None:
    with serving(tmp_path, environment={"NOTIFY_SOCKET": str(tmp_path / "notify")}) as process:
        ready = heard(listener)
        (tmp_path / "toolglot.toml").write_text("wrong = 1\n")
        assert heard(listener)["RELOADING"] == "1"
        assert heard(listener) == ready
        process.until_logged("stays in use")


def test_a_name_that_begins_with_an_at_sign_is_in_the_abstract_namespace() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("")
        listener.settimeout(FAILSAFE)
        name = listener.getsockname()[1:].decode()
        ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).ready("two\nlines")
        assert heard(listener) == {"READY": "1", "STATUS": "two lines"}


@pytest.mark.parametrize("address", ["/nowhere/at/all", "x" * 300, "a\0b"])
def test_a_manager_that_cannot_be_reached_is_no_reason_to_stop(address: str) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": address})
    manager.ready("")
    with manager.reloading():
        pass
    manager.stopping()
