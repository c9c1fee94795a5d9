"""The upstream, the load and the gateway together: that they are right, not how fast they are. Needs a C compiler."""

from __future__ import annotations

import http.server
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from bench.captures import Captured
from bench.gateway.answers import Dialect
from bench.gateway.cases import ANTHROPIC_TO_CHAT, CHAT_TO_CHAT, PAIRS, Case, Manner, Route, Style
from bench.gateway.checks import ask, faults
from bench.gateway.native import Tools, UpstreamEndedError
from bench.gateway.pair_tables import agent_tables
from bench.gateway.peers import PEERS
from bench.gateway.peers.record import Launch, Place, Program
from bench.gateway.peers.toolglot import base
from bench.gateway.processes import cores
from bench.gateway.requests import NUMBER, WRITERS, Size, body
from bench.gateway.results import Results
from bench.gateway.running import Effort, Gateway, load_options, measure, started
from bench.gateway.session import Session, Wishes
from bench.gateway.standing import Plan

from tests.bench.repository import commit_all
from tests.docs.markdown import ROOT
from tests.needs import need

BRIEF = Effort(seconds=0.2, warm_up=0.05, longest=30.0, least_requests=5, least_chunks=100)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    need("cc")
    need("taskset")
    return Tools(tmp_path_factory.mktemp("bin"), cores())


@pytest.fixture(scope="module")
def upstream(tools: Tools) -> Iterator[int]:
    with tools.upstream() as running:
        yield running.port


@pytest.fixture(scope="module")
def gateway(tools: Tools, upstream: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("toolglot")
    with started(PEERS["toolglot"], upstream, folder, folder / "run", tools.cores.gateway) as running:
        yield running


@pytest.fixture
def direct(upstream: int, tmp_path: Path) -> Gateway:
    return Gateway(PEERS["direct"], Place(upstream, upstream, tmp_path, tmp_path), None, 0.0)


@pytest.mark.parametrize("route", PAIRS, ids=lambda route: route.name)
def test_the_gateway_says_what_the_upstream_said(gateway: Gateway, route: Route) -> None:
    assert faults(gateway, route) == []


@pytest.mark.parametrize("dialect", list(WRITERS))
def test_the_upstream_speaks_every_dialect(direct: Gateway, dialect: Dialect) -> None:
    assert faults(direct, Route(dialect, dialect)) == []


@pytest.mark.parametrize("route", PAIRS, ids=lambda route: route.name)
@pytest.mark.parametrize(
    ("manner", "size"), [("plain", "large"), ("burst", "small"), ("paced", "small"), ("brief", "small")]
)
def test_many_requests_at_once_are_all_answered_well(
    tools: Tools, gateway: Gateway, route: Route, manner: Manner, size: Size
) -> None:
    case = Case(route, manner, size, 4)
    found = measure(tools, gateway, case, BRIEF)
    assert (found.errors, found.bad, found.first_error) == (0, 0, "")
    assert found.chunks_per_second > 0 if case.style.streamed else found.requests >= 5


def load(tools: Tools, gateway: Gateway, *more: str, streamed: bool = False) -> tuple[int, int, int]:
    asked = load_options(gateway, CHAT_TO_CHAT, "small", Style(streamed=streamed))
    with tools.load([*asked, "--seconds=0.1", "--longest=30", "--least-requests=1", *more]) as running:
        running.wait_for_window()
        figures = running.figures()
    return figures.requests, figures.errors, figures.bad


def test_an_answer_that_lacks_something_is_a_bad_one(tools: Tools, direct: Gateway) -> None:
    requests, errors, bad = load(tools, direct, "--expect=no such text")
    assert (errors, bad) == (0, requests)
    requests, errors, bad = load(tools, direct, "--marks=188", streamed=True)
    assert (errors, bad) == (0, requests)
    assert requests > 0


@contextmanager
def repeater(status: int, content: bytes) -> Iterator[int]:
    """A server that gives the same answer to everybody."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_the_answer_to_another_request_is_a_bad_one(tools: Tools, direct: Gateway) -> None:
    status, content = ask(direct, CHAT_TO_CHAT, streamed=False)
    with repeater(status, content) as port:
        copier = direct._replace(place=direct.place._replace(port=port))
        requests, errors, bad = load(tools, copier)
    assert requests > 0
    assert errors == 0
    # Request 42 is the one that this was the answer to.
    assert bad >= requests - 1


def test_a_refusal_is_an_error(tools: Tools, direct: Gateway) -> None:
    with repeater(429, b"{}") as port:
        refusing = direct._replace(place=direct.place._replace(port=port))
        requests, errors, _ = load(tools, refusing, "--longest=0.3")
    assert requests == 0
    assert errors > 0


def ends_at_once(place: Place) -> Launch:
    return Launch(("sh", "-c", "echo no such thing; exit 1"))


def test_a_run_measures_tells_what_fails_and_leaves_nothing_behind(tmp_path: Path, tools: Tools) -> None:
    (tmp_path / "bin").symlink_to(tools.folder)
    broken = PEERS["nginx"]._replace(name="broken", install=Program("sh", ("true",)), launch=ends_at_once)
    case = Case(ANTHROPIC_TO_CHAT, "plain", "small", 2)
    plan = Plan(streams=20, pace=100, ramp=0.2, seconds=0.5)
    wishes = Wishes([PEERS["direct"], PEERS["toolglot"], broken], [case], 1, BRIEF, [plan], starts=1)
    told: list[str] = []
    kept: list[Results] = []
    results = Session(wishes, tmp_path, tmp_path / "run", told.append, kept.append).run()
    assert [(len(each.rows), len(each.standings)) for each in kept] == [(2, 0), (2, 1), (2, 2)]
    assert results.measured("toolglot", case) is not None
    assert results.measured("broken", case) is None
    trouble = {about.name: about.trouble for about in results.gateways}
    assert trouble["toolglot"] is None
    assert trouble["broken"] is not None
    assert trouble["broken"].startswith("not started: it ended: no such thing")
    held = results.held("toolglot", 20)
    assert held is not None
    assert (held.open, held.health_ms is None) == (20, False)
    assert held.on_time > 0
    assert any("broken: not started" in line for line in told)


def test_another_version_and_an_agents_request_are_measured_in_the_same_run(
    tmp_path: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").symlink_to(tools.folder)
    repository = tmp_path / "repository"
    shutil.copytree(ROOT / "src", repository / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", repository)
    commit_all(repository, monkeypatch)
    content = body("gemini", "large", model="", streamed=True).replace(NUMBER.encode(), b"7")
    agent = Case(Route("gemini", "anthropic"), "agent", Captured("cli", "gemini", content, "other"), 2)
    wishes = Wishes([base("HEAD"), PEERS["toolglot"]], [agent], 1, BRIEF, [], starts=0)
    results = Session(wishes, tmp_path, tmp_path / "run", lambda line: None, lambda results: None).run()
    for name in ("base", "toolglot"):
        row = results.row(name, agent.key)
        assert row is not None
        assert (row.measured.errors, row.measured.bad, row.measured.requests > 0) == (0, 0, True)
        assert row.measured.cpu_ms_per_request is not None
        assert row.library_us is not None
        assert row.library_us > 0
        assert row.request_bytes is not None
        assert row.request_bytes > len(content)
    (table,) = agent_tables(results)
    assert table.head == ("", "KB", "pair", "base (HEAD)", "toolglot", "base (HEAD), library", "toolglot, library")
    assert [line[0] for line in table.rows] == ["cli"]


DIES_OF_LARGE_REQUESTS = """\
import http.client, http.server, os, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(b"well")

    def do_POST(self):
        size = int(self.headers["content-length"])
        if size > 10_000:
            print("too much", flush=True)
            os._exit(1)
        upstream = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]))
        upstream.request("POST", self.path, self.rfile.read(size), dict(self.headers))
        self.answer(upstream.getresponse().read())

    def answer(self, content):
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def dies_of_large_requests(place: Place) -> Launch:
    command = (sys.executable, "server.py", str(place.port), str(place.upstream))
    return Launch(command, files={"server.py": DIES_OF_LARGE_REQUESTS})


