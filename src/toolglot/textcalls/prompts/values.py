"""Write arguments in the forms that the formats use. Numbers keep their digits and members their order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn, TypeAlias

Member: TypeAlias = tuple[str, str, Any]
"""A member of an object: its key, its value's JSON text, and the value (numbers as `NumberText`)."""


class NumberText(str):
    """A number in its original spelling."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_int=NumberText, parse_float=NumberText, parse_constant=_no_constant)
_SPACE = " \t\n\r"


def json_text(value: Any) -> str:
    """Return JSON as chat templates write it: a space after commas and colons, non-ASCII letters unescaped."""
    return json.dumps(value, ensure_ascii=False)


def object_members(arguments: str) -> list[Member] | None:
    """Return the members of a JSON object, each with the exact text of its value; None if it is not a JSON object."""
    try:
        return list(_members(arguments))
    except (ValueError, IndexError, RecursionError):
        return None


def is_json(text: str) -> bool:
    try:
        _decoder.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _members(text: str) -> Iterator[Member]:
    at = _expect(text, 0, "{")
    if text[_blank(text, at)] != "}":
        while True:
            key, at = _decoder.raw_decode(text, _expect(text, at, '"') - 1)
            start = _blank(text, _expect(text, at, ":"))
            value, end = _decoder.raw_decode(text, start)
            yield key, text[start:end], value
            at = _blank(text, end)
            if text[at] != ",":
                break
            at += 1
    if _blank(text, _expect(text, at, "}")) != len(text):
        raise ValueError("something follows the object")


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _expect(text: str, at: int, character: str) -> int:
    at = _blank(text, at)
    if text[at] != character:
        raise ValueError(f"expected {character!r} at {at}")
    return at + 1


def type_name(value: Any) -> str:
    """Return the JSON name of a value's type."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case NumberText() | int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


_PYTHON = {None: "None", True: "True", False: "False"}


def python_literal(value: Any) -> str:
    """Return a value as a Python literal. A JSON string without escaped letters is a Python string."""
    match value:
        case NumberText():
            return str(value)
        case None | bool():
            return _PYTHON[value]
        case list():
            return f"[{', '.join(python_literal(item) for item in value)}]"
        case dict():
            pairs = (f"{json_text(key)}: {python_literal(item)}" for key, item in value.items())
            return f"{{{', '.join(pairs)}}}"
    return json_text(value)


def keyword_argument(key: str, value: Any) -> str:
    """Return a keyword argument; one whose key is not an identifier is unpacked."""
    literal = python_literal(value)
    return f"{key}={literal}" if key.isidentifier() else f"**{{{json_text(key)}: {literal}}}"


_BARE = re.compile(r"[\w$@.\-/]+")
"""A key that needs no quotes between braces."""
_TAG = re.compile(r"[^<>/\s]+")
"""A key that can be the name of an element."""


def is_valid_tag(key: str) -> bool:
    return _TAG.fullmatch(key) is not None


def braces_value(value: Any, quote: str) -> str:
    """Return a value with bare keys and `quote` around strings; nothing is escaped inside a string."""
    match value:
        case NumberText():
            return str(value)
        case str():
            return f"{quote}{value}{quote}"
        case list():
            return f"[{','.join(braces_value(item, quote) for item in value)}]"
        case dict():
            pairs = ((key if _BARE.fullmatch(key) else f"{quote}{key}{quote}", item) for key, item in value.items())
            return f"{{{','.join(f'{key}:{braces_value(item, quote)}' for key, item in pairs)}}}"
    return json_text(value)


def xml_elements(value: Any, prefix: str) -> str:
    """Return a value as nested elements, every tag with `prefix`; the elements of an array are called `item`. Empty
    objects and arrays, and objects with keys that are not valid tags, are written as JSON, because there is no other
    form."""
    match value:
        case NumberText():
            return str(value)
        case str():
            return value
        case [_, *_]:
            return "".join(f"{prefix}<item>{xml_elements(item, prefix)}{prefix}</item>" for item in value)
        case dict() if value and all(map(is_valid_tag, value)):
            return "".join(
                f"{prefix}<{key}>{xml_elements(item, prefix)}{prefix}</{key}>" for key, item in value.items()
            )
    return _as_json(value)


def _as_json(value: Any) -> str:
    """Convert a value back to JSON. Numbers keep their original digits."""
    match value:
        case NumberText():
            return str(value)
        case list():
            return f"[{', '.join(map(_as_json, value))}]"
        case dict():
            return f"{{{', '.join(f'{json_text(key)}: {_as_json(item)}' for key, item in value.items())}}}"
    return json_text(value)


def strings_in(value: Any) -> Iterator[str]:
    """Yield all strings of a value, including the keys of objects."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case NumberText():
                pass
            case str() as text:
                yield text
            case list() as items:
                waiting.extend(items)
            case dict() as found:
                waiting.extend(found)
                waiting.extend(found.values())
