"""Key administration for the command line and the admin API: validates, saves and logs each change."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from toolglot.errors import ToolglotError
from toolglot.team import sql
from toolglot.team.database import TeamDatabase
from toolglot.team.keys import (
    ApiKey,
    KeyLimits,
    KeySecret,
    KeyStatus,
    UnknownPrice,
    generate_key_id,
    generate_secret,
    hash_secret,
    prefix_of,
)

NANO = 1_000_000_000
OVERLAP = 24 * 3600.0
"""Seconds for which the old secret of a rotated key remains valid."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_RESERVED = re.compile(r"key-[0-9]+|key_[0-9a-f]{16}")
"""Names that are reserved: labels of keys in the configuration, and key ids."""

Text = Annotated[str, Meta(max_length=200)]
Names = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=512)], ...], Meta(max_length=200)]
Amount = Annotated[int, Meta(ge=0, le=2**53)]
Usd = Annotated[float, Meta(ge=0, le=1e6)]
Milliseconds = Annotated[int, Meta(ge=0, le=2**53)]


class AdministrationError(ToolglotError):
    """An administrator's request cannot be carried out. `code` names the reason for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class KeyChanges(Struct, kw_only=True, forbid_unknown_fields=True):
    """Fields of a key that an administrator sets. Unset fields do not change; null removes a limit."""

    name: str | UnsetType = UNSET
    owner: Text | UnsetType = UNSET
    team: Text | UnsetType = UNSET
    tags: Names | UnsetType = UNSET
    expires: datetime | UnsetType | None = UNSET
    """Has a time zone."""
    models: Names | UnsetType = UNSET
    upstreams: Names | UnsetType = UNSET
    mcp_servers: Names | UnsetType = UNSET
    unknown_price: UnknownPrice | UnsetType | None = UNSET
    requests_per_minute: Amount | UnsetType | None = UNSET
    tokens_per_minute: Amount | UnsetType | None = UNSET
    concurrent_requests: Amount | UnsetType | None = UNSET
    tokens_per_day: Amount | UnsetType | None = UNSET
    tokens_per_month: Amount | UnsetType | None = UNSET
    usd_per_day: Usd | UnsetType | None = UNSET
    usd_per_month: Usd | UnsetType | None = UNSET


class CreatedKey(Struct, frozen=True):
    """A key with its new secret. The secret cannot be read again."""

    key: ApiKey
    secret: str


class Administrator(Struct, frozen=True, eq=False):
    """Changes keys on behalf of `actor`."""

    database: TeamDatabase
    actor: str
    pepper: str = ""

    async def create(self, name: str, changes: KeyChanges, now: float) -> CreatedKey:
        """Create a key. Raises `AdministrationError` or `StoreError`."""
        _check_name(name)
        at = _milliseconds(now)
        key = ApiKey(id=generate_key_id(), name=name, created=at, created_by=self.actor)
        key = replace(key, **_fields(key, changes))
        _check_end(key, at)
        secret = generate_secret()
        kept = self._secret(secret, key.id, at)
        created = await self.database.run(partial(sql.create_key, key, kept, self.actor))
        if created is None:
            raise AdministrationError("name_taken", f"a key named {name!r} already exists")
        return CreatedKey(created, secret)

    async def change(self, name: str, changes: KeyChanges, now: float) -> ApiKey:
        """Change fields of a key, by name or id."""
        if isinstance(changes.name, str):
            _check_name(changes.name)
        return await self._change(name, lambda key: _fields(key, changes), now, "key.change")

    async def set_status(self, name: str, status: KeyStatus, now: float) -> ApiKey:
        """Suspend, resume or revoke a key. A revoked key stays revoked."""

        def find_changes(key: ApiKey) -> dict[str, Any]:
            if status != "revoked":
                _refuse_revoked(key)
            return {"status": status}

        action = {"active": "key.resume", "suspended": "key.suspend", "revoked": "key.revoke"}[status]
        return await self._change(name, find_changes, now, action)

    async def rotate(self, name: str, now: float, overlap: float = OVERLAP) -> CreatedKey:
        """Give a key a new secret. The old ones remain valid for `overlap` seconds."""
        secret, at = generate_secret(), _milliseconds(now)
        kept, until = self._secret(secret, name, at), at + _milliseconds(overlap)
        rotated = await self._run(partial(sql.rotate_key, name, _refuse_revoked, kept, until, self.actor))
        if rotated is None:
            raise _not_found(name)
        return CreatedKey(rotated, secret)

    async def find(self, name: str) -> ApiKey:
        """Find a key by its name or id. Raises `AdministrationError` if there is none."""
        key = await self.database.run(partial(sql.find_key, name), writes=False)
        if key is None:
            raise _not_found(name)
        return key

    async def list_keys(self, after: str = "", limit: int = 1000) -> list[tuple[ApiKey, list[KeySecret]]]:
        """List keys with their secrets, sorted by name."""
        keys = await self.database.run(partial(sql.list_keys, after, limit), writes=False)
        secrets = await self.database.run(partial(sql.list_secrets, [key.id for key in keys]), writes=False)
        return [(key, secrets[key.id]) for key in keys]

    async def secrets(self, key: ApiKey) -> list[KeySecret]:
        return (await self.database.run(partial(sql.list_secrets, [key.id]), writes=False))[key.id]

    async def _change(
        self, name: str, find_changes: Callable[[ApiKey], dict[str, Any]], now: float, action: str
    ) -> ApiKey:
        change = partial(sql.change_key, name, find_changes, _milliseconds(now), self.actor, action)
        changed = await self._run(change)
        if changed is None:
            raise _not_found(name)
        return changed

    async def _run(self, begin: Callable[[], sql.Operation[ApiKey | None]]) -> ApiKey | None:
        """Run an operation that may be refused. What refuses it is its result: the database reports other exceptions as
        its own failures."""

        def run() -> sql.Operation[ApiKey | AdministrationError | None]:
            try:
                return (yield from begin())
            except sql.NameTakenError as error:
                return AdministrationError("name_taken", f"there is a key {str(error)!r} already")
            except AdministrationError as error:
                return error

        found = await self.database.run(run)
        if isinstance(found, AdministrationError):
            raise found
        return found

    def _secret(self, secret: str, key: str, at: int) -> KeySecret:
        return KeySecret(hash=hash_secret(secret, self.pepper), key_id=key, prefix=prefix_of(secret), created=at)


def _not_found(name: str) -> AdministrationError:
    return AdministrationError("key_not_found", f"there is no key {name!r}")


def _refuse_revoked(key: ApiKey) -> dict[str, Any]:
    """Changes nothing, unless the key is revoked."""
    if key.status == "revoked":
        raise AdministrationError("key_revoked", f"the key {key.name!r} is revoked: create another one")
    return {}


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        message = (
            "a key's name has up to 64 letters, digits, `.`, `_`, `@` and `-`, and begins with a letter or a digit"
        )
        raise AdministrationError("bad_name", message)
    if _RESERVED.fullmatch(name):
        raise AdministrationError(
            "bad_name", f"{name!r} is reserved for keys in the configuration: choose another name"
        )


def _check_end(key: ApiKey, now: int) -> None:
    if key.expires is not None and key.expires <= now:
        raise AdministrationError("bad_expiry", "the expiry is in the past")


def _read_end(value: datetime) -> int:
    """Milliseconds. Times that not every time zone can show are refused: such a key could not be listed."""
    if value.tzinfo is None:
        raise AdministrationError("bad_expiry", "expires: a time zone is missing, for example Z")
    if not 1970 < value.year < 9999:
        raise AdministrationError("bad_expiry", "expires: expected a year from 1971 to 9998")
    return _milliseconds(value.timestamp())


_LIMITS = {
    "requests_per_minute": "requests_per_minute",
    "tokens_per_minute": "tokens_per_minute",
    "concurrent_requests": "concurrent_requests",
    "tokens_per_day": "tokens_per_day",
    "tokens_per_month": "tokens_per_month",
    "usd_per_day": "nano_usd_per_day",
    "usd_per_month": "nano_usd_per_month",
}
"""Public names of the limits, and their fields in `KeyLimits`."""
_POLICY = ("models", "upstreams", "mcp_servers", "unknown_price")


def _fields(key: ApiKey, changes: KeyChanges) -> dict[str, Any]:
    """Return the fields of a key that change."""
    found: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for name in KeyChanges.__struct_fields__:
        value = getattr(changes, name)
        if value is UNSET:
            continue
        if name in _LIMITS:
            limits[_LIMITS[name]] = round(value * NANO) if name.startswith("usd") and value is not None else value
        elif name in _POLICY:
            policy[name] = value
        elif name == "expires":
            found[name] = None if value is None else _read_end(value)
        else:
            found[name] = value
    if limits:
        policy["limits"] = replace(key.policy.limits, **limits)
    if policy:
        found["policy"] = replace(key.policy, **policy)
    return found


def describe_key(key: ApiKey, secrets: Sequence[KeySecret] = ()) -> dict[str, Any]:
    """Describe a key for people and programs, without its secrets."""
    policy = key.policy
    limits = {name: _limit(policy.limits, name) for name in _LIMITS}
    described = {
        "id": key.id,
        "name": key.name,
        "status": key.status,
        "owner": key.owner,
        "team": key.team,
        "tags": list(key.tags),
        "created": format_time(key.created),
        "created_by": key.created_by,
        "expires": format_time(key.expires),
        "last_used": format_time(key.last_used),
        "secrets": [
            {"prefix": each.prefix, "created": format_time(each.created), "not_after": format_time(each.not_after)}
            for each in secrets
        ],
        "models": list(policy.models),
        "upstreams": list(policy.upstreams),
        "mcp_servers": list(policy.mcp_servers),
        "unknown_price": policy.unknown_price,
        **limits,
    }
    return described


def describe_limits(tokens: int, nano_usd: int) -> dict[str, Any]:
    """Describe amounts that count toward limits."""
    return {"tokens": tokens, "usd": nano_usd / NANO}


def _limit(limits: KeyLimits, name: str) -> float | int | None:
    value: int | None = getattr(limits, _LIMITS[name])
    return value / NANO if name.startswith("usd") and value is not None else value


def format_time(milliseconds: int | None) -> str | None:
    """Format a time as RFC 3339, in UTC."""
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
