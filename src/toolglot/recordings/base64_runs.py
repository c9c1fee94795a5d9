"""Runs of base64 in a text, complete or cut anywhere."""

from __future__ import annotations

import re
from base64 import b64decode

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_CHARACTER = "[A-Za-z0-9+/_-]"
BASE64 = re.compile(
    rf"(?<![\\A-Za-z0-9+/_-])(?:{_CHARACTER}{{16,}}={{0,2}}|(?:{_CHARACTER}{{4}}){{1,3}}(?:{_CHARACTER}{{2}}==|{_CHARACTER}{{3}}=)(?!=))"
)
"""Excludes text that begins with the rest of an escape. A short run may be a word, unless it has padding."""


def trailing_offset(text: str, before: int | None) -> int | None:
    """Return the length, modulo four, of the base64 at the end of this text that continues after it."""
    other = text.rstrip(_ALPHABET)
    if not other:
        return None if before is None else (before + len(text)) % 4
    return None if other[-1] in "\\%" else (len(text) - len(other)) % 4


def decode_base64(text: str) -> bytes:
    """Decode base64 of either alphabet, with or without padding."""
    standard = text.rstrip("=").replace("-", "+").replace("_", "/")
    standard = standard[: -1 if len(standard) % 4 == 1 else None]
    return b64decode(standard + "=" * (-len(standard) % 4))
