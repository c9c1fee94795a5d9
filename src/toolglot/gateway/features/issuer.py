"""Identity that an upstream's state is bound to: the upstream, its credential, and for some dialects the model."""

from __future__ import annotations

import re
from hashlib import sha256

from toolglot.recordings.redact import SECRET_NAMES
from toolglot.upstream.upstream import Upstream

_TENANTS = re.compile(r"organi[sz]ation|project|tenant|account", re.IGNORECASE)
"""Headers that select the account of a credential."""


_known: dict[tuple[int, str], tuple[Upstream, str]] = {}
_MAX_KNOWN = 1000


def hash_issuer(upstream: Upstream, model: str = "") -> str:
    """Hash the server and everything that identifies the account, for the store."""
    key = (id(upstream), model)
    known = _known.get(key)
    if known is None or known[0] is not upstream:
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        known = _known[key] = (upstream, _compute_hash(upstream, model))
    return known[1]


def _compute_hash(upstream: Upstream, model: str) -> str:
    identity = {name.lower(): value for name, value in upstream.headers.items() if _identifies(name, upstream)}
    # A bearer token changes often; its origin identifies the account.
    key = upstream.key if upstream.tokens is None else upstream.tokens.origin[:3]
    bound = (upstream.dialect.name, upstream.base_url, key or "", model, sorted(identity.items()))
    return sha256(repr(bound).encode("utf-8", "surrogatepass")).hexdigest()


def _identifies(name: str, upstream: Upstream) -> bool:
    own = (upstream.key_header or upstream.dialect.headers.key).lower()
    return name.lower() == own or SECRET_NAMES.search(name) is not None or _TENANTS.search(name) is not None
