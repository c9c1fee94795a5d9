"""Tool definitions as servers write them, each one by itself: mended where it is plain what was meant, left out where
it is not. A model's API refuses a whole request for one schema that is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

Found: TypeAlias = Iterator[tuple[str, Any]]
"""The schemas in a keyword's value, each with its place."""

MOST_SCHEMAS = 50_000
"""In one definition."""
_NAME_SHOWN = 100


class _WrongError(Exception):
    """What is wrong with a definition."""


def sound(listed: list[Any]) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """The definitions that can be used, with schemas of objects, and the names of the others with what is wrong with
    them. The list is used up."""
    good: list[dict[str, Any]] = []
    left_out: list[tuple[str, str]] = []
    for index, tool in enumerate(listed):
        try:
            good.append(_mended(tool))
        except _WrongError as wrong:
            name = tool.get("name") if isinstance(tool, dict) else None
            named = name[:_NAME_SHOWN] if isinstance(name, str) and name else f"number {index + 1}"
            left_out.append((named, str(wrong)))
    return good, left_out


def _mended(tool: Any) -> dict[str, Any]:
    _need(isinstance(tool, dict), "it is not an object")
    _need(isinstance(tool.get("name"), str) and tool["name"], "it has no name")
    _need(isinstance(tool.get("description"), str | None), "its description is not a string")
    schema = tool.get("inputSchema")
    schema = {} if schema is None else schema
    _need(isinstance(schema, dict), "its inputSchema is not an object")
    kind = schema.get("type")
    # Arguments always are an object, so what else they might be does not matter.
    means_object = kind is None or kind == "object" or (isinstance(kind, list) and "object" in kind)
    _need(means_object, "its inputSchema is not one of an object")
    schema = schema if kind == "object" else {**schema, "type": "object"}
    _tidy(schema)
    mended = {**tool, "inputSchema": schema}
    try:
        _tidy(tool.get("outputSchema", True))
    except _WrongError:
        del mended["outputSchema"]  # a result can do without
    return mended


def _need(holds: Any, what: str) -> None:
    if not holds:
        raise _WrongError(what)


def _tidy(schema: Any) -> None:
    """Each schema must be one, and each keyword that holds some must hold such. A keyword that is null (servers in Go
    write empty lists so) is taken out."""
    left: list[tuple[str, Any]] = [("", schema)]
    seen = 0
    while left:
        where, part = left.pop()
        if isinstance(part, bool):
            continue
        _need(isinstance(part, dict), f"its schema is wrong at {where or 'its top'}: this is no schema")
        seen += 1
        _need(seen <= MOST_SCHEMAS, f"its schema has more than {MOST_SCHEMAS:,} parts")
        for keyword, check in _KEYWORDS.items():
            if (value := part.get(keyword)) is not None:
                left += check(f"{where}/{keyword}", value)
            else:
                part.pop(keyword, None)


def _wrong(where: str, what: str) -> _WrongError:
    return _WrongError(f"its schema is wrong at {where}: {what}")


def _schema(where: str, value: Any) -> Found:
    yield where, value


def _schemas(where: str, value: Any) -> Found:
    if not isinstance(value, list):
        raise _wrong(where, "this is no list of schemas")
    yield from ((f"{where}/{index}", item) for index, item in enumerate(value))


def _items(where: str, value: Any) -> Found:
    """One schema for all; or, as it was before 2020-12, one for each."""
    return _schemas(where, value) if isinstance(value, list) else _schema(where, value)


def _named(where: str, value: Any) -> Found:
    if not isinstance(value, dict):
        raise _wrong(where, "this is no object of schemas")
    yield from ((f"{where}/{name}", item) for name, item in value.items())


def _words(where: str, value: Any) -> Found:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(where, "this is no list of strings")
    return iter(())


def _type(where: str, value: Any) -> Found:
    return iter(()) if isinstance(value, str) else _words(where, value)


def _list(where: str, value: Any) -> Found:
    if not isinstance(value, list):
        raise _wrong(where, "this is no list")
    return iter(())


def _text(where: str, value: Any) -> Found:
    if not isinstance(value, str):
        raise _wrong(where, "this is no string")
    return iter(())


_KEYWORDS: Mapping[str, Callable[[str, Any], Found]] = {
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions"), _named),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _schemas),
    **dict.fromkeys(("additionalProperties", "propertyNames", "not", "contains", "if", "then", "else"), _schema),
    **dict.fromkeys(("$ref", "$schema", "pattern", "title", "description"), _text),
    "items": _items,
    "required": _words,
    "type": _type,
    "enum": _list,
}
