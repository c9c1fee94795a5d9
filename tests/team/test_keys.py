"""Keys in the database: created, found by their secrets, changed, and noticed by other processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec import UNSET

from tests.team.places import Place, SqlitePlace
from toolglot.store import StoreError
from toolglot.team import sql
from toolglot.team.administration import AdministrationError, Administrator, KeyChanges, describe_key
from toolglot.team.database import TeamDatabase
from toolglot.team.directory import GRACE_SECONDS, KeyDirectory

T = TypeVar("T")
NOW = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class Office:
    """An administrator and the gateway's directory, each with a connection of its own, as two processes have."""

    def __init__(self, *databases: TeamDatabase) -> None:
        self._databases = databases
        self.clock = Clock()
        self.administrator = Administrator(self._databases[0], "test")
        self.directory = KeyDirectory(self._databases[1], now=self.clock)

    async def create(self, name: str = "anna", **fields: object) -> str:
        return (await self.administrator.create(name, KeyChanges(**fields), self.clock.now)).secret  # type: ignore[arg-type]

    async def accepts(self, secret: str) -> bool:
        """Whether a request with this secret is accepted, as the gateway finds it out."""
        if self.directory.needs_lookup(secret):
            await self.directory.look_up(secret)
        return self.directory.find(secret) is not None

    async def close(self) -> None:
        for database in self._databases:
            await database.close()


def in_office(place: Place, work: Callable[[Office], Awaitable[T]]) -> T:
    async def run() -> T:
        office = Office(await place.open(), await place.open())
        try:
            return await work(office)
        finally:
            await office.close()

    return asyncio.run(run())


def test_a_new_key_is_accepted_and_an_unknown_secret_is_not(place: Place) -> None:
    async def work(office: Office) -> None:
        secret = await office.create()
        assert await office.accepts(secret)
        assert not await office.accepts(secret[:-1] + ("a" if secret[-1] != "a" else "b"))
        assert not await office.accepts("sk-something-else")

    in_office(place, work)


def test_the_secret_is_not_in_the_database(place: Place) -> None:
    secret = in_office(place, lambda office: office.create())
    stored = place.dump()
    assert secret.encode() not in stored
    assert secret.rpartition("_")[2].encode() not in stored
    assert secret[:11].encode() in stored  # the prefix, for lists


def test_another_pepper_accepts_no_key(place: Place) -> None:
    async def work(office: Office) -> None:
        secret = await office.create()
        database = await place.open()
        other = KeyDirectory(database, pepper="p", now=office.clock)
        await other.look_up(secret)
        assert other.find(secret) is None
        await database.close()

    in_office(place, work)


def test_a_key_that_was_refused_before_it_was_created_is_accepted_after_the_next_poll(place: Place) -> None:
    async def work(office: Office) -> None:
        secret = await office.create()
        place.execute("UPDATE key_secrets SET hash = '-' || hash")
        assert not await office.accepts(secret)
        place.execute("UPDATE key_secrets SET hash = substr(hash, 2)")
        await office.create("other")  # any change
        assert not office.directory.needs_lookup(secret)
        await office.directory.refresh()
        assert await office.accepts(secret)

    in_office(place, work)


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda office: office.administrator.set_status("anna", "revoked", NOW), "The key anna is revoked"),
        (lambda office: office.administrator.set_status("anna", "suspended", NOW), "The key anna is suspended"),
    ],
    ids=["revoked", "suspended"],
)
def test_a_key_stops_working_with_the_next_poll(
    place: Place, act: Callable[[Office], Awaitable[object]], reason: str
) -> None:
    async def work(office: Office) -> None:
        secret = await office.create()
        assert await office.accepts(secret)
        account = office.directory.find(secret)
        assert account is not None
        await act(office)
        await office.directory.refresh()
        assert not office.directory.is_valid(account)  # also for connections that hold it
        assert not await office.accepts(secret)
        assert office.directory.explain(secret) == reason

    in_office(place, work)


