"""What can be configured. These records are the schema: the loader checks a file against them, and the published
JSON Schema is made from them. Everything has a default, so that an empty file is a configuration.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from toolglot.upstream.transport import Timeouts


class Retries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a call that failed before its first byte is made again, and how long to wait (seconds)."""

    attempts: int = 3
    """Calls in all, the first one included."""
    first_wait: float = 0.5
    longest_wait: float = 30.0
    """Also the longest `Retry-After` that is waited for; a longer one goes to the next fallback or to the client."""


class Breaker(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """After so many failures in a row an upstream is left alone for a while (seconds)."""

    failures: int = 5
    rest: float = 30.0


class UpstreamConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server that answers. With a `vendor` its row gives whatever is not said here."""

    vendor: str | None = None
    dialect: str | None = None
    base_url: str | None = None
    key: str | None = None
    """The credential; best a reference such as `${OPENAI_API_KEY}`."""
    key_header: str | None = None
    headers: dict[str, str] = {}
    """Sent with every call."""
    models: tuple[str, ...] = ()
    """Names or patterns of the models it serves: a request for one of them is routed here."""
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    breaker: Breaker = Breaker()
    max_connections: int = 1000


class ModelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model's name, or a pattern of names (`claude-*`), stands for."""

    upstream: str
    model: str | None = None
    """The upstream's name of the model; None keeps the client's. `*` stands for what the pattern's `*` matched."""
    fallbacks: tuple[str, ...] = ()
    """Other models, by the names clients use (or `upstream/model`), tried in order before the first byte."""
    strict: bool = False
    context_window: int | None = None
    max_output_tokens: int | None = None
    quirks: dict[str, Any] = {}
    """Capabilities in which this model differs from its dialect, by their names in `toolglot dialects --json`."""
    hidden: bool = False
    """Not listed to clients that ask for the models."""


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes, seconds and counts."""

    body: int = 32 * 1024 * 1024
    response: int = 64 * 1024 * 1024
    body_idle: float = 30.0
    write_idle: float = 120.0
    connections: int = 10_000
    concurrent_requests: int = 2_000
    drain: float = 30.0
    """How long running requests may go on after SIGTERM."""
    keepalive: float = 15.0
    """The silence after which a stream's client gets a keep-alive."""
    messages: int = 100_000
    tools: int = 5_000


class ServerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    port: int = 4141
    keys: tuple[str, ...] = ()
    """What clients must show. Empty is allowed on loopback alone."""
    hosts: tuple[str, ...] = ()
    """Names that clients may call this server by, beside loopback ones and `host`."""
    origins: tuple[str, ...] = ()
    """Web pages that may call this server."""
    insecure: bool = False
    """Serve beyond loopback without keys."""


class StoreConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stored responses and conversations."""

    path: str | None = None
    """The SQLite file; None is `toolglot/toolglot.sqlite3` in the user's state folder; `:memory:` keeps nothing."""
    max_bytes: int = 512 * 1024 * 1024
    max_age: float = 30 * 24 * 3600.0


class LogConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["auto", "json", "text"] = "auto"
    """`auto`: text on a terminal, JSON otherwise."""
    level: Literal["debug", "info", "warning", "error"] = "info"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    server: ServerConfig = ServerConfig()
    upstreams: dict[str, UpstreamConfig] = {}
    models: dict[str, ModelConfig] = {}
    """Exact names first, then patterns from the most to the least specific."""
    default_upstream: str | None = None
    """Where a model goes that nothing else claims."""
    limits: Limits = Limits()
    store: StoreConfig = StoreConfig()
    log: LogConfig = LogConfig()
    discover: bool = True
    """Also use the keys in the environment and the local servers that answer."""
    strict: bool = False
