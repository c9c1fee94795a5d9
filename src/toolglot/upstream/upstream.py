"""One configured upstream: its dialect, address, credential and transport."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from toolglot.config.schema import BreakerConfig, Retries, WarpHistory
from toolglot.config.secrets import header_secrets
from toolglot.dialect import Dialect, UnsignedCall
from toolglot.errors import ApiError, ErrorKind
from toolglot.ir import replace
from toolglot.passes import CacheMarks
from toolglot.passes.history_policy import Layer
from toolglot.recordings.redact import replace_secret_parts
from toolglot.upstream.bearer_tokens import RefreshingToken
from toolglot.upstream.transport import Timeouts, Transport, UpstreamCall
from toolglot.upstream.vendors import VERSION

MIN_SECRET_LENGTH = 8
"""Minimum length of a secret in characters. Shorter secrets occur by chance in unrelated text."""

HIDDEN = "(hidden)"

CREDENTIAL_KINDS: frozenset[ErrorKind] = frozenset({"authentication", "permission", "billing"})
"""Errors about a key or its permissions."""


class Upstream(Struct, frozen=True, kw_only=True):
    name: str
    dialect: Dialect
    base_url: str
    transport: Transport
    vendor: str | None = None
    """A key of `toolglot.upstream.vendors`."""
    key: str | None = None
    key_header: str | None = None
    """None uses the dialect's header. In `authorization` the key follows `Bearer`."""
    headers: Mapping[str, str] = {}
    models: tuple[str, ...] = ()
    verbatim: bool = True
    """True if answers are forwarded unchanged to clients of the same dialect."""
    keeps_state: bool = False
    """True if the upstream stores responses by id itself."""
    native_tools: bool | None = None
    """Whether its models take tools natively; None if unknown."""
    without_tools: tuple[str, ...] = ()
    """Patterns of models that do not take tools natively."""
    listed: tuple[str, ...] = ()
    """Its models, if it has no model list endpoint."""
    history: tuple[Layer, ...] = ()
    """How much of a conversation is sent, and which parts are repaired."""
    cache_marks: CacheMarks = "auto"
    """When to set prompt cache breakpoints for clients that set none."""
    warp_history: WarpHistory = "replay"
    disable_warp_tools: bool = True
    tokens: RefreshingToken | None = None
    """Source of a credential that must be refreshed."""
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    breaker: BreakerConfig = BreakerConfig()
    member: str = ""
    """Name of the member of a pool that this is; empty without a pool."""
    account: str = ""
    """Account of this member, without secrets: reasoning state returns to the same account only."""

    @property
    def label(self) -> str:
        """Name for errors and logs."""
        return f"{self.name}, member {self.member}" if self.member else self.name

    def __repr__(self) -> str:
        """Omits the credential, so that no output contains it."""
        return f"Upstream({self.name!r}, {self.dialect.name!r}, {self.base_url!r})"

    def call(self, path: str, body: bytes = b"", headers: Mapping[str, str] = {}, method: str = "POST") -> UpstreamCall:
        """Return a call to a path of the dialect, with this upstream's credential."""
        url, rules = join_url(self.base_url, path), self.dialect.headers
        sent = {"content-type": "application/json", **rules.sent, **headers, **self.headers}
        if rules.sign is None:
            sent |= self.credential()
        else:
            sent |= rules.sign(UnsignedCall(method=method, url=url, headers=sent, body=body, key=self.key))
        return UpstreamCall(method=method, url=url, headers=sent, body=body, timeouts=self.timeouts)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The credential and the configured headers, complete and without their scheme (`Bearer`)."""
        said = [self.key or "", *header_secrets(self.headers)]
        said += self.tokens.secrets if self.tokens is not None else ()
        return tuple(secret for secret in said if len(secret) >= MIN_SECRET_LENGTH)

    def redact_body(self, body: bytes) -> bytes:
        """Remove the credential from an answer: some upstreams repeat it in the error that rejects it."""
        try:
            said, encoding = body.decode(), "utf-8"
        except UnicodeDecodeError:
            said, encoding = body.decode("latin-1"), "latin-1"
        return replace_secret_parts(said, self.secrets, HIDDEN).encode(encoding)

    def redact_error(self, error: ApiError) -> ApiError:
        """Remove the credential from an error; returns the same error if it does not contain it."""
        secrets = self.secrets
        said = {name: getattr(error, name) or "" for name in ("message", "code", "param", "request_id")}
        hidden = {name: replace_secret_parts(text, secrets, HIDDEN) for name, text in said.items()}
        own = repr(error.native)
        if hidden == said and replace_secret_parts(own, secrets, HIDDEN) == own:
            return error
        return replace(error, **{name: text or None for name, text in hidden.items()}, native={})

    def describe_error(self, error: ApiError) -> ApiError:
        """Remove the credential from an error. If the error is about a key, name the upstream, whose key it is: clients
        would take it for their own."""
        error = self.redact_error(error)
        named = f"The upstream {self.label!r}"
        if error.kind not in CREDENTIAL_KINDS or error.message.startswith(named):
            return error
        return replace(error, message=f"{named} says: {error.message}")

    def safe_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the upstream's headers except those that repeat the credential."""
        secrets = self.secrets
        whole = " ".join(headers.values())
        if replace_secret_parts(whole, secrets, HIDDEN) == whole:
            return dict(headers)
        return {name: value for name, value in headers.items() if replace_secret_parts(value, secrets, HIDDEN) == value}

    def credential(self) -> dict[str, str]:
        if not self.key:
            return {}
        header = self.key_header or self.dialect.headers.key
        return {header: f"Bearer {self.key}" if header == "authorization" else self.key}


@lru_cache(maxsize=256)
def join_url(base_url: str, path: str) -> str:
    """Join a base URL and a path. A version at the end of the base replaces the path's own."""
    base = base_url.rstrip("/")
    if VERSION.search(base):
        path = re.sub(r"^/v\d+[a-z0-9]*(?=/)", "", path)
    return base + path
