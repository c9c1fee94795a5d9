"""Format JSON for people: indented, with short values on one line.

The text of every number and string is kept: it is only split into lines, never decoded and encoded again.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

WIDTH = 80
"""A value that fits into this many columns stays on one line."""

INDENT = 2

_members = msgspec.json.Decoder(dict[str, Raw])
_elements = msgspec.json.Decoder(list[Raw])


def pretty_json(data: bytes, width: int = WIDTH) -> str:
    """Format a JSON document in lines of this width, as far as its strings allow it."""
    try:
        return _value(msgspec.json.format(data, indent=0), 0, 0, width)
    except RecursionError:  # too deeply nested to be readable
        return msgspec.json.format(data, indent=0).decode()


def _value(line: bytes, depth: int, used: int, width: int) -> str:
    """Format a value; `used` columns of its first line are taken by its name and the comma after it."""
    text = line.decode()
    if used + len(text) <= width or text[0] not in "{[":
        return text
    inner = depth + INDENT
    if text[0] == "{":
        named = [(f"{msgspec.json.encode(name).decode()}: ", raw) for name, raw in _members.decode(line).items()]
    else:
        named = [("", raw) for raw in _elements.decode(line)]
    lines = [f"{' ' * inner}{name}{_value(bytes(raw), inner, inner + len(name) + 1, width)}" for name, raw in named]
    return text[0] + "\n" + ",\n".join(lines) + "\n" + " " * depth + text[-1]
