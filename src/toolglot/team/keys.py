"""API keys: their permissions, limits and secrets.

A secret looks like `tg_k3x9w2m8_…`: a public prefix, which key lists show, and 256 random bits. It is shown once. Only
its hash is stored. The bits are random, so a fast hash is enough. The optional pepper is not in the database, so the
hashes in a stolen database cannot be tested against guesses.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from fnmatch import fnmatchcase
from hashlib import blake2b, sha256
from typing import Literal

from msgspec import Struct

KeyStatus = Literal["active", "suspended", "revoked"]
UnknownPrice = Literal["deny", "allow"]
"""Policy for models without a known price, for keys with a budget in USD: refuse the request, or answer it without a
cost. Its tokens always count, and reports list it as unpriced."""

_SECRET_START = "tg_"
_PREFIX_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_PREFIX_LENGTH = 8
_RANDOM_BYTES = 32
_MAX_SECRET = 200


class KeyLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of one key. None means no limit. Amounts of money are in nano-USD."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_requests: int | None = None
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None
    nano_usd_per_day: int | None = None
    nano_usd_per_month: int | None = None

    @property
    def has_budget(self) -> bool:
        """Whether any limit depends on earlier spend."""
        budgets = (self.tokens_per_day, self.tokens_per_month, self.nano_usd_per_day, self.nano_usd_per_month)
        return any(each is not None for each in budgets)


class KeyPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Models and services that a key may use. An empty tuple allows everything."""

    models: tuple[str, ...] = ()
    """Client-facing names of models or patterns (`claude-*`), or `upstream/model`."""
    upstreams: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    unknown_price: UnknownPrice | None = None
    """None means the team's setting."""
    limits: KeyLimits = KeyLimits()

    def allows_model(self, names: Iterable[str]) -> bool:
        """Whether the key allows any of a model's names."""
        return not self.models or any(fnmatchcase(name, pattern) for name in names for pattern in self.models)

    def allows_upstream(self, name: str) -> bool:
        return not self.upstreams or name in self.upstreams

    def allows_mcp_server(self, name: str) -> bool:
        return not self.mcp_servers or name in self.mcp_servers


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key without its secrets. Times are in milliseconds since 1970, UTC."""

    id: str
    name: str
    owner: str = ""
    """The person or program that uses the key."""
    team: str = ""
    tags: tuple[str, ...] = ()
    policy: KeyPolicy = KeyPolicy()
    status: KeyStatus = "active"
    created: int
    created_by: str = ""
    expires: int | None = None
    last_used: int | None = None
    version: int = 0
    """Number of the key's latest change. One sequence counts the changes of all keys."""


class KeySecret(Struct, frozen=True, kw_only=True):
    """Record of one secret of a key: its hash and its prefix. After a rotation, a key has two for a while."""

    hash: str
    key_id: str
    prefix: str
    created: int
    not_after: int | None = None


def generate_secret() -> str:
    public = "".join(secrets.choice(_PREFIX_ALPHABET) for _ in range(_PREFIX_LENGTH))
    return f"{_SECRET_START}{public}_{secrets.token_urlsafe(_RANDOM_BYTES)}"


def generate_key_id() -> str:
    return f"key_{secrets.token_hex(8)}"


def prefix_of(secret: str) -> str:
    """Return the public part of a secret."""
    return secret[: len(_SECRET_START) + _PREFIX_LENGTH]


def looks_like_secret(text: str) -> bool:
    """Whether a text has the form of a secret. Other texts are never looked up."""
    return text.startswith(_SECRET_START) and len(text) <= _MAX_SECRET


def hash_secret(secret: str, pepper: str = "") -> str:
    """Hash a secret for storage."""
    key = sha256(pepper.encode()).digest() if pepper else b""
    return blake2b(
        secret.encode("utf-8", "surrogateescape"), digest_size=32, key=key, person=b"toolglot key"
    ).hexdigest()


def owner_of(key_id: str) -> str:
    """Return the owner of the state that is stored for a key. Rotation does not change it."""
    return sha256(b"toolglot key owner\0" + key_id.encode()).hexdigest()[:32]