def test_a_suspended_key_can_be_resumed_and_a_revoked_one_cannot(place: Place) -> None:
    async def work(office: Office) -> None:
        secret = await office.create()
        await office.administrator.set_status("anna", "suspended", NOW)
        await office.administrator.set_status("anna", "active", NOW)
        assert await office.accepts(secret)
        await office.administrator.set_status("anna", "revoked", NOW)
        for again in (
            office.administrator.set_status("anna", "active", NOW),
            office.administrator.rotate("anna", NOW),
        ):
            with pytest.raises(AdministrationError, match="revoked"):
                await again

    in_office(place, work)


def test_a_key_expires_without_a_look_at_the_database(place: Place) -> None:
    async def work(office: Office) -> None:
        secret = await office.create(expires=datetime.fromtimestamp(NOW + 60, UTC))
        assert await office.accepts(secret)
        office.clock.now = NOW + 60
        await office.directory.refresh()
        assert not await office.accepts(secret)
        assert office.directory.explain(secret) == "The key anna has expired"

    in_office(place, work)


def test_after_a_rotation_both_secrets_work_until_the_overlap_ends(place: Place) -> None:
    async def work(office: Office) -> None:
        old = await office.create()
        assert await office.accepts(old)
        new = (await office.administrator.rotate("anna", NOW, overlap=60)).secret
        await office.directory.refresh()
        assert await office.accepts(old)
        assert await office.accepts(new)
        owners = {account.owner for secret in (old, new) if (account := office.directory.find(secret)) is not None}
        assert len(owners) == 1  # what is stored for the key stays its own
        office.clock.now = NOW + 61
        await office.directory.refresh()
        assert not await office.accepts(old)
        assert await office.accepts(new)

    in_office(place, work)


def test_a_second_rotation_does_not_prolong_the_first_secret(place: Place) -> None:
    async def work(office: Office) -> None:
        old = await office.create()
        await office.administrator.rotate("anna", NOW, overlap=60)
        await office.administrator.rotate("anna", NOW + 50, overlap=60)
        office.clock.now = NOW + 61
        assert not await office.accepts(old)

    in_office(place, work)


def test_known_keys_work_for_a_while_when_the_database_is_away(place: Place) -> None:
    async def work(office: Office) -> None:
        secret = await office.create()
        assert await office.accepts(secret)
        office.clock.now = NOW + GRACE_SECONDS - 1
        assert office.directory.find(secret) is not None
        office.clock.now = NOW + GRACE_SECONDS + 1
        assert office.directory.find(secret) is None

    in_office(place, work)


def test_names_are_unique_and_cannot_be_mistaken_for_ids_or_configured_keys(place: Place) -> None:
    async def work(office: Office) -> None:
        await office.create()
        for name in ("anna", "key-1", "key_0123456789abcdef", "", "a b", "-x", "x" * 65):
            with pytest.raises(AdministrationError):
                await office.create(name)
        await office.create("berta")
        with pytest.raises(AdministrationError, match="already"):
            await office.administrator.change("berta", KeyChanges(name="anna"), NOW)

    in_office(place, work)


def test_changes_leave_other_fields_as_they_are_and_null_removes_a_limit(place: Place) -> None:
    async def work(office: Office) -> None:
        await office.create(models=("m*",), usd_per_day=0.1, tokens_per_day=5)
        changed = await office.administrator.change("anna", KeyChanges(owner="Anna", tokens_per_day=None), NOW)
        described = describe_key(changed)
        assert (described["models"], described["usd_per_day"], described["tokens_per_day"]) == (["m*"], 0.1, None)
        assert described["owner"] == "Anna"
        assert changed.policy.limits.nano_usd_per_day == 100_000_000

    in_office(place, work)


