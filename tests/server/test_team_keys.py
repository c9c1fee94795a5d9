"""Keys of a team at a running gateway, with one worker and with two."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from tests.cli.run import run
from tests.server.gateway import CLIENTS, Asking
from tests.server.process import Process, serving
from tests.waiting import until

CONFIG = """
[server]
workers = {workers}

[team]
enabled = true
database = "{folder}/team.sqlite3"
pepper = "salt"

[store]
path = "none"

[upstreams.demo]

[models.alias]
upstream = "demo"
model = "demo"
"""


class Site:
    def __init__(self, folder: Path, process: Process) -> None:
        self._file = folder / "toolglot.toml"
        self.process = process

    def keys(self, *arguments: str) -> str:
        done = run("keys", *arguments, "--config", str(self._file))
        assert done.exit_code == 0, done.output
        return done.stdout

    def create(self, name: str, *options: str) -> str:
        return self.keys("create", name, *options).split()[0]


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with serving(folder, CONFIG.format(workers=request.param, folder=folder)) as process:
        yield Site(folder, process)


def ask(asking: Asking, client: str, secret: str, model: str = "alias") -> tuple[int, bytes]:
    answer = asking.ask(client, model=model, headers={"x-api-key": secret})
    return answer.status, answer.body


@pytest.mark.parametrize("client", CLIENTS)
def test_a_key_is_asked_for_and_its_models_are_enforced_for_every_dialect(site: Site, client: str) -> None:
    secret = site.create(f"of-{client}", "--model", "ali*")
    assert ask(site.process, client, "tg_wrong")[0] == 401
    for _ in range(3):  # looked up, known, with a known head
        status, body = ask(site.process, client, secret)
        assert status == 200, body
    status, body = ask(site.process, client, secret, model="demo")
    assert status == 403
    assert f"The key of-{client} may not use the model 'demo'" in json.dumps(json.loads(body))


def test_a_revoked_key_stops_working_within_a_second_on_every_connection(site: Site) -> None:
    secret = site.create("gone")
    for _ in range(8):
        assert ask(site.process, "openai_chat", secret)[0] == 200
    site.keys("revoke", "gone")
    revoked = monotonic()
    until(lambda: all(ask(site.process, "openai_chat", secret)[0] == 401 for _ in range(8)), "refusal")
    assert monotonic() - revoked < 3  # a second, and what a busy machine adds
    assert b"The key gone is revoked" in ask(site.process, "anthropic", secret)[1]


def test_a_change_of_a_key_is_seen_by_requests_on_known_heads(site: Site) -> None:
    secret = site.create("changing", "--model", "alias")
    assert ask(site.process, "openai_chat", secret)[0] == 200
    site.keys("change", "changing", "--model", "other")
    until(lambda: ask(site.process, "openai_chat", secret)[0] == 403, "refusal")
    site.keys("change", "changing", "--model", "alias")
    until(lambda: ask(site.process, "openai_chat", secret)[0] == 200, "answer")


def test_the_list_of_models_has_only_those_that_the_key_may_use(site: Site) -> None:
    secret = site.create("lister", "--model", "alias")
    listed = site.process.call("GET", "/v1/models", headers={"authorization": f"Bearer {secret}"}).json()
    assert [model["id"] for model in listed["data"]] == ["alias"]


def test_a_key_that_may_not_use_an_upstream_is_told_so(site: Site) -> None:
    secret = site.create("elsewhere", "--upstream", "other")
    status, body = ask(site.process, "openai_chat", secret)
    assert status == 403
    assert b"may not use the upstream 'demo'" in body
