"""Several processes at one address: what a client may notice of that, which is nothing.

The gateway is started as a user starts it. The connections are those of a chosen worker each.
"""

from __future__ import annotations

import http.client
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.agent.hosting import everyday_over_http
from tests.lint.streams import SOUND
from tests.server.client_errors import good_end, mid_call
from tests.server.gateway import request
from tests.server.process import serving
from tests.server.workforce import exchanged, said, until_gone, workforce
from tests.upstream.bad_server import (
    LAST_CHUNK,
    BadServer,
    Gate,
    Step,
    chunk,
    expect,
    pause,
    reply,
    send,
    stream,
)
from tests.waiting import FAILSAFE
from toolglot.cli.serve import serve

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

LOADED = "the configuration was reloaded"


def upstream(url: str, drain: float = 0, retire: float = 0) -> str:
    return f"""
[limits]
drain = {drain}
retire = {retire}
[upstreams.up]
dialect = "openai_chat"
base_url = "{url}"
[models.demo]
upstream = "demo"
model = "demo"
"""


def test_an_approval_that_one_worker_asked_for_counts_once_at_the_other(tmp_path: Path) -> None:
    """Without a store: the worker that issued a request remembers it, and the others ask."""
    call = {"id": "call_1", "type": "function", "function": {"name": "day__echo", "arguments": '{"text":"ping"}'}}

    def says(message: Any, finish: str) -> Step:
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        return reply({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})

    first = [expect(), says({"content": None, "tool_calls": [call]}, "tool_calls")]
    done = [expect(), says({"content": "Done."}, "stop")]
    with everyday_over_http() as url, BadServer(first, done) as server:
        config = f"""
[store]
path = "none"
[upstreams.up]
dialect = "openai_chat"
base_url = "{server.url}"
models = ["m"]
[mcp.servers.day]
url = "{url}"
"""
        with workforce(tmp_path, config) as running:
            one, other = map(running.connected, running.workers)
            tools = [{"type": "mcp", "server_label": "day", "server_url": url}]
            body = {"model": "m", "input": [{"role": "user", "content": "Hi"}], "tools": tools}
            output = said(one, "POST", "/v1/responses", body)["output"]
            asked = next(item for item in output if item["type"] == "mcp_approval_request")
            yes = {"type": "mcp_approval_response", "approval_request_id": asked["id"], "approve": True}
            body["input"] = [{"role": "user", "content": "Hi"}, asked, yes]
            ran = []
            for each in (other, one, other):
                output = said(each, "POST", "/v1/responses", body)["output"]
                ran.append("mcp_call" in [item["type"] for item in output])
            assert ran == [True, False, False]


def test_what_one_worker_knows_the_other_tells_as_well(tmp_path: Path) -> None:
    with workforce(tmp_path, "[models.first]\nupstream = 'demo'\nmodel = 'demo'\n") as running:
        one, other = map(running.connected, running.workers)
        # Counts, and receipts in the order in which they were made.
        ids = [running.chat(each).headers["x-request-id"] for each in (one, other, one, other, one)]
        assert (running.counted(one), running.counted(other)) == (5, 5)
        for each in (one, other):
            listed = said(each, "GET", "/debug/receipts")["receipts"]
            assert [receipt["id"] for receipt in listed] == ids[::-1]
            assert [said(each, "GET", f"/debug/receipts/{each_id}")["id"] for each_id in ids] == ids
            assert exchanged(each, "GET", "/debug/receipts/none")[0].status == 404
        # Stored responses.
        ask = {"model": "demo", "input": "My name is Ada"}
        first = said(one, "POST", "/v1/responses", ask)["id"]
        assert said(other, "GET", f"/v1/responses/{first}")["id"] == first
        second = said(other, "POST", "/v1/responses", {**ask, "previous_response_id": first})
        assert second["previous_response_id"] == first
        # The configuration of the day.
        (tmp_path / "toolglot.toml").write_text("[models.second]\nupstream = 'demo'\nmodel = 'demo'\n")
        running.running.signal(signal.SIGHUP)
        running.running.until_logged(LOADED, times=2)
        for each in (one, other):
            assert "second" in {model["id"] for model in said(each, "GET", "/v1/models")["data"]}