def test_every_change_is_in_the_audit_log_with_what_was_before_and_after(place: Place) -> None:
    async def work(office: Office) -> list[sql.AuditEntry]:
        secret = await office.create()
        await office.administrator.change("anna", KeyChanges(owner="Anna"), NOW)
        await office.administrator.rotate("anna", NOW)
        await office.administrator.set_status("anna", "suspended", NOW)
        await office.administrator.set_status("anna", "active", NOW)
        await office.administrator.set_status("anna", "revoked", NOW)
        entries = await office.administrator.database.run(sql.list_audit, writes=False)
        assert all(secret not in f"{entry.before}{entry.after}" for entry in entries)
        return entries

    entries = in_office(place, work)
    assert [entry.action.removeprefix("key.") for entry in reversed(entries)] == [
        "create",
        "change",
        "rotate",
        "suspend",
        "resume",
        "revoke",
    ]
    assert {entry.actor for entry in entries} == {"test"}
    changed = entries[-2]
    assert '"owner":""' in (changed.before or "")
    assert '"owner":"Anna"' in (changed.after or "")


def test_a_list_in_pages_has_every_key_once(place: Place) -> None:
    async def work(office: Office) -> list[str]:
        for number in range(7):
            await office.create(f"k{number}")
        names: list[str] = []
        while page := await office.administrator.list_keys(after=names[-1] if names else "", limit=3):
            names += [key.name for key, _ in page]
        return names

    assert in_office(place, work) == [f"k{number}" for number in range(7)]


def test_a_database_that_this_version_cannot_use_is_refused(place: Place) -> None:
    in_office(place, lambda office: office.create())
    place.execute("UPDATE meta SET value = 99 WHERE name = 'readable_from'")
    with pytest.raises(StoreError) as refused:
        in_office(place, lambda office: office.create())
    assert refused.value.failure == "newer"


OPENED = """
import sys
from pathlib import Path
from toolglot.team.database import SqliteDatabase
from toolglot.team.file_counters import FileCounters
print("ready", flush=True)
for folder in sys.stdin:
    SqliteDatabase(Path(folder.strip()) / "team.sqlite3")
    FileCounters(Path(folder.strip()) / "counters")
    print("opened", flush=True)
"""


