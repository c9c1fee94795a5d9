"""Where the store's file is, who may read it, and which files are refused."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.turns import turn, using
from toolglot.store import StoreError
from toolglot.store.schema import APPLICATION_ID, MIGRATIONS
from toolglot.store.sqlite import MEMORY, SqliteStore, default_path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "store.sqlite3"


def test_the_file_and_its_folder_are_for_the_user_alone(path: Path) -> None:
    async def modes(store: SqliteStore) -> list[int]:
        await store.save(turn("resp_1"))
        return [stat.S_IMODE(file.stat().st_mode) for file in (path.parent, *sorted(path.parent.iterdir()))]

    previous = os.umask(0)
    try:
        assert using(path, modes) == [0o700, 0o600, 0o600, 0o600]
    finally:
        os.umask(previous)


def test_a_file_that_others_may_read_is_made_private(path: Path) -> None:
    using(path, lambda store: store.size())
    path.chmod(0o644)
    using(path, lambda store: store.size())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "/home/me/.local/state/toolglot/toolglot.sqlite3"),
        ({"XDG_STATE_HOME": "/var/state"}, "/var/state/toolglot/toolglot.sqlite3"),
        ({"XDG_STATE_HOME": "state"}, "/home/me/.local/state/toolglot/toolglot.sqlite3"),
        ({"XDG_STATE_HOME": ""}, "/home/me/.local/state/toolglot/toolglot.sqlite3"),
    ],
)
def test_the_default_path_follows_the_xdg_specification(environment: dict[str, str], expected: str) -> None:
    assert default_path(environment, Path("/home/me")) == Path(expected)


def test_a_file_of_a_later_version_is_refused(path: Path) -> None:
    using(path, lambda store: store.save(turn("resp_1")))
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    other.close()
    with pytest.raises(StoreError, match="a later version of toolglot wrote the file") as raised:
        SqliteStore(path)
    assert raised.value.failure == "newer"
    assert str(path) in str(raised.value)


def test_another_programs_file_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (data)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program") as raised:
        SqliteStore(path)
    assert raised.value.failure == "foreign"
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is not a database at all, but some text of mine\n" * 100)
    with pytest.raises(StoreError, match="not an SQLite database"):
        SqliteStore(path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError) as raised:
        SqliteStore(tmp_path / "file" / "store.sqlite3")
    assert raised.value.failure == "failed"


def test_the_file_says_whose_it_is(path: Path) -> None:
    using(path, lambda store: store.size())
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_store_in_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def work(store: SqliteStore) -> None:
        await store.save(turn("resp_1"))
        assert await store.turn("me", "resp_1") == turn("resp_1")

    using(MEMORY, work)
    assert list(tmp_path.iterdir()) == []


OPENED_BY_MANY = """
import asyncio, os, sys
from toolglot.store.sqlite import SqliteStore

async def use(path):
    store = SqliteStore(path)
    await store.size()
    await store.close()

for number in range(6):
    waits, begin = os.pipe()
    children = []
    for _ in range(6):
        child = os.fork()
        if not child:
            os.close(begin)
            os.read(waits, 1)  # its end: all begin at once
            try:
                asyncio.run(use(f"{sys.argv[1]}/{number}.sqlite3"))
            except BaseException as error:
                print(error, flush=True)
            os._exit(0)
        children.append(child)
    os.close(waits)
    os.close(begin)
    for child in children:
        os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="makes many processes")
def test_many_processes_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPENED_BY_MANY, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
