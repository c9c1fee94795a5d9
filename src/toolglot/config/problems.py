"""Problems of a configuration with their positions: all problems of a file at once, each with a suggestion if there is
a similar name.

A problem never shows a value that could be a secret; it names the field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from toolglot.errors import ToolglotError
from toolglot.nearest import nearest

Path: TypeAlias = tuple[str | int, ...]
"""The path to a field: names, and positions in lists."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


class Problem(Struct, frozen=True, kw_only=True):
    file: str
    line: int | None = None
    column: int | None = None
    field: str = ""
    message: str
    suggestion: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        head = f"{place}: {self.field}: " if self.field else f"{place}: "
        return head + self.message + (f"; {self.suggestion}" if self.suggestion else "")


class ConfigError(ToolglotError):
    """The configuration cannot be used. `problems` lists all errors."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def field_name(path: Path) -> str:
    """Format a path: `upstreams.local.models[2]`, with quotes around names that contain a dot or a star."""
    name = ""
    for part in path:
        if isinstance(part, int):
            name += f"[{part}]"
        else:
            name += ("." if name else "") + (part if _PLAIN.fullmatch(part) else f'"{part}"')
    return name


def did_you_mean(wrong: str, known: Iterable[str]) -> str | None:
    """Return a question with the nearest name, if there is one."""
    near = nearest(wrong, known)
    return None if near is None else f"did you mean `{near}`?"


def one_of(wrong: str, known: Iterable[str]) -> str:
    """Return the nearest name, or all of them."""
    names = tuple(known)
    return did_you_mean(wrong, names) or f"there {'is only' if len(names) == 1 else 'are'} {', '.join(names)}"
