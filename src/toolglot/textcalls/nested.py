"""Values that hold elements of their own: objects as one element a key, arrays as repeated elements."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from toolglot.textcalls.coerce import coerce_value, value_schema

MAX_DEPTH: Final = 50
ITEM: Final = "item"


def nested_value(raw: str, schema: Any, prefix: str, depth: int = 0) -> str:
    """The JSON text of a value whose tags all begin with `prefix`."""
    children = _children(raw, prefix) if depth < MAX_DEPTH else None
    if children is None:
        return coerce_value(raw, schema)[0]
    keys = [key for key, _ in children]
    if set(keys) == {ITEM} or (len(keys) > 1 and len(set(keys)) == 1):
        items = _item_schema(schema)
        return "[" + ", ".join(nested_value(inner, items, prefix, depth + 1) for _, inner in children) + "]"
    members: dict[str, list[str]] = {}
    for key, inner in children:
        members.setdefault(key, []).append(nested_value(inner, value_schema(schema, key), prefix, depth + 1))
    written = (
        f"{json.dumps(key, ensure_ascii=False)}: {values[0] if len(values) == 1 else '[' + ', '.join(values) + ']'}"
        for key, values in members.items()
    )
    return "{" + ", ".join(written) + "}"


def _item_schema(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return None
    if isinstance(schema.get("items"), dict):
        return schema["items"]
    for choice in (*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())):
        if isinstance(choice, dict) and isinstance(choice.get("items"), dict):
            return choice["items"]
    return None


def _children(raw: str, prefix: str) -> list[tuple[str, str]] | None:
    """The elements that a value consists of; None if it is plain text."""
    tag = re.compile(re.escape(prefix) + r"<(/?)([^<>/\s]+)>")
    children: list[tuple[str, str]] = []
    depth, start, opened, end = 0, 0, "", 0
    for found in tag.finditer(raw):
        closing, key = found.groups()
        if depth == 0:
            if closing or raw[end : found.start()].strip():
                return None
            opened, start = key, found.end()
        depth += -1 if closing else 1
        if depth == 0:
            if key != opened:
                return None
            children.append((key, raw[start : found.start()]))
            end = found.end()
    return children if children and depth == 0 and not raw[end:].strip() else None
