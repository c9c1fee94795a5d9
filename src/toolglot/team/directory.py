"""Cache of the keys that this process has seen, so that most requests need no database call.

A key is read once and cached. Changes in the database take effect within `POLL_SECONDS`. While the database is
unavailable, cached keys keep working for `GRACE_SECONDS`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from time import time

from msgspec import Struct

from toolglot.errors import ApiError
from toolglot.team import sql
from toolglot.team.background import repeat
from toolglot.team.database import TeamDatabase
from toolglot.team.keys import ApiKey, hash_secret, looks_like_secret, owner_of

log = logging.getLogger("toolglot.server")

POLL_SECONDS = 0.5
GRACE_SECONDS = 15 * 60.0
MOST_KEYS = 100_000
MOST_UNKNOWN = 10_000
"""Maximum number of cached invalid secrets. A client that repeats one does not reach the database."""


class Account(Struct, eq=False):
    """A key as requests use it. A change of the key creates a new account."""

    key: ApiKey
    owner: str
    """Owner of the state that is stored for the key."""
    valid_until: float
    """Time when the key or the secret expires (Unix seconds)."""
    is_current: bool = True
    """False once the key has changed."""
    successor: Account | None = None
    """The account that replaces this one; None if it must be looked up."""


class KeyDirectory:
    """Finds accounts by secrets."""

    def __init__(self, database: TeamDatabase, *, pepper: str = "", now: Callable[[], float] = time) -> None:
        self._database = database
        self._pepper = pepper
        self._now = now
        self._version: int | None = None
        self._checked = -inf
        self._accounts: dict[str, Account] = {}
        self._hashes: dict[str, set[str]] = {}
        """Cached hashes of each key's secrets, by key id."""
        self._unknown: set[str] = set()

    def find(self, secret: str) -> Account | None:
        """Return the account of a secret if it is cached and valid."""
        account = self._accounts.get(hash_secret(secret, self._pepper)) if looks_like_secret(secret) else None
        return account if account is not None and self.is_valid(account) else None

    def is_valid(self, account: Account) -> bool:
        """Whether this account may start requests."""
        now = self._now()
        return account.is_current and now < account.valid_until and now < self._checked + GRACE_SECONDS

    def refuse(self, account: Account) -> ApiError:
        """Return the error for a request whose key became invalid before its next call."""
        message = f"The key {account.key.name} has expired or was revoked since the request began"
        return ApiError(kind="authentication", code="invalid_api_key", message=message)

    def needs_lookup(self, secret: str) -> bool:
        """Whether the database must be asked if a secret is valid."""
        if not looks_like_secret(secret):
            return False
        digest = hash_secret(secret, self._pepper)
        account = self._accounts.get(digest)
        return digest not in self._unknown and (account is None or not account.is_current)

    def explain(self, secret: str) -> str:
        """Return the reason why a cached key is refused; empty if the key is not cached."""
        account = self._accounts.get(hash_secret(secret, self._pepper)) if looks_like_secret(secret) else None
        if account is None or not account.is_current:
            return ""
        if account.key.status != "active":
            return f"The key {account.key.name} is {account.key.status}"
        if self._now() >= account.valid_until:
            return f"The key {account.key.name} has expired"
        return ""

    async def look_up(self, secret: str) -> None:
        """Read the key of a secret from the database into the cache. Raises `StoreError`."""
        digest = hash_secret(secret, self._pepper)
        if self._version is None:
            await self.refresh()
        while True:
            version = self._version
            found = await self._database.run(partial(sql.find_by_hash, digest), writes=False)
            if self._version == version:  # otherwise the key may have changed after it was read
                break
        if found is None:
            if len(self._unknown) >= MOST_UNKNOWN:
                self._unknown.clear()
            self._unknown.add(digest)
            return
        if len(self._accounts) >= MOST_KEYS:
            self._drop(next(iter(self._hashes)))
        self._keep(digest, found)

    def _keep(self, digest: str, found: sql.FoundKey) -> None:
        ends = [each / 1000 for each in (found.key.expires, found.secret.not_after) if each is not None]
        if found.key.status != "active":
            ends.append(-inf)
        account = Account(found.key, owner_of(found.key.id), min(ends, default=inf))
        if (before := self._accounts.get(digest)) is not None:
            before.is_current, before.successor = False, account
        self._accounts[digest] = account
        self._hashes.setdefault(found.key.id, set()).add(digest)

    async def refresh(self) -> None:
        """Reload the keys that have changed in the database. Raises `StoreError`."""
        if self._version is None:
            self._version = await self._database.run(sql.key_version, writes=False)
        else:
            version, changed = await self._database.run(partial(sql.changed_keys, self._version), writes=False)
            if version != self._version:
                before, self._version = self._version, version
                self._unknown.clear()
                try:
                    await self._read_again(changed)
                except BaseException:
                    self._version = before  # else these changes would never be read
                    raise
        self._checked = self._now()

    async def _read_again(self, keys: Iterable[str]) -> None:
        for digest in [digest for key in keys for digest in self._hashes.get(key, ())]:
            found = await self._database.run(partial(sql.find_by_hash, digest), writes=False)
            if found is not None:
                self._keep(digest, found)

    def may_continue(self, account: Account) -> bool:
        """Whether a request of this account may make another call, even if the key has changed since."""
        while account.successor is not None:
            account = account.successor
        return self._now() < account.valid_until

    def _drop(self, key: str) -> None:
        for digest in self._hashes.pop(key, ()):
            if (account := self._accounts.pop(digest, None)) is not None:
                account.is_current = False

    async def watch(self) -> None:
        """Refresh until cancelled."""
        failing = "the team database cannot be read, so key changes have no effect yet"
        await repeat(self.refresh, POLL_SECONDS, failing=failing, working="the team database is available again")
