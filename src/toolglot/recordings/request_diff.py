"""Compare the JSON of two requests in different dialects, line by line.

Two APIs use different names and nesting for the same content. So a line counts as the same if its name and value are
also in the other request, and as moved if only its value is. The other lines are in only one of the requests: removed,
or added. An object or array is compared by its name and content. Values are looked up, not aligned: time is linear.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from toolglot.errors import DecodeError
from toolglot.wire import json

LineMark = Literal["", "same", "moved", "only"]
"""The mark of a line; a line without a value has none."""
MIN_MOVED_CHARS = 3
"""A shorter value (`5`, `true`) is not distinctive without its name."""
_MEMBER = re.compile(r'(\s*+)(?:("(?:[^"\\]++|\\.)*+"): ?)?(.*)', re.DOTALL)


class JsonLine(Struct, frozen=True):
    """A line of indented JSON. `value` is None if it only opens or closes something, as `bracket` says."""

    text: str
    name: str = ""
    value: str | None = None
    bracket: Literal["", "open", "close"] = ""


def read_json_lines(text: str) -> list[JsonLine]:
    """Read indented JSON from `Cell.full`. Any other text gives lines without values."""
    read = _read_line if text.lstrip()[:1] in ("{", "[") else JsonLine
    return [read(line) for line in text.split("\n")]


def _read_line(line: str) -> JsonLine:
    member = _MEMBER.fullmatch(line)
    assert member is not None
    value = member[3].removesuffix(",")
    if value in ("{", "["):
        return JsonLine(line, member[2] or "", bracket="open")
    if value in ("}", "]"):
        return JsonLine(line, bracket="close")
    if not value:
        return JsonLine(line, member[2] or "")
    return JsonLine(line, member[2] or "", _plain(value))


def _plain(value: str) -> str:
    """Return a value in one form: the same text may be escaped in several ways."""
    if "\\" not in value:
        return value
    try:
        return json.encode_text(json.decode(value))
    except DecodeError:
        return value


def mark_lines(lines: Sequence[JsonLine], others: Sequence[JsonLine]) -> Iterator[tuple[JsonLine, LineMark]]:
    """Yield each line of one request with its mark, compared with the other request."""
    marks = _mark_values(lines, others)
    _mark_containers(lines, marks, Counter(line.name for line in others if line.bracket == "open"))
    return zip(lines, marks, strict=True)


def _mark_values(lines: Sequence[JsonLine], others: Sequence[JsonLine]) -> list[LineMark]:
    """Return the marks of lines with a value, and empty ones for the others."""
    members = Counter((line.name, line.value) for line in others if line.value is not None)
    values = Counter(line.value for line in others)
    marks: list[LineMark] = []
    for line in lines:
        if line.value is None:
            marks.append("")
        elif members[line.name, line.value] > 0:
            members[line.name, line.value] -= 1
            values[line.value] -= 1
            marks.append("same")
        elif len(line.value) >= MIN_MOVED_CHARS + 2 and line.value[0] == '"' and values[line.value] > 0:
            values[line.value] -= 1
            marks.append("moved")
        else:
            marks.append("only")
    return marks


def _mark_containers(lines: Sequence[JsonLine], marks: list[LineMark], names: Counter[str]) -> None:
    """Mark the lines that open and close an object or array whose name is not in the other request, or whose contents
    are not. `names` are the other request's objects and arrays."""
    opened: list[tuple[int, bool]] = []  # where each began, and whether all of its contents are in one request alone
    for at, line in enumerate(lines):
        if line.bracket == "open":
            opened.append((at, True))
            continue
        is_alone = marks[at] == "only"
        if line.bracket == "close" and opened:
            start, is_alone = opened.pop()
            if opened:  # the whole request is not marked
                marks[start] = _container_mark(lines[start].name, is_alone, names)
                is_alone = marks[start] == "only"
                marks[at] = "only" if is_alone else ""
        if opened and not is_alone:
            opened[-1] = (opened[-1][0], False)


def _container_mark(name: str, is_alone: bool, names: Counter[str]) -> LineMark:
    if name and names[name] > 0:
        names[name] -= 1
        return ""
    if is_alone:
        return "only"
    return "moved" if name else ""
