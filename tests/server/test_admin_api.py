"""The admin API: its own credentials, what it does with keys, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.gateway import Answer, Running, gateway
from tests.waiting import until
from toolglot.config.schema import PriceConfig, ServerConfig, TeamConfig
from toolglot.server.admin_routes import _HANDLERS
from toolglot.server.routes import ROUTES

ADMIN, VIEWER, STATIC = "admin-credential-1234", "viewer-credential-1234", "configured-key-1234"


class Api:
    def __init__(self, running: Running) -> None:
        self.running = running

    def call(self, method: str, path: str, body: Any = None, key: str | None = ADMIN) -> Answer:
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return self.running.call(method, path, data, {**headers, "content-type": "application/json"})

    def create(self, name: str, **fields: Any) -> dict[str, Any]:
        answer = self.call("POST", "/admin/v1/keys", {"name": name, **fields})
        assert answer.status == 201, answer.body
        created: dict[str, Any] = answer.json()
        return created

    def ask(self, secret: str, model: str = "demo") -> int:
        return self.running.ask("openai_chat", model=model, headers={"authorization": f"Bearer {secret}"}).status


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    file = tmp_path_factory.mktemp("team") / "team.sqlite3"
    team = TeamConfig(enabled=True, database=str(file), admins={"ops": ADMIN}, viewers={"board": VIEWER})
    prices = {"demo": PriceConfig(input=1, output=10)}
    with gateway(team=team, server=ServerConfig(keys=(STATIC,)), prices=prices) as running:
        yield Api(running)


ROWS: list[tuple[str, str, str]] = [
    (route.method, route.path, route.role) for route in ROUTES if route.path.startswith("/admin/")
]


def test_every_route_has_a_handler() -> None:
    assert {(method, path) for method, path, _ in ROWS} == set(_HANDLERS)


@pytest.mark.parametrize(("method", "path", "role"), ROWS, ids=[f"{method} {path}" for method, path, _ in ROWS])
def test_only_its_own_credentials_open_a_route(api: Api, method: str, path: str, role: str) -> None:
    client = api.create(f"c{ROWS.index((method, path, role))}")["secret"]
    body: Any = {} if method in ("POST", "PATCH") else None
    path = path.replace("{id}", "nothing")
    for key in (None, "wrong", client, STATIC):
        assert api.call(method, path, body, key).status == 401
    assert (api.call(method, path, body, VIEWER).status == 403) == (role == "admin")
    assert api.call(method, path, body).status not in (401, 403)


@pytest.mark.parametrize("key", [ADMIN, VIEWER])
def test_a_credential_of_the_admin_api_is_no_key_for_models(api: Api, key: str) -> None:
    """LiteLLM's master key skips every limit (buttercup #550)."""
    assert api.ask(key) == 401


def test_metrics_are_for_operators_and_not_for_clients(api: Api) -> None:
    client = api.create("curious")["secret"]
    assert api.call("GET", "/metrics", key=client).status == 401
    assert [api.call("GET", "/metrics", key=key).status for key in (ADMIN, VIEWER, STATIC)] == [200, 200, 200]


