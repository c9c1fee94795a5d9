"""Collect the members of a candidate other than its parts, over all frames of a stream.

The sources of an answer arrive with the text that they belong to, so later frames extend the lists of earlier ones.
Some servers repeat all earlier entries; then the longer list replaces the shorter one.
"""

from __future__ import annotations

from typing import Any

from toolglot.errors import DecodeError
from toolglot.receipt import Receipt
from toolglot.wire import json

MAX_HELD_BYTES = 32 * 1024 * 1024

_GROWING = frozenset({"citationMetadata", "groundingMetadata", "urlContextMetadata", "logprobsResult"})
_CURRENT = frozenset({"content", "safetyRatings", "avgLogprobs", "tokenCount", "index", "continuationToken"})
"""Members whose last value replaces the earlier ones."""


class CandidateMetadata:
    """The collected members of one candidate."""

    __slots__ = ("_held", "_receipt", "_sizes", "fields")

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._sizes: dict[str, int] = {}
        self._held = 0  # the sum of the sizes
        self.fields: dict[str, Any] = {}

    def add(self, members: dict[str, Any]) -> None:
        for key, value in members.items():
            if value is not None or key not in self.fields:
                self._add_member(key, value)

    def _add_member(self, key: str, value: Any) -> None:
        before = self.fields.get(key)
        size = len(json.encode(value))
        if key in _GROWING and isinstance(value, dict) and isinstance(before, dict):
            if _extend_lists(before, value):
                size += self._sizes[key]
        else:
            if before not in (None, value) and key not in _CURRENT:
                self._receipt.loss(f"candidates[0].{key}", key, "a later frame contradicts it")
            self.fields[key] = value
        self._held += size - self._sizes.get(key, 0)
        self._sizes[key] = size
        if self._held > MAX_HELD_BYTES:
            raise DecodeError("$.candidates[0]", f"the metadata of the answer has more than {MAX_HELD_BYTES} bytes")

    def add_content(self, members: dict[str, Any]) -> None:
        """Add members of a content other than its parts."""
        if members:
            self._add_member("content", {**self.fields.get("content", {}), **members})


def _extend_lists(before: dict[str, Any], value: dict[str, Any]) -> bool:
    """Merge `value` into `before`, in place, and extend its lists. Returns whether a list was extended."""
    grown = False
    chunks = before.get("groundingChunks")
    earlier = len(chunks) if isinstance(chunks, list) else 0
    if earlier and not _repeats(chunks, value.get("groundingChunks")):
        value = _shift_supports(value, earlier)
    for key, item in value.items():
        held = before.get(key)
        if isinstance(held, list) and isinstance(item, list) and not _repeats(held, item):
            held.extend(item)
            grown = True
        elif item is not None:
            before[key] = item
    return grown


def _repeats(before: Any, value: Any) -> bool:
    """Return whether the new list begins with all entries of the old one."""
    return isinstance(value, list) and len(value) >= len(before) and value[: len(before)] == before


def _shift_supports(grounding: dict[str, Any], offset: int) -> dict[str, Any]:
    """Add `offset` to the chunk indices of the supports: the new chunks are appended to the earlier ones."""
    supports = grounding.get("groundingSupports")
    if not isinstance(supports, list) or not isinstance(grounding.get("groundingChunks"), list):
        return grounding
    return {**grounding, "groundingSupports": [_shift_support(support, offset) for support in supports]}


def _shift_support(support: Any, offset: int) -> Any:
    indices = support.get("groundingChunkIndices") if isinstance(support, dict) else None
    if not isinstance(indices, list):
        return support
    moved = [index + offset if type(index) is int else index for index in indices]
    return {**support, "groundingChunkIndices": moved}
