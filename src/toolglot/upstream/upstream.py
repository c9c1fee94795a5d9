"""One upstream, ready to be called: its dialect, its address, its credential and the transport that reaches it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from toolglot.config.schema import BreakerConfig, Retries, WarpHistory
from toolglot.config.secrets import header_secrets
from toolglot.dialect import Dialect, UnsignedCall
from toolglot.errors import ApiError
from toolglot.ir import replace
from toolglot.passes import CacheMarks
from toolglot.passes.history_policy import Layer
from toolglot.recordings.redact import without
from toolglot.upstream.tokens import Tokens
from toolglot.upstream.transport import Call, Timeouts, Transport

SHORTEST_SECRET = 8
"""Characters. Anything shorter stands in texts that have nothing to do with it."""

HIDDEN = "(hidden)"

_VERSION = re.compile(r"/v\d+[a-z0-9]*$")


class Upstream(Struct, frozen=True, kw_only=True):
    name: str
    dialect: Dialect
    base_url: str
    transport: Transport
    key: str | None = None
    key_header: str | None = None
    """None takes the dialect's own. `authorization` gets `Bearer` before the key."""
    headers: Mapping[str, str] = {}
    models: tuple[str, ...] = ()
    verbatim: bool = True
    """Its answers are let through as they are to clients of its own dialect."""
    keeps_state: bool = False
    """It remembers responses by their ids itself."""
    native_tools: bool | None = None
    """Its models take tools natively; None: as far as is known."""
    without_tools: tuple[str, ...] = ()
    """Patterns of models that do not."""
    listed: tuple[str, ...] = ()
    """Its models, where it has no list to ask for."""
    history: tuple[Layer, ...] = ()
    """How much of a conversation it is sent, and what of it is mended."""
    cache_marks: CacheMarks = "auto"
    """When breakpoints of the prompt cache are set for clients that set none."""
    warp_history: WarpHistory = "replay"
    disable_warp_tools: bool = True
    tokens: Tokens | None = None
    """Where its credential comes from, when it is one that has to be renewed."""
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    breaker: BreakerConfig = BreakerConfig()

    def __repr__(self) -> str:
        """Without the credential, whatever prints it."""
        return f"Upstream({self.name!r}, {self.dialect.name!r}, {self.base_url!r})"

    def call(self, path: str, body: bytes = b"", headers: Mapping[str, str] = {}, method: str = "POST") -> Call:
        """A call to a path of the dialect, with this upstream's credential."""
        url, rules = address(self.base_url, path), self.dialect.headers
        sent = {"content-type": "application/json", **rules.sent, **headers, **self.headers}
        if rules.sign is None:
            sent |= self.credential()
        else:
            sent |= rules.sign(UnsignedCall(method=method, url=url, headers=sent, body=body, key=self.key))
        return Call(method=method, url=url, headers=sent, body=body, timeouts=self.timeouts)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The credential and the configured headers, whole and without a scheme (`Bearer`) before them."""
        said = [self.key or "", *header_secrets(self.headers)]
        said += self.tokens.secrets if self.tokens is not None else ()
        return tuple(secret for secret in said if len(secret) >= SHORTEST_SECRET)

    def without_secrets(self, body: bytes) -> bytes:
        """What the upstream said, without the credential: some repeat it in the error that refuses it."""
        try:
            said, encoding = body.decode(), "utf-8"
        except UnicodeDecodeError:
            said, encoding = body.decode("latin-1"), "latin-1"
        return without(said, self.secrets, HIDDEN).encode(encoding)

    def hide(self, error: ApiError) -> ApiError:
        """The same error, unless it repeats the credential anywhere: then without it."""
        secrets = self.secrets
        said = {name: getattr(error, name) or "" for name in ("message", "code", "param", "request_id")}
        hidden = {name: without(text, secrets, HIDDEN) for name, text in said.items()}
        own = repr(error.native)
        if hidden == said and without(own, secrets, HIDDEN) == own:
            return error
        return replace(error, **{name: text or None for name, text in hidden.items()}, native={})

    def harmless(self, headers: Mapping[str, str]) -> dict[str, str]:
        """What the upstream said in its headers, but those that repeat the credential."""
        secrets = self.secrets
        whole = " ".join(headers.values())
        if without(whole, secrets, HIDDEN) == whole:
            return dict(headers)
        return {name: value for name, value in headers.items() if without(value, secrets, HIDDEN) == value}

    def credential(self) -> dict[str, str]:
        if not self.key:
            return {}
        header = self.key_header or self.dialect.headers.key
        return {header: f"Bearer {self.key}" if header == "authorization" else self.key}


@lru_cache(maxsize=256)
def address(base_url: str, path: str) -> str:
    """Where a path is below a base URL: a version at the end of the base takes the place of the path's own."""
    base = base_url.rstrip("/")
    if _VERSION.search(base):
        path = re.sub(r"^/v\d+[a-z0-9]*(?=/)", "", path)
    return base + path
