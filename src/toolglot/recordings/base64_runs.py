"""Runs of base64 in a text, whole or cut anywhere."""

from __future__ import annotations

import re
from base64 import b64decode

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_ONE = "[A-Za-z0-9+/_-]"
BASE64 = re.compile(
    rf"(?<![\\A-Za-z0-9+/_-])(?:{_ONE}{{16,}}={{0,2}}|(?:{_ONE}{{4}}){{1,3}}(?:{_ONE}{{2}}==|{_ONE}{{3}}=)(?!=))"
)
"""Nothing that begins with the rest of an escape; what is short may be a word, unless it has its end."""


def gone_of(text: str, before: int | None) -> int | None:
    """Of the base64 at the end of this text, which goes on behind it: its characters modulo four."""
    other = text.rstrip(_ALPHABET)
    if not other:
        return None if before is None else (before + len(text)) % 4
    return None if other[-1] in "\\%" else (len(text) - len(other)) % 4


def decoded(text: str) -> bytes:
    """Base64 of either alphabet, with or without its end."""
    standard = text.rstrip("=").replace("-", "+").replace("_", "/")
    standard = standard[: -1 if len(standard) % 4 == 1 else None]
    return b64decode(standard + "=" * (-len(standard) % 4))
