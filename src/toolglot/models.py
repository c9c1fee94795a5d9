"""Entries of model lists, independent of any vendor's format, and pagination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

T = TypeVar("T")

LATEST = ":latest"
"""The default tag, at servers whose model names have tags."""
GATEWAY_TAG = ":toolglot"
"""The tag under which a model list shows a name without one, for clients that know names only with a tag. No server has
a model of this tag, so it can be removed from any name."""


class ModelInfo(Struct, frozen=True, kw_only=True):
    """One model in a list. Unknown values are None or an empty set: a list must not promise unknown abilities."""

    name: str
    """The name that clients request."""
    title: str | None = None
    created: int | None = None
    """Time of creation (Unix seconds)."""
    owner: str | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None
    inputs: frozenset[str] = frozenset()
    """Accepted input kinds: text, image, document, audio, video."""
    thinking: bool | None = None


def whole(value: object) -> int | None:
    """Parse a positive integer, given as a number or a string; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return None
    return number if 0 < number < 1 << 53 else None


def asked_size(query: Mapping[str, str], key: str, usual: int, most: int) -> int:
    """Return the page size: the client's number, at most `most`; the usual number if it is missing or invalid."""
    return min(whole(query.get(key)) or usual, most)


def page(items: Sequence[T], start: int, size: int) -> Sequence[T]:
    """Return a page of entries; empty if `start` is outside the list."""
    return items[max(start, 0) : max(start, 0) + size] if start >= 0 else items[:0]
