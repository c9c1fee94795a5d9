"""`toolglot health`: the answer of a gateway, as an exit status."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.cli.run import run
from tests.cli.scripted_upstream import Said, said, scripted
from tests.server.gateway import gateway
from tests.server.process import serving


def test_a_gateway_that_accepts_requests_is_ready() -> None:
    with gateway() as running:
        result = run("health", "--url", f"http://127.0.0.1:{running.port}/")
    assert (result.exit_code, result.output) == (0, "ready\n")


def test_no_key_is_needed(tmp_path: Path) -> None:
    with serving(tmp_path, '[server]\nkeys = ["a-long-key"]\n') as process:
        assert run("health", "--url", f"http://127.0.0.1:{process.port}").exit_code == 0


def test_nothing_that_listens_is_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    result = run("health", "--url", f"http://127.0.0.1:{port}")
    assert (result.exit_code, result.output) == (1, f"toolglot: http://127.0.0.1:{port}: no answer\n")


def test_a_listener_that_says_nothing_is_not_waited_for_longer_than_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        result = run("health", "--url", f"http://127.0.0.1:{server.getsockname()[1]}", "--timeout", "0.05")
    assert (result.exit_code, "no answer" in result.output) == (1, True)


@pytest.mark.parametrize(
    ("answer", "reported"),
    [
        (said({"status": "draining"}, 503), "draining"),
        (said({"status": "ok"}, 200), "ok"),
        (said([], 404), "status 404"),
        (Said(200, b"<html>"), "no answer"),
    ],
)
def test_another_answer_is_not_ready(answer: Said, reported: str) -> None:
    with scripted(lambda asked: answer) as other:
        result = run("health", "--url", other.url)
        assert [asked.path for asked in other.asked] == ["/readyz"]
    assert (result.exit_code, result.output) == (1, f"toolglot: {other.url}: {reported}\n")
