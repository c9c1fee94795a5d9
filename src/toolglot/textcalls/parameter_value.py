"""The value of one tagged parameter: raw text in, JSON text out."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from toolglot.textcalls.coerce import REPAIRED_NOTE, coerce_value, is_plain_string
from toolglot.textcalls.events import EventSink
from toolglot.textcalls.grammar import Parameter, Spacing
from toolglot.textcalls.schemas import allowed_types, item_schema, value_schema

SPACE: Final = " \t\r\n"
SCALARS: Final = frozenset(("integer", "number", "boolean", "null"))
STRING_TYPES: Final = ("string", "true")
"""Values of a tag's attribute that mark a string: `type="string"`, `string="true"`."""
MAX_HELD_SPACE: Final = 4096
"""Maximum white space at the end of a value so far that is held back; earlier white space is content."""


class ParameterValue:
    """Takes the raw text as it arrives. A value that can only be a string is passed on at once, escaped."""

    __slots__ = (
        "_begun",
        "_index",
        "_key",
        "_parameter",
        "_parts",
        "_schema",
        "_sink",
        "_spacing",
        "_streams",
        "_tail",
        "_typed",
    )

    def __init__(
        self, sink: EventSink, index: int, parameter: Parameter, key: str, schema: Any, typed: str | None = None
    ) -> None:
        self._sink = sink
        self._index = index
        self._parameter = parameter
        self._key = key
        self._schema = schema
        self._typed = typed
        self._spacing = _spacing(parameter.spacing, key)
        self._streams = _is_string(parameter, schema, typed)
        self._parts: list[str] = []
        self._tail = ""  # white space that may belong to the markup
        self._begun = False

    @property
    def is_scalar(self) -> bool:
        """Whether it cannot be text, so that it contains no mark."""
        return (
            self._typed is None
            and bool(allowed_types(self._schema))
            and SCALARS.issuperset(allowed_types(self._schema))
        )

    @property
    def empty(self) -> bool:
        """Whether nothing of the value has been read."""
        return not self._begun and not self._tail

    def add(self, text: str) -> None:
        """Add more of the raw text."""
        if not text:
            return
        text = self._tail + text
        if not self._begun:
            text = self._without_lead(text)
            if not text or (self._spacing == "lines" and text in ("\r", "\n", "\r\n")):
                self._tail = text
                return
            if not self._streams:
                self._parts.append("")
            else:
                self._sink.arguments(self._index, '"')
            self._begun = True
            text = self._without_first_line_break(text)
        held = len(text) - self._trailing(text)
        self._tail = text[held:]
        self._put(text[:held])

    def _without_lead(self, text: str) -> str:
        return text.lstrip(SPACE) if self._spacing == "trim" else text

    def _without_first_line_break(self, text: str) -> str:
        if self._spacing != "lines":
            return text
        if text.startswith(("\n", "\r\n")):
            return text[text.index("\n") + 1 :]
        if self._parameter.spacing == "lines":
            # The value is on the line of its tag, so no line break at its end belongs to the markup.
            self._spacing = "exact"
        return text

    def _trailing(self, text: str) -> int:
        """Return how many characters at the end may belong to the markup."""
        if self._spacing == "lines":
            return 2 if text.endswith("\r\n") else 1 if text.endswith(("\n", "\r")) else 0
        if self._spacing == "trim":
            return min(len(text) - len(text.rstrip(SPACE)), MAX_HELD_SPACE)
        return 0

    def _put(self, text: str) -> None:
        if not text:
            return
        if self._streams:
            self._sink.arguments(self._index, json.dumps(text, ensure_ascii=False)[1:-1])
        else:
            self._parts.append(text)

    def close(self) -> None:
        """Complete the value."""
        if self._spacing == "exact":
            self._put(self._tail)
        elif self._begun and self._spacing == "lines" and self._tail == "\r":
            self._put(self._tail)  # a partial line break is content
        elif not self._begun and self._spacing == "lines" and self._tail == "\r":
            self._parts.append(self._tail)
        if self._streams:
            self._sink.arguments(self._index, '"' if self._begun else '""')
            return
        raw = "".join(self._parts)
        notes: list[str] = []
        self._sink.arguments(self._index, self._coerce(raw, notes))
        for note in notes:
            if note.startswith(REPAIRED_NOTE):
                self._sink.repaired(self._index, raw, f"{self._key}: {note}")

    def _coerce(self, raw: str, notes: list[str]) -> str:
        """Return the JSON text of the value. Remarks are added to `notes`."""
        if self._parameter.nested and self._parameter.nested in raw:
            return nested_value(raw, self._schema, self._parameter.nested, notes)
        if self._typed is not None:
            return coerce_value(raw, None, untyped="json")[0]
        if self._parameter.json_values:
            written, note = coerce_value(raw, None, untyped="json")
            if note is None or not written.startswith('"'):
                return written
        written, note = coerce_value(raw, self._schema, untyped=self._parameter.untyped, work=self._sink.work)
        notes += [note] if note else []
        return written


def _spacing(spacing: Spacing, key: str) -> Spacing:
    if spacing != "cline":
        return spacing
    # Roo's parser keeps the inner lines of a file unchanged and trims everything else.
    return "lines" if key == "content" else "trim"


def _is_string(parameter: Parameter, schema: Any, typed: str | None) -> bool:
    if typed is not None:
        return typed.lower() in STRING_TYPES
    if parameter.json_values:
        return False
    if schema is None:
        return parameter.untyped == "string"
    return is_plain_string(schema)


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
