"""The parts of several workers: what they say to each other, who knows what is counted, and what a parent does about
workers that die."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.waiting import FAILSAFE
from toolglot.config.schema import Limits
from toolglot.recordings.format import PARTIAL_SUFFIX, SUFFIX
from toolglot.recordings.writing.folder import RecordingFolder
from toolglot.server.metrics import Metrics, Snapshot, encode_merged
from toolglot.server.startup import StartedGateway, StartOptions, load_options, start_gateway
from toolglot.server.workers.broadcast import ANSWER_TIMEOUT, QuestionBroadcast
from toolglot.server.workers.ipc import (
    AskOthers,
    CollectedAnswers,
    IpcMessage,
    StartServing,
    StopServing,
    WorkerAnswer,
    WorkerQuestion,
    encode_frame,
    take_frames,
)
from toolglot.server.workers.worker_process import WorkerProcess
from toolglot.upstream.http_client import HttpTransport

MESSAGES: list[IpcMessage] = [
    StartServing(),
    StopServing(True),
    AskOthers(7, "receipt", b"x" * 300),
    CollectedAnswers(7, [b"", b"y"]),
]


@given(some.lists(some.integers(0, 400), max_size=8))
def test_messages_are_whole_however_they_are_cut(cuts: list[int]) -> None:
    data = b"".join(map(encode_frame, MESSAGES))
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    received, heard = bytearray(), list[IpcMessage]()
    for begin, end in pairwise(places):
        received += data[begin:end]
        heard += take_frames(received)
    assert heard == MESSAGES
    assert not received


class Talk:
    """A child, and the other end of its line."""

    def __init__(self, pid: int) -> None:
        ours, self.line = socket.socketpair()
        self.line.setblocking(False)
        self.child = WorkerProcess(pid, 1, ours, 0.0)
        self.child.hears = True

    def heard(self) -> list[IpcMessage]:
        try:
            return list(take_frames(bytearray(self.line.recv(1 << 20))))
        except BlockingIOError:
            return []


@contextmanager
def talks(count: int) -> Iterator[list[Talk]]:
    made = [Talk(pid) for pid in range(1, count + 1)]
    try:
        yield made
    finally:
        for talk in made:
            talk.line.close()
            talk.child.line.close()


def snapshot(requests: int, in_flight: int = 0) -> bytes:
    metrics = Metrics()
    metrics.retries.add(("up",), requests)
    return msgspec.msgpack.encode(metrics.snapshot(in_flight, {}, {}))


def total(asked: Talk) -> int:
    (answers,) = asked.heard()
    assert isinstance(answers, CollectedAnswers)
    told = encode_merged([msgspec.msgpack.decode(body, type=Snapshot) for body in answers.bodies]).decode()
    return int(told.partition('toolglot_retries_total{upstream="up"} ')[2].partition("\n")[0] or 0)


def test_counts_of_the_silent_and_the_dead_still_count() -> None:
    with talks(3) as (asker, other, third):
        hub = QuestionBroadcast()
        children = {talk.child.pid: talk.child for talk in (asker, other, third)}
        hub.on_ask(asker.child, AskOthers(1, "metrics", snapshot(1)), children.values(), now=0.0)
        for talk, requests in ((other, 10), (third, 100)):
            (question,) = talk.heard()
            assert isinstance(question, WorkerQuestion)
            hub.on_answer(talk.child, WorkerAnswer(question.number, snapshot(requests)), children.values())
        assert total(asker) == 110
        # One says nothing.
        hub.on_ask(asker.child, AskOthers(2, "metrics", snapshot(1)), children.values(), now=5.0)
        (question,) = other.heard()
        assert isinstance(question, WorkerQuestion)
        hub.on_answer(other.child, WorkerAnswer(question.number, snapshot(20)), children.values())
        assert asker.heard() == []
        assert hub.next_deadline == 5.0 + ANSWER_TIMEOUT
        hub.expire(5.0 + ANSWER_TIMEOUT, children.values())
        assert total(asker) == 120
        # Then it is gone, while it is asked.
        hub.on_ask(asker.child, AskOthers(3, "metrics", snapshot(1)), children.values(), now=9.0)
        (question,) = other.heard()
        assert isinstance(question, WorkerQuestion)
        hub.on_answer(other.child, WorkerAnswer(question.number, snapshot(20)), children.values())
        del children[third.child.pid]
        hub.on_exit(third.child, children.values())
        assert total(asker) == 120
        assert hub.next_deadline is None


def test_who_cannot_hear_is_not_waited_for() -> None:
    with talks(2) as (asker, other):
        hub = QuestionBroadcast()
        other.child.hears = False
        hub.on_ask(asker.child, AskOthers(1, "receipt", b""), [asker.child, other.child], now=0.0)
        assert asker.heard() == [CollectedAnswers(1, [])]


def test_gauges_of_several_processes_are_told_as_one() -> None:
    metrics = Metrics()
    metrics.duration.observe(("chat", "up"), 0.5)
    one = metrics.snapshot(2, {"up": False, "other": True}, {"files": True, "web": True})
    two = metrics.snapshot(3, {"up": False, "other": False}, {"files": True, "web": False})
    told = encode_merged([one, two]).decode().splitlines()
    for line in (
        "toolglot_requests_in_flight 5",
        'toolglot_upstream_resting{upstream="up"} 0',
        'toolglot_upstream_resting{upstream="other"} 1',
        'toolglot_mcp_up{server="files"} 1',
        'toolglot_mcp_up{server="web"} 0',
        'gen_ai_server_request_duration_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="up"} 2',
        'gen_ai_server_request_duration_seconds_sum{gen_ai_operation_name="chat",gen_ai_provider_name="up"} 1',
    ):
        assert line in told


def test_each_worker_has_its_share_of_what_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "toolglot.toml"
    file.write_text("[limits]\nconnections = 9\nconcurrent_requests = 1\n")
    limits = load_options(StartOptions(file=file, shares=4), {})[0].limits
    assert (limits.connections, limits.concurrent_requests) == (3, 1)
    assert limits.upstream_connections == Limits().upstream_connections // 4
    assert limits.body == Limits().body


@pytest.mark.parametrize(("workers", "told"), [(1, False), (3, True)])
def test_it_is_told_that_each_worker_starts_its_own_mcp_servers(tmp_path: Path, workers: int, told: bool) -> None:
    file = tmp_path / "toolglot.toml"
    file.write_text("[mcp.servers.files]\ncommand = 'files'\n")

    async def begin() -> StartedGateway:
        transport = HttpTransport(1, {})
        try:
            return await start_gateway(StartOptions(file=file, workers=workers, discover=False), {}, transport)
        finally:
            await transport.close()

    lines = asyncio.run(begin()).notices
    assert any("started 3 times, once for each worker" in line for line in lines) is told


@pytest.mark.parametrize("shares", [2, 5])
def test_several_processes_keep_one_folder_of_recordings_within_its_limits(tmp_path: Path, shares: int) -> None:
    folders = [RecordingFolder(tmp_path, 20_000, 64, shares) for _ in range(shares)]
    for folder in folders:
        folder.open()
    for number in range(40):
        for each, folder in enumerate(folders):
            name = f"{number:04}-{each}{SUFFIX}"
            assert folder.begin(name)
            assert folder.append(name, b"x" * 100)
            folder.finish(name)
            assert len(list(tmp_path.iterdir())) <= 64
    large = f"9-large{SUFFIX}"
    assert folders[0].begin(large)
    for folder in folders[1:]:
        # What another one is still writing is nobody's to remove.
        for number in range(64):
            name = f"9-{id(folder)}-{number:04}{SUFFIX}"
            assert folder.begin(name)
            folder.append(name, b"y" * 1000)
            folder.finish(name)
    assert (tmp_path / (large + PARTIAL_SUFFIX)).exists()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 20_000


SUPERVISED = """
import logging, os, signal, socket, sys
from toolglot.server.workers import supervisor
from toolglot.server.workers.errors import GaveUpError
from toolglot.server.service_manager import ServiceManager
from toolglot.server.workers.ipc import StopServing, WorkerReady, encode_frame, take_frames

