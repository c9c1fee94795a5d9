"""The names that servers' tools are offered under: `server__tool`, legal in every dialect, unique, and told apart.

A name depends on its own server and tool alone (but for the case that somebody names a tool after another one's hash),
so that it stays the same whatever other servers come and go: the model may have called it before.

`server__tool` is kept as it is where the first `__` ends the server's name for certain. Else, and where characters or
the length do not fit, the name is cleaned, cut, and ends with a hash of what was meant.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from hashlib import sha256

LONGEST = 64
_SERVER = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]|_(?=[A-Za-z0-9-]))*")
"""Without `__` and no `_` at the end; Gemini wants a letter at the beginning."""
_TOOL = re.compile(r"[A-Za-z0-9_-]+")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_HASH = 8


def offered_names(pairs: Sequence[tuple[str, str]], reserved: Collection[str] = ()) -> dict[tuple[str, str], str]:
    """The name of each pair of a server and one of its tools, whatever their order. `reserved` are names that others
    have, and keep."""
    names: dict[tuple[str, str], str] = {}
    taken = set(reserved)
    for pair in sorted(set(pairs), key=lambda pair: (_plain(*pair) is None, pair)):
        names[pair] = _free(pair, taken)
        taken.add(names[pair])
    return {pair: names[pair] for pair in pairs}


def _plain(server: str, tool: str) -> str | None:
    """The name that needs no hash, if there is one. No two pairs have the same."""
    name = f"{server}__{tool}"
    fits = len(name) <= LONGEST and _SERVER.fullmatch(server) and _TOOL.fullmatch(tool)
    return name if fits else None


def _free(pair: tuple[str, str], taken: set[str]) -> str:
    name, attempt = _plain(*pair), 0
    while name is None or name in taken:
        name = _hashed(*pair, attempt)
        attempt += 1
    return name


def _hashed(server: str, tool: str, attempt: int) -> str:
    meant = f"{len(server)}:{server}{tool}{attempt or ''}".encode("utf-8", "surrogatepass")
    readable = _ILLEGAL.sub("_", f"{server}__{tool}")
    if not readable[0].isalpha():
        readable = f"_{readable}"
    return f"{readable[: LONGEST - _HASH - 1]}_{sha256(meant).hexdigest()[:_HASH]}"
