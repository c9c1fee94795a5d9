"""Counters in a file: one limit for all processes of a machine, whatever happens to one of them."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.run import run
from tests.server.process import Process, serving
from tests.waiting import until
from toolglot.store import StoreError
from toolglot.team.counters import Demand, Exceeded, Hold, Spent
from toolglot.team.file_counters import FileCounters
from toolglot.team.keys import KeyLimits
from toolglot.team.limits import day_of

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()
LIMITS = KeyLimits(concurrent_requests=3, nano_usd_per_day=1000)


def take(counters: FileCounters, amount: int = 100) -> Hold:
    found = counters.reserve(Demand("k", LIMITS, amount, amount), NOW)
    assert isinstance(found, Hold), found
    return found


def refusal(counters: FileCounters) -> str:
    found = counters.reserve(Demand("k", LIMITS, 1, 1), NOW)
    assert isinstance(found, Exceeded), found
    return found.limit


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[FileCounters, FileCounters]]:
    """The counters of two processes."""
    made = FileCounters(tmp_path / "counters"), FileCounters(tmp_path / "counters")
    yield made
    for each in made:
        each.close()
    assert not list(tmp_path.glob("*.live"))


def test_two_processes_count_together(pair: tuple[FileCounters, FileCounters]) -> None:
    holds = [(each, take(each)) for each in (*pair, pair[0])]
    assert [refusal(each) for each in pair] == ["concurrent_requests"] * 2
    for counters, hold in holds:
        counters.settle(hold, Spent(400, 400))
    assert [each.spent("k", day_of(NOW)) for each in pair] == [Spent(1200, 1200)] * 2
    assert [refusal(each) for each in pair] == ["nano_usd_per_day"] * 2


KILLED = """
import sys, time
from pathlib import Path
from tests.team.test_file_counters import take
from toolglot.team.file_counters import FileCounters
counters = FileCounters(Path(sys.argv[1]))
for _ in range(3):
    take(counters)
print("taken", flush=True)
time.sleep(600)
"""


def test_what_a_killed_process_held_is_free_and_what_a_living_one_holds_is_not(tmp_path: Path) -> None:
    path = tmp_path / "counters"
    counters = FileCounters(path)
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"taken\n"
        assert refusal(counters) == "concurrent_requests"
        process.send_signal(signal.SIGKILL)
    counters._looked = 0.0
    hold = take(counters, 1000)
    assert hold.nano_usd == (1000, 0)
    counters.settle(hold, Spent(0, 0))
    assert counters.spent("k", day_of(NOW)) == Spent(0, 0)
    counters.close()


def test_a_file_that_is_busy_refuses_and_settles_later(pair: tuple[FileCounters, FileCounters], tmp_path: Path) -> None:
    hold = take(pair[0])
    other = sqlite3.connect(tmp_path / "counters", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError):
        take(pair[0])
    assert pair[0].check(hold, Spent(0, 0), costs_money=True, now=NOW) is None
    pair[0].settle(hold, Spent(50, 50))
    other.execute("ROLLBACK")
    other.close()
    pair[0].settle(take(pair[0]), Spent(1, 1))
    assert pair[1].spent("k", day_of(NOW)) == Spent(51, 51)


def test_a_damaged_file_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "counters"
    path.write_bytes(b"not a database" * 1000)
    counters = FileCounters(path)
    take(counters)
    counters.close()


CONFIG = """
[server]
workers = 2

[team]
enabled = true
database = "{folder}/team.sqlite3"

[store]
path = "none"

[upstreams.demo]
"""


class Site:
    def __init__(self, folder: Path, process: Process) -> None:
        self._file = folder / "toolglot.toml"
        self.process = process

    def cli(self, *arguments: str) -> str:
        done = run(*arguments, "--config", str(self._file))
        assert done.exit_code == 0, done.output
        return done.stdout

    def create(self, name: str, *options: str) -> str:
        return self.cli("keys", "create", name, *options).split()[0]

    def statuses(self, secret: str, requests: int) -> list[int]:
        """Each request on its own connection, which any worker may get."""

        def ask(_: int) -> int:
            return self.process.ask("openai_chat", model="demo", headers={"x-api-key": secret}).status

        with ThreadPoolExecutor(4) as threads:
            return list(threads.map(ask, range(requests)))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with serving(folder, CONFIG.format(folder=folder)) as process:
        yield Site(folder, process)


def test_two_workers_have_one_rate(site: Site) -> None:
    secret = site.create("rated", "--requests-per-minute", "10")
    statuses = site.statuses(secret, 40)
    assert 10 <= statuses.count(200) <= 11  # one more each six seconds
    assert statuses.count(429) == 40 - statuses.count(200)


def test_two_workers_have_one_budget(site: Site) -> None:
    probe = site.create("probe")
    assert site.statuses(probe, 1) == [200]
    rows = until(lambda: json.loads(site.cli("spend", "--key", "probe", "--format", "json")), "usage")
    tokens = rows[0]["input_tokens"] + rows[0]["output_tokens"]
    secret = site.create("budgeted", "--tokens-per-day", str(10 * tokens))
    answered = sum(site.statuses(secret, 1)[0] == 200 for _ in range(20))
    assert answered == 10
