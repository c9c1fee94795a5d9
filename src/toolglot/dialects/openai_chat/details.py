"""`reasoning_details`: reasoning state beside the text of the reasoning.

OpenRouter has brought the field in: https://openrouter.ai/docs/use-cases/reasoning-tokens. Its entries hold what the
model behind it wants back (signatures, encrypted reasoning), and clients return them as they are. Here they ride on the
reasoning of their message, or on an empty one where it has none.
"""

from __future__ import annotations

from typing import Any

from toolglot.dialects.openai_chat.native import NAME
from toolglot.ir import Thinking, native_of, with_native
from toolglot.wire.reader import Reader

FIELD = "reasoning_details"

_IN_PIECES = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The entries that a stream brings piece by piece, and the member that grows."""


def is_details(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


def take_details(message: Reader, reasoning: list[Thinking]) -> list[Thinking]:
    """The reasoning of a message with its details on it. What is no list of entries stays with the message."""
    if not is_details(message.peek(FIELD)):
        return reasoning
    first = reasoning[0] if reasoning else Thinking()
    return [with_native(first, NAME, **{FIELD: message.take(FIELD)}), *reasoning[1:]]


def details_of(block: Thinking) -> list[Any]:
    return list(native_of(block, NAME).get(FIELD, ()))


class Details:
    """The entries of a stream. Pieces of one entry have its index; joined once, so the work is linear."""

    __slots__ = ("_entries", "_pieces")

    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []
        self._pieces: list[list[str]] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, entry: dict[str, Any]) -> None:
        member = _IN_PIECES.get(str(entry.get("type")))
        piece = entry.get(member) if member is not None else None
        if not self._goes_on(entry):
            self._entries.append({})
            self._pieces.append([])
        self._entries[-1] |= {key: value for key, value in entry.items() if key not in self._entries[-1] or value}
        if isinstance(piece, str):
            self._pieces[-1].append(piece)

    def _goes_on(self, entry: dict[str, Any]) -> bool:
        """Is it another piece of the latest entry?"""
        if not self._entries or entry.get("index") is None or str(entry.get("type")) not in _IN_PIECES:
            return False
        last = self._entries[-1]
        return bool(last.get("index") == entry["index"] and last.get("type") == entry["type"])

    def take(self) -> list[dict[str, Any]]:
        """All that has come since the last time."""
        entries, pieces = self._entries, self._pieces
        self._entries, self._pieces = [], []
        for entry, texts in zip(entries, pieces, strict=True):
            if texts:
                entry[_IN_PIECES[entry["type"]]] = "".join(texts)
        return entries
