"""Two JSON Schemas that must both hold, as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolglot.upstream.demo.fitting import is_number, same, types_of

_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


def merge(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any] | None:
    """Both; None where they contradict each other in their types."""
    merged = {**one, **other}
    for key in one.keys() & other.keys():
        if joined := _JOINED.get(key):
            merged[key] = joined(one[key], other[key])
    if types_of(one) and types_of(other):
        kinds = [common for kind in types_of(one) if (common := _common(kind, types_of(other)))]
        if not kinds:
            return None
        merged["type"] = kinds
        merged.pop("nullable", None)
    return merged


def _common(kind: str, others: list[str]) -> str | None:
    """The narrower of two types: every integer is a number."""
    if kind in others:
        return kind
    return "integer" if {kind, *others} >= {"integer", "number"} and kind in ("integer", "number") else None


def _greater(one: Any, other: Any) -> Any:
    return max(one, other) if is_number(one) and is_number(other) else other


def _smaller(one: Any, other: Any) -> Any:
    return min(one, other) if is_number(one) and is_number(other) else other


def _properties(one: Any, other: Any) -> Any:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    return {**one, **{key: {"allOf": [one[key], value]} if key in one else value for key, value in other.items()}}


def _required(one: Any, other: Any) -> Any:
    return [*one, *other] if isinstance(one, list) and isinstance(other, list) else other


def _options(one: Any, other: Any) -> Any:
    if not isinstance(one, list) or not isinstance(other, list):
        return other
    return [value for value in one if any(same(value, option) for option in other)]


def _both(one: Any, other: Any) -> Any:
    return {"allOf": [one, other]}


_JOINED: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(_LEAST, _greater),
    **dict.fromkeys(_MOST, _smaller),
    "properties": _properties,
    "required": _required,
    "enum": _options,
    "items": _both,
    "additionalProperties": _both,
}
"""Keywords that are joined when both schemas have them; of any other the second one counts."""
