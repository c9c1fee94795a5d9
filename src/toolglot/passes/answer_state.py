"""Reasoning state of an answer: all of its reasoning, and the state that the model attached to its calls and texts.

Toolglot stores the state for clients that cannot carry it, or seals it into one string that the client carries. A
sealed string returns from the network, where anyone can forge one. Unsealing therefore keeps only known fields of each
block, and checks the type of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias

from msgspec import Struct

from toolglot.dialects import ByDialect
from toolglot.ir import Block, Native, Refusal, Text, Thinking, ToolCall, native_of, replace
from toolglot.passes.digest import digest
from toolglot.passes.envelope import BOUND_TO_MODEL, STATE, TAKES_BACK, close, decode_envelope, select_known
from toolglot.receipt import ReceiptLine
from toolglot.state_fields import LENGTH, Checks

AnswerState: TypeAlias = tuple[Block, ...]

PHASE = "$phase"
"""Native key for the `phase` of a text, stored separately from the item that contained the text."""
_ON_CALLS: Mapping[str, Checks] = ByDialect(lambda manifest: manifest.state.calls)
_ON_TEXTS: Mapping[str, Checks] = ByDialect(lambda manifest: manifest.state.texts)
NEEDS_FOLLOWER: Mapping[str, bool] = ByDialect(lambda manifest: manifest.state.needs_follower)
"""APIs that reject reasoning without the item that followed it."""
UNFOLLOWED = "the block that followed it was not sent back, and its API refuses it without that block"
_MARKS = frozenset({"thought", LENGTH})
"""Keys that are not state: a flag that marks reasoning, and the length of a text."""


def claim_kept(owner: str, *, as_well: bool = False) -> str:
    """Return the end of a receipt line: the state is kept for its owner. `as_well`: the client carries it, too."""
    return f"; it is kept here for {owner}{' as well' if as_well else ''}"


def without_kept_claim(line: ReceiptLine, owner: str) -> ReceiptLine | None:
    """Return a receipt line after the state was lost. None if nothing else remains in the line."""
    for as_well in (True, False):
        claim = claim_kept(owner, as_well=as_well)
        if line.severity == "note" and line.why.endswith(claim):
            return replace(line, why=line.why.removesuffix(claim)) if as_well else None
    return line


def state_of_answer(content: Iterable[Block], owner: str) -> AnswerState:
    """Extract the state of an answer that its owner expects back; empty if there is none."""
    if owner not in TAKES_BACK:
        return ()
    blocks = _drop_unfollowed(content, owner)
    states = tuple(each for block in blocks if (each := state_of_block(block, owner)) is not None)
    if any(isinstance(each, Thinking) for each in states) or holds_state(states):
        return without_needless_lengths(states)
    return ()


def _drop_unfollowed(content: Iterable[Block], owner: str) -> list[Block]:
    """Drop reasoning whose next block does not return, if the owner rejects such reasoning."""
    blocks = list(content)
    if owner not in NEEDS_FOLLOWER:
        return blocks
    lost = {id(block) for block, after in pairwise(blocks) if isinstance(block, Thinking) and not comes_back(after)}
    return [block for block in blocks if id(block) not in lost]


def comes_back(block: Block) -> bool:
    """Return whether clients return this kind of block in their history. Their APIs have no place for items of
    server-side tools, and images in answers do not become part of a history."""
    return isinstance(block, (Text, Thinking, ToolCall, Refusal))


def without_needless_lengths(states: AnswerState) -> AnswerState:
    """Remove text lengths that are not needed to match state to texts. They are needed if one of several texts, or an
    empty text, has state, or if there is reasoning between two texts."""
    texts = [each for each in states if isinstance(each, Text)]
    if holds_state(texts) and (len(texts) > 1 or not all(map(length_of, texts))):
        return states
    if len(texts) > 1 and _has_reasoning_between_texts(states):
        return states
    return tuple(_without_length(each) if isinstance(each, Text) else each for each in states)


def _has_reasoning_between_texts(states: AnswerState) -> bool:
    kinds = [type(each) for each in states]
    first = kinds.index(Text)
    last = len(kinds) - kinds[::-1].index(Text)
    return Thinking in kinds[first:last]


def _without_length(text: Text) -> Text:
    fields = {
        owner: {key: value for key, value in each.items() if key != LENGTH} for owner, each in text.native.items()
    }
    return Text(text="", native={owner: each for owner, each in fields.items() if each})


def length_of(text: Text) -> int | None:
    """Return the number of characters the text had; None if not recorded."""
    return next((fields[LENGTH] for fields in text.native.values() if LENGTH in fields), None)


def state_of_block(block: Block, owner: str, length: int | None = None) -> Block | None:
    """Extract the state of one block. `length` overrides the length of a text whose block does not contain all of
    it."""
    fields = native_of(block, owner)
    match block:
        case Thinking(text=text) if text or fields:
            return Thinking(text=text, native=_own(owner, fields, STATE))
        case ToolCall(id=call_id, name=name):
            return ToolCall(id=call_id, name=name, native=_own(owner, fields, _ON_CALLS))
        case Text(text=text):
            marked = {**fields, **phase_of(fields), LENGTH: len(text) if length is None else length}
            return Text(text="", native=_own(owner, marked, _ON_TEXTS))
    return None


def state_of_text(length: int, owner: str) -> Text:
    """Create the entry of a text of this length without state."""
    return Text(text="", native=_own(owner, {LENGTH: length}, _ON_TEXTS))


def phase_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the phase of a text in the form it has outside of an item; empty if it has none."""
    item = fields.get("$item")
    return {PHASE: item["phase"]} if isinstance(item, dict) and item.get("phase") is not None else {}


