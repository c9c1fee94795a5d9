"""Database operations: generators that yield statements and receive their rows.

An operation does no I/O, so it runs on both SQLite and PostgreSQL (`TeamDatabase`). It runs in one transaction, and may
run again if the transaction fails. Statements use `$1` for parameters and only SQL that both databases accept: no
`now()`, no `FOR UPDATE`, no casts, no JSON operators. `sum` returns a different type in PostgreSQL, so sums are
converted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from toolglot.team.keys import ApiKey, KeyPolicy, KeySecret
from toolglot.team.schema import MIGRATIONS, READABLE_FROM

T = TypeVar("T")
Row: TypeAlias = Sequence[Any]
Statement: TypeAlias = tuple[str, Sequence[Any]]
Operation: TypeAlias = Generator[Statement, list[Row], T]

_KEY = "id, name, owner, team, tags, policy, status, created, created_by, expires, last_used, version"
_SECRET = "hash, key_id, prefix, created, not_after"
MOST_ROWS = 50
"""Maximum number of rows in one statement, because databases limit its parameters."""


class AuditEntry(Struct, frozen=True, kw_only=True):
    """An audit log entry for one administrative action."""

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
    """A later version of toolglot has changed the database, and this version cannot work with it."""


class NameTakenError(Exception):
    """Another key has this name."""


# Migrations


def migrate() -> Operation[None]:
    """Upgrade the tables to this version."""
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
    """Return the version of the latest change of any key."""
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
    """List keys sorted by name, starting after this name."""
    rows = yield f"SELECT {_KEY} FROM keys WHERE name > $1 ORDER BY name LIMIT $2", (after, limit)
    return [_decode_key(row) for row in rows]


def find_key(name: str) -> Operation[ApiKey | None]:
    """Find a key by its name or its id."""
    rows = yield f"SELECT {_KEY} FROM keys WHERE name = $1 OR id = $1", (name,)
    return _decode_key(rows[0]) if rows else None


def list_secrets(key_ids: Sequence[str]) -> Operation[dict[str, list[KeySecret]]]:
    """List the secrets of these keys, oldest first."""
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
    """Return the version of the latest change, and the ids of the keys that changed after this version."""
    rows = yield "SELECT id, version FROM keys WHERE version > $1", (after,)
    return max((int(row[1]) for row in rows), default=after), [row[0] for row in rows]


def change_key(
    name: str, find_changes: Callable[[ApiKey], dict[str, Any]], at: int, actor: str, action: str
) -> Operation[ApiKey | None]:
    """Change fields of a key, by name or id. `find_changes` gets the key as it is now, in the same transaction, so that
    no change is lost that is made meanwhile. It may raise what refuses the change. Returns the changed key; None if
    there is none.

    Raises:
        NameTakenError: another key has the new name.
    """
    version = yield from _next("key_version")  # first: it makes other writers wait, so the key cannot change below
    before = yield from find_key(name)
    if before is None:
        return None
    after = msgspec.structs.replace(before, **find_changes(before), version=version)
    if after.name != before.name and (yield "SELECT id FROM keys WHERE name = $1", (after.name,)):
        raise NameTakenError(after.name)
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


def rotate_key(
    name: str, check: Callable[[ApiKey], dict[str, Any]], secret: KeySecret, until: int, actor: str
) -> Operation[ApiKey | None]:
    """Add a secret to a key. Its other secrets remain valid until the given time, or until their own end. `check` may
    raise what refuses it."""
    key = yield from change_key(name, check, secret.created, actor, "key.rotate")
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


# Sessions of people


def begin_session(digest: str, name: str, role: str, at: int, ends: int) -> Operation[None]:
    """Save a session, and delete expired sessions."""
    yield "DELETE FROM sessions WHERE ends <= $1", (at,)
    yield (
        "INSERT INTO sessions (hash, name, role, created, ends) VALUES ($1, $2, $3, $4, $5)",
        (digest, name, role, at, ends),
    )
    yield from _log(at, f"{role}:{name}", "session.begin", name, None, None)


def find_session(digest: str, now: int) -> Operation[tuple[str, str] | None]:
    """Return the name and role of the person who owns a session; None if it has expired."""
    rows = yield "SELECT name, role FROM sessions WHERE hash = $1 AND ends > $2", (digest, now)
    return (rows[0][0], rows[0][1]) if rows else None


def end_session(digest: str) -> Operation[None]:
    yield "DELETE FROM sessions WHERE hash = $1", (digest,)


# Audit


def _log(at: int, actor: str, action: str, what: str, before: object, after: object) -> Operation[None]:
    seq = yield from _next("audit_seq")
    values = (None if value is None else _encode_json(value) for value in (before, after))
    yield (
        "INSERT INTO audit (seq, at, actor, action, object, before, after) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        (seq, at, actor, action, what, *values),
    )


def list_audit(before: int | None = None, limit: int = 100) -> Operation[list[AuditEntry]]:
    """List entries of the audit log, newest first."""
    rows = yield (
        "SELECT seq, at, actor, action, object, before, after FROM audit WHERE seq < $1 ORDER BY seq DESC LIMIT $2",
        (2**62 if before is None else before, limit),
    )
    return [
        AuditEntry(seq=seq, at=at, actor=actor, action=action, object=what, before=old, after=new)
        for seq, at, actor, action, what, old, new in rows
    ]


# Usage and spend


MOST = 2**53
"""Greatest amount of a row. Databases refuse greater numbers than 64 bits, and sums need room."""
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MOST)]


class UsageRow(Struct, frozen=True, kw_only=True):
    """Usage of one model answer. The token counts do not overlap."""

    request_id: str
    attempt: int
    key_id: str
    at: int
    day: str
    """The day of the reservation (UTC), whose budget the answer counts toward."""
    upstream: str
    model: str
    fresh_tokens: Count = 0
    cached_tokens: Count = 0
    cache_write_tokens: Count = 0
    cache_write_long_tokens: Count = 0
    output_tokens: Count = 0
    nano_usd: Count | None = None
    """None if the price is unknown."""
    estimated: bool = False
    """True if the counts are estimates: the answer was cut off, or the upstream reports no counts."""

    @property
    def tokens(self) -> int:
        written = self.cache_write_tokens + self.cache_write_long_tokens
        return self.fresh_tokens + self.cached_tokens + written + self.output_tokens


_USAGE = (
    "request_id, attempt, key_id, at, day, upstream, model, fresh_tokens, cached_tokens, cache_write_tokens, "
    "cache_write_long_tokens, output_tokens, nano_usd, estimated"
)
_SUMS = (
    "requests",
    "fresh_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "cache_write_long_tokens",
    "output_tokens",
    "nano_usd",
    "unpriced",
    "estimated",
)


def _usage_values(row: UsageRow) -> tuple[Any, ...]:
    values = (getattr(row, name) for name in UsageRow.__struct_fields__)
    return tuple(int(value) if isinstance(value, bool) else value for value in values)


def _amounts(row: UsageRow) -> tuple[int, ...]:
    """Return the columns of `_SUMS` for one row."""
    return (
        1,
        row.fresh_tokens,
        row.cached_tokens,
        row.cache_write_tokens,
        row.cache_write_long_tokens,
        row.output_tokens,
        row.nano_usd or 0,
        int(row.nano_usd is None),
        int(row.estimated),
    )


def record_usage(rows: Sequence[UsageRow]) -> Operation[int]:
    """Save rows, add them to the sums, and record when their keys were used.

    A row that exists already changes nothing. Returns the number of new rows.
    """
    added: list[UsageRow] = []
    width = len(UsageRow.__struct_fields__)
    for start in range(0, len(rows), MOST_ROWS):
        some = {(row.request_id, row.attempt): row for row in rows[start : start + MOST_ROWS]}
        places = ", ".join(
            f"({', '.join(f'${number * width + column}' for column in range(1, width + 1))})"
            for number in range(len(some))
        )
        values = [value for row in some.values() for value in _usage_values(row)]
        found = yield (
            f"INSERT INTO usage ({_USAGE}) VALUES {places} ON CONFLICT (request_id, attempt) DO NOTHING "
            "RETURNING request_id, attempt",
            values,
        )
        added += [some[request, attempt] for request, attempt in found]
    sums: dict[tuple[str, str, str, str], list[int]] = {}
    used: dict[str, int] = {}
    for row in added:
        cell = sums.setdefault((row.day, row.key_id, row.upstream, row.model), [0] * len(_SUMS))
        for index, amount in enumerate(_amounts(row)):
            cell[index] += amount
        used[row.key_id] = max(row.at, used.get(row.key_id, 0))
    names, plus = ", ".join(_SUMS), ", ".join(f"{name} = spend.{name} + excluded.{name}" for name in _SUMS)
    places = ", ".join(f"${number}" for number in range(1, 5 + len(_SUMS)))
    for key, cell in sorted(sums.items()):  # in sorted order, so that two writers cannot deadlock
        yield (
            f"INSERT INTO spend (day, key_id, upstream, model, {names}) VALUES ({places}) "
            f"ON CONFLICT (day, key_id, upstream, model) DO UPDATE SET {plus}",
            (*key, *cell),
        )
    yield from touch_keys(sorted(used.items()))
    return len(added)


def spent(key_ids: Sequence[str], day: str) -> Operation[dict[str, tuple[tuple[int, int], tuple[int, int]]]]:
    """Return the spend of up to `MOST_ROWS` keys on this day and in its month: tokens and nano-USD for each."""
    places = ", ".join(f"${number}" for number in range(3, len(key_ids) + 3))
    tokens = "fresh_tokens + cached_tokens + cache_write_tokens + cache_write_long_tokens + output_tokens"
    rows = yield (
        f"SELECT key_id, sum(CASE WHEN day = $2 THEN {tokens} ELSE 0 END), "
        f"sum(CASE WHEN day = $2 THEN nano_usd ELSE 0 END), sum({tokens}), sum(nano_usd) FROM spend "
        f"WHERE day >= $1 AND day <= $2 AND key_id IN ({places}) GROUP BY key_id",
        (f"{day[:7]}-01", day, *key_ids),
    )
    nothing = ((0, 0), (0, 0))
    found = {row[0]: ((int(row[1]), int(row[2])), (int(row[3]), int(row[4]))) for row in rows}
    return {key: found.get(key, nothing) for key in key_ids}


class SpendRow(Struct, frozen=True, kw_only=True):
    """Sums over a group of answers. Fields that do not define the group are empty."""

    day: str = ""
    key: str = ""
    """The name of the key."""
    upstream: str = ""
    model: str = ""
    requests: int
    fresh_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    cache_write_long_tokens: int
    output_tokens: int
    nano_usd: int
    unpriced: int
    """Answers whose cost is unknown."""
    estimated: int
    """Answers whose tokens are estimates."""


GROUPS = {"day": "day", "key": "key_id", "upstream": "upstream", "model": "model"}
"""The columns of `spend` by which it can be grouped, by their public names."""


def report_spend(since: str, until: str, by: Sequence[str], key: str | None = None) -> Operation[list[SpendRow]]:
    """Sum the usage from `since` to `until`, grouped by fields of `GROUPS`. `key` selects one key by name or id."""
    sums = ", ".join(f"sum({name}) AS {name}" for name in _SUMS)
    condition, values = "day >= $1 AND day <= $2", [since, until]
    if key is not None:
        condition += " AND key_id IN (SELECT id FROM keys WHERE name = $3 OR id = $3)"
        values.append(key)
    columns = [GROUPS[name] for name in by]
    grouped = f" GROUP BY {', '.join(columns)}" if columns else ""
    selected = f"SELECT {', '.join([*columns, sums])} FROM spend WHERE {condition}{grouped}"
    # Names are looked up for the sums: there may be millions of rows.
    shown = ["coalesce(keys.name, key_id)" if name == "key" else name for name in by]
    ordered = f" ORDER BY {', '.join(shown)}" if shown else ""
    join = " LEFT JOIN keys ON keys.id = key_id" if "key" in by else ""
    rows = yield f"SELECT {', '.join([*shown, *_SUMS])} FROM ({selected}) AS sums{join}{ordered}", values
    names = (*by, *_SUMS)
    fields: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in rows if row[len(by)] is not None]
    return [SpendRow(**{**each, **{name: int(each[name]) for name in _SUMS}}) for each in fields]
