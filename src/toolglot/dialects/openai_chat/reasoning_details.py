"""Reasoning state next to the reasoning text: `reasoning_details`, `thinking_blocks`, and Databricks' `summary`.

OpenRouter introduced the first field (https://openrouter.ai/docs/use-cases/reasoning-tokens), LiteLLM the second one,
which holds Claude's thinking blocks. Their entries hold state that the model expects back (signatures, encrypted
reasoning), and clients return them unchanged. The IR stores them on the reasoning block of their message, or on a block
of their own if it has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolglot.dialects.openai_chat.native import NAME
from toolglot.ir import Thinking, native_of, with_native

REASONING_DETAILS = "reasoning_details"
THINKING_BLOCKS = "thinking_blocks"
STATE_FIELDS = (REASONING_DETAILS, THINKING_BLOCKS)
REASONING_SUMMARY = "reasoning_summary"
"""The native key of the entries of Databricks' content part of type `reasoning`: their texts are the reasoning, and
they hold its signature."""
_PROVIDER_FIELDS = "provider_specific_fields"
"""The member into which LiteLLM moves members of an answer that it does not know, and from which clients send them
back."""
DETAILS_FIELDS = (*STATE_FIELDS, _PROVIDER_FIELDS)
"""The members of a message that `take_details` reads."""

_TEXT_MEMBERS = {
    "reasoning.text": "text",
    "reasoning.summary": "summary",
    "thinking": "thinking",
    "summary_text": "text",
}
"""Types of entries that a stream sends in pieces, and the member that grows."""


def is_details(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


def take_details(members: dict[str, Any], reasoning: list[Thinking]) -> list[Thinking]:
    """Move the state fields of a message onto its reasoning. A field that is no list of objects stays with the
    message."""
    _unnest_state_fields(members)
    for field in STATE_FIELDS:
        if field not in members or not is_details(members[field]):
            continue
        entries = members.pop(field)
        first = reasoning[0] if reasoning else _make_reasoning(field, entries)
        reasoning = [with_native(first, NAME, **{field: entries}), *reasoning[1:]]
    return reasoning


def _unnest_state_fields(members: dict[str, Any]) -> None:
    moved = members.get(_PROVIDER_FIELDS)
    if not isinstance(moved, dict):
        return
    state = {field: moved[field] for field in STATE_FIELDS if is_details(moved.get(field)) and not members.get(field)}
    left = {name: value for name, value in moved.items() if name not in state and value is not None}
    members |= state
    if left:
        members[_PROVIDER_FIELDS] = left
    else:
        del members[_PROVIDER_FIELDS]


def _make_reasoning(field: str, entries: Iterable[Any]) -> Thinking:
    """A reasoning block for entries that came without reasoning text."""
    if field != THINKING_BLOCKS:
        return Thinking()
    return Thinking(
        text="\n\n".join(filter(None, map(thinking_text, entries))), native={NAME: {"$field": THINKING_BLOCKS}}
    )


def thinking_text(entry: Mapping[str, Any]) -> str:
    """The text of an entry of `thinking_blocks`."""
    text = entry.get("thinking")
    return text if isinstance(text, str) else ""


def summary_text(entries: Iterable[Mapping[str, Any]]) -> str:
    """The joined texts of the entries of `summary`."""
    return "".join(text for entry in entries if isinstance(text := entry.get("text"), str))


def unwrap_reasoning(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Read reasoning that is an object, as Envoy AI Gateway sends it for Bedrock. Returns its text and the other
    members."""
    inner = value.get("reasoningText", value) if isinstance(value, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("text"), str):
        return None
    outer = {name: beside for name, beside in value.items() if name != "reasoningText"} if inner is not value else {}
    return inner["text"], {**outer, **{name: beside for name, beside in inner.items() if name != "text"}}


def details_of(fields: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The state on a block, by the name of its message field."""
    return {field: list(fields[field]) for field in STATE_FIELDS if fields.get(field)}


def add_details(message: dict[str, Any], block: Thinking) -> bool:
    """Add the state on a block to a message. Returns whether there was any."""
    found = details_of(native_of(block, NAME))
    for field, entries in found.items():
        message[field] = [*message.get(field, ()), *entries]
    return bool(found)


class DetailsCollector:
    """Collects the entries of a stream. Pieces of one entry share its index. They are joined once, so the work is
    linear."""

    __slots__ = ("_entries", "_pieces")

    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []
        self._pieces: list[list[str]] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, entry: dict[str, Any]) -> None:
        member = _TEXT_MEMBERS.get(str(entry.get("type")))
        piece = entry.get(member) if member is not None else None
        if not self._continues_last(entry):
            self._entries.append({})
            self._pieces.append([])
        self._entries[-1] |= {key: value for key, value in entry.items() if key not in self._entries[-1] or value}
        if isinstance(piece, str):
            self._pieces[-1].append(piece)

    def _continues_last(self, entry: dict[str, Any]) -> bool:
        """Is this another piece of the latest entry?"""
        if not self._entries or str(entry.get("type")) not in _TEXT_MEMBERS:
            return False
        last = self._entries[-1]
        if last.get("type") != entry["type"]:
            return False
        if entry["type"] in ("thinking", "summary_text"):  # these have no index; a signature ends an entry
            return not last.get("signature")
        return bool(entry.get("index") is not None and last.get("index") == entry["index"])

    def take(self) -> list[dict[str, Any]]:
        """Return the entries received since the last call."""
        entries, pieces = self._entries, self._pieces
        self._entries, self._pieces = [], []
        for entry, texts in zip(entries, pieces, strict=True):
            if texts:
                entry[_TEXT_MEMBERS[entry["type"]]] = "".join(texts)
        return entries
