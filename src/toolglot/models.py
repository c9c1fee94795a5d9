"""A model as lists of models tell of it, in no vendor's words, and the pages in which lists are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

T = TypeVar("T")


class ModelInfo(Struct, frozen=True, kw_only=True):
    """None, or an empty set, where nothing is known: a list must not promise what nobody said."""

    name: str
    """As clients ask for it."""
    title: str | None = None
    created: int | None = None
    """Unix seconds."""
    owner: str | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None
    inputs: frozenset[str] = frozenset()
    """What it reads: text, image, document, audio, video."""
    thinking: bool | None = None


def whole(value: object) -> int | None:
    """A number that a list may hold: a whole one above zero, whatever its spelling; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return None
    return number if 0 < number < 1 << 53 else None


def asked_size(query: Mapping[str, str], key: str, usual: int, most: int) -> int:
    """How many entries a page shall have: what a client asked for within bounds, the usual number when it is none."""
    return min(whole(query.get(key)) or usual, most)


def page(items: Sequence[T], start: int, size: int) -> Sequence[T]:
    """Entries from a place on; a place outside the list has none."""
    return items[max(start, 0) : max(start, 0) + size] if start >= 0 else items[:0]
