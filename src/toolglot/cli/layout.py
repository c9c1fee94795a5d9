"""How JSON is shown to people: indented, but what fits on a line stays on one.

The text of every number and string is the one that came: it is cut into lines here, never read and written again.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

WIDTH = 80
"""A value that fits into this many columns stays on one line."""

INDENT = 2

_members = msgspec.json.Decoder(dict[str, Raw])
_elements = msgspec.json.Decoder(list[Raw])


def laid_out(data: bytes, width: int = WIDTH) -> str:
    """A JSON document in lines of this width, where its strings allow it."""
    try:
        return _value(msgspec.json.format(data, indent=0), 0, 0, width)
    except RecursionError:  # nobody reads what is nested so deeply
        return msgspec.json.format(data, indent=0).decode()


def _value(line: bytes, depth: int, used: int, width: int) -> str:
    """A value as text; `used` columns of its first line are taken already, by its name and the comma behind it."""
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
