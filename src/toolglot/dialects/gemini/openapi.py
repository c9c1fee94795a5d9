"""Convert Gemini's `Schema` (an OpenAPI subset, as protobuf) to JSON Schema.

`parameters` and `responseSchema` have this form; clients also put its upper-case types into `parametersJsonSchema`.
Other keywords are kept unchanged. A note keeps the original, so nothing here has to be reversed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolglot.errors import DecodeError
from toolglot.wire.json_schema import MANY, NAMED, ONE, TYPES

_MAX_DEPTH = 120

# Proto-JSON writes 64-bit integers as strings. A longer string is not such a number.
_MAX_DIGITS = 18
_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})

_SPELLING = {
    "any_of": "anyOf",
    "additional_properties": "additionalProperties",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "property_ordering": "propertyOrdering",
    "prefix_items": "prefixItems",
}


def to_json_schema(schema: Any, where: str, depth: int = 0) -> Any:
    """Convert a schema: types to lower case, `nullable` to the type null, `ref` and `defs` to `$ref` and `$defs`."""
    if depth > _MAX_DEPTH:
        raise DecodeError(where, "the schema is nested too deeply")
    if not isinstance(schema, dict):
        return schema

    def inner(value: Any) -> Any:
        return to_json_schema(value, where, depth + 1)

    result = dict(_convert_keyword(key, value, inner) for key, value in schema.items())
    if isinstance(result.get("type"), str) and result["type"].upper() == "TYPE_UNSPECIFIED":
        del result["type"]
    if isinstance(nullable := result.get("nullable"), bool):
        del result["nullable"]
        if nullable:
            _allow_null(result)
    return result


def _convert_keyword(key: str, value: Any, inner: Callable[[Any], Any]) -> tuple[str, Any]:
    key = _SPELLING.get(key, key)
    if key == "type" and isinstance(value, str):
        return key, TYPES.get(value, value)
    if key == "ref" and isinstance(value, str):
        return "$ref", value.replace("#/defs/", "#/$defs/")
    if key == "defs" and isinstance(value, dict):
        return "$defs", {name: inner(item) for name, item in value.items()}
    if key in _COUNTS and isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS:
        return key, int(value)
    if key in ONE and isinstance(value, dict):
        return key, inner(value)
    if key in MANY and isinstance(value, list):
        return key, [inner(item) for item in value]
    if key in NAMED and isinstance(value, dict):
        return key, {name: inner(item) for name, item in value.items()}
    return key, value


def _allow_null(schema: dict[str, Any]) -> None:
    kind = schema.get("type")
    if isinstance(kind, str) and kind != "null":
        schema["type"] = [kind, "null"]
    elif isinstance(schema.get("anyOf"), list):
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    enum = schema.get("enum")
    if isinstance(enum, list) and None not in enum:
        schema["enum"] = [*enum, None]