logging.basicConfig(format="%(message)s", level="INFO")
supervisor.BACK_OFF = (0.0, 0.01, 0.02)

prepared = []
{first}

def wait(line):
    line.sendall(encode_frame(WorkerReady()))
    received = bytearray()
    while not any(isinstance(message, StopServing) for message in take_frames(received)):
        received += line.recv(1000)
    return 0

def work(listener, line):
    {work}

def prepare():
    prepared.append(True)
    return True

def on_ready():
    print("ready", flush=True)
    {ready}

made = supervisor.WorkerSupervisor(
    [socket.create_server(("127.0.0.1", 0)) for _ in range(2)],
    work,
    prepare=prepare,
    on_ready=on_ready,
    manager=ServiceManager({{}}),
    drain=0.1,
    patience=0.3,
)
try:
    made.run()
except GaveUpError as error:
    print("gave up:", error)
"""


def supervised(work: str, ready: str = "pass", first: str = "") -> tuple[str, str]:
    """What a parent says whose workers do this, and which does that first, and when they are ready."""
    body = textwrap.indent(textwrap.dedent(work), "    ").strip()
    script = SUPERVISED.format(work=body, ready=ready, first=textwrap.dedent(first))
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=FAILSAFE, check=True
    )
    return result.stdout, result.stderr


def test_a_parent_gives_up_workers_that_die_at_once_again_and_again() -> None:
    told, log = supervised("os.kill(os.getpid(), signal.SIGKILL)")
    assert told.startswith("gave up: worker ")
    assert "was killed by SIGKILL, 4 times in a row soon after its start" in told
    assert "and is restarted" in log


def test_a_worker_that_could_never_serve_is_not_tried_again() -> None:
    told, log = supervised("return supervisor.WRONG_STATUS")
    assert "ended with status 2" in told
    assert "restarted" not in log


def test_a_new_worker_that_dies_leaves_the_old_ones_in_place() -> None:
    told, log = supervised(
        """
        if prepared:
            os.kill(os.getppid(), signal.SIGTERM)
            return 3
        return wait(line)
        """,
        ready="os.kill(os.getpid(), signal.SIGUSR2)",
    )
    assert told == "ready\n"
    assert log.count("is process") == 3


def test_a_system_that_cannot_start_any_more_processes_is_asked_again() -> None:
    told, log = supervised(
        """
        return wait(line)
        """,
        ready="os.kill(os.getpid(), signal.SIGTERM)",
        first="""
        forks = os.fork
        tries = []
        def fork():
            tries.append(True)
            if len(tries) == 1:
                raise BlockingIOError(11, "no room")
            return forks()
        os.fork = fork
        """,
    )
    assert told == "ready\n"
    assert "worker 1 cannot be started: no room, and is restarted" in log


def test_workers_are_not_blamed_when_the_parent_itself_was_stopped() -> None:
    told, log = supervised(
        """
        return wait(line)
        """,
        first="""
        import selectors, time, types
        late = []
        supervisor.time = types.SimpleNamespace(monotonic=lambda: time.monotonic() + sum(late))

        class Stopped(selectors.DefaultSelector):
            def select(self, timeout=None):
                if late:
                    os.kill(os.getpid(), signal.SIGTERM)
                elif any(child.pinged_at is not None for child in made._children.values()):
                    late.append(1000.0)
                    return []
                return super().select(timeout)

        selectors.DefaultSelector = Stopped
        """,
    )
    assert told == "ready\n"
    assert "has not answered" not in log
