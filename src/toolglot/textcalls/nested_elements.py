"""Values with child elements: objects as one element per key, arrays as repeated elements."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from toolglot.textcalls.coerce import coerce_value
from toolglot.textcalls.schemas import allowed_types, item_schema, value_schema

MAX_DEPTH: Final = 50
ITEM: Final = "item"


def nested_value(raw: str, schema: Any, prefix: str, notes: list[str], depth: int = 0) -> str:
    """Return the JSON text of a value whose tags all begin with `prefix`. Repairs are added to `notes`."""
    # If the schema's first type is a string, elements are text.
    is_text = allowed_types(schema)[:1] == ("string",)
    children = _children(raw, prefix) if depth < MAX_DEPTH and not is_text else None
    if children is None:
        written, note = coerce_value(raw, schema)
        notes += [note] if note else []
        return written
    keys = [key for key, _ in children]
    if set(keys) == {ITEM} or (len(keys) > 1 and len(set(keys)) == 1):
        items = (
            nested_value(inner, item_schema(schema, index), prefix, notes, depth + 1)
            for index, (_, inner) in enumerate(children)
        )
        return f"[{', '.join(items)}]"
    members: dict[str, list[str]] = {}
    for key, inner in children:
        members.setdefault(key, []).append(nested_value(inner, value_schema(schema, key), prefix, notes, depth + 1))
    pairs = (
        f"{json.dumps(key, ensure_ascii=False)}: {values[0] if len(values) == 1 else '[' + ', '.join(values) + ']'}"
        for key, values in members.items()
    )
    return f"{{{', '.join(pairs)}}}"


def _children(raw: str, prefix: str) -> list[tuple[str, str]] | None:
    """Return the child elements of a value; None if it is plain text."""
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
