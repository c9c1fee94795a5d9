"""JSON Schema as data: the places of subschemas, and keywords of older drafts in the form of draft 2020-12.

Nothing here recurses: schemas may be very deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

TYPES = {name.upper(): name for name in ("string", "number", "integer", "boolean", "array", "object", "null")}
"""Types in the spelling of Gemini's enum, which clients use in any API -> types of JSON Schema."""

ONE = frozenset(
    {"items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"}
    | {"not", "if", "then", "else", "contains", "propertyNames"}
)
"""Keywords with one schema."""
MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
"""Keywords with a list of schemas; `items` had one until draft 2020-12."""
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords with schemas by name."""

_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def iterate_schemas(schema: Any) -> Iterator[Schema]:
    """Yield a schema and all schemas inside it."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if type(node) is not dict:
            continue
        yield node
        for key, value in node.items():
            if type(value) is dict:
                if key in ONE:
                    waiting.append(value)
                elif key in NAMED:
                    waiting.extend(value.values())
            elif type(value) is list and key in MANY:
                waiting.extend(value)


def rewrite_schemas(schema: Schema, rewrite: Callable[[Schema], Schema]) -> Schema:
    """Apply `rewrite` to a schema and all schemas inside it, from the outside to the inside. It returns the same object
    if nothing changes. The given schema stays as it is."""
    result = dict(rewrite(schema))
    waiting = [result]

    def rewrite_inner(value: Any) -> Any:
        if type(value) is not dict:
            return value
        inner = dict(rewrite(value))
        waiting.append(inner)
        return inner

    while waiting:
        node = waiting.pop()
        for key, value in node.items():
            if type(value) is dict:
                if key in ONE:
                    node[key] = rewrite_inner(value)
                elif key in NAMED:
                    node[key] = {name: rewrite_inner(item) for name, item in value.items()}
            elif type(value) is list and key in MANY:
                node[key] = [rewrite_inner(item) for item in value]
    return result


def is_dated(node: Schema) -> bool:
    """Return whether `modernize` would change this schema."""
    kind = node.get("type")
    if (type(kind) is str and kind in TYPES) or (type(kind) is list and any(map(_is_upper, kind))):
        return True
    if type(node.get("items")) is list or type(node.get("required")) is bool:
        return True
    return any(type(node.get(key)) is bool for key in _EXCLUSIVE)


def modernize(node: Schema) -> Schema:
    """Write one schema in the form of draft 2020-12; subschemas stay. Types become lower case. A list in `items`
    becomes `prefixItems`. A flag for an exclusive bound becomes its own keyword. A flag for a required property moves
    to the list of its object.
    """
    properties = node.get("properties")
    flagged = _flagged_properties(properties) if type(properties) is dict else []
    if not flagged and not is_dated(node):
        return node
    result = {key: value for key, value in node.items() if key != "required" or type(value) is not bool}
    _lower_types(result)
    if type(items := result.get("items")) is list:
        del result["items"]
        if items:
            result["prefixItems"] = items
        if "additionalItems" in result:
            result["items"] = result.pop("additionalItems")
    for key, bound in _EXCLUSIVE.items():
        if type(flag := result.get(key)) is bool:
            del result[key]
            if flag and bound in result:
                result[key] = result.pop(bound)
    if flagged:
        listed = result.get("required")
        names = listed if type(listed) is list else []
        result["required"] = [*names, *(name for name in flagged if name not in names)]
    return result


def _flagged_properties(properties: Schema) -> list[str]:
    """Return the properties with a flag that marks them as required, as in draft 3."""
    return [name for name, schema in properties.items() if type(schema) is dict and schema.get("required") is True]


def _is_upper(kind: Any) -> bool:
    return type(kind) is str and kind in TYPES


def _lower_types(node: Schema) -> None:
    kind = node.get("type")
    if type(kind) is str:
        node["type"] = TYPES.get(kind, kind)
    elif type(kind) is list:
        node["type"] = [TYPES.get(name, name) if type(name) is str else name for name in kind]


def lacks_items(node: Schema) -> bool:
    """Return whether this is an array schema without a schema for its items."""
    kind = node.get("type")
    return "items" not in node and (kind == "array" or (type(kind) is list and "array" in kind))
