"""What a model wants back of an answer: its reasoning whole, and of its calls and texts what it has put on them.

It is kept for clients that carry nothing, or sealed and carried by them in one piece. A sealed one comes back from the
network, where anybody can write one: of each block come out only the fields that such state has, each with its type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec import Struct

from toolglot.ir import Block, Native, Text, Thinking, ToolCall, native_of
from toolglot.passes.digest import digest
from toolglot.passes.envelope import BOUND_TO_MODEL, STATE, Checks, close, known, opened

Skeleton: TypeAlias = tuple[Block, ...]

PHASE = "$phase"
"""Where a text of the Responses API says in which phase of the turn it stands, outside the item that it came in."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_ON_CALLS: Mapping[str, Checks] = {
    "gemini": {"thoughtSignature": _is_text},
    "openai_chat": {"extra_content": STATE["openai_chat"]["extra_content"]},
}
_ON_TEXTS: Mapping[str, Checks] = {
    "gemini": {"thoughtSignature": _is_text},
    "openai_responses": {PHASE: _is_text},
}
_MARKS = frozenset({"thought"})
"""What says of reasoning only that it is some."""


def skeleton(content: Iterable[Block], owner: str) -> Skeleton:
    """What the owner will want back of an answer; empty if nothing."""
    if owner not in STATE:
        return ()
    bones = tuple(each for block in content if (each := bone(block, owner)) is not None)
    return bones if any(isinstance(each, Thinking) or each.native for each in bones) else ()


def bone(block: Block, owner: str) -> Block | None:
    """What of one block."""
    fields = native_of(block, owner)
    match block:
        case Thinking(text=text) if text or fields:
            return Thinking(text=text, native=_own(owner, fields, STATE))
        case ToolCall(id=call_id, name=name):
            return ToolCall(id=call_id, name=name, native=_own(owner, fields, _ON_CALLS))
        case Text():
            item = fields.get("$item")
            phase = {PHASE: item["phase"]} if isinstance(item, dict) and item.get("phase") is not None else {}
            return Text(text="", native=_own(owner, {**fields, **phase}, _ON_TEXTS))
    return None


def _own(owner: str, fields: Mapping[str, Any], table: Mapping[str, Checks]) -> Native:
    """The owner's own words need no check."""
    state = {key: value for key, value in fields.items() if key in table.get(owner, {})}
    return {owner: state} if state else {}


def holds_state(bones: Iterable[Block]) -> bool:
    """Is there more than words that a client has anyway?"""
    return any(fields.keys() - _MARKS for each in bones for fields in each.native.values())


@lru_cache(maxsize=256)
def issuer_of(server: str, owner: str, model: str) -> str:
    """Who takes the state back, in a form that tells a client nothing."""
    return digest(server, owner, model if owner in BOUND_TO_MODEL else "")[:16]


class Sealed(Struct, frozen=True):
    """A skeleton with its owner. `issuer` is empty where it was not known."""

    owner: str
    issuer: str
    bones: Skeleton


def seal(sealed: Sealed) -> str:
    """The text that a client carries."""
    owner = sealed.owner
    return close([owner, sealed.issuer, [_written(each, native_of(each, owner)) for each in sealed.bones]])


def _written(each: Block, state: Mapping[str, Any]) -> list[Any]:
    match each:
        case Thinking(text=text):
            return ["thinking", state, text]
        case ToolCall(id=call_id, name=name):
            return ["call", state, call_id, name]
        case _:
            return ["text", state]


def unseal(value: object) -> Sealed | None:
    """The skeleton; None for anything that is none of ours."""
    match opened(value):
        case [str() as owner, str() as issuer, list() as written] if owner in STATE:
            bones = tuple(_read(each, owner) for each in written)
            return None if None in bones else Sealed(owner, issuer, bones)  # type: ignore[arg-type]
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
