"""Check a value against the subset of JSON Schema that tools use.

A `pattern` is assumed to match: running an untrusted expression could take forever, and `regex_sample.py` writes values
that match by construction. Formats, conditions and dependencies are not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MAX_DEPTH = 40
MIN_STEP = 1e-9
"""A smaller `multipleOf` is ignored."""

Number = int | float


def matches_schema(value: Any, schema: Any, root: Any, depth: int = 0) -> bool:
    """Return whether the schema allows the value. `root` is the document that references point into."""
    if not isinstance(schema, dict):
        return schema is not False
    if depth > MAX_DEPTH:
        return True
    if "enum" in schema and not any(is_same_value(value, option) for option in as_list(schema["enum"])):
        return False
    if "const" in schema and not is_same_value(value, schema["const"]):
        return False
    if (types := schema_types(schema)) and not any(TYPE_CHECKS[kind](value) for kind in types if kind in TYPE_CHECKS):
        return False
    return _matches_type(value, schema, root, depth) and _matches_combined(value, schema, root, depth)


def is_same_value(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def schema_types(schema: dict[str, Any]) -> list[str]:
    """Return the types that a schema names; an empty list allows every type."""
    kinds = schema.get("type")
    found = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str)]
    return [*found, "null"] if found and schema.get("nullable") is True and "null" not in found else found


def resolve_reference(reference: Any, root: Any) -> Any:
    """Return the target of a reference inside the same document; an unresolved one allows everything."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return True
    node = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        elif isinstance(node, dict) and key in node:
            node = node[key]
        else:
            return True
    return node


def numeric_limit(schema: dict[str, Any], key: str) -> Number | None:
    """Return a numeric keyword; None also if the number is too large to calculate with."""
    value = schema.get(key)
    return value if isinstance(value, (int, float)) and is_number(value) and abs(value) < 2**63 else None


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


TYPE_CHECKS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "number": is_number,
    "integer": lambda value: is_number(value) and (isinstance(value, int) or value.is_integer()),
}


def _matches_type(value: Any, schema: dict[str, Any], root: Any, depth: int) -> bool:
    if isinstance(value, str):
        return _is_within(len(value), schema, "minLength", "maxLength")
    if is_number(value):
        return matches_number(value, schema)
    if isinstance(value, list):
        return _matches_array(value, schema, root, depth)
    return _matches_object(value, schema, root, depth) if isinstance(value, dict) else True


def matches_number(value: Number, schema: dict[str, Any]) -> bool:
    low, high = numeric_limit(schema, "exclusiveMinimum"), numeric_limit(schema, "exclusiveMaximum")
    # In draft 4 a boolean says that `minimum` itself is excluded.
    if schema.get("exclusiveMinimum") is True:
        low = numeric_limit(schema, "minimum")
    if schema.get("exclusiveMaximum") is True:
        high = numeric_limit(schema, "maximum")
    if (low is not None and value <= low) or (high is not None and value >= high):
        return False
    step = numeric_limit(schema, "multipleOf") or 0
    if step >= MIN_STEP and abs(value / step - round(value / step)) > 1e-9:
        return False
    return _is_within(value, schema, "minimum", "maximum")


def _matches_array(value: list[Any], schema: dict[str, Any], root: Any, depth: int) -> bool:
    if schema.get("uniqueItems") is True and any(
        is_same_value(item, other) for at, item in enumerate(value) for other in value[:at]
    ):
        return False
    first = as_list(schema.get("prefixItems"))
    rest = schema.get("items", True)
    return _is_within(len(value), schema, "minItems", "maxItems") and all(
        matches_schema(item, first[at] if at < len(first) else rest, root, depth + 1) for at, item in enumerate(value)
    )


def _matches_object(value: dict[str, Any], schema: dict[str, Any], root: Any, depth: int) -> bool:
    if any(name not in value for name in as_list(schema.get("required"))):
        return False
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    other = True if "patternProperties" in schema else schema.get("additionalProperties", True)
    return _is_within(len(value), schema, "minProperties", "maxProperties") and all(
        matches_schema(member, known.get(name, other), root, depth + 1) for name, member in value.items()
    )


def _matches_combined(value: Any, schema: dict[str, Any], root: Any, depth: int) -> bool:
    def fit(branch: Any) -> bool:
        return matches_schema(value, branch, root, depth + 1)

    return (
        ("$ref" not in schema or fit(resolve_reference(schema["$ref"], root)))
        and all(map(fit, as_list(schema.get("allOf"))))
        and (not as_list(schema.get("anyOf")) or any(map(fit, schema["anyOf"])))
        and (not as_list(schema.get("oneOf")) or sum(map(fit, schema["oneOf"])) == 1)
        and ("not" not in schema or not fit(schema["not"]))
    )


def _is_within(size: Number, schema: dict[str, Any], least: str, most: str) -> bool:
    low, high = numeric_limit(schema, least), numeric_limit(schema, most)
    return (low is None or size >= low) and (high is None or size <= high)
