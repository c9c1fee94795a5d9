"""A file that was damaged anywhere: every failure is a `StoreError`, when it is opened and when it is used."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.server.gateway import gateway
from tests.store.turns import turn
from toolglot.config.schema import StoreConfig
from toolglot.server.run import _close_store, _open_store
from toolglot.store import (
    StoredConversation,
    StoredItem,
    StoredReplay,
    StoredRounds,
    StoredState,
    StoreError,
    ToolVerdict,
)
from toolglot.store.sqlite import MEMORY, SqliteStore

NAMES = (b"threads", b"responses", b"states", b"totals", b"conversations", b"rounds", b"replays", b"verdicts")
STATE = StoredState(owner="me", issuer="i", calls="c", hash="h", value=b"{}")
REPLAY = StoredReplay(owner="me", upstream="u", hash="h", conversation="c", value=b"{}")
VERDICT = ToolVerdict(upstream="u", model="m", tools="text", found=1.0, until=9e9)

CALLS: tuple[Callable[[SqliteStore], Awaitable[object]], ...] = (
    lambda store: store.turn("me", "resp_1"),
    lambda store: store.history("me", "resp_1", max_bytes=1 << 20, max_turns=9),
    lambda store: store.save(turn("resp_2", previous="resp_1")),
    lambda store: store.holders("me", ["msg_1"]),
    lambda store: store.conversation("me", "conv_1"),
    lambda store: store.conversation_history("me", "conv_1", max_bytes=1 << 20),
    lambda store: store.add_items("me", "conv_1", [StoredItem("msg_2", b"{}")]),
    lambda store: store.page("me", "conv_1", after=None, limit=9, descending=True),
    lambda store: store.keep_state(STATE),
    lambda store: store.states("me", "i", ["c"]),
    lambda store: store.keep_replay(REPLAY),
    lambda store: store.replay("me", "u", ["h"]),
    lambda store: store.keep_rounds("me", StoredRounds("h", b"{}")),
    lambda store: store.rounds("me", ["h"]),
    lambda store: store.remember(VERDICT),
    lambda store: store.verdict("u", "m"),
    lambda store: store.size(),
    lambda store: store.delete_turn("me", "resp_1"),
    lambda store: store.delete_conversation("me", "conv_1"),
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "store.sqlite3"

    async def fill() -> None:
        store = SqliteStore(path)
        await store.save(turn("resp_1"), output_ids=["msg_1"])
        await store.create_conversation(
            StoredConversation(id="conv_1", owner="me", created=1.0), [StoredItem("msg_1", b"{}")]
        )
        await store.keep_state(STATE)
        await store.keep_replay(REPLAY)
        await store.close()

    asyncio.run(fill())
    return path.read_bytes()


async def use(path: Path) -> None:
    store = SqliteStore(path)
    try:
        for call in CALLS:
            try:
                await call(store)
            except StoreError:
                continue
        store.may_have_states("me", "i")
    finally:
        await store.close()


@pytest.mark.parametrize("seed", range(4))
def test_no_damage_raises_anything_but_a_store_error(tmp_path: Path, sound: bytes, seed: int) -> None:
    chance = random.Random(seed)
    names = [place + 1 for name in NAMES for place in all_places(sound, name)]
    places = [*names, *(chance.randrange(8192) for _ in range(40)), *(chance.randrange(len(sound)) for _ in range(40))]
    for number, place in enumerate(places):
        damaged = bytearray(sound)
        damaged[place] = chance.choice([0, 0x80, 0xFF, ord('"'), damaged[place] ^ 1])
        path = tmp_path / f"{number}.sqlite3"
        path.write_bytes(damaged)
        try:
            asyncio.run(use(path))
        except StoreError as error:
            assert str(path) in str(error)  # whoever opens it is told which file


def all_places(data: bytes, word: bytes) -> list[int]:
    places, place = [], data.find(word)
    while place >= 0:
        places.append(place)
        place = data.find(word, place + 1)
    return places


def test_a_store_that_cannot_be_closed_is_told_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(SqliteStore):
        async def close(self) -> None:
            await super().close()
            raise StoreError("full", "the disk refuses to read or write")

    async def close() -> None:
        await _close_store(Stuck(MEMORY))

    asyncio.run(close())
    assert caplog.messages == ["the store could not be closed: the disk refuses to read or write"]


def test_a_gateway_starts_without_a_store_whose_schema_is_damaged(
    tmp_path: Path, sound: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.sqlite3"
    path.write_bytes(sound.replace(b"CREATE TABLE threads", b"CREATE TABLE thr\xffads", 1))
    with gateway() as running, caplog.at_level(logging.WARNING):
        _open_store(running.service, StoreConfig(path=str(path)), {})
        assert running.service.store is None
        assert running.service.store_failure == f"{path}: the file is damaged"
        assert running.ask("openai_responses", model="demo").status == 200
