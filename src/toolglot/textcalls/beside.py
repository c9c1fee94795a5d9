"""What the keys of an envelope mean that are neither the tool's name nor its arguments.

Models write the parameters beside the name instead of inside the arguments. Where the schema declares them they are the
arguments. What may be a part of the arguments is never left out in silence: then the call is none that can be run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from toolglot.textcalls.grammar import Call
from toolglot.textcalls.schemas import known_keys

HARMLESS: Final = frozenset(
    (
        *("type", "id", "index", "tool_call_id", "call_id", "role", "status", "result", "output", "error"),
        *("thought", "thoughts", "thinking", "reasoning", "reason", "description", "explanation", "comment", "note"),
    )
)
"""Keys that say something about the call and nothing to the tool."""
WRAPPERS: Final = ("function", "function_call", "tool_call")
SCHEMA_KEYS: Final = frozenset(("type", "properties", "$schema"))
FLAT: Final = "flat arguments"
"""How a repair is told that takes the keys beside the name as the arguments."""


class Beside(Struct, frozen=True):
    """`flat` are keys that are arguments; `left_out` are keys that no tool of this schema can want."""

    flat: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    problem: str = ""

    @property
    def note(self) -> str:
        if self.flat:
            return FLAT
        return f"without what stands beside the arguments: {', '.join(self.left_out)}" if self.left_out else ""


def is_schema_key(key: str, schema: Any) -> bool:
    """What begins with this key is the declaration of a tool's parameters, and none of its calls."""
    return key in SCHEMA_KEYS and isinstance(schema, dict) and key not in (known_keys(schema) or ())


def may_wrap(key: str, call: Call) -> bool:
    """A call may stand behind this key. Where nothing else says that it is one, the key must."""
    return key in WRAPPERS if call.weak else key not in call.argument_keys


def sort_out(keys: Iterable[str], schema: Any, call: Call, *, given: bool, empty: bool = False) -> Beside:
    """What these keys are, of which the values are not null. `given`: there are arguments; `empty`: without any key."""
    declared = known_keys(schema) or frozenset()
    if given:
        others = [key for key in keys if key not in HARMLESS]
        if any(key in call.argument_keys for key in others):
            return Beside(problem="the arguments are given twice")
        if any(key in call.name_keys for key in others) or (call.keyed and others):
            return Beside(problem="two tools are named")
        lost = [key for key in others if key in declared or empty or not declared]
        if lost:
            return Beside(problem=f"{', '.join(lost)} stands beside the arguments")
        return Beside(left_out=tuple(others))
    flat = tuple(key for key in keys if key in declared)
    strange = [key for key in keys if key not in declared and key not in HARMLESS]
    if any(key in call.argument_keys for key in strange):
        return Beside(problem="the arguments are no JSON object")
    # Without arguments and without any mark, it may be an answer that speaks of the tool.
    if call.weak:
        strange = [key for key in keys if key not in declared and key not in ("type", *call.id_keys)]
    if strange:
        return Beside(problem=f"there are no arguments, only {', '.join(strange)}")
    return Beside(flat)
