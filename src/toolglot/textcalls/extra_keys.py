"""Classify the keys of an envelope that are neither the tool's name nor its arguments.

Models write parameters beside the name instead of inside the arguments. If the schema declares them, they are the
arguments. A key that may be part of the arguments is never dropped silently: then the call cannot be run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from toolglot.textcalls.grammar import CallSyntax
from toolglot.textcalls.schemas import known_keys

HARMLESS_KEYS: Final = frozenset(
    (
        *("type", "id", "index", "tool_call_id", "call_id", "role", "status", "result", "output", "error"),
        *("thought", "thoughts", "thinking", "reasoning", "reason", "description", "explanation", "comment", "note"),
    )
)
"""Keys that describe the call and mean nothing to the tool."""
WRAPPER_KEYS: Final = ("function", "function_call", "tool_call")
SCHEMA_KEYS: Final = frozenset(("type", "properties", "$schema"))
FLAT_REPAIR: Final = "flat arguments"
"""Name of the repair that takes the keys beside the name as the arguments."""


class ExtraKeys(Struct, frozen=True):
    """`flat` are keys that are arguments; `left_out` are keys that no tool with this schema can want."""

    flat: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    problem: str = ""

    @property
    def note(self) -> str:
        if self.flat:
            return FLAT_REPAIR
        return f"without the keys next to the arguments: {', '.join(self.left_out)}" if self.left_out else ""


def is_schema_key(key: str, schema: Any) -> bool:
    """Tell whether this key begins the declaration of a tool's parameters, which is no call."""
    return key in SCHEMA_KEYS and isinstance(schema, dict) and key not in (known_keys(schema) or ())


def may_wrap(key: str, call: CallSyntax) -> bool:
    """Tell whether a call may be nested under this key. If nothing else marks it as a call, the key must."""
    return key in WRAPPER_KEYS if call.weak else key not in call.argument_keys


def classify_keys(keys: Iterable[str], schema: Any, call: CallSyntax, *, given: bool, empty: bool = False) -> ExtraKeys:
    """Classify keys with non-null values. `given`: there are arguments; `empty`: they have no keys."""
    declared = known_keys(schema) or frozenset()
    if given:
        others = [key for key in keys if key not in HARMLESS_KEYS]
        if any(key in call.argument_keys for key in others):
            return ExtraKeys(problem="the arguments are given twice")
        if any(key in call.name_keys for key in others) or (call.keyed and others):
            return ExtraKeys(problem="two tools are named")
        lost = [key for key in others if key in declared or empty or not declared]
        if lost:
            return ExtraKeys(problem=f"{', '.join(lost)} is next to the arguments")
        return ExtraKeys(left_out=tuple(others))
    flat = tuple(key for key in keys if key in declared)
    strange = [key for key in keys if key not in declared and key not in HARMLESS_KEYS]
    if any(key in call.argument_keys for key in strange):
        return ExtraKeys(problem="the arguments are not a JSON object")
    # Without arguments and without any mark, it may be an answer about the tool.
    if call.weak:
        strange = [key for key in keys if key not in declared and key not in ("type", *call.id_keys)]
    if strange:
        return ExtraKeys(problem=f"there are no arguments, only {', '.join(strange)}")
    return ExtraKeys(flat)
