"""Stable digests for ids, names and keys: the same input gives the same characters in every process."""

from __future__ import annotations

import hashlib


def digest(*parts: object) -> str:
    """Return the SHA-256 of the parts as 64 lower-case hex characters. Callers truncate it."""
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()
