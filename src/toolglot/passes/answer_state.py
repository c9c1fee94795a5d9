"""What a model wants back of an answer: its reasoning whole, and of its calls and texts what it has put on them.

It is kept for clients that carry nothing, or sealed and carried by them in one piece. A sealed one comes back from the
network, where anybody can write one: of each block come out only the fields that such state has, each with its type.
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
from toolglot.passes.envelope import BOUND_TO_MODEL, STATE, TAKES_BACK, close, known, opened
from toolglot.receipt import Loss
from toolglot.state_fields import LENGTH, Checks

AnswerState: TypeAlias = tuple[Block, ...]

PHASE = "$phase"
"""Where a text says in which phase of the turn it stands, outside the item that it came in."""
_ON_CALLS: Mapping[str, Checks] = ByDialect(lambda manifest: manifest.state.calls)
_ON_TEXTS: Mapping[str, Checks] = ByDialect(lambda manifest: manifest.state.texts)
NEEDS_FOLLOWER: Mapping[str, bool] = ByDialect(lambda manifest: manifest.state.needs_follower)
"""APIs that refuse reasoning without the item that followed it."""
UNFOLLOWED = "the block that followed it does not come back, and its API refuses it alone"
_MARKS = frozenset({"thought", LENGTH})
"""What says of reasoning only that it is some, and of a text how long it was."""


def claim_kept(owner: str, *, as_well: bool = False) -> str:
    """The end of a receipt line: the state is kept for its owner. `as_well`: the client carries it, too."""
    return f"; it is kept here for {owner}{' as well' if as_well else ''}"


def without_kept_claim(line: Loss, owner: str) -> Loss | None:
    """A receipt line after the state could not be kept. None if it says nothing else."""
    for as_well in (True, False):
        claim = claim_kept(owner, as_well=as_well)
        if line.severity == "note" and line.why.endswith(claim):
            return replace(line, why=line.why.removesuffix(claim)) if as_well else None
    return line


def state_of_answer(content: Iterable[Block], owner: str) -> AnswerState:
    """What the owner will want back of an answer; empty if nothing."""
    if owner not in TAKES_BACK:
        return ()
    states = tuple(each for block in _followed(content, owner) if (each := state_of_block(block, owner)) is not None)
    if any(isinstance(each, Thinking) for each in states) or holds_state(states):
        return without_needless_lengths(states)
    return ()


def _followed(content: Iterable[Block], owner: str) -> list[Block]:
    """The blocks without the reasoning that its owner refuses without the next one."""
    blocks = list(content)
    if owner not in NEEDS_FOLLOWER:
        return blocks
    lost = {id(block) for block, after in pairwise(blocks) if isinstance(block, Thinking) and not comes_back(after)}
    return [block for block in blocks if id(block) not in lost]


def comes_back(block: Block) -> bool:
    """Whether clients send such a block of an answer back. An item of a server's own tools has no place in their APIs,
    and an image of an answer is no part of a history."""
    return isinstance(block, (Text, Thinking, ToolCall, Refusal))


def without_needless_lengths(states: AnswerState) -> AnswerState:
    """The same; lengths are needed only where one of several texts has state, or an empty one, and where reasoning led
    to the second of two texts."""
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
    """How many characters it had; None if that was not noted."""
    return next((fields[LENGTH] for fields in text.native.values() if LENGTH in fields), None)


def state_of_block(block: Block, owner: str, length: int | None = None) -> Block | None:
    """What of one block; `length` is that of a text which is not all in it."""
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


def phase_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The phase of a text, as it stands outside the item that the text came in; empty if it has none."""
    item = fields.get("$item")
    return {PHASE: item["phase"]} if isinstance(item, dict) and item.get("phase") is not None else {}


def _own(owner: str, fields: Mapping[str, Any], table: Mapping[str, Checks]) -> Native:
    """The owner's own words need no check."""
    state = {key: value for key, value in fields.items() if key in table.get(owner, {})}
    return {owner: state} if state else {}


def holds_state(states: Iterable[Block]) -> bool:
    """Is there more than words that a client has anyway?"""
    return any(fields.keys() - _MARKS for each in states for fields in each.native.values())


def state_members(kind: type[Block], owner: str) -> frozenset[str]:
    """The native keys that hold an owner's state on blocks of this kind."""
    tables = {ToolCall: _ON_CALLS, Text: _ON_TEXTS}
    return frozenset(tables.get(kind, STATE).get(owner, {}))


@lru_cache(maxsize=256)
def issuer_of(server: str, owner: str, model: str) -> str:
    """Who takes the state back, in a form that tells a client nothing."""
    return digest(server, owner, model if owner in BOUND_TO_MODEL else "")[:16]


class SealedState(Struct, frozen=True):
    """The state of an answer with its owner. `issuer` is empty where it was not known."""

    owner: str
    issuer: str
    states: AnswerState


def seal(sealed: SealedState) -> str:
    """The text that a client carries."""
    owner = sealed.owner
    return close([owner, sealed.issuer, [_written(each, native_of(each, owner)) for each in sealed.states]])


def _written(each: Block, state: Mapping[str, Any]) -> list[Any]:
    match each:
        case Thinking(text=text):
            return ["thinking", state, text]
        case ToolCall(id=call_id, name=name):
            return ["call", state, call_id, name]
        case _:
            return ["text", state]


def unseal(value: object) -> SealedState | None:
    """The state; None for anything that is none of ours."""
    match opened(value):
        case [str() as owner, str() as issuer, list() as written] if owner in TAKES_BACK:
            states = tuple(_read(each, owner) for each in written)
            return None if None in states else SealedState(owner, issuer, states)  # type: ignore[arg-type]
    return None


def _native(owner: str, fields: Mapping[str, Any], table: Mapping[str, Checks]) -> Native:
    state = known(fields, table.get(owner, {}))
    return {owner: state} if state else {}


def _read(written: object, owner: str) -> Block | None:
    match written:
        case ["thinking", dict() as state, str() as text]:
            return Thinking(text=text, native=_native(owner, state, STATE))
        case ["call", dict() as state, str() as call_id, str() as name]:
            return ToolCall(id=call_id, name=name, native=_native(owner, state, _ON_CALLS))
        case ["text", dict() as state]:
            return Text(text="", native=_native(owner, state, _ON_TEXTS))
    return None
