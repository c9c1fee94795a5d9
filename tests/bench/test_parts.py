"""The parts of the benchmark that start nothing: what is asked and answered, which cases there are, what is counted."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from pathlib import Path

import pytest
from bench.__main__ import options, output, wishes
from bench.gateway.answers import CHUNK_END, TEXT_CHUNKS, Dialect, mark, plain_answers, streams, write_answers
from bench.gateway.cases import FULL, PAIRS, QUICK, ROUTES, Case, Route, matching
from bench.gateway.checks import READERS, STREAM_READERS, differences, events
from bench.gateway.installing import InstallError, install
from bench.gateway.measured import middle
from bench.gateway.peers import PEERS
from bench.gateway.peers.record import Go, Program
from bench.gateway.processes import Process, cores, read_port
from bench.gateway.requests import NUMBER, WRITERS, body
from bench.gateway.usage import Snapshot, connections, members, memory, seconds_between, snapshot

from tests.bench.samples import measured
from tests.needs import need
from toolglot.dialects import find

DIALECTS: list[Dialect] = list(WRITERS)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("size", "least", "most"), [("small", 1_500, 2_000), ("large", 54_000, 57_000)])
def test_a_request_is_one_of_its_dialect_and_has_one_number(dialect: Dialect, size: str, least: int, most: int) -> None:
    for streamed in (False, True):
        content = body(dialect, "small" if size == "small" else "large", model="m", streamed=streamed)
        assert least < len(content) < most
        assert content.count(NUMBER.encode()) == 1
        request = find(dialect).decode_request(content)
        assert request.stream is (streamed and dialect != "gemini")  # which says so in its path
        assert NUMBER in repr(request.messages[-1])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_checker_finds_no_fault_in_what_the_upstream_says(dialect: Dialect) -> None:
    plain = json.loads(json.dumps(plain_answers()[dialect]).replace("N0000000000", "N0000000042"))
    assert list(differences(READERS[dialect](plain), dialect, dialect, streamed=False)) == []
    content = "".join(streams()[dialect]).replace("N0000000000", "N0000000042").encode()
    answer = STREAM_READERS[dialect](list(events(content)))
    assert list(differences(answer, dialect, dialect, streamed=True)) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_checker_sees_a_chunk_that_is_missing_and_an_answer_by_another_api(dialect: Dialect) -> None:
    chunks = [chunk.replace("N0000000000", "N0000000042") for chunk in streams()[dialect]]
    lacking = STREAM_READERS[dialect](list(events("".join(chunks[:5] + chunks[6:]).encode())))
    assert list(differences(lacking, dialect, dialect, streamed=True)) == [
        f"{TEXT_CHUNKS - 1} pieces of text instead of {TEXT_CHUNKS}"
    ]
    other = next(name for name in DIALECTS if name != dialect)
    whole = STREAM_READERS[dialect](list(events("".join(chunks).encode())))
    assert [fault.rpartition(" ")[2] for fault in differences(whole, dialect, other, streamed=True)] == [dialect]


def test_the_files_of_the_upstream_hold_every_chunk(tmp_path: Path) -> None:
    write_answers(tmp_path)
    for kind, length in (("stream", 187), ("brief", 3)):
        for dialect, chunks in streams(length).items():
            content = (tmp_path / f"{dialect}.{kind}").read_bytes()
            assert content.split(CHUNK_END) == [*(chunk.encode() for chunk in chunks), b""]
            assert "".join(chunks).count(mark(length - 1)) > 0


def test_cases_have_names_of_their_own_and_the_quick_ones_are_among_them() -> None:
    names = [case.name for case in FULL]
    assert len(set(names)) == len(names)
    assert set(QUICK) <= set(FULL)
    assert {case.route for case in FULL} == set(PAIRS)
    pairs = {case[1:] for case in FULL if case.route == Route("gemini", "openai_responses")}
    assert pairs == {("plain", "small", 64), ("burst", "small", 8), ("paced", "small", 64), ("paced", "small", 256)}
    assert {case.connections for case in FULL} == {1, 8, 64, 256, 1000}
    assert matching(FULL, ("chat->anthropic/plain/8",)) == (Case(ROUTES[2], "plain", "small", 8),)
    assert matching(FULL, ()) == FULL


@pytest.mark.parametrize(
    ("arguments", "peers", "cases", "starts", "folder"),
    [
        ([], len(PEERS), len(FULL), 5, "bench"),
        (["--quick"], 3, len(QUICK), 2, "part"),
        (["--only", "nginx,toolglot", "--cases", "memory"], 2, 0, 5, "part"),
        (["--quick", "--cases", "chat->chat/plain/8,memory"], 3, 1, 2, "part"),
        (["--cases", "/burst/", "--repeat", "1", "--output", "elsewhere"], len(PEERS), 23, 0, "elsewhere"),
    ],
)
def test_options_choose_what_is_measured_and_where_it_is_written(
    arguments: list[str], peers: int, cases: int, starts: int, folder: str
) -> None:
    chosen = options(arguments)
    wanted = wishes(chosen)
    assert (len(wanted.peers), len(wanted.cases), wanted.starts) == (peers, cases, starts)
    assert output(chosen).name == folder


def test_an_unknown_gateway_is_named() -> None:
    with pytest.raises(SystemExit, match="there is no gateway 'ngnix': direct, nginx, toolglot"):
        wishes(options(["--only", "ngnix"]))


def test_the_middle_of_several_runs_is_the_median_of_each_figure() -> None:
    runs = ((3.0, 0, ""), (1.0, 2, "first"), (9.0, 1, "second"))
    found = middle([measured(cost, errors=errors, first_error=error) for cost, errors, error in runs])
    assert found.cpu_ms_per_request == pytest.approx(0.06)
    assert (found.errors, found.first_error, found.requests) == (3, "first", 3000)
    unknown = middle([measured(1.0, gap_p50=None), measured(1.0, gap_p50=None)])
    assert unknown.gap_p50 is None


def test_processor_time_is_counted_by_threads_unless_one_has_ended() -> None:
    before = Snapshot({"1/1": 1_000_000, "1/2": 5_000_000}, ticks=3)
    assert seconds_between(before, Snapshot({"1/1": 2_000_000, "1/2": 5_000_000, "1/3": 500_000}, 4)) == 0.0015
    assert seconds_between(before, Snapshot({"1/1": 2_000_000}, ticks=3)) == 0.0


def test_a_process_and_those_it_starts_are_counted_until_they_are_ended(tmp_path: Path) -> None:
    need("taskset")
    busy = Process(("sh", "-c", "sh -c 'while :; do :; done'; true"), cores().load, tmp_path / "log")
    try:
        while len(list(members(busy.session))) < 2:
            assert busy.running
        before = snapshot(busy.session)
        while not seconds_between(before, snapshot(busy.session)):
            assert busy.running
        assert memory(busy.session) > 100_000
    finally:
        busy.stop()
    assert list(members(busy.session)) == []


TAKES_CONNECTIONS = """\
import pathlib, socket
listener = socket.create_server(("127.0.0.1", 0))
pathlib.Path("port").write_text(str(listener.getsockname()[1]))
taken = []
while True:
    taken.append(listener.accept())
"""


def test_the_connections_to_a_port_are_counted_for_the_process_that_has_them(tmp_path: Path) -> None:
    need("taskset")
    server = Process((sys.executable, "-c", TAKES_CONNECTIONS), cores().load, tmp_path / "log")
    try:
        port = read_port(server, tmp_path / "port", 30.0)
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            while connections(server.session, port) != [3]:
                assert server.running
            assert connections(server.session, port + 1) == []
    finally:
        server.stop()


def test_a_peer_that_cannot_be_installed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nginx, bifrost = PEERS["nginx"], PEERS["bifrost"]
    with pytest.raises(InstallError, match="there is no `no-such-program` on this machine"):
        install(nginx._replace(install=Program("no-such-program", ("no-such-program",))), tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InstallError, match="there is no `go` on this machine"):
        install(bifrost._replace(install=Go("example.invalid/program", "latest")), tmp_path)


def test_the_size_of_an_installation_counts_what_it_needs(tmp_path: Path) -> None:
    found = install(PEERS["toolglot"], tmp_path)
    assert found.version
    assert found.size is not None
    assert 5e6 < found.size < 60e6
