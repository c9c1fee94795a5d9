"""Whose a stored conversation is: the key's that stored it, and not its place's in the configuration."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.server.gateway import Running, gateway
from toolglot.config.assemble import assemble
from toolglot.config.schema import Config, ServerConfig
from toolglot.gateway.gateway import Gateway
from toolglot.store.sqlite import SqliteStore

ALICE, BOB, CAROL = "tg-alice-1f0c9d", "tg-bob-77aa31", "tg-carol-5e5e5e"


def asks(running: Running, key: str) -> str:
    answer = running.ask("openai_responses", model="demo", headers={"x-api-key": key})
    assert answer.status == 200
    return str(answer.json()["id"])


def status(running: Running, key: str, path: str) -> int:
    return running.call("GET", path, headers={"x-api-key": key}).status


@pytest.mark.parametrize(
    ("keys", "readers"),
    [
        ((BOB, ALICE), {ALICE: 200, BOB: 404}),
        ((BOB,), {ALICE: 401, BOB: 404}),
        ((BOB, CAROL), {BOB: 404, CAROL: 404}),
        ((CAROL, BOB, ALICE), {ALICE: 200, BOB: 404, CAROL: 404}),
    ],
)
def test_after_a_restart_with_other_keys_everybody_has_their_own(
    tmp_path: Path, keys: tuple[str, ...], readers: dict[str, int]
) -> None:
    store = SqliteStore(tmp_path / "store.sqlite3")
    try:
        with gateway(server=ServerConfig(keys=(ALICE, BOB)), store=store) as running:
            name = asks(running, ALICE)
        with gateway(server=ServerConfig(keys=keys), store=store) as running:
            for path in (f"/v1/responses/{name}", f"/v1/responses/{name}/input_items"):
                assert {key: status(running, key, path) for key in readers} == readers
    finally:
        asyncio.run(store.close())
    for file in tmp_path.iterdir():
        assert ALICE.encode() not in file.read_bytes()


def test_receipts_stay_with_their_key_when_keys_are_loaded_again() -> None:
    with gateway(server=ServerConfig(keys=(ALICE, BOB))) as running:
        answer = running.ask("anthropic", model="demo", headers={"x-api-key": ALICE})
        running.receipt(answer, {"x-api-key": ALICE})
        path = f"/debug/receipts/{answer.headers['x-request-id']}"
        before = running.service.gateway
        server = ServerConfig(keys=(BOB, ALICE))
        config = assemble(Config(server=server, discover=False), {}).config
        running.service.gateway = Gateway(config, before.upstreams, before.router)
        assert (status(running, BOB, path), status(running, ALICE, path)) == (404, 200)
        listed = [
            running.call("GET", "/debug/receipts", headers={"x-api-key": key}).json()["receipts"]
            for key in (BOB, ALICE)
        ]
        assert [len(receipts) for receipts in listed] == [0, 1]
