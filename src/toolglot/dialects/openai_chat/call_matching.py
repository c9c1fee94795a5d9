"""Matches an entry of a chunk's `tool_calls` to the call that it continues.

The API gives each call an index and, once, an id. Imitating servers leave out one of them, give every call the same
index, or invent an id for every chunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from toolglot.dialects.openai_chat.open_call import ChatOpenCall
from toolglot.dialects.openai_chat.wire import CallDelta, FunctionDelta

INVALID_INDEX = -1
"""The index is a text that is not a number."""


def parse_call_index(index: int | str | None) -> int | None:
    """Parse the index of a call, which may be written as a string. None for a negative one, which means nothing."""
    if isinstance(index, str):
        return int(index) if index.isascii() and index.isdecimal() and len(index) < 10 else INVALID_INDEX
    return index if index is not None and index >= 0 else None


def has_call_content(function: FunctionDelta | None) -> TypeGuard[FunctionDelta]:
    """Has the entry a name or arguments? Some servers always send the object, even without a call."""
    return function is not None and bool(function.name or function.arguments or function.input)


def repeats_tool_call(legacy: FunctionDelta, calls: list[CallDelta] | None) -> bool:
    """Does `function_call` repeat an entry of `tool_calls` in the same delta?"""
    said = (legacy.name, legacy.arguments)
    return any(
        call.function is not None and (call.function.name, call.function.arguments) == said for call in calls or ()
    )


def find_call(
    known: Mapping[int | str, ChatOpenCall],
    latest: ChatOpenCall | None,
    delta: CallDelta,
    number: int | None,
    function: FunctionDelta,
) -> ChatOpenCall | None:
    """Return the call that this entry continues, or None if it begins a new one. `known` has calls by number and by
    id."""
    if number is None:
        # Without an index the id decides; without an id the entry belongs to the latest call.
        call = known.get(delta.id) if delta.id else latest
    else:
        call = known.get(number)
        if call is not None and delta.id and call.id and call.id != delta.id:
            # Another id at the same index is another call, but some servers make up an id for every chunk.
            is_made_up = not function.name and delta.id not in known and not call.is_whole()
            call = call if is_made_up else known.get(delta.id)
    return None if call is None or _starts_new_call(call, delta, function) else call


def _starts_new_call(call: ChatOpenCall, delta: CallDelta, function: FunctionDelta) -> bool:
    """Detects calls of a vendor without ids that gives every call the same index: a name after complete arguments
    begins a new call. The same name alone may be a repetition."""
    if delta.id or call.id or not function.name or not call.name:
        return False
    return (bool(function.arguments) or function.name != call.name) and call.is_whole()


def names_another_call(call: ChatOpenCall, delta: CallDelta, number: int | None, function: FunctionDelta) -> bool:
    """Does a second entry of the same chunk name another call, though index and id do not distinguish them?"""
    if not function.name:
        return False
    follows = bool(function.arguments) and call.is_whole()
    if delta.id and delta.id == call.id:  # Mistral's calls may all have the id `null`
        return follows
    return follows or number is None or function.name != call.name