def _own(owner: str, fields: Mapping[str, Any], table: Mapping[str, Checks]) -> Native:
    """Select state fields without type checks: they come from the owner itself."""
    state = {key: value for key, value in fields.items() if key in table.get(owner, {})}
    return {owner: state} if state else {}


def holds_state(states: Iterable[Block]) -> bool:
    """Return whether there is state beyond the text that the client has anyway."""
    return any(fields.keys() - _MARKS for each in states for fields in each.native.values())


def state_members(kind: type[Block], owner: str) -> frozenset[str]:
    """Return the native keys that hold the owner's state on blocks of this kind."""
    tables = {ToolCall: _ON_CALLS, Text: _ON_TEXTS}
    return frozenset(tables.get(kind, STATE).get(owner, {}))


@lru_cache(maxsize=256)
def issuer_of(server: str, owner: str, model: str) -> str:
    """Identify the server and model that state is bound to, as a digest that reveals neither to the client."""
    return digest(server, owner, model if owner in BOUND_TO_MODEL else "")[:16]


class SealedState(Struct, frozen=True):
    """The state of an answer and its owner. `issuer` is empty if unknown."""

    owner: str
    issuer: str
    states: AnswerState


def seal(sealed: SealedState) -> str:
    """Encode state as the string that a client carries."""
    owner = sealed.owner
    return close([owner, sealed.issuer, [_encode_block(each, native_of(each, owner)) for each in sealed.states]])


def _encode_block(each: Block, state: Mapping[str, Any]) -> list[Any]:
    match each:
        case Thinking(text=text):
            return ["thinking", state, text]
        case ToolCall(id=call_id, name=name):
            return ["call", state, call_id, name]
        case _:
            return ["text", state]


def unseal(value: object) -> SealedState | None:
    """Decode a sealed string; None if toolglot did not write it."""
    match decode_envelope(value):
        case [str() as owner, str() as issuer, list() as encoded] if owner in TAKES_BACK:
            states = tuple(_decode_block(each, owner) for each in encoded)
            return None if None in states else SealedState(owner, issuer, states)  # type: ignore[arg-type]
    return None


def _select_known(owner: str, fields: Mapping[str, Any], table: Mapping[str, Checks]) -> Native:
    """Select the state fields that pass their type checks."""
    state = select_known(fields, table.get(owner, {}))
    return {owner: state} if state else {}


def _decode_block(encoded: object, owner: str) -> Block | None:
    match encoded:
        case ["thinking", dict() as state, str() as text]:
            return Thinking(text=text, native=_select_known(owner, state, STATE))
        case ["call", dict() as state, str() as call_id, str() as name]:
            return ToolCall(id=call_id, name=name, native=_select_known(owner, state, _ON_CALLS))
        case ["text", dict() as state]:
            return Text(text="", native=_select_known(owner, state, _ON_TEXTS))
    return None
