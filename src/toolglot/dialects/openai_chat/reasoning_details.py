"""Reasoning state next to the reasoning text, in the members that servers have introduced for it.

Two of them are lists: OpenRouter's `reasoning_details` (https://openrouter.ai/docs/use-cases/reasoning-tokens), and
LiteLLM's `thinking_blocks` with those of Claude. The others are single values: GitHub Copilot's `reasoning_opaque`, the
`extra_content` in which Google's server signs a text, and LiteLLM's `thought_signatures` of Gemini. They
hold state that the model expects back (signatures, encrypted reasoning), and clients return them unchanged. The IR
stores them on the reasoning block of their message, or on a block of their own if it has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolglot.dialects.openai_chat.native import NAME
from toolglot.ir import Thinking, native_of, with_native
from toolglot.receipt import Receipt

REASONING_DETAILS = "reasoning_details"
THINKING_BLOCKS = "thinking_blocks"
STATE_FIELDS = (REASONING_DETAILS, THINKING_BLOCKS)
REASONING_SUMMARY = "reasoning_summary"
"""The native key for the entries of Databricks' content part of type `reasoning`. Their texts are the reasoning, and
they hold its signature.
"""
REASONING_OPAQUE = "reasoning_opaque"
EXTRA_CONTENT = "extra_content"
PROVIDER_FIELDS = "provider_specific_fields"
"""The member into which LiteLLM moves members of an answer that it does not know, and from which clients send them
back. It has signatures of Gemini as well."""
SINGLE_FIELDS = (REASONING_OPAQUE, EXTRA_CONTENT, PROVIDER_FIELDS)
DETAILS_FIELDS = (*STATE_FIELDS, *SINGLE_FIELDS)
"""The members of a message that `take_details` reads."""
_SIGNATURES = ("thought_signatures", "thought_signature")

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
    """Move the state fields of a message onto its reasoning. A field that is not a list of objects stays with the
    message.
    """
    _unnest_state_fields(members)
    for field in STATE_FIELDS:
        if field not in members or not is_details(members[field]):
            continue
        entries = members.pop(field)
        first = reasoning[0] if reasoning else _make_reasoning(field, entries)
        reasoning = [with_native(first, NAME, **{field: entries}), *reasoning[1:]]
    for field in SINGLE_FIELDS:
        if field in members and (state := take_single_state(members, field)) is not None:
            first = reasoning[0] if reasoning else Thinking()
            reasoning = [with_native(first, NAME, **{field: state}), *reasoning[1:]]
    return reasoning


def take_single_state(members: dict[str, Any], field: str) -> Any:
    """Extract the state from a member that holds a single value; None if it holds none. Its other content stays."""
    value = members[field]
    if field == REASONING_OPAQUE:
        return members.pop(field) if isinstance(value, str) and value else None
    if not isinstance(value, dict):
        return None
    if field == EXTRA_CONTENT:
        google = value.get("google")
        return members.pop(field) if isinstance(google, dict) and google.get("thought_signature") else None
    state = {name: value[name] for name in _SIGNATURES if value.get(name)}
    if not state:
        return None
    left = {name: beside for name, beside in value.items() if name not in _SIGNATURES}
    if left:
        members[field] = left
    else:
        del members[field]
    return state


FUNCTION_STATE = "$function_state"
"""The native key of LiteLLM's fields inside the `function` of a call: older versions store the signature there."""


def function_state(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the member of `function` that holds state of the call, if there is any."""
    return {PROVIDER_FIELDS: fields[FUNCTION_STATE]} if FUNCTION_STATE in fields else {}


def has_signature(fields: Any) -> bool:
    """Return whether LiteLLM's fields of a call have its signature."""
    return isinstance(fields, dict) and any(fields.get(name) for name in _SIGNATURES)


def _unnest_state_fields(members: dict[str, Any]) -> None:
    moved = members.get(PROVIDER_FIELDS)
    if not isinstance(moved, dict):
        return
    state = {field: moved[field] for field in STATE_FIELDS if is_details(moved.get(field)) and not members.get(field)}
    left = {name: value for name, value in moved.items() if name not in state and value is not None}
    members |= state
    if left:
        members[PROVIDER_FIELDS] = left
    else:
        del members[PROVIDER_FIELDS]


def _make_reasoning(field: str, entries: Iterable[Any]) -> Thinking:
    """Return a reasoning block for entries that came without reasoning text."""
    if field != THINKING_BLOCKS:
        return Thinking()
    return Thinking(
        text="\n\n".join(filter(None, map(thinking_text, entries))), native={NAME: {"$field": THINKING_BLOCKS}}
    )


def thinking_text(entry: Mapping[str, Any]) -> str:
    """Return the text of an entry of `thinking_blocks`."""
    text = entry.get("thinking")
    return text if isinstance(text, str) else ""


def summary_text(entries: Iterable[Mapping[str, Any]]) -> str:
    """Return the joined texts of the entries of `summary`."""
    return "".join(text for entry in entries if isinstance(text := entry.get("text"), str))


def unwrap_reasoning(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Read reasoning that is an object, as Envoy AI Gateway sends it for Bedrock. Returns its text and the other
    members."""
    inner = value.get("reasoningText", value) if isinstance(value, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("text"), str):
        return None
    outer = {name: beside for name, beside in value.items() if name != "reasoningText"} if inner is not value else {}
    return inner["text"], {**outer, **{name: beside for name, beside in inner.items() if name != "text"}}


def details_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state on a block, by the name of its message field."""
    lists = {field: list(fields[field]) for field in STATE_FIELDS if fields.get(field)}
    return {**lists, **{field: fields[field] for field in SINGLE_FIELDS if fields.get(field)}}


def add_details(message: dict[str, Any], block: Thinking, where: str, receipt: Receipt) -> bool:
    """Add the state on a block to a message. Returns whether there was any."""
    found = details_of(native_of(block, NAME))
    merge_details(message, found, where, receipt)
    return bool(found)


def merge_details(message: dict[str, Any], found: Mapping[str, Any], where: str, receipt: Receipt) -> None:
    """Add state to the state of a message: lists and objects grow; for other values, the last one is kept."""
    for field, state in found.items():
        if isinstance(state, str) and message.get(field, state) != state:
            receipt.loss(where, field, "a message has one; the last counts")
        if isinstance(state, list):
            message[field] = [*message.get(field, ()), *state]
        elif isinstance(state, dict):
            before = message.get(field) or {}
            lists = {
                name: [*before[name], *value]
                for name, value in state.items()
                if isinstance(value, list) and isinstance(before.get(name), list)
            }
            message[field] = {**before, **state, **lists}
        else:
            message[field] = state


def fill_provider_fields(message: dict[str, Any], received: Mapping[str, Any]) -> None:
    """Add the other content of LiteLLM's member to a message whose state was restored."""
    beside = received.get(PROVIDER_FIELDS)
    if isinstance(beside, dict) and isinstance(message.get(PROVIDER_FIELDS), dict):
        message[PROVIDER_FIELDS] = {**beside, **message[PROVIDER_FIELDS]}


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
        """Return whether this is another piece of the latest entry."""
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
