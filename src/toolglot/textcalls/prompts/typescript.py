"""JSON Schema as TypeScript types, the form in which gpt-oss and others were trained on tools.

Keywords without a TypeScript equivalent (limits, patterns, references) go into a comment, as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolglot.textcalls.prompts.values import json_text

_TYPES = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}
_EXPRESSED = frozenset(
    ("type", "description", "enum", "const", "properties", "required", "items", "anyOf", "oneOf", "title", "nullable")
)
_MAX_DEPTH = 24
"""Deeper types are written as JSON, so that the recursion stays bounded."""


def typescript_type(schema: Any, indent: str = "", depth: int = 0) -> str:
    """Return the TypeScript type of a schema."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return "any"
    if isinstance(schema.get("enum"), list):
        return " | ".join(map(json_text, schema["enum"])) or "never"
    if "const" in schema:
        return json_text(schema["const"])
    for union in ("anyOf", "oneOf"):
        if isinstance(schema.get(union), list):
            return (
                " | ".join(dict.fromkeys(typescript_type(choice, indent, depth + 1) for choice in schema[union]))
                or "any"
            )
    kinds = schema.get("type")
    named = kinds if isinstance(kinds, list) else [kinds]
    types = [_type(kind, schema, indent, depth) for kind in named]
    if schema.get("nullable") is True:
        types.append("null")
    return " | ".join(dict.fromkeys(types))


def _type(kind: Any, schema: Mapping[str, Any], indent: str, depth: int) -> str:
    if kind == "array":
        item = typescript_type(schema.get("items"), indent, depth + 1)
        return f"({item})[]" if "|" in item else f"{item}[]"
    if kind == "object" or (kind is None and "properties" in schema):
        return object_type(schema, indent, depth)
    return _TYPES.get(kind, "any") if isinstance(kind, str) else "any"


def object_type(schema: Mapping[str, Any], indent: str = "", depth: int = 0) -> str:
    """Return the type of an object, one member per line, each with its description above it."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return "object"
    required = schema.get("required")
    needed = required if isinstance(required, list) else ()
    lines = [
        line for key, value in properties.items() for line in _member(key, value, key in needed, indent, depth + 1)
    ]
    return "\n".join(("{", *lines, f"{indent[:-2]}}}"))


def _member(key: str, schema: Any, needed: bool, indent: str, depth: int) -> Iterator[str]:
    described = schema if isinstance(schema, Mapping) else {}
    yield from comment_lines(described.get("description"), indent)
    rest = {name: value for name, value in described.items() if name not in _EXPRESSED}
    told = f" // {json_text(rest)}" if rest else ""
    written = key if key.isidentifier() else json_text(key)
    yield f"{indent}{written}{'' if needed else '?'}: {typescript_type(schema, indent + '  ', depth)},{told}"


def comment_lines(text: Any, indent: str = "") -> Iterator[str]:
    """Write a text as comment lines."""
    if isinstance(text, str) and text:
        for line in text.split("\n"):
            yield f"{indent}// {line}".rstrip()
