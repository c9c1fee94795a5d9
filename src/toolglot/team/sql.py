"""What is done in the database, as operations: generators that yield statements and are resumed with their rows.

An operation does no I/O, so the same one runs on SQLite and on PostgreSQL (`TeamDatabase`). It runs in one transaction,
and may be run again if that fails. Statements use `$1` for parameters and only what both databases share: no `now()`,
no `FOR UPDATE`, no casts, no JSON operators. `sum` returns other types in PostgreSQL, so sums are converted.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from toolglot.team.keys import ApiKey, KeyPolicy, KeySecret
from toolglot.team.schema import MIGRATIONS, READABLE_FROM

T = TypeVar("T")
Row: TypeAlias = Sequence[Any]
Statement: TypeAlias = tuple[str, Sequence[Any]]
Operation: TypeAlias = Generator[Statement, list[Row], T]

_KEY = "id, name, owner, team, tags, policy, status, created, created_by, expires, last_used, version"
_SECRET = "hash, key_id, prefix, created, not_after"
MOST_ROWS = 50
"""Rows of one statement: databases limit its parameters."""


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One administrative act."""

    seq: int = 0
    at: int
    actor: str
    action: str
    object: str
    before: str | None = None
    after: str | None = None


class FoundKey(Struct, frozen=True):
    """A key, and the secret by which it was found."""

    key: ApiKey
    secret: KeySecret


class NewerSchemaError(Exception):
    """A later version of this program has changed the database in a way that this one cannot work with."""


# Migrations


def migrate() -> Operation[None]:
    """Bring the tables to this version."""
    yield "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)", ()
    rows = yield "SELECT name, value FROM meta WHERE name IN ('schema_version', 'readable_from')", ()
    found = {str(name): int(value) for name, value in rows}
    if found.get("readable_from", 1) > len(MIGRATIONS):
        raise NewerSchemaError(
            f"a later version of toolglot has changed the team database (it needs schema {found['readable_from']}; "
            f"this version knows {len(MIGRATIONS)})"
        )
    done = found.get("schema_version", 0)
    if done >= len(MIGRATIONS):
        return
    for statements in MIGRATIONS[done:]:
        for statement in statements:
            yield statement, ()
    for name, value in (("schema_version", len(MIGRATIONS)), ("readable_from", READABLE_FROM)):
        yield (
            "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )


# Keys


def _decode_key(row: Row) -> ApiKey:
    key, name, owner, team, tags, policy, status, created, created_by, expires, last_used, version = row
    return ApiKey(
        id=key,
        name=name,
        owner=owner,
        team=team,
        tags=tuple(msgspec.json.decode(tags, type=list[str])),
        policy=msgspec.json.decode(policy, type=KeyPolicy),
        status=status,
        created=created,
        created_by=created_by,
        expires=expires,
        last_used=last_used,
        version=version,
    )


def _encode_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _next(counter: str) -> Operation[int]:
    rows = yield "UPDATE meta SET value = value + 1 WHERE name = $1 RETURNING value", (counter,)
    return int(rows[0][0])


def key_version() -> Operation[int]:
    """The version of the newest change of any key."""
    rows = yield "SELECT value FROM meta WHERE name = 'key_version'", ()
    return int(rows[0][0])


def create_key(key: ApiKey, secret: KeySecret, actor: str) -> Operation[ApiKey | None]:
    """Save a new key. Returns None if its name is taken."""
    if (yield "SELECT id FROM keys WHERE name = $1", (key.name,)):
        return None
    key = msgspec.structs.replace(key, version=(yield from _next("key_version")))
    yield (
        f"INSERT INTO keys ({_KEY}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        (
            key.id,
            key.name,
            key.owner,
            key.team,
            _encode_json(key.tags),
            _encode_json(key.policy),
            key.status,
            key.created,
            key.created_by,
            key.expires,
            key.last_used,
            key.version,
        ),
    )
    yield from _insert_secret(secret)
    yield from _log(key.created, actor, "key.create", key.id, None, key)
    return key


def _insert_secret(secret: KeySecret) -> Operation[None]:
    row = (secret.hash, secret.key_id, secret.prefix, secret.created, secret.not_after)
    yield f"INSERT INTO key_secrets ({_SECRET}) VALUES ($1, $2, $3, $4, $5)", row


def list_keys(after: str = "", limit: int = 1000) -> Operation[list[ApiKey]]:
    """Some keys in the order of their names, beginning after this name."""
    rows = yield f"SELECT {_KEY} FROM keys WHERE name > $1 ORDER BY name LIMIT $2", (after, limit)
    return [_decode_key(row) for row in rows]


