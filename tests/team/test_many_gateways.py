"""Several gateways with one PostgreSQL database: as processes, and with the servers' failures."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from signal import SIGKILL
from time import monotonic

import pytest

from tests.cli.run import run
from tests.server.process import Process, serving
from tests.team.servers import Postgres, Redis, Server
from tests.waiting import FAILSAFE, until

CONFIG = """
[team]
enabled = true
database = "{database}"
spool = "{folder}/spool"
pepper = "salt"
admins = {{ ops = "admin-credential-1234" }}

[store]
path = "none"

[upstreams.demo]

[prices."demo"]
input = 1
output = 10
"""
ADMIN = {"authorization": "Bearer admin-credential-1234"}


class Fleet:
    """Gateways with one database."""

    def __init__(self, folder: Path, config: str, size: int, resources: ExitStack) -> None:
        self._folder, self._config, self._resources = folder, config, resources
        self.gateways = [self.start(f"g{number}") for number in range(size)]

    def start(self, name: str) -> Process:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return self._resources.enter_context(serving(folder, self._config.format(folder=folder)))

    def cli(self, *arguments: str) -> str:
        done = run(*arguments, "--config", str(self._folder / "g0" / "toolglot.toml"))
        assert done.exit_code == 0, done.output
        return done.stdout

    def create(self, name: str, *options: str) -> str:
        return self.cli("keys", "create", name, *options).split()[0]

    def requests(self, name: str) -> int:
        """Answers that the database has of a key."""
        rows = json.loads(self.cli("spend", "--key", name, "--format", "json"))
        return sum(row["requests"] for row in rows)


@contextmanager
def fleet(folder: Path, config: str, size: int) -> Iterator[Fleet]:
    with ExitStack() as resources:
        yield Fleet(folder, config, size, resources)


def status_of(gateway: Process, secret: str) -> int:
    return gateway.ask("openai_chat", model="demo", headers={"x-api-key": secret}).status


@pytest.fixture(scope="module")
def pair(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    config = CONFIG.replace("{database}", postgres.create_database())
    with fleet(tmp_path_factory.mktemp("pair"), config, 2) as gateways:
        yield gateways


def test_a_key_works_at_every_gateway_and_stops_at_all_within_a_second(pair: Fleet) -> None:
    secret = pair.create("anna")
    for gateway in pair.gateways:
        assert status_of(gateway, secret) == 200
    pair.cli("keys", "revoke", "anna")
    revoked = monotonic()
    for gateway in pair.gateways:
        until(lambda gateway=gateway: status_of(gateway, secret) == 401, "refusal")  # type: ignore[misc]
    assert monotonic() - revoked < 3  # a second, and what a busy machine adds


def test_the_admin_api_of_one_gateway_changes_keys_of_all(pair: Fleet) -> None:
    first, second = pair.gateways
    created = first.call("POST", "/admin/v1/keys", json.dumps({"name": "berta"}).encode(), ADMIN).json()
    assert status_of(second, created["secret"]) == 200
    taken = second.call("POST", "/admin/v1/keys", json.dumps({"name": "berta"}).encode(), ADMIN)
    assert taken.status == 409
    assert second.call("POST", "/admin/v1/keys/berta/suspend", b"", ADMIN).status == 200
    until(lambda: status_of(first, created["secret"]) == 401, "refusal")
    audit = first.call("GET", "/admin/v1/audit", headers=ADMIN).json()["entries"]
    assert [entry["action"] for entry in audit[:2]] == ["key.suspend", "key.create"]


def test_the_spend_of_all_gateways_is_one_sum(pair: Fleet) -> None:
    secret = pair.create("carl")
    for gateway in pair.gateways * 3:
        assert status_of(gateway, secret) == 200
    until(lambda: pair.requests("carl") == 6, "usage")
    for gateway in pair.gateways:
        rows = gateway.call("GET", "/admin/v1/spend?key=carl", headers=ADMIN).json()["spend"]
        assert [row["requests"] for row in rows] == [6]
        assert rows[0]["cost_usd"] > 0


OUTAGES: dict[str, Callable[[Server], AbstractContextManager[None]]] = {
    "stopped": lambda server: server.stopped(),
    "paused": lambda server: server.paused(),
}


@pytest.mark.parametrize("outage", OUTAGES)
def test_without_the_database_known_keys_go_on_and_no_usage_is_lost(
    pair: Fleet, postgres: Postgres, outage: str
) -> None:
    known, unknown = pair.create(f"known-{outage}"), pair.create(f"unknown-{outage}")
    for gateway in pair.gateways:
        assert status_of(gateway, known) == 200
    with OUTAGES[outage](postgres):
        for gateway in pair.gateways:
            for _ in range(5):
                assert status_of(gateway, known) == 200
            refused = gateway.ask("openai_chat", model="demo", headers={"x-api-key": unknown})
            assert (refused.status, refused.headers["retry-after"]) == (503, "2")
            created = gateway.call("POST", "/admin/v1/keys", b'{"name": "nope"}', ADMIN)
            assert created.status == 503
    for gateway in pair.gateways:
        until(lambda gateway=gateway: status_of(gateway, unknown) == 200, "answer")  # type: ignore[misc]
    until(lambda: pair.requests(f"known-{outage}") == 12, "usage")
    assert pair.requests(f"known-{outage}") == 12


def test_a_gateway_that_is_killed_while_the_database_is_away_loses_no_usage(postgres: Postgres, tmp_path: Path) -> None:
    config = CONFIG.replace("{database}", postgres.create_database())
    with fleet(tmp_path, config, 1) as site:
        secret = site.create("anna")
        assert status_of(site.gateways[0], secret) == 200
        with postgres.stopped():
            for _ in range(5):
                assert status_of(site.gateways[0], secret) == 200
            site.gateways[0].signal(SIGKILL)
            site.gateways[0].wait()
        site.start("g0")
        until(lambda: site.requests("anna") == 6, "usage")


@pytest.fixture(scope="module")
def limited(postgres: Postgres, redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two gateways that share their limits, too."""
    redis.query("FLUSHALL")  # other tests have made gateways of other times
    config = CONFIG.replace("{database}", postgres.create_database())
    config = config.replace("[team]", f'[team]\nlimits = "{redis.url}"')
    with fleet(tmp_path_factory.mktemp("limited"), config, 2) as gateways:
        yield gateways


