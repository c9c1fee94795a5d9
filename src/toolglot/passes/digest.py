"""Short names for long things: the same input gives the same characters in every process."""

from __future__ import annotations

import hashlib


def digest(*parts: object) -> str:
    """Lower-case hex over the parts, 64 characters; callers cut what they need."""
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()