def test_a_key_lives_from_its_creation_to_its_revocation(api: Api) -> None:
    created = api.create("anna", owner="Anna", models=["demo"], usd_per_day=2.5, expires="2099-01-01T00:00:00Z")
    assert created["secret"].startswith(created["secrets"][0]["prefix"] if created.get("secrets") else "tg_")
    assert api.ask(created["secret"]) == 200
    shown = api.call("GET", "/admin/v1/keys/anna", key=VIEWER).json()
    assert "secret" not in shown
    assert (shown["owner"], shown["models"], shown["usd_per_day"]) == ("Anna", ["demo"], 2.5)
    assert shown["expires"] == "2099-01-01T00:00:00Z"
    changed = api.call("PATCH", f"/admin/v1/keys/{created['id']}", {"usd_per_day": None, "tags": ["a"]}).json()
    assert (changed["usd_per_day"], changed["tags"], changed["models"]) == (None, ["a"], ["demo"])
    rotated = api.call("POST", "/admin/v1/keys/anna/rotate", {"overlap": 0}).json()
    assert api.ask(rotated["secret"]) == 200
    assert api.call("POST", "/admin/v1/keys/anna/revoke").json()["status"] == "revoked"
    assert api.call("POST", "/admin/v1/keys/anna/resume").status == 409


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "keys", b"{", 400, "not JSON"),
        ("POST", "keys", [], 400, "object"),
        ("POST", "keys", {}, 400, "name"),
        ("POST", "keys", {"name": "a b"}, 400, "letters"),
        ("POST", "keys", {"name": "x", "usd_per_dya": 1}, 400, "usd_per_dya"),
        ("POST", "keys", {"name": "x", "usd_per_day": -1}, 400, "usd_per_day"),
        ("POST", "keys", {"name": "x", "usd_per_day": 1e300}, 400, "usd_per_day"),
        ("POST", "keys", {"name": "x", "requests_per_minute": 1.5}, 400, "requests_per_minute"),
        ("POST", "keys", {"name": "x", "expires": "tomorrow"}, 400, "expires"),
        ("POST", "keys", {"name": "x", "expires": "2001-01-01T00:00:00Z"}, 400, "in the past"),
        ("POST", "keys", {"name": "x", "expires": "2050-01-01T00:00:00"}, 400, "time zone"),
        ("PATCH", "keys/taken", {"expires": "9999-12-31T23:59:59-14:00"}, 400, "year"),
        ("PATCH", "keys/taken", {"expires": "0001-01-01T00:00:00+14:00"}, 400, "year"),
        ("POST", "keys", {"name": "x", "models": "gpt"}, 400, "models"),
        ("POST", "keys", {"name": "taken"}, 409, "already"),
        ("PATCH", "keys/taken", {"status": "active"}, 400, "status"),
        ("PATCH", "keys/nobody", {}, 404, "no key"),
        ("POST", "keys/nobody/revoke", {}, 404, "no key"),
        ("POST", "keys/taken/rotate", {"overlap": -1}, 400, "overlap"),
        ("GET", "keys?limit=0", None, 400, "limit"),
        ("GET", "keys?limit=many", None, 400, "limit"),
        pytest.param("GET", f"keys?limit={'9' * 5000}", None, 400, "limit", id="a limit of 5000 digits"),
        ("GET", "spend?by=colour", None, 400, "by"),
        ("GET", "spend?since=yesterday", None, 400, "since"),
        ("DELETE", "keys/taken", None, 405, "takes"),
    ],
)
def test_bad_input_is_refused_with_what_is_wrong(
    api: Api, method: str, path: str, body: Any, status: int, words: str
) -> None:
    if status == 409 or "taken" in path:
        api.call("POST", "/admin/v1/keys", {"name": "taken"})
    answer = api.call(method, f"/admin/v1/{path}", body)
    assert answer.status == status, answer.body
    assert words in answer.json()["error"]["message"]


def test_keys_are_listed_in_pages(api: Api) -> None:
    for number in range(3):
        api.create(f"page{number}")
    names: list[str] = []
    after = "page"
    while after:
        page = api.call("GET", f"/admin/v1/keys?limit=2&after={after}").json()
        names += [key["name"] for key in page["keys"]]
        after = page["next"]
    assert [name for name in names if name.startswith("page")] == ["page0", "page1", "page2"]
    assert len(names) == len(set(names))


def test_the_audit_log_names_who_did_what_and_holds_no_secret(api: Api) -> None:
    secret = api.create("audited")["secret"]
    api.call("PATCH", "/admin/v1/keys/audited", {"owner": "Anna"})
    answer = api.call("GET", "/admin/v1/audit?limit=2", key=VIEWER)
    changed, created = answer.json()["entries"]
    assert (changed["actor"], changed["action"], created["action"]) == ("admin:ops", "key.change", "key.create")
    assert (changed["before"]["owner"], changed["after"]["owner"]) == ("", "Anna")
    assert secret.rpartition("_")[2].encode() not in answer.body
    older = api.call("GET", f"/admin/v1/audit?limit=1&before={changed['seq']}").json()["entries"]
    assert older[0]["seq"] == created["seq"]


def test_spend_is_reported_by_its_groups(api: Api) -> None:
    secret = api.create("spender")["secret"]
    assert api.ask(secret) == 200
    team = api.running.service.team
    assert team is not None
    own = api.call("GET", "/v1/key", key=secret).json()
    assert own["spent"]["day"]["usd"] > 0
    assert own["spent"]["day"]["renews"] > "20"
    assert "id" not in own

    def rows() -> list[dict[str, Any]]:
        found = api.call("GET", "/admin/v1/spend?by=key,model&key=spender", key=VIEWER).json()
        spend: list[dict[str, Any]] = found["spend"]
        return spend

    (row,) = until(lambda: rows() or None, "spend")
    assert (row["key"], row["model"], row["requests"]) == ("spender", "demo", 1)
    assert row["cost_usd"] == pytest.approx(own["spent"]["day"]["usd"])


def test_a_key_of_the_configuration_has_no_limits_to_show(api: Api) -> None:
    assert api.call("GET", "/v1/key", key=STATIC).status == 404


def test_without_a_team_there_is_no_admin_api(tmp_path: Path) -> None:
    with gateway() as running:
        assert {running.call("GET", f"/admin/v1/{path}").status for path in ("keys", "spend", "audit")} <= {401, 404}
        assert running.call("GET", "/metrics").status == 200
