"""`native` of a node: members that only one dialect understands, and notes on the original form of the node.

The name of a note begins with `$`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolglot.ir import Native


def make_native(owner: str, rest: dict[str, Any], /, **shape: Any) -> Native:
    """Build `native` from the owner's members and from notes, whose names get the prefix `$`. The dictionary is
    consumed.

    A received member whose name begins with `$` is stored separately, so that no peer can forge a note.
    """
    if rest and (strange := [key for key in rest if key[:1] == "$"]):
        shape["dollar"] = {key: rest.pop(key) for key in strange}
    for name, value in shape.items():
        if value is not None:
            rest[f"${name}"] = value
    return {owner: rest} if rest else {}


def native_members(notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that `make_native` stored, without the notes."""
    if not notes:
        return {}
    fields = {key: value for key, value in notes.items() if not key.startswith("$")}
    apart = notes.get("$dollar")
    return fields | apart if isinstance(apart, dict) else fields


def fill_members(written: dict[str, Any], received: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that an encoder wrote, with received members where it wrote none or an empty value.

    A received null or empty list must not replace content that was added to the answer after decoding: a call that was
    parsed from the text, or the text of an earlier round.
    """
    return {**written, **{name: value for name, value in received.items() if not written.get(name)}}
