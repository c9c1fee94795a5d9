"""Merge two JSON Schemas that must both hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolglot.upstream.demo.schema_check import is_number, is_same_value, schema_types

_LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


def merge_schemas(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any] | None:
    """Return the merged schema; None if the types contradict each other."""
    merged = {**one, **other}
    for key in one.keys() & other.keys():
        if joined := _KEYWORD_MERGES.get(key):
            merged[key] = joined(one[key], other[key])
    if schema_types(one) and schema_types(other):
        kinds = [common for kind in schema_types(one) if (common := _common_type(kind, schema_types(other)))]
        if not kinds:
            return None
        merged["type"] = kinds
        merged.pop("nullable", None)
    return merged


def _common_type(kind: str, others: list[str]) -> str | None:
    """Return the narrower of two types: every integer is a number."""
    if kind in others:
        return kind
    return "integer" if {kind, *others} >= {"integer", "number"} and kind in ("integer", "number") else None


def _greater(one: Any, other: Any) -> Any:
    return max(one, other) if is_number(one) and is_number(other) else other


def _smaller(one: Any, other: Any) -> Any:
    return min(one, other) if is_number(one) and is_number(other) else other


def _merge_properties(one: Any, other: Any) -> Any:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    return {**one, **{key: {"allOf": [one[key], value]} if key in one else value for key, value in other.items()}}


def _merge_required(one: Any, other: Any) -> Any:
    return [*one, *other] if isinstance(one, list) and isinstance(other, list) else other


def _merge_options(one: Any, other: Any) -> Any:
    if not isinstance(one, list) or not isinstance(other, list):
        return other
    return [value for value in one if any(is_same_value(value, option) for option in other)]


def _merge_all_of(one: Any, other: Any) -> Any:
    return {"allOf": [one, other]}


_KEYWORD_MERGES: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(_LOWER_BOUNDS, _greater),
    **dict.fromkeys(_UPPER_BOUNDS, _smaller),
    "properties": _merge_properties,
    "required": _merge_required,
    "enum": _merge_options,
    "items": _merge_all_of,
    "additionalProperties": _merge_all_of,
}
"""Keywords that are merged if both schemas have them; of any other the second one counts."""
