"""Database tables as migrations, in SQL that both SQLite and PostgreSQL accept.

Never change a released migration; add another one.

Gateways of two versions may share a database during an upgrade. So a migration only adds tables, indexes, and columns
with defaults. A migration that older versions cannot work with raises `READABLE_FROM`; older versions then refuse to
start.

Times are in milliseconds since 1970 UTC, money is in nano-USD, and structured values are JSON text.
"""

from __future__ import annotations

READABLE_FROM = 1
"""The oldest schema version that can use a database with all these migrations."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE keys (
            id TEXT PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            owner TEXT NOT NULL,
            team TEXT NOT NULL,
            tags TEXT NOT NULL,
            policy TEXT NOT NULL,
            status TEXT NOT NULL,
            created BIGINT NOT NULL,
            created_by TEXT NOT NULL,
            expires BIGINT,
            last_used BIGINT,
            version BIGINT NOT NULL
        )
        """,
        "CREATE INDEX keys_version ON keys (version)",
        """
        CREATE TABLE key_secrets (
            hash TEXT PRIMARY KEY,
            key_id TEXT NOT NULL,
            prefix TEXT NOT NULL,
            created BIGINT NOT NULL,
            not_after BIGINT
        )
        """,
        "CREATE INDEX key_secrets_key ON key_secrets (key_id)",
        # One row for each model answer. Writing a row twice has no effect.
        """
        CREATE TABLE usage (
            request_id TEXT NOT NULL,
            attempt BIGINT NOT NULL,
            key_id TEXT NOT NULL,
            at BIGINT NOT NULL,
            day TEXT NOT NULL,
            upstream TEXT NOT NULL,
            model TEXT NOT NULL,
            fresh_tokens BIGINT NOT NULL,
            cached_tokens BIGINT NOT NULL,
            cache_write_tokens BIGINT NOT NULL,
            cache_write_long_tokens BIGINT NOT NULL,
            output_tokens BIGINT NOT NULL,
            nano_usd BIGINT,
            estimated BIGINT NOT NULL,
            PRIMARY KEY (request_id, attempt)
        )
        """,
        "CREATE INDEX usage_at ON usage (at)",
        # The sums of `usage`, for reports and budgets.
        """
        CREATE TABLE spend (
            day TEXT NOT NULL,
            key_id TEXT NOT NULL,
            upstream TEXT NOT NULL,
            model TEXT NOT NULL,
            requests BIGINT NOT NULL,
            fresh_tokens BIGINT NOT NULL,
            cached_tokens BIGINT NOT NULL,
            cache_write_tokens BIGINT NOT NULL,
            cache_write_long_tokens BIGINT NOT NULL,
            output_tokens BIGINT NOT NULL,
            nano_usd BIGINT NOT NULL,
            unpriced BIGINT NOT NULL,
            estimated BIGINT NOT NULL,
            PRIMARY KEY (day, key_id, upstream, model)
        )
        """,
        "CREATE INDEX spend_key ON spend (key_id, day)",
        """
        CREATE TABLE audit (
            seq BIGINT PRIMARY KEY,
            at BIGINT NOT NULL,
            actor TEXT NOT NULL,
            action TEXT NOT NULL,
            object TEXT NOT NULL,
            before TEXT,
            after TEXT
        )
        """,
        "INSERT INTO meta (name, value) VALUES ('key_version', 0), ('audit_seq', 0)",
    ),
    (
        """
        CREATE TABLE sessions (
            hash TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            role TEXT NOT NULL,
            created BIGINT NOT NULL,
            ends BIGINT NOT NULL
        )
        """,
        "CREATE INDEX sessions_ends ON sessions (ends)",
    ),
)
