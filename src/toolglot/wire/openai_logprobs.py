"""Log probabilities of tokens in OpenAI's two APIs: entries with `token`, `logprob`, `bytes` and `top_logprobs`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolglot.ir import TokenLogprob


def read_logprobs(entries: Any) -> tuple[TokenLogprob, ...] | None:
    """Read the entries; None if one of them has another form."""
    if not isinstance(entries, list):
        return None
    read = [_read(entry) for entry in entries]
    return None if None in read else tuple(entry for entry in read if entry is not None)


def _read(entry: Any, *, is_top: bool = False) -> TokenLogprob | None:
    if not isinstance(entry, dict):
        return None
    token, logprob, spelled = entry.get("token"), entry.get("logprob"), entry.get("bytes")
    if not isinstance(token, str) or isinstance(logprob, bool) or not isinstance(logprob, (int, float)):
        return None
    if spelled is not None and not (isinstance(spelled, list) and all(type(byte) is int for byte in spelled)):
        return None
    listed = [] if is_top else entry.get("top_logprobs") or []
    if not isinstance(listed, list):
        return None
    top = [_read(other, is_top=True) for other in listed]
    if None in top:
        return None
    return TokenLogprob(
        token=token,
        logprob=logprob,
        bytes=tuple(spelled) if spelled is not None else None,
        top=tuple(other for other in top if other is not None),
    )


_KNOWN_MEMBERS = frozenset({"token", "logprob", "bytes", "top_logprobs"})


def unread_members(entries: Any) -> list[dict[str, Any]]:
    """Return the members of the entries that `read_logprobs` does not read."""
    listed = [entry for entry in entries or () if isinstance(entry, dict)] if isinstance(entries, list) else []
    tops = [top for entry in listed for top in entry.get("top_logprobs") or () if isinstance(top, dict)]
    return [
        {key: value for key, value in entry.items() if key not in _KNOWN_MEMBERS}
        for entry in (*listed, *tops)
        if not entry.keys() <= _KNOWN_MEMBERS
    ]


def write_logprobs(tokens: Iterable[TokenLogprob]) -> list[dict[str, Any]]:
    return [{**_write(token), "top_logprobs": [_write(other) for other in token.top]} for token in tokens]


def _write(token: TokenLogprob) -> dict[str, Any]:
    spelled = token.token.encode("utf-8", "surrogatepass") if token.bytes is None else token.bytes
    return {"token": token.token, "logprob": token.logprob, "bytes": list(spelled)}