def halting(gate: Gate) -> list[Step]:
    """A stream that goes on once the gate is open."""
    began = mid_call("openai_chat")
    rest = SOUND["openai_chat"].removeprefix(began)
    return [expect(), stream(began, complete=False), pause(gate), send(chunk(rest), LAST_CHUNK)]


def test_workers_are_replaced_and_no_stream_connection_or_count_is_lost(tmp_path: Path) -> None:
    seen = Gate()
    with (
        BadServer(halting(seen)) as server,
        workforce(tmp_path, upstream(server.url, retire=FAILSAFE)) as running,
    ):
        before = running.workers
        kept = [running.connected(pid) for pid in before]
        unused = [running.connected(pid) for pid in before]
        for each in kept:
            running.chat(each)
        talks = [running.running.begin("anthropic", stream=True) for _ in range(8)]
        for talk in talks:
            talk.until(b"Hel")
        running.running.signal(signal.SIGUSR2)
        # The old workers answer on what was connected to them, and say that it is over once they have a successor. They
        # are asked all the time, because they close what is not used.
        for each in kept:
            while running.chat(each).headers["connection"] != "close":
                pass
        running.running.until_logged("all workers are new")
        after = running.workers
        assert not set(before) & set(after)
        # The new ones take all that is new.
        new = [running.connected(pid) for pid in after]
        for each in new:
            assert "connection" not in running.chat(each).headers
        # What has begun goes on to its end.
        seen.open()
        for talk in talks:
            good_end("anthropic", talk.rest())
        for each in unused:
            each.close()
        for pid in before:
            until_gone(pid)
        assert [running.counted(each) for each in new] == [running.asked] * 2
        running.running.signal(signal.SIGTERM)
        assert running.running.wait() == 0
        assert "Traceback" not in running.running.log


def test_who_asks_again_as_soon_as_a_stream_has_ended_is_answered_by_a_worker_that_leaves(tmp_path: Path) -> None:
    seen = Gate()
    with (
        BadServer(halting(seen)) as server,
        workforce(tmp_path, upstream(server.url, retire=FAILSAFE)) as running,
    ):
        before = running.workers
        path, document = request("anthropic", stream=True)
        talks = [running.connected(pid) for pid in before]
        answers = []
        for talk in talks:
            talk.request("POST", path, document, {"content-type": "application/json"})
            answers.append(talk.getresponse())
            assert b"Hel" in answers[-1].read1()
        running.running.signal(signal.SIGUSR2)
        running.running.until_logged("all workers are new")
        seen.open()
        for talk, answer in zip(talks, answers, strict=True):
            assert "connection" not in answer.headers
            assert answer.read().endswith(b'{"type":"message_stop"}\n\n')
            assert running.chat(talk).headers["connection"] == "close"
        for pid in before:
            until_gone(pid)


def test_nobody_is_refused_while_workers_change(tmp_path: Path) -> None:
    with workforce(tmp_path) as running:
        over, failures, answers = threading.Event(), list[BaseException](), [0] * 4

        def ask(number: int, keeps: bool) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", running.running.port, timeout=FAILSAFE)
            try:
                while not over.is_set():
                    response, _ = exchanged(connection, "GET", "/v1/models")
                    assert response.status == 200
                    answers[number] += 1
                    if not keeps or response.headers["connection"] == "close":
                        connection.close()  # it connects again by itself
            except BaseException as failure:
                failures.append(failure)
            finally:
                connection.close()

        threads = [threading.Thread(target=ask, args=(number, number % 2 == 0)) for number in range(len(answers))]
        for thread in threads:
            thread.start()
        for times in (1, 2):
            running.running.signal(signal.SIGUSR2)
            running.running.until_logged("all workers are new", times=times)
        over.set()
        for thread in threads:
            thread.join(FAILSAFE)
        assert failures == []
        assert all(answers)