def accepted(gateways: list[Process], secret: str, requests: int) -> tuple[int, float]:
    """How many of so many requests are answered, by each gateway in turn, and how many seconds that takes."""
    started = monotonic()
    statuses = [status_of(gateways[number % len(gateways)], secret) for number in range(requests)]
    assert set(statuses) <= {200, 429}
    return statuses.count(200), monotonic() - started


def test_a_rate_is_one_for_all_gateways(limited: Fleet) -> None:
    """LiteLLM #40291: limit times replicas."""
    secret = limited.create("rated", "--requests-per-minute", "60")
    answered, seconds = accepted(limited.gateways, secret, 100)
    assert 60 <= answered <= 60 + seconds + 1  # one more each second


def test_a_budget_is_one_for_all_gateways_and_is_charged_exactly(limited: Fleet) -> None:
    probe = limited.create("probe")
    assert status_of(limited.gateways[0], probe) == 200
    until(lambda: limited.requests("probe"), "usage")
    (row,) = json.loads(limited.cli("spend", "--key", "probe", "--format", "json"))
    tokens = row["input_tokens"] + row["output_tokens"]
    secret = limited.create("budgeted", "--tokens-per-day", str(10 * tokens))
    answered, _ = accepted(limited.gateways, secret, 20)
    assert answered == 10
    own = [each.call("GET", "/v1/key", headers={"x-api-key": secret}).json() for each in limited.gateways]
    assert [each["spent"]["day"]["tokens"] for each in own] == [10 * tokens] * 2


