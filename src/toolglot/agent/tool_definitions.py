"""Check tool definitions from servers one by one: repaired if the intent is clear, otherwise skipped. A model's API
refuses a whole request for one invalid schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

FoundSchemas: TypeAlias = Iterator[tuple[str, Any]]
"""The schemas in a keyword's value, each with its path."""

MAX_SCHEMAS = 50_000
"""Maximum number of schemas in one definition."""
_MAX_NAME_CHARS = 100


class _InvalidDefinitionError(Exception):
    """A tool definition is invalid; the message gives the reason."""


def usable_definitions(listed: list[Any]) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Return the usable definitions, with object schemas, and the names of the others with their problems. Consumes the
    list."""
    good: list[dict[str, Any]] = []
    left_out: list[tuple[str, str]] = []
    for index, tool in enumerate(listed):
        try:
            good.append(_repair_definition(tool))
        except _InvalidDefinitionError as wrong:
            name = tool.get("name") if isinstance(tool, dict) else None
            named = name[:_MAX_NAME_CHARS] if isinstance(name, str) and name else f"number {index + 1}"
            left_out.append((named, str(wrong)))
    return good, left_out


def _repair_definition(tool: Any) -> dict[str, Any]:
    _require(isinstance(tool, dict), "it is not an object")
    _require(isinstance(tool.get("name"), str) and tool["name"], "it has no name")
    _require(isinstance(tool.get("description"), str | None), "its description is not a string")
    schema = tool.get("inputSchema")
    schema = {} if schema is None else schema
    _require(isinstance(schema, dict), "its inputSchema is not an object")
    kind = schema.get("type")
    # Arguments are always an object, so other types do not matter.
    means_object = kind is None or kind == "object" or (isinstance(kind, list) and "object" in kind)
    _require(means_object, "its inputSchema does not describe an object")
    schema = schema if kind == "object" else {**schema, "type": "object"}
    _check_schemas(schema)
    mended = {**tool, "inputSchema": schema}
    try:
        _check_schemas(tool.get("outputSchema", True))
    except _InvalidDefinitionError:
        del mended["outputSchema"]  # optional for a result
    return mended


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise _InvalidDefinitionError(what)


def _check_schemas(schema: Any) -> None:
    """Check that each schema is valid, and that keywords with subschemas contain valid ones. A null keyword (servers in
    Go write empty lists so) is removed."""
    left: list[tuple[str, Any]] = [("", schema)]
    seen = 0
    while left:
        where, part = left.pop()
        if isinstance(part, bool):
            continue
        _require(isinstance(part, dict), f"its schema is wrong at {where or 'its top'}: this is not a schema")
        seen += 1
        _require(seen <= MAX_SCHEMAS, f"its schema has more than {MAX_SCHEMAS:,} parts")
        for keyword, check in _KEYWORDS.items():
            if (value := part.get(keyword)) is not None:
                left += check(f"{where}/{keyword}", value)
            else:
                part.pop(keyword, None)


def _invalid(where: str, what: str) -> _InvalidDefinitionError:
    return _InvalidDefinitionError(f"its schema is wrong at {where}: {what}")


def _schema(where: str, value: Any) -> FoundSchemas:
    yield where, value


def _schemas(where: str, value: Any) -> FoundSchemas:
    if not isinstance(value, list):
        raise _invalid(where, "this is not a list of schemas")
    yield from ((f"{where}/{index}", item) for index, item in enumerate(value))


def _items(where: str, value: Any) -> FoundSchemas:
    """Find the schemas of array items: one for all items or, before draft 2020-12, one for each."""
    return _schemas(where, value) if isinstance(value, list) else _schema(where, value)


def _named_schemas(where: str, value: Any) -> FoundSchemas:
    if not isinstance(value, dict):
        raise _invalid(where, "this is not an object of schemas")
    yield from ((f"{where}/{name}", item) for name, item in value.items())


def _words(where: str, value: Any) -> FoundSchemas:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _invalid(where, "this is not a list of strings")
    return iter(())


def _type(where: str, value: Any) -> FoundSchemas:
    return iter(()) if isinstance(value, str) else _words(where, value)


def _list(where: str, value: Any) -> FoundSchemas:
    if not isinstance(value, list):
        raise _invalid(where, "this is not a list")
    return iter(())


def _text(where: str, value: Any) -> FoundSchemas:
    if not isinstance(value, str):
        raise _invalid(where, "this is not a string")
    return iter(())


_KEYWORDS: Mapping[str, Callable[[str, Any], FoundSchemas]] = {
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions"), _named_schemas),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _schemas),
    **dict.fromkeys(("additionalProperties", "propertyNames", "not", "contains", "if", "then", "else"), _schema),
    **dict.fromkeys(("$ref", "$schema", "pattern", "title", "description"), _text),
    "items": _items,
    "required": _words,
    "type": _type,
    "enum": _list,
}
