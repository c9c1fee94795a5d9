"""Does a value keep to a JSON Schema? As much of the standard as tools use.

A `pattern` counts as kept: running a stranger's expression could take for ever, and `patterns.py` writes values that
match by construction. Formats, conditions and dependencies are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MAX_DEPTH = 40
FINEST_STEP = 1e-9
"""A `multipleOf` below this says nothing."""

Number = int | float


def fits(value: Any, schema: Any, root: Any, depth: int = 0) -> bool:
    """Whether the value is one that the schema allows. `root` is what its references point into."""
    if not isinstance(schema, dict):
        return schema is not False
    if depth > MAX_DEPTH:
        return True
    if "enum" in schema and not any(same(value, option) for option in listed(schema["enum"])):
        return False
    if "const" in schema and not same(value, schema["const"]):
        return False
    if (types := types_of(schema)) and not any(IS[kind](value) for kind in types if kind in IS):
        return False
    return _fits_kind(value, schema, root, depth) and _fits_combined(value, schema, root, depth)


def same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def types_of(schema: dict[str, Any]) -> list[str]:
    """The types that a schema names; none at all allows every one."""
    kinds = schema.get("type")
    found = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str)]
    return [*found, "null"] if found and schema.get("nullable") is True and "null" not in found else found


def resolve(reference: Any, root: Any) -> Any:
    """What a reference inside the same document points to; everything is allowed where it points to nothing."""
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


def limit(schema: dict[str, Any], key: str) -> Number | None:
    """A numeric keyword; None also where it is beyond what can be reckoned with."""
    value = schema.get(key)
    return value if isinstance(value, (int, float)) and is_number(value) and abs(value) < 2**63 else None


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


IS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "number": is_number,
    "integer": lambda value: is_number(value) and (isinstance(value, int) or value.is_integer()),
}


def _fits_kind(value: Any, schema: dict[str, Any], root: Any, depth: int) -> bool:
    if isinstance(value, str):
        return _within(len(value), schema, "minLength", "maxLength")
    if is_number(value):
        return fits_number(value, schema)
    if isinstance(value, list):
        return _fits_array(value, schema, root, depth)
    return _fits_object(value, schema, root, depth) if isinstance(value, dict) else True


def fits_number(value: Number, schema: dict[str, Any]) -> bool:
    low, high = limit(schema, "exclusiveMinimum"), limit(schema, "exclusiveMaximum")
    # Draft 4 says with a boolean that `minimum` itself is not allowed.
    if schema.get("exclusiveMinimum") is True:
        low = limit(schema, "minimum")
    if schema.get("exclusiveMaximum") is True:
        high = limit(schema, "maximum")
    if (low is not None and value <= low) or (high is not None and value >= high):
        return False
    step = limit(schema, "multipleOf") or 0
    if step >= FINEST_STEP and abs(value / step - round(value / step)) > 1e-9:
        return False
    return _within(value, schema, "minimum", "maximum")


def _fits_array(value: list[Any], schema: dict[str, Any], root: Any, depth: int) -> bool:
    if schema.get("uniqueItems") is True and any(
        same(item, other) for at, item in enumerate(value) for other in value[:at]
    ):
        return False
    first = listed(schema.get("prefixItems"))
    rest = schema.get("items", True)
    return _within(len(value), schema, "minItems", "maxItems") and all(
        fits(item, first[at] if at < len(first) else rest, root, depth + 1) for at, item in enumerate(value)
    )


def _fits_object(value: dict[str, Any], schema: dict[str, Any], root: Any, depth: int) -> bool:
    if any(name not in value for name in listed(schema.get("required"))):
        return False
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    other = True if "patternProperties" in schema else schema.get("additionalProperties", True)
    return _within(len(value), schema, "minProperties", "maxProperties") and all(
        fits(member, known.get(name, other), root, depth + 1) for name, member in value.items()
    )


def _fits_combined(value: Any, schema: dict[str, Any], root: Any, depth: int) -> bool:
    def fit(branch: Any) -> bool:
        return fits(value, branch, root, depth + 1)

    return (
        ("$ref" not in schema or fit(resolve(schema["$ref"], root)))
        and all(map(fit, listed(schema.get("allOf"))))
        and (not listed(schema.get("anyOf")) or any(map(fit, schema["anyOf"])))
        and (not listed(schema.get("oneOf")) or sum(map(fit, schema["oneOf"])) == 1)
        and ("not" not in schema or not fit(schema["not"]))
    )


def _within(size: Number, schema: dict[str, Any], least: str, most: str) -> bool:
    low, high = limit(schema, least), limit(schema, most)
    return (low is None or size >= low) and (high is None or size <= high)