def find_key(name: str) -> Operation[ApiKey | None]:
    """Find a key by its name or its id."""
    rows = yield f"SELECT {_KEY} FROM keys WHERE name = $1 OR id = $1", (name,)
    return _decode_key(rows[0]) if rows else None


def list_secrets(key_ids: Sequence[str]) -> Operation[dict[str, list[KeySecret]]]:
    """The secrets of these keys, the oldest first."""
    found: dict[str, list[KeySecret]] = {key: [] for key in key_ids}
    for start in range(0, len(key_ids), MOST_ROWS):
        some = key_ids[start : start + MOST_ROWS]
        places = ", ".join(f"${number}" for number in range(1, len(some) + 1))
        rows = yield f"SELECT {_SECRET} FROM key_secrets WHERE key_id IN ({places}) ORDER BY created", some
        for row in rows:
            secret = KeySecret(hash=row[0], key_id=row[1], prefix=row[2], created=row[3], not_after=row[4])
            found[secret.key_id].append(secret)
    return found


def find_by_hash(digest: str) -> Operation[FoundKey | None]:
    """Find the key that a secret belongs to."""
    rows = yield f"SELECT {_SECRET} FROM key_secrets WHERE hash = $1", (digest,)
    if not rows:
        return None
    secret = KeySecret(hash=rows[0][0], key_id=rows[0][1], prefix=rows[0][2], created=rows[0][3], not_after=rows[0][4])
    rows = yield f"SELECT {_KEY} FROM keys WHERE id = $1", (secret.key_id,)
    return FoundKey(_decode_key(rows[0]), secret) if rows else None


def changed_keys(after: int) -> Operation[tuple[int, list[str]]]:
    """The version of the newest change, and the ids of the keys that have changed after this version."""
    rows = yield "SELECT id, version FROM keys WHERE version > $1", (after,)
    return max((int(row[1]) for row in rows), default=after), [row[0] for row in rows]


def change_key(name: str, changes: dict[str, Any], at: int, actor: str, action: str) -> Operation[ApiKey | None]:
    """Change fields of a key, by name or id. Returns the changed key; None if there is none."""
    before = yield from find_key(name)
    if before is None:
        return None
    version = yield from _next("key_version")
    after = msgspec.structs.replace(before, **changes, version=version)
    yield (
        "UPDATE keys SET name = $2, owner = $3, team = $4, tags = $5, policy = $6, status = $7, expires = $8, "
        "version = $9 WHERE id = $1",
        (
            after.id,
            after.name,
            after.owner,
            after.team,
            _encode_json(after.tags),
            _encode_json(after.policy),
            after.status,
            after.expires,
            after.version,
        ),
    )
    yield from _log(at, actor, action, after.id, before, after)
    return after


def rotate_key(name: str, secret: KeySecret, until: int, actor: str) -> Operation[ApiKey | None]:
    """Add a secret to a key. Its other secrets remain valid until the given time, or until their own end."""
    key = yield from change_key(name, {}, secret.created, actor, "key.rotate")
    if key is None:
        return None
    yield (
        "UPDATE key_secrets SET not_after = $2 WHERE key_id = $1 AND (not_after IS NULL OR not_after > $2)",
        (key.id, until),
    )
    yield from _insert_secret(msgspec.structs.replace(secret, key_id=key.id))
    return key


def touch_keys(used: Iterable[tuple[str, int]]) -> Operation[None]:
    """Record when keys were last used."""
    for key, at in used:
        yield "UPDATE keys SET last_used = $2 WHERE id = $1 AND (last_used IS NULL OR last_used < $2)", (key, at)


# Audit


def _log(at: int, actor: str, action: str, what: str, before: object, after: object) -> Operation[None]:
    seq = yield from _next("audit_seq")
    values = (None if value is None else _encode_json(value) for value in (before, after))
    yield (
        "INSERT INTO audit (seq, at, actor, action, object, before, after) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        (seq, at, actor, action, what, *values),
    )


def list_audit(before: int | None = None, limit: int = 100) -> Operation[list[AuditEntry]]:
    """Entries of the audit log, the newest first."""
    rows = yield (
        "SELECT seq, at, actor, action, object, before, after FROM audit WHERE seq < $1 ORDER BY seq DESC LIMIT $2",
        (2**62 if before is None else before, limit),
    )
    return [
        AuditEntry(seq=seq, at=at, actor=actor, action=action, object=what, before=old, after=new)
        for seq, at, actor, action, what, old, new in rows
    ]