def test_a_gateway_that_dies_is_told_and_started_again_for_the_next_case(tmp_path: Path, tools: Tools) -> None:
    (tmp_path / "bin").symlink_to(tools.folder)
    mortal = PEERS["nginx"]._replace(
        name="mortal", install=Program("sh", ("true",)), launch=dies_of_large_requests, routes=(CHAT_TO_CHAT,)
    )
    large, small = Case(CHAT_TO_CHAT, "plain", "large", 1), Case(CHAT_TO_CHAT, "plain", "small", 1)
    wishes = Wishes([mortal], [large, small], 1, BRIEF._replace(longest=2.0), [], starts=0)
    results = Session(wishes, tmp_path, tmp_path / "run", lambda line: None, lambda results: None).run()
    assert results.measured("mortal", large) is None
    found = results.measured("mortal", small)
    assert found is not None
    assert (found.requests > 0, found.errors, found.bad) == (True, 0, 0)
    assert results.gateways[0].trouble is None
    (fault,) = results.gateways[0].faults
    assert fault.startswith("chat->chat/plain-large/1, not measured: it ended: ")
    assert fault.endswith("too much")


def test_a_run_ends_when_the_upstream_does(tools: Tools) -> None:
    with tools.upstream() as upstream:
        upstream.check()
        os.kill(upstream.pid, signal.SIGKILL)
        with pytest.raises(UpstreamEndedError, match="the upstream ended with status -9"):
            while True:
                upstream.check()


def test_an_interrupted_run_ends_whatever_it_has_started(tmp_path: Path, tools: Tools) -> None:
    command = [sys.executable, "-m", "bench", "--only=toolglot", "--cases=chat->chat/plain/8", "--seconds=60"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = list(itertools.takewhile(lambda line: not line.startswith("1/3 "), process.stderr))
        assert process.poll() is None, "".join(told)
        assert concerned(tmp_path)
        process.send_signal(signal.SIGINT)
        assert "interrupted" in process.stderr.read()
    assert process.returncode == 1
    assert concerned(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def concerned(folder: Path) -> list[str]:
    """The processes that run in a folder, or with something from there."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and process.name != str(os.getpid()):
            with suppress(OSError):
                told = f"{(process / 'cwd').readlink()} {(process / 'cmdline').read_text()}"
                found += [told] if str(folder) in told else []
    return found
