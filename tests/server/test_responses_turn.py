"""Answers that could not be stored: they are good, come in time, and do not say that they are stored."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.server.responses_turns import body, message, response
from tests.store.turns import using
from tests.waiting import FAILSAFE
from toolglot.gateway.features import responses_turn
from toolglot.gateway.features.responses_turn import ResponsesTurn
from toolglot.store.sqlite import SqliteStore


async def answered(store: SqliteStore) -> dict[str, object]:
    begun, _ = await ResponsesTurn.begin("openai_responses", body(input="Hi"), store, "me", upstream_keeps_state=False)
    assert begun.stores_whole
    told: dict[str, object] = json.loads(await begun.store_whole(begun.rewrite(response(message("Hello")))))
    return told


def test_a_stored_answer_says_so(tmp_path: Path) -> None:
    assert using(tmp_path / "store.sqlite3", answered)["store"] is True


def test_an_answer_that_a_locked_store_could_not_keep_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "store.sqlite3"

    async def work(store: SqliteStore) -> dict[str, object]:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            return await answered(store)
        finally:
            other.close()

    with caplog.at_level(logging.WARNING):
        told = using(path, work, busy_timeout=0.01)
    expected = json.loads(response(message("Hello")))
    assert told == {**expected, "id": told["id"], "store": False}
    why = "another process holds the store's file"
    assert caplog.messages == [f"the response {told['id']} could not be stored: {why}"]


def test_an_answer_does_not_wait_for_a_disk_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(responses_turn, "STORE_TIMEOUT", 0.05)
    hanging = threading.Event()

    async def work(store: SqliteStore) -> dict[str, object]:
        store._worker.later(partial(hanging.wait, 30))
        try:
            async with asyncio.timeout(FAILSAFE):
                return await answered(store)
        finally:
            hanging.set()

    with caplog.at_level(logging.WARNING):
        assert using(tmp_path / "store.sqlite3", work)["store"] is False
    assert "has not answered for 0.05 seconds" in caplog.text