def test_workers_that_open_new_files_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPENED]
    with ExitStack() as stack:
        workers = [
            stack.enter_context(subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for _ in range(3)
        ]

        def answers() -> list[str]:
            return [each.stdout.readline() for each in workers if each.stdout is not None]

        assert answers() == ["ready\n"] * 3
        for number in range(60):
            folder = tmp_path / str(number)
            folder.mkdir()
            for each in workers:
                assert each.stdin is not None
                each.stdin.write(f"{folder}\n")
                each.stdin.flush()
            assert answers() == ["opened\n"] * 3
        for each in workers:
            each.kill()


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    place = SqlitePlace(tmp_path)
    in_office(place, lambda office: office.create())
    place.execute("PRAGMA application_id = 1")
    with pytest.raises(StoreError) as refused:
        in_office(place, lambda office: office.create())
    assert refused.value.failure == "foreign"


def test_a_database_of_a_newer_version_that_older_ones_can_use_is_used(place: Place) -> None:
    in_office(place, lambda office: office.create())
    place.execute("UPDATE meta SET value = 99 WHERE name = 'schema_version'")
    key = in_office(place, lambda office: office.administrator.find("anna"))
    assert key.name == "anna"


def test_columns_of_a_newer_version_do_not_disturb_this_one(place: Place) -> None:
    """Two versions share a database during an upgrade. A newer one only adds tables, and columns with defaults."""

    async def work(office: Office) -> None:
        old = await office.create()
        assert await office.accepts(old)
        place.execute("ALTER TABLE keys ADD COLUMN color TEXT NOT NULL DEFAULT 'red'")
        place.execute("ALTER TABLE key_secrets ADD COLUMN color TEXT NOT NULL DEFAULT 'red'")
        new = (await office.administrator.rotate("anna", NOW)).secret
        await office.directory.refresh()
        assert await office.accepts(new)
        assert await office.accepts(old)

    in_office(place, work)


def test_changes_by_two_administrators_at_once_are_both_made(place: Place) -> None:
    async def work(office: Office) -> None:
        await office.create()
        other = Administrator(office.directory._database, "other")
        fields = {"owner": "Anna", "team": "Blue", "tags": ("a",), "models": ("m",), "tokens_per_day": 5}
        changes = [KeyChanges(**{name: value}) for name, value in fields.items()]  # type: ignore[arg-type]
        administrators = [office.administrator, other]
        for change in changes:
            await asyncio.gather(
                *(each.change("anna", change, NOW) for each in administrators),
                office.administrator.set_status("anna", "suspended", NOW),
                other.set_status("anna", "active", NOW),
            )
        await asyncio.gather(
            office.administrator.set_status("anna", "revoked", NOW), other.rotate("anna", NOW), return_exceptions=True
        )
        key = await office.administrator.find("anna")
        assert (key.status, key.owner, key.team, key.policy.limits.tokens_per_day) == ("revoked", "Anna", "Blue", 5)

    in_office(place, work)


def test_two_gateways_that_start_at_once_make_the_tables_once(place: Place) -> None:
    async def work() -> None:
        databases = await asyncio.gather(*(place.open() for _ in range(5)))
        assert await databases[0].run(sql.key_version, writes=False) == 0
        for database in databases:
            await database.close()

    asyncio.run(work())


def test_an_operation_that_fails_changes_nothing(place: Place) -> None:
    def failing() -> sql.Operation[None]:
        yield "UPDATE keys SET owner = 'x'", ()
        yield "SELECT nonsense", ()

    async def work(office: Office) -> str:
        await office.create()
        with pytest.raises(StoreError):
            await office.administrator.database.run(failing)
        return (await office.administrator.find("anna")).owner

    assert in_office(place, work) == ""


def test_what_is_not_set_is_no_change() -> None:
    assert all(getattr(KeyChanges(), name) is UNSET for name in KeyChanges.__struct_fields__)


def test_a_used_key_shows_when_it_was_used_last(place: Place) -> None:
    async def work(office: Office) -> int | None:
        await office.create()
        key = await office.administrator.find("anna")
        for at in (5, 9, 7):
            await office.administrator.database.run(partial(sql.touch_keys, [(key.id, at)]))
        return (await office.administrator.find("anna")).last_used

    assert in_office(place, work) == 9


@pytest.mark.parametrize("name", ["set_status", "rotate"])
def test_what_comes_just_after_a_revocation_does_not_undo_it(place: Place, name: str) -> None:
    async def work(office: Office) -> None:
        secret = await office.create()
        administrator = office.administrator
        later: dict[str, Callable[[], Awaitable[object]]] = {
            "set_status": lambda: administrator.set_status("anna", "active", NOW),
            "rotate": lambda: administrator.rotate("anna", NOW),
        }
        await administrator.set_status("anna", "suspended", NOW)
        _, refused = await asyncio.gather(
            administrator.set_status("anna", "revoked", NOW), later[name](), return_exceptions=True
        )
        assert isinstance(refused, AdministrationError)
        assert (await administrator.find("anna")).status == "revoked"
        assert not await office.accepts(secret)

    in_office(place, work)


def test_two_keys_that_are_renamed_at_once_do_not_get_the_same_name(place: Place) -> None:
    async def work(office: Office) -> None:
        await office.create("anna")
        await office.create("bert")
        changes = (office.administrator.change(name, KeyChanges(name="carl"), NOW) for name in ("anna", "bert"))
        first, second = await asyncio.gather(*changes, return_exceptions=True)
        assert not isinstance(first, BaseException)
        assert isinstance(second, AdministrationError)
        assert second.code == "name_taken"

    in_office(place, work)


def test_a_change_whose_reading_fails_is_read_with_the_next_poll(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll has noticed the change, and the database fails before the key is read."""

    async def work(office: Office) -> None:
        secret = await office.create()
        assert await office.accepts(secret)
        await office.administrator.set_status("anna", "revoked", NOW)

        def fail(digest: str) -> sql.Operation[None]:
            yield "SELECT 1 WHERE 1 = 2", ()
            raise StoreError("locked", "held")

        with monkeypatch.context() as patch:
            patch.setattr(sql, "find_by_hash", fail)
            with pytest.raises(StoreError):
                await office.directory.refresh()
        await office.directory.refresh()
        assert not await office.accepts(secret)

    in_office(place, work)
