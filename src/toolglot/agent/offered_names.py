"""The names under which servers' tools are offered: `server__tool`, legal in every dialect, unique and unambiguous.

A name depends only on its own server and tool (unless somebody names a tool after another one's hash), so it stays the
same when other servers come and go: the model may have called it before.

`server__tool` is used unchanged if the first `__` certainly ends the server's name. Otherwise, and if characters or the
length do not fit, the name is cleaned, cut, and ends with a hash of the original.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from hashlib import sha256

MAX_NAME = 64
_SERVER = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]|_(?=[A-Za-z0-9-]))*")
"""Without `__` and no `_` at the end; Gemini requires a letter at the beginning."""
_TOOL = re.compile(r"[A-Za-z0-9_-]+")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_HASH = 8


def offered_names(pairs: Sequence[tuple[str, str]], reserved: Collection[str] = ()) -> dict[tuple[str, str], str]:
    """Return the name of each pair of a server and one of its tools, independent of their order. `reserved` are names
    that others have, and keep."""
    names: dict[tuple[str, str], str] = {}
    taken = set(reserved)
    for pair in sorted(set(pairs), key=lambda pair: (_unhashed_name(*pair) is None, pair)):
        names[pair] = _free_name(pair, taken)
        taken.add(names[pair])
    return {pair: names[pair] for pair in pairs}


def _unhashed_name(server: str, tool: str) -> str | None:
    """Return the name that needs no hash, if there is one. No two pairs have the same."""
    name = f"{server}__{tool}"
    fits = len(name) <= MAX_NAME and _SERVER.fullmatch(server) and _TOOL.fullmatch(tool)
    return name if fits else None


def _free_name(pair: tuple[str, str], taken: set[str]) -> str:
    name, attempt = _unhashed_name(*pair), 0
    while name is None or name in taken:
        name = _hashed_name(*pair, attempt)
        attempt += 1
    return name


def _hashed_name(server: str, tool: str, attempt: int) -> str:
    meant = f"{len(server)}:{server}{tool}{attempt or ''}".encode("utf-8", "surrogatepass")
    readable = _ILLEGAL.sub("_", f"{server}__{tool}")
    if not readable[0].isalpha():
        readable = f"_{readable}"
    return f"{readable[: MAX_NAME - _HASH - 1]}_{sha256(meant).hexdigest()[:_HASH]}"
