"""Convert a raw text value to JSON text, guided by its schema.

Digits are kept as written: `5.0` and integers of any size reach the client unchanged. A value that does not match its
schema stays the string that the model wrote, with a note; nothing is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Literal

from toolglot.textcalls.argument_problems import find_argument_problems, fits_type
from toolglot.textcalls.events import WorkBudget
from toolglot.textcalls.repair import RepairError, repair_document_with_report, repair_with_report
from toolglot.textcalls.schemas import all_of_parts, allowed_types, alternatives, item_schema, value_schema

__all__ = ["REPAIRED_NOTE", "coerce_value", "is_plain_string", "value_schema"]

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.0+)?")
_LOOSE_NUMBER = re.compile(r"\+?(-?[0-9]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?)")
_BOOLEANS = {"true": "true", "false": "false", "1": "true", "0": "false"}
_NULLS = ("null", "None")
_MAX_DEPTH = 60
REPAIRED_NOTE = "repaired"
"""Prefix of the note on a value that was not JSON."""

Coerced = tuple[str, str | None]


def coerce_value(
    raw: str, schema: Any, *, untyped: Literal["string", "json"] = "string", work: WorkBudget | None = None
) -> Coerced:
    """Return the JSON text of `raw`, and a note if it does not match `schema` or had to be repaired. `untyped`
    determines how to read a value without a type in the schema: as a string, or as JSON if it parses as JSON.
    """
    member = _enum_member(raw, schema)
    if member is not None:
        return member, None
    allowed = allowed_types(schema)
    if not allowed:
        return (_json_text(raw) if untyped == "json" else None) or _string(raw), None
    trimmed = raw.strip()
    if "null" in allowed and trimmed in _NULLS:
        return "null", None
    note: str | None = None
    for name in allowed:
        found = _COERCIONS[name](raw, trimmed, schema, work)
        if found is not None:
            return found
    if trimmed in _NULLS and "string" not in allowed:
        note = f"null is not allowed where {_format_options(allowed)} is expected"
    return _string(raw), note or f"is no {_format_options(allowed)}; kept as a string"


def is_plain_string(schema: Any) -> bool:
    """Return whether the value can only be a string, so that it may be passed on while it is being written."""
    if allowed_types(schema) != ("string",):
        return False
    return not any(_has_enum(part.node) for branch in alternatives(schema) for part in all_of_parts(branch))


def _has_enum(node: Any) -> bool:
    return isinstance(node, dict) and ("enum" in node or "const" in node)


def _format_options(allowed: tuple[str, ...]) -> str:
    return " or ".join(allowed)


def _string(raw: str) -> str:
    return json.dumps(raw, ensure_ascii=False)


def _enum_member(raw: str, schema: Any) -> str | None:
    """Return the text of the enum or const member that `raw` represents."""
    trimmed = raw.strip()
    members: list[Any] = []
    for branch in alternatives(schema):
        for part in all_of_parts(branch):
            node = part.node if isinstance(part.node, dict) else {}
            members += node["enum"] if isinstance(node.get("enum"), list) else []
            members += [node["const"]] if "const" in node else []
    if raw in members:
        return _string(raw)
    for member in members:
        if isinstance(member, str):
            if member == trimmed:
                return _string(member)
        elif json.dumps(member, ensure_ascii=False) == trimmed:
            return trimmed
    return None


def _json_text(raw: str) -> str | None:
    """Return `raw`, trimmed, if it is JSON."""
    text = raw.strip()
    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return text


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _as_string(raw: str, trimmed: str, schema: Any, work: WorkBudget | None) -> Coerced | None:
    return _string(raw), None


def _as_integer(raw: str, trimmed: str, schema: Any, work: WorkBudget | None) -> Coerced | None:
    digits = trimmed.removeprefix("+")
    return (digits, None) if _WHOLE.fullmatch(digits) else None


def _as_number(raw: str, trimmed: str, schema: Any, work: WorkBudget | None) -> Coerced | None:
    if _NUMBER.fullmatch(trimmed):
        return trimmed, None
    match = _LOOSE_NUMBER.fullmatch(trimmed)
    if match is None:
        return None
    digits = re.sub(r"\.(?![0-9])", ".0", re.sub(r"^(-?)\.", r"\g<1>0.", match.group(1)))
    return (digits, None) if re.search("[0-9]", match.group(1)) and _NUMBER.fullmatch(digits) else None


def _as_boolean(raw: str, trimmed: str, schema: Any, work: WorkBudget | None) -> Coerced | None:
    text = _BOOLEANS.get(trimmed.lower())
    return (text, None) if text else None


def _as_null(raw: str, trimmed: str, schema: Any, work: WorkBudget | None) -> Coerced | None:
    return ("null", None) if trimmed in _NULLS else None


def _as_object(raw: str, trimmed: str, schema: Any, work: WorkBudget | None) -> Coerced | None:
    return _as_container(trimmed, schema, dict, work)


def _as_array(raw: str, trimmed: str, schema: Any, work: WorkBudget | None) -> Coerced | None:
    return _as_container(trimmed, schema, list, work)


def _as_container(trimmed: str, schema: Any, kind: type, work: WorkBudget | None) -> Coerced | None:
    if not trimmed:
        return "{}" if kind is dict else "[]", None
    text = _json_text(trimmed)
    note: str | None = None
    value: Any = None
    if text is None:
        if trimmed[0] not in '{["`':
            return None
        try:
            if kind is dict:
                value, how = repair_with_report(trimmed, schema, work)
            else:
                value, how = repair_document_with_report(trimmed, work)
        except RepairError:
            return None
        text, note = json.dumps(value, ensure_ascii=False), f"{REPAIRED_NOTE} ({how})"
    else:
        value = json.loads(text)
        if isinstance(value, str) and value.strip()[:1] in ("{", "["):
            return _as_container(value.strip(), schema, kind, work)
    if not isinstance(value, kind):
        return None
    return _coerce_nested(text, value, schema), note


def _coerce_nested(text: str, value: Any, schema: Any) -> str:
    """Return the text if it matches the schema; otherwise coerce nested strings for which the schema has another
    type."""
    if not find_argument_problems(value, schema):
        return text
    exact = json.loads(text, parse_float=_Digits, parse_int=_Digits)
    return _write_coerced(exact, schema, 0) or text


class _Digits(str):
    """A number in its original spelling."""


def _write_coerced(value: Any, schema: Any, depth: int) -> str | None:
    """Return the JSON text of the value; None if it is nested too deeply."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, _Digits):
        return str(value)
    if isinstance(value, str):
        allowed = allowed_types(schema)
        if not allowed or fits_type(value, allowed):
            return _string(value)
        return coerce_value(value, schema)[0]
    if isinstance(value, dict):
        members = [
            (_string(key), _write_coerced(item, value_schema(schema, key), depth + 1)) for key, item in value.items()
        ]
        return None if any(t is None for _, t in members) else "{" + ", ".join(f"{k}: {t}" for k, t in members) + "}"
    if isinstance(value, list):
        items = [_write_coerced(item, item_schema(schema, index), depth + 1) for index, item in enumerate(value)]
        return None if None in items else "[" + ", ".join(item or "" for item in items) + "]"
    return json.dumps(value)


_COERCIONS: dict[str, Callable[[str, str, Any, WorkBudget | None], Coerced | None]] = {
    "string": _as_string,
    "integer": _as_integer,
    "number": _as_number,
    "boolean": _as_boolean,
    "null": _as_null,
    "object": _as_object,
    "array": _as_array,
}
