"""What a candidate says besides its parts, over all frames of a stream.

Sources of an answer come with the stretch of text that they belong to, so what one frame says does not replace what an
earlier one said: lists grow. Some servers repeat everything that came before; then the longer list counts.
"""

from __future__ import annotations

from typing import Any

from toolglot.errors import DecodeError
from toolglot.receipt import Receipt
from toolglot.wire import json

MAX_HELD_BYTES = 32 * 1024 * 1024

_GROWING = frozenset({"citationMetadata", "groundingMetadata", "urlContextMetadata", "logprobsResult"})
_CURRENT = frozenset({"content", "safetyRatings", "avgLogprobs", "tokenCount", "index", "continuationToken"})
"""Each frame says how it is now: only the last word counts."""


class Metadata:
    """The members of one candidate, collected."""

    __slots__ = ("_held", "_receipt", "_sizes", "fields")

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._sizes: dict[str, int] = {}
        self._held = 0  # the sum of the sizes
        self.fields: dict[str, Any] = {}

    def add(self, members: dict[str, Any]) -> None:
        for key, value in members.items():
            if value is not None or key not in self.fields:
                self._add(key, value)

    def _add(self, key: str, value: Any) -> None:
        before = self.fields.get(key)
        size = len(json.encode(value))
        if key in _GROWING and isinstance(value, dict) and isinstance(before, dict):
            if _grow(before, value):
                size += self._sizes[key]
        else:
            if before not in (None, value) and key not in _CURRENT:
                self._receipt.loss(f"candidates[0].{key}", key, "a later frame says something else")
            self.fields[key] = value
        self._held += size - self._sizes.get(key, 0)
        self._sizes[key] = size
        if self._held > MAX_HELD_BYTES:
            raise DecodeError("$.candidates[0]", f"the metadata of the answer has more than {MAX_HELD_BYTES} bytes")

    def add_content(self, members: dict[str, Any]) -> None:
        """What stands beside the parts of a content."""
        if members:
            self._add("content", {**self.fields.get("content", {}), **members})


def _grow(before: dict[str, Any], value: dict[str, Any]) -> bool:
    """Adds the members of `value` to those of `before`, in place; tells whether any list has grown."""
    grown = False
    chunks = before.get("groundingChunks")
    earlier = len(chunks) if isinstance(chunks, list) else 0
    if earlier and not _repeats(chunks, value.get("groundingChunks")):
        value = _moved(value, earlier)
    for key, item in value.items():
        held = before.get(key)
        if isinstance(held, list) and isinstance(item, list) and not _repeats(held, item):
            held.extend(item)
            grown = True
        elif item is not None:
            before[key] = item
    return grown


def _repeats(before: Any, value: Any) -> bool:
    """Whether a list begins with everything that was there already."""
    return isinstance(value, list) and len(value) >= len(before) and value[: len(before)] == before


def _moved(grounding: dict[str, Any], offset: int) -> dict[str, Any]:
    """The same, with its supports pointing to where its chunks will stand behind the earlier ones."""
    supports = grounding.get("groundingSupports")
    if not isinstance(supports, list) or not isinstance(grounding.get("groundingChunks"), list):
        return grounding
    return {**grounding, "groundingSupports": [_support(support, offset) for support in supports]}


def _support(support: Any, offset: int) -> Any:
    indices = support.get("groundingChunkIndices") if isinstance(support, dict) else None
    if not isinstance(indices, list):
        return support
    moved = [index + offset if type(index) is int else index for index in indices]
    return {**support, "groundingChunkIndices": moved}
