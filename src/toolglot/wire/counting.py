"""Helpers for the endpoints that count tokens: requests with fewer members, answers with one number."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from toolglot.errors import DecodeError
from toolglot.wire import json
from toolglot.wire.typed import ValueReader

_OBJECTS, _COUNTS = ValueReader(dict[str, Any]), ValueReader[int | None](int | None)
_members: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_members(data: bytes) -> dict[str, msgspec.Raw]:
    """Return the members of a JSON object, each in its original spelling."""
    return json.decode_typed(data, _members)


def select_members(data: bytes, names: Collection[str]) -> bytes:
    """Remove all members of a JSON object except these. Their spelling stays."""
    return json.encode({name: value for name, value in read_members(data).items() if name in names})


def read_count(data: bytes, name: str, *, absent: int | None = None) -> int:
    """Return the number of tokens in an answer.

    Raises:
        DecodeError: the answer has no count.
    """
    body = _OBJECTS.read_value(json.decode(data), "$")
    if body.get("error") is not None:
        raise DecodeError("$.error", "an error is in the place of the count")
    tokens = _COUNTS.read_value(body.get(name), f"$.{name}")
    tokens = absent if tokens is None else tokens
    if tokens is None or tokens < 0:
        raise DecodeError(f"$.{name}", "the number of tokens is required")
    return tokens