def test_a_wrong_configuration_replaces_no_worker(tmp_path: Path) -> None:
    with workforce(tmp_path) as running:
        before = running.workers
        (tmp_path / "toolglot.toml").write_text("[server]\nprot = 1\n")
        running.running.signal(signal.SIGUSR2)
        running.running.until_logged("no worker is replaced")
        assert "prot" in running.running.log
        assert running.workers == before
        assert running.chat(running.connected(before[0])).status == 200


def test_a_worker_that_dies_is_started_again_and_what_it_had_counted_counts(tmp_path: Path) -> None:
    with workforce(tmp_path) as running:
        first, second = running.workers
        one, other = running.connected(first), running.connected(second)
        for each in (one, other):
            running.chat(each)
        assert running.counted(other) == 2
        running.kill(first)
        running.running.until_logged("worker 1 is process", times=2)
        assert f"(process {first}) was killed by SIGKILL, and is restarted" in running.running.log
        third = running.workers[0]
        assert third not in (first, second)
        again = running.connected(third)
        running.chat(again)
        assert (running.counted(again), running.counted(other)) == (3, 3)
        # One that somebody tells to go has a successor at once, too.
        running.terminate(second)
        running.running.until_logged("worker 2 is process", times=2)
        running.chat(running.connected(running.workers[1]))
        assert running.counted(again) == 4


def test_a_stopped_worker_is_replaced_and_who_waits_at_its_socket_is_answered(tmp_path: Path) -> None:
    with workforce(tmp_path, "[limits]\nworker_silence = 1\n") as running:
        first, second = running.workers
        os.kill(first, signal.SIGSTOP)
        # The kernel deals these out by chance: that none of them comes to the stopped worker is as good as impossible.
        waiting = [http.client.HTTPConnection("127.0.0.1", running.running.port, timeout=FAILSAFE) for _ in range(40)]
        for each in waiting:
            each.request("GET", "/ready")
        for each in waiting:
            assert each.getresponse().read().startswith(b'{"status":"ready"')
            each.close()
        running.running.until_logged("has not answered for 1 seconds, and is killed")
        running.running.until_logged("worker 1 is process", times=2)
        until_gone(first)
        third, still = running.workers
        assert (still, third in (first, second)) == (second, False)
        running.chat(running.connected(third))


def test_sigterm_ends_all_workers_after_their_streams(tmp_path: Path) -> None:
    seen = Gate()
    with (
        BadServer(halting(seen)) as server,
        workforce(tmp_path, upstream(server.url, drain=FAILSAFE)) as running,
    ):
        pids = running.workers
        talks = [running.running.begin("openai_chat", stream=True) for _ in range(8)]
        for talk in talks:
            talk.until(b"Hel")
        running.running.signal(signal.SIGTERM)
        running.until_refused()
        seen.open()
        for talk in talks:
            good_end("openai_chat", talk.rest())
        assert running.running.wait() == 0
        for pid in pids:
            until_gone(pid)


def test_workers_do_not_outlive_their_parent(tmp_path: Path) -> None:
    with workforce(tmp_path) as running:
        pids = running.workers
        running.running.signal(signal.SIGKILL)
        for pid in pids:
            until_gone(pid)
        assert running.running.wait() == -signal.SIGKILL
        assert "the process that started this worker is gone" in running.running.log


def test_a_port_on_which_workers_serve_is_in_use(tmp_path: Path) -> None:
    with workforce(tmp_path) as running:
        port = running.running.port
        for workers in ("1", "2"):
            status, told = refused("--workers", workers, "--port", str(port))
            assert (status, f"cannot listen on 127.0.0.1:{port}" in told) == (2, True)


def test_a_store_in_memory_is_refused() -> None:
    status, told = refused("--workers", "2", "--port", "0", "--store", ":memory:")
    assert status != 0
    assert "a `:memory:` store belongs to one process" in told


def refused(*arguments: str) -> tuple[int, str]:
    """A start that fails: its exit status, and what it says."""
    result = CliRunner().invoke(serve, ["--no-discover", *arguments])
    return result.exit_code, result.stderr


def test_one_worker_has_no_parent(tmp_path: Path) -> None:
    with serving(tmp_path, arguments=["--workers", "1"]) as running:
        assert "is process" not in running.log
        assert running.call("GET", "/ready").status == 200
