"""Draft of a configuration file: tables whose fields record their place in the source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from toolglot.config.importers.source import SourceNode, origin, place_of
from toolglot.config.problems import Problem, field_name

TablePath: TypeAlias = tuple[str, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ORDER = ("", "server", "upstreams", "models", "prices", "limits", "log")
"""Order of the tables in the file, by the first part of their names."""
_REQUIRED: Mapping[TablePath, str] = {("models",): "upstream"}
"""Required field of a section's tables: a table without it is meaningless."""


class DraftField(Struct, frozen=True):
    value: Any
    source: SourceNode | None
    """None for a setting that the source implies as a whole; `comment` then gives the reason."""
    comment: str = ""


class DraftTable(Struct):
    fields: dict[str, DraftField]
    source: SourceNode | None = None


class Draft:
    """Tables by path. The first value of a field is kept."""

    def __init__(self) -> None:
        self.tables: dict[TablePath, DraftTable] = {(): DraftTable({})}

    def table(self, path: TablePath, source: SourceNode | None = None) -> DraftTable:
        return self.tables.setdefault(path, DraftTable({}, source))

    def set(self, table: TablePath, field: str, value: Any, source: SourceNode | None, comment: str = "") -> None:
        self.table(table).fields.setdefault(field, DraftField(value, source, comment))

    def set_once(self, table: TablePath, field: str, value: Any, source: SourceNode) -> None:
        """Set a field. Reports a value that differs from an earlier one."""
        before = self.table(table).fields.setdefault(field, DraftField(value, source))
        if before.value != value and before.source is not None:
            source.note(f"not used: {field_name(before.source.path)} has another value")

    def extend(self, table: TablePath, field: str, values: Iterable[str], source: SourceNode) -> None:
        """Append to a list, without duplicates."""
        fields = self.table(table).fields
        before = fields.get(field, DraftField([], source))
        fields[field] = DraftField(list(dict.fromkeys([*before.value, *values])), before.source)

    def names(self, section: str) -> list[str]:
        """List the names of the tables directly below a section."""
        return list(dict.fromkeys(path[1] for path in self.tables if len(path) > 1 and path[0] == section))

    def remove(self, name: str) -> SourceNode | None:
        """Remove the field that problems call by this name (`server.port`), or the table if there is no such field.
        Returns its source."""
        for path, table in self.tables.items():
            for field in table.fields:
                if _is_inside(name, field_name((*path, field))):
                    is_required = _REQUIRED.get(path[:1]) == field
                    return self._remove_table(path) if is_required else table.fields.pop(field).source or table.source
        for path in sorted(self.tables, key=len, reverse=True):
            if path and _is_inside(name, field_name(path)):
                return self._remove_table(path)
        return None

    def _remove_table(self, path: TablePath) -> SourceNode | None:
        """Remove a table and the tables below it."""
        removed = [self.tables.pop(each) for each in list(self.tables) if each[: len(path)] == path]
        return next((table.source for table in removed if table.source is not None), None)


def _is_inside(name: str, outer: str) -> bool:
    return name == outer or name.startswith((f"{outer}.", f"{outer}["))


def write_toml(draft: Draft, head: Iterable[str], tail: Iterable[str]) -> str:
    """Write the draft as TOML, with comments before and after it."""
    lines = [*_comment(head), ""]
    for table in _in_order(draft.tables):
        lines += [*_table(table, draft.tables[table]), ""]
    lines += _comment(tail)
    return "\n".join(lines).rstrip("\n") + "\n"


def _in_order(tables: Iterable[TablePath]) -> list[TablePath]:
    """Sort the tables by section. Subtables follow their table."""
    paths = list(tables)
    owners = list(dict.fromkeys(path[:2] for path in paths))
    return sorted(paths, key=lambda path: (_ORDER.index(path[0] if path else ""), owners.index(path[:2]), len(path)))


def _table(path: TablePath, table: DraftTable) -> Iterator[str]:
    if path:
        yield f"[{'.'.join(_key(part) for part in path)}]" + _end_comment("", table.source)
    for name, field in table.fields.items():
        yield f"{_key(name)} = {_value(field.value)}" + _end_comment(field.comment, field.source)


def _end_comment(comment: str, source: SourceNode | None) -> str:
    said = [comment, origin(place_of(source)) if source is not None else ""]
    text = ", ".join(part for part in said if part)
    return f"  # {_one_line(text)}" if text else ""


def _comment(lines: Iterable[str]) -> list[str]:
    return [f"# {_one_line(line)}".rstrip() for line in lines]


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_value(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(inner) for inner in value) + "]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    """Write a TOML string. A JSON string is one, except for the character DEL and lone surrogates."""
    clean = text.encode("utf-8", "replace").decode()
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")


def report_line(problem: Problem) -> str:
    """Format a report as a comment in the file, with the source's name without its folder."""
    place = origin(problem)
    return f"{place}: {problem.field}: {problem.message}" if problem.field else f"{place}: {problem.message}"
