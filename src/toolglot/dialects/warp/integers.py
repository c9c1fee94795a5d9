"""Restore integers from a Struct, whose numbers are all floats: `5.0` means 5.

If the schema has the type `integer`, a whole value becomes an integer. If the schema has no type, it becomes an integer
too: JSON does not distinguish 5 and 5.0, but programs that read it often do. If the schema has `number` and not
`integer`, values stay unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LARGEST = 1 << 63
"""Larger values stay floats, unless the schema requires an integer."""
_BRANCHES = ("oneOf", "anyOf", "allOf")


def restore_integers(value: Any, schema: Any = None) -> Any:
    """Replace whole floats by integers where the schema requires or allows it.

    Walks properties, items, additionalProperties and the branches of oneOf, anyOf and allOf. References are not
    followed, and count as schemas without a type.
    """
    if isinstance(value, float):
        return _to_integer(value, _allowed_types(schema, 0))
    if isinstance(value, dict):
        return {key: restore_integers(item, _member_schema(schema, key)) for key, item in value.items()}
    if isinstance(value, list):
        items = _find_keyword(schema, "items")
        return [restore_integers(item, items) for item in value]
    return value


def _to_integer(value: float, types: frozenset[str]) -> int | float:
    if not value.is_integer() or ("number" in types and "integer" not in types):
        return value
    return int(value) if "integer" in types or abs(value) <= LARGEST else value


def _branches(schema: Any) -> list[Any]:
    found = [schema]
    for keyword in _BRANCHES:
        branches = schema.get(keyword)
        if isinstance(branches, list):
            found += branches
    return [branch for branch in found if isinstance(branch, Mapping)]


def _allowed_types(schema: Any, depth: int) -> frozenset[str]:
    if not isinstance(schema, Mapping) or depth > 8:
        return frozenset()
    types: frozenset[str] = frozenset()
    for branch in _branches(schema):
        if branch is not schema:
            types |= _allowed_types(branch, depth + 1)
            continue
        kind = branch.get("type")
        kinds = kind if isinstance(kind, list) else [kind]
        types |= {item for item in kinds if isinstance(item, str)}
    return types


def _find_keyword(schema: Any, keyword: str) -> Any:
    """Return the value of a keyword in the schema itself, or else in the first branch that has it."""
    if not isinstance(schema, Mapping):
        return None
    return next((branch[keyword] for branch in _branches(schema) if keyword in branch), None)


def _member_schema(schema: Any, key: str) -> Any:
    if not isinstance(schema, Mapping):
        return None
    for branch in _branches(schema):
        properties = branch.get("properties")
        if isinstance(properties, Mapping) and key in properties:
            return properties[key]
    return _find_keyword(schema, "additionalProperties")
