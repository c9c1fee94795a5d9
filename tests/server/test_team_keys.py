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
from toolglot.config.schema import Config, TeamConfig, UpstreamConfig
from toolglot.server.startup import build_gateway
from toolglot.upstream.http_client import HttpTransport

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


@pytest.mark.parametrize(
    ("client", "name"),
    [("anthropic", "alias[1m]"), ("gemini", "models/alias"), ("ollama", "alias:latest"), ("openai_chat", "demo/demo")],
)
def test_what_clients_add_to_a_name_does_not_matter(site: Site, client: str, name: str) -> None:
    allowed = "demo/*" if "demo" in name else "alias"
    secret = site.create(f"added-{client}", "--model", allowed)
    assert ask(site.process, client, secret, model=name)[0] == 200


def test_an_addition_to_a_name_opens_no_other_model(site: Site) -> None:
    secret = site.create("suffix", "--model", "*:latest", "--model", "*]")
    for name in ("alias:latest", "alias[1m]"):
        assert ask(site.process, "openai_chat", secret, model=name)[0] == 403


@pytest.mark.parametrize("path", ["/debug/model?name=demo", "/v1/models/demo"])
def test_a_key_learns_nothing_about_models_that_it_may_not_use(site: Site, path: str) -> None:
    secret = site.create(f"curious-{path.count('/')}", "--model", "alias")
    authorization = {"authorization": f"Bearer {secret}"}
    assert site.process.call("GET", path, headers=authorization).status == 403
    assert site.process.call("GET", path.replace("demo", "alias"), headers=authorization).status == 200


@pytest.mark.parametrize("after", ["", "[team]\nenabled = false\n"], ids=["removed", "off"])
def test_a_team_that_a_reload_turns_off_stays_until_a_restart(tmp_path: Path, after: str) -> None:
    """Otherwise everyone could use the models, without a key, until somebody restarts the gateway."""
    before = CONFIG.format(workers=1, folder=tmp_path)
    with serving(tmp_path, before) as process:
        site = Site(tmp_path, process)
        secret = site.create("anna")
        beginning, end = before.index("[team]"), before.index("[store]")
        (tmp_path / "toolglot.toml").write_text(before[:beginning] + after + before[end:])
        process.until_logged("a change of team requires a restart")
        assert ask(process, "openai_chat", "")[0] == 401
        assert ask(process, "openai_chat", secret)[0] == 200


def test_an_upstream_that_stores_responses_does_not_mix_those_of_a_teams_keys() -> None:
    """It cannot distinguish the keys, so that one could read and continue the conversations of another."""
    upstreams = {"openai": UpstreamConfig(base_url="http://127.0.0.1:9", vendor="openai", dialect="openai_responses")}
    transport = HttpTransport(1, {})
    for enabled in (False, True):
        config = Config(upstreams=upstreams, team=TeamConfig(enabled=enabled), discover=False)
        assert build_gateway(config, transport).upstreams["openai"].keeps_state is not enabled