@pytest.mark.parametrize("outage", OUTAGES)
def test_without_redis_each_gateway_allows_its_share_and_they_count_together_again_after_it(
    limited: Fleet, redis: Redis, outage: str
) -> None:
    """LiteLLM #35533: the full limit at each replica."""
    secret = limited.create(f"shared-{outage}", "--requests-per-minute", "40")
    for gateway in limited.gateways:
        assert status_of(gateway, limited.create(f"other-{gateway.port}-{outage}")) == 200
    with OUTAGES[outage](redis):
        for gateway in limited.gateways:
            answered, seconds = accepted([gateway], secret, 30)
            assert 20 <= answered <= 20 + seconds + 1
            counted = gateway.call("GET", "/metrics", headers=ADMIN).body
            assert b"toolglot_local_limits_total" in counted
    for gateway in limited.gateways:
        gateway.until_logged("the shared limits are back", 1 + list(OUTAGES).index(outage))
    secret = limited.create(f"again-{outage}", "--requests-per-minute", "40")
    answered, seconds = accepted(limited.gateways, secret, 60)
    assert 40 <= answered <= 40 + seconds + 1


REQUEST = b'{"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}'


class Load:
    """Clients that ask one gateway after the other until it ends."""

    def __init__(self, gateways: list[Process], secret: str) -> None:
        self._gateways, self._secret = gateways, secret
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(3)]
        self.statuses: list[int] = []
        """0: the connection broke."""

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(FAILSAFE)

    def _ask(self, number: int) -> None:
        while not self._is_over.wait(0.005):
            number += 1
            port = self._gateways[number % len(self._gateways)].port
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=FAILSAFE)
            try:
                connection.request("POST", "/v1/chat/completions", REQUEST, {"x-api-key": self._secret})
                reply = connection.getresponse()
                reply.read()
                self.statuses.append(reply.status)
            except (OSError, http.client.HTTPException):
                self.statuses.append(0)
            finally:
                connection.close()

    def until_answered(self, more: int) -> None:
        """Wait for so many further answers."""
        before = len(self.statuses)
        until(lambda: self.statuses[before:].count(200) >= more, f"answers after {Counter(self.statuses)}")


def test_no_answer_is_lost_or_charged_twice_whatever_fails_under_load(
    postgres: Postgres, redis: Redis, tmp_path: Path
) -> None:
    config = CONFIG.replace("{database}", postgres.create_database())
    config = config.replace("[team]", f'[team]\nlimits = "{redis.url}"')
    redis.query("FLUSHALL")
    with fleet(tmp_path, config, 2) as site:
        secret = site.create("busy", "--tokens-per-month", "1000000000", "--concurrent-requests", "50")
        with Load(site.gateways, secret) as load:
            load.until_answered(100)
            with redis.stopped():
                load.until_answered(100)
            load.until_answered(50)
            with redis.paused():
                load.until_answered(100)
            with postgres.stopped():
                load.until_answered(100)
            load.until_answered(50)
            with postgres.paused():
                load.until_answered(100)
            with postgres.stopped():
                load.until_answered(50)
                site.gateways[1].signal(SIGKILL)
                load.until_answered(50)
            load.until_answered(50)
        site.start("g1")  # saves what the killed one had not saved
        answered, cut = load.statuses.count(200), load.statuses.count(0)
        assert set(load.statuses) <= {200, 0}
        until(lambda: site.requests("busy") >= answered, "usage of all answers")
        # Of a request whose connection broke, nobody knows whether it was answered.
        assert answered <= site.requests("busy") <= answered + cut
        (row,) = json.loads(site.cli("spend", "--key", "busy", "--format", "json"))
        tokens = row["input_tokens"] + row["output_tokens"]

        def is_counted() -> bool:
            shown = site.gateways[0].call("GET", "/v1/key", headers={"x-api-key": secret}).json()
            return bool(shown["spent"]["month"]["tokens"] == tokens)

        until(is_counted, "counter that equals the ledger")  # once the leases of the killed gateway have ended
