"""`native` of a node: members that only one dialect understands, and notes on the shape that a node came in.

The name of a note begins with `$`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolglot.ir import Native


def make_native(owner: str, rest: dict[str, Any], /, **shape: Any) -> Native:
    """`native` with these members of the owner's, and notes on shape, to whose names `$` is prefixed. The dictionary is
    consumed.

    A member that itself begins with `$` is set apart, so that nothing a peer sends is taken for a note.
    """
    if rest and (strange := [key for key in rest if key[:1] == "$"]):
        shape["dollar"] = {key: rest.pop(key) for key in strange}
    for name, value in shape.items():
        if value is not None:
            rest[f"${name}"] = value
    return {owner: rest} if rest else {}


def native_members(notes: Mapping[str, Any]) -> dict[str, Any]:
    """The members that `make_native` kept, without the notes."""
    if not notes:
        return {}
    fields = {key: value for key, value in notes.items() if not key.startswith("$")}
    apart = notes.get("$dollar")
    return fields | apart if isinstance(apart, dict) else fields
