"""JSON of a wire in a few short lines, for people: long strings are cut, and what matters is marked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .run import Json

Piece = tuple[str, str]
"""(text, class of its style or empty)."""

WIDTH = 62
LONGEST_STRING = 34
LONGEST = {"arguments": 46}
LEFT_OUT = {"cache_control", "description"}
"""Members that become an ellipsis."""
MARKED = {"tool_use", "tool_result", "tool_calls", "tool"}
"""What each dialect calls calls and results."""
ERROR = '"Error: '
"""How a failed result begins in a dialect that has no mark for it."""


def wire_lines(value: Json) -> list[list[Piece]]:
    """The lines of an object. A line ends only between members."""
    lines: list[list[Piece]] = [[]]
    used = 0
    for member in _members(value):
        size = sum(len(text) for text, _ in member)
        if used and used + size > WIDTH + 1:  # the space at its end does not count
            lines.append([("  ", "")])
            used = 2
        lines[-1].extend(member)
        used += size
    return lines


def _members(value: Json, opening: str = "{", closing: str = "}") -> Iterator[list[Piece]]:
    """The members of an object with the punctuation around each."""
    shown = [name for name in value if name not in LEFT_OUT]
    cut: list[Piece] = [("…", "muted")] if len(shown) < len(value) else []
    for place, name in enumerate(shown):
        is_last = place == len(shown) - 1
        before: list[Piece] = [(opening if place == 0 else "", "muted"), (f'"{name}": ', "key")]
        comma: list[Piece] = [(", ", "muted")]
        after: list[Piece] = [*(comma if cut else []), *cut, (closing, "muted")] if is_last else comma
        inner = value[name]
        if isinstance(inner, dict):
            yield before
            yield from _members(inner, closing="}" + "".join(text for text, _ in after))
        else:
            yield [*before, *_scalar(name, inner), *after]


def _scalar(name: str, value: Any) -> list[Piece]:
    text = json.dumps(value, ensure_ascii=False)
    longest = LONGEST.get(name, LONGEST_STRING)
    if len(text) > longest:
        text = re.sub(r"[\\\s]+$", "", text[: longest - 2]) + '…"'
    if name == "is_error" and value:
        return [(text, "error")]
    if isinstance(value, str) and (found := re.fullmatch(r"call_(\d)", value)):
        return [(text, f"call{found[1]}")]
    if value in MARKED:
        return [(text, "marked")]
    start = text.startswith(ERROR) * len(ERROR)
    return [(text[:start], "error"), (text[start:], "value")]
