"""A configuration that changes while the gateway runs: a valid one is used, an invalid one is reported and ignored.

The number is that of `tests/server/fault_cases.py`. The gateway is a process of its own.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.lint.streams import SOUND
from tests.server.client_errors import good_end, mid_call
from tests.server.gateway import request
from tests.server.process import Process, serving
from tests.upstream.bad_server import LAST_CHUNK, BadServer, Gate, chunk, expect, pause, reply, send, stream
from tests.waiting import FAILSAFE

LOADED = "the configuration was reloaded"
KEPT = "the last valid one stays in use"


def config(alias: str) -> str:
    return f'[models.{alias}]\nupstream = "demo"\nmodel = "demo"\n'


BAD = {
    "cut in the middle": '[models.second]\nupstream = "de',
    "a field that is not there": '[models.second]\nupstreem = "demo"\n',
    "an upstream that is not there": '[models.second]\nupstream = "nowhere"\n',
    "a limit that is none": "[limits]\nbody = -1\n",
    "a key that is not set": '[upstreams.openai]\nkey = "${NOT_SET}"\n',
    "beyond loopback without a key": '[server]\nhost = "0.0.0.0"\n',
}


def models(running: Process) -> set[str]:
    return {model["id"] for model in running.call("GET", "/v1/models").json()["data"]}


@pytest.mark.parametrize("by_signal", [True, False], ids=["SIGHUP", "file"])
def test_44_a_good_change_is_used(tmp_path: Path, by_signal: bool) -> None:
    with serving(tmp_path, config("first")) as running:
        assert "first" in models(running)
        (tmp_path / "toolglot.toml").write_text(config("second"))
        if by_signal:
            running.signal(signal.SIGHUP)
        running.until_logged(LOADED)
        assert "second" in models(running)
        assert "first" not in models(running)


@contextmanager
def in_terminal(folder: Path, workers: str, *launcher: str) -> Iterator[Process]:
    """A gateway whose terminal is closed."""
    ours, theirs = os.openpty()
    # The leader of a session that has no terminal gets the one that it opens first.
    launcher = ("sh", "-c", 'exec "$@" <"$0"', os.ttyname(theirs), *launcher)
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a process inherits what the tests were started with
    try:
        with serving(folder, config("first"), arguments=("--workers", workers), launcher=launcher) as running:
            os.close(theirs)
            os.close(ours)
            yield running
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_44_a_gateway_ends_with_its_terminal(tmp_path: Path, workers: str) -> None:
    with in_terminal(tmp_path, workers) as running:
        assert running.wait() == 0
    assert LOADED not in running.log


@pytest.mark.parametrize("workers", ["1", "2"])
def test_44_with_nohup_it_outlives_its_terminal_and_is_loaded_again_on_sighup(tmp_path: Path, workers: str) -> None:
    with in_terminal(tmp_path, workers, "nohup") as running:
        running.until_logged(LOADED, times=int(workers))
        running.signal(signal.SIGHUP)  # without a change of the file, which would be noticed by itself
        running.until_logged(LOADED, times=2 * int(workers))
        assert "first" in models(running)


def test_20_a_key_that_is_taken_away_is_refused_also_on_a_connection_that_it_opened(tmp_path: Path) -> None:
    """Requests with the same head are known again, and are translated directly after the first."""
    one, other = "sk-one-0123456789abcdef", "sk-other-0123456789abcdef"
    path, body = request("openai_chat", model="up/m")
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}
    with BadServer([expect(), reply(answer)]) as server:
        upstream = f'[upstreams.up]\ndialect = "openai_chat"\nbase_url = "{server.url}"\n'
        with (
            serving(tmp_path, f'[server]\nkeys = ["{one}", "{other}"]\n{upstream}') as running,
            closing(HTTPConnection("127.0.0.1", running.port, timeout=FAILSAFE)) as connection,
        ):

            def ask(key: str) -> int:
                headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
                connection.request("POST", path, body, headers)
                response = connection.getresponse()
                response.read()
                return response.status

            assert [ask(one) for _ in range(4)] == [200] * 4
            (tmp_path / "toolglot.toml").write_text(f'[server]\nkeys = ["{other}"]\n{upstream}')
            running.until_logged(LOADED)
            assert [ask(one), ask(one), ask(other), ask(one)] == [401, 401, 200, 401]


def test_44_a_file_of_mcp_servers_counts_as_well(tmp_path: Path) -> None:
    servers = tmp_path / "mcp.json"
    servers.write_text('{"mcpServers": {}}')
    with serving(tmp_path, f"[mcp]\nfiles = ['mcp.json']\n{config('first')}") as running:
        servers.write_text('{"mcpServers": {"a": {"type": "sse", "url": "https://mcp.example"}}}')
        running.until_logged(KEPT)
        assert "mcp.json:1:23: mcpServers.a.type: the transport `sse`" in running.log
        servers.write_text('{"mcpServers": {"a": {"command": "none", "disabled": true}}}')
        running.until_logged(LOADED)
        assert "first" in models(running)


def test_44_a_bad_change_is_told_and_the_last_good_one_stays(tmp_path: Path) -> None:
    file = tmp_path / "toolglot.toml"
    with serving(tmp_path, config("first")) as running:
        for number, (case, text) in enumerate(BAD.items(), 1):
            file.write_text(text)
            running.signal(signal.SIGHUP)
            running.until_logged(KEPT, times=number)
            assert "first" in models(running), case
            assert running.ask("anthropic", model="first").status == 200, case
        assert "toolglot.toml" in running.log
        assert "upstreem" in running.log
        assert LOADED not in running.log
        file.write_text(config("third"))
        running.signal(signal.SIGHUP)
        running.until_logged(LOADED)
        assert "third" in models(running)


def test_44_a_bad_change_is_found_without_a_signal_too(tmp_path: Path) -> None:
    with serving(tmp_path, config("first")) as running:
        (tmp_path / "toolglot.toml").write_text(BAD["cut in the middle"])
        running.until_logged(KEPT)
        assert "first" in models(running)
        (tmp_path / "toolglot.toml").unlink()
        running.signal(signal.SIGHUP)
        running.until_logged(KEPT, times=2)
        assert "first" in models(running)


def test_44_a_stream_goes_on_over_a_reload_that_takes_its_upstream_away(tmp_path: Path) -> None:
    seen = Gate()
    began = mid_call("openai_chat")
    rest = chunk(SOUND["openai_chat"].removeprefix(began))
    with BadServer([expect(), stream(began, complete=False), pause(seen), send(rest, LAST_CHUNK)]) as server:
        upstream = f'[upstreams.up]\ndialect = "openai_chat"\nbase_url = "{server.url}"\n'
        with serving(tmp_path, upstream) as running:
            talk = running.begin("anthropic", stream=True)
            talk.until(b"Hello")
            (tmp_path / "toolglot.toml").write_text(config("second"))
            running.signal(signal.SIGHUP)
            running.until_logged(LOADED)
            assert "second" in models(running)
            seen.open()
            good_end("anthropic", talk.rest())
