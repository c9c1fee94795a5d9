"""The parts of the benchmark that start nothing: what is asked and answered, which cases there are, what is counted."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from pathlib import Path

import pytest
from bench.__main__ import options, output, wishes
from bench.captures import captured
from bench.gateway.answers import CHUNK_END, TEXT_CHUNKS, Dialect, mark, plain_answers, streams, write_answers
from bench.gateway.cases import FULL, PAIRS, QUICK, ROUTES, Case, agent_cases, matching
from bench.gateway.checks import READERS, STREAM_READERS, differences, events
from bench.gateway.installing import InstallError, install
from bench.gateway.library import LibraryError, library_costs
from bench.gateway.measured import middle
from bench.gateway.peers import PEERS
from bench.gateway.peers.record import Go, Program
from bench.gateway.peers.toolglot import base
from bench.gateway.processes import Process, cores, read_port
from bench.gateway.requests import NUMBER, WRITERS, body, model_name
from bench.gateway.usage import Snapshot, connections, members, memory, seconds_between, snapshot

from tests.bench.repository import commit_all
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
    of_all_pairs = {("plain", "small", 64), ("burst", "small", 8), ("paced", "small", 64), ("paced", "small", 256)}
    for cases in (FULL, QUICK):
        assert {case.route for case in cases if case[1:] in of_all_pairs} == set(PAIRS)
        assert len([case for case in cases if case[1:] in of_all_pairs]) == len(PAIRS) * len(of_all_pairs) == 64
    assert {case.connections for case in FULL} == {1, 8, 64, 256, 1000}
    assert matching(FULL, ("chat->anthropic/plain/8",)) == (Case(ROUTES[2], "plain", "small", 8),)
    assert matching(FULL, ()) == FULL


@pytest.mark.parametrize(
    ("arguments", "peers", "cases", "starts", "folder"),
    [
        (["--only", "toolglot", "--base", "HEAD~3", "--cases", "chat->chat/plain/8"], 2, 1, 0, "part"),
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


CAPTURES = {
    "claude-1": ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}),
    "claude-2": ("/v1/messages", {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]}),
    "claude-count": ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "Hello"}]}),
    "chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "Hello"}], "stream": True, "stream_options": {"include_usage": True}},
    ),
    "codex": ("/v1/responses", {"input": [{"role": "user", "content": "Hello"}], "stream": True, "model": "other"}),
    "responses": ("/v1/responses", {"input": "Hello"}),
    "gemini": (
        "/v1beta/models/other:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    ),
}


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    for name, (path, content) in CAPTURES.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"path": path, "body": content}))
    return tmp_path


def test_requests_of_agents_are_asked_of_every_upstream_with_a_number_and_the_upstreams_model(captures: Path) -> None:
    cases = wishes(options(["--agents", str(captures), "--cases", "/agent-"])).cases
    assert len(cases) == (len(CAPTURES) - 1) * 4
    for case in cases:
        client, upstream = case.route
        content = body(client, case.asked, model=model_name(upstream), streamed=case.style.streamed)
        request = find(client).decode_request(content)
        said = [repr(message) for message in request.messages]
        assert "Hello" in said[0]
        assert NUMBER in said[-1]
        assert content.count(NUMBER.encode()) == 1
        assert request.model == ("" if client == "gemini" else model_name(upstream))
        assert b"stream_options" not in content


def test_names_choose_some_of_the_agents_requests(captures: Path) -> None:
    chosen = ["--quick", "--agents", str(captures), "claude", "codex"]
    names = [case.name for case in wishes(options(chosen)).cases if case not in QUICK]
    assert len(names) == 3 * 4
    assert names[0] == "anthropic->chat/agent-claude-1/8"
    with pytest.raises(SystemExit, match="there is no such captured request in "):
        wishes(options(["--agents", str(captures), "no-such-agent"]))


def test_an_agents_request_is_asked_of_nginx_only_where_nothing_is_translated(captures: Path) -> None:
    cases = agent_cases(captured(captures, ["claude-1"]))
    asked = {name: [case.route.name for case in cases if PEERS[name].can_ask(case)] for name in ("nginx", "toolglot")}
    assert asked["nginx"] == ["anthropic->anthropic"]
    assert len(asked["toolglot"]) == 4


def test_the_base_stands_beside_this_gateway() -> None:
    peers = wishes(options(["--quick", "--base", "HEAD"])).peers
    assert [peer.name for peer in peers] == ["direct", "nginx", "base", "toolglot"]


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


PROJECT = '[project]\nname = "toolglot"\ndependencies = ["msgspec>=0.19"]\n'
SLOW_EXCHANGE = """\
class Exchange:
    def __init__(self, client, upstream, *, model):
        if upstream == "gemini":
            raise ValueError("no such dialect")
    def request(self, body, *, model):
        return body
"""


def test_a_revision_is_exported_and_its_library_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("taskset")
    files = {
        "pyproject.toml": PROJECT,
        "src/toolglot/__init__.py": "",
        "src/toolglot/translate.py": SLOW_EXCHANGE,
    }
    repository = tmp_path / "repository"
    for name, content in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(content)
    commit_all(repository, monkeypatch)
    peer = base("HEAD")
    installed = install(peer, tmp_path / "cache")
    assert len(installed.version) == 12
    assert (installed.home / "src" / "toolglot" / "translate.py").read_text() == SLOW_EXCHANGE
    assert install(peer, tmp_path / "cache") == installed
    assert peer.library is not None
    cases = [
        case for case in FULL if case.name in ("chat->chat/plain/8", "chat->chat/plain/64", "chat->gemini/plain/64")
    ]
    costs = library_costs(cases, peer.library(installed.home), cores().gateway)
    assert sorted(case.name for case in costs) == ["chat->chat/plain/64", "chat->chat/plain/8"]
    assert len(set(costs.values())) == 1
    with pytest.raises(InstallError, match="failed: fatal: Needed a single revision"):
        install(base("no-such-revision"), tmp_path / "cache")
    (installed.home / "src" / "toolglot" / "translate.py").write_text("raise ImportError('too old')")
    with pytest.raises(LibraryError, match="too old"):
        library_costs(cases, peer.library(installed.home), cores().gateway)


def test_the_size_of_an_installation_counts_what_it_needs(tmp_path: Path) -> None:
    found = install(PEERS["toolglot"], tmp_path)
    assert found.version
    assert found.size is not None
    assert 5e6 < found.size < 60e6
