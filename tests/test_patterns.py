"""Patterns of the source match the same text on every Python from 3.11 on.

Python before 3.11.5 does not return to where an iteration of a possessive group began if the iteration fails halfway:
`(?:ab?c)*+` matches all of `aca`. A group whose last alternative is `(?!)` is right everywhere, because the engine
returns to the start of a group before it tries an alternative. An atomic group would be right too, but it keeps every
iteration in memory: some 100 bytes each, for texts that others write.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
_POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{{1,2}\d*,?\d*\}{1,2})\+")
_UNKNOWN = "(?:x?y)"
"""Takes the place of a formatted value: an item that may fail halfway."""
_FORMATTED = re.compile(r"%[bs]")

_parser: Any = importlib.import_module("re._parser")
_CHARACTERS = {"LITERAL", "NOT_LITERAL", "IN", "ANY"}
_REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}


def _is_character(items: Any) -> bool:
    return len(items) == 1 and str(items[0][0]) in _CHARACTERS


def _parts(operation: str, value: Any) -> list[Any]:
    """Return the patterns inside an item."""
    match operation:
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return [value[2]]
        case "BRANCH":
            return list(value[1])
        case "SUBPATTERN":
            return [value[3]]
        case "ASSERT" | "ASSERT_NOT":
            return [value[1]]
        case "ATOMIC_GROUP":
            return [value]
        case "GROUPREF_EXISTS":
            return [part for part in value[1:] if part is not None]
    return []


def _possessive_groups(items: Any) -> Iterator[Any]:
    for operation, value in items:
        for part in _parts(str(operation), value):
            if str(operation) == "POSSESSIVE_REPEAT" and not _is_character(part):
                yield part
            yield from _possessive_groups(part)


def _fails_where_it_began(items: Any) -> bool:
    """Tell whether an iteration that fails leaves the position as it was: it ends with `(?!)`, or only single
    characters before its first repeat can fail."""
    if len(items) == 1 and str(items[0][0]) == "SUBPATTERN":
        return _fails_where_it_began(items[0][1][3])
    if len(items) == 1 and str(items[0][0]) == "BRANCH":
        alternatives = items[0][1][1]
        never = repr(_parser.parse("(?!)"))
        return repr(alternatives[-1]) == never or all(map(_fails_where_it_began, alternatives))
    has_moved = False
    for index, (operation, value) in enumerate(items):
        if str(operation) in _CHARACTERS | {"AT"}:
            if has_moved:
                return False
        elif str(operation) in _REPEATS and _is_character(value[2]) and value[0] <= (index == 0):
            has_moved = True
        else:
            return False
    return True


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the literals of a file that has a possessive group, with their lines."""
    source = path.read_text()
    if not _POSSESSIVE_GROUP.search(source):
        return
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            constants = (part.value if isinstance(part, ast.Constant) else _UNKNOWN for part in node.values)
            yield node.lineno, "".join(map(str, constants))
        elif isinstance(node, ast.Constant) and id(node) not in parts and isinstance(node.value, str | bytes):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            yield node.lineno, _FORMATTED.sub(_UNKNOWN, text)


def _is_wrong(pattern: str) -> bool:
    return not all(map(_fails_where_it_began, _possessive_groups(_parser.parse(pattern))))


@pytest.mark.parametrize("folder", ["src", "bench"])
def test_an_iteration_of_a_possessive_group_fails_where_it_began(folder: str) -> None:
    groups = [
        (f"{path.relative_to(ROOT)}:{line}", text)
        for path in sorted((ROOT / folder).rglob("*.py"))
        if ".cache" not in path.parts  # other revisions, which the benchmark exports
        for line, text in _texts(path)
        if _POSSESSIVE_GROUP.search(text)
    ]
    assert folder != "src" or len(groups) > 20
    wrong = [place for place, text in groups if _is_wrong(text)]
    assert not wrong, f"possessive groups that need `|(?!)` as their last alternative: {wrong}"


@pytest.mark.parametrize(
    ("pattern", "is_wrong"),
    [
        (r"(?:ab?c)*+", True),
        (r"(?:ab?c|(?!))*+", False),
        (r"(?:\\(?:n|u[0-9a-f]{4}))*+", True),
        (r"(?:[^\\]++|\\(?:n|u[0-9a-f]{4})|(?!))*+", False),
        (r"(?:[^\\]++|\\u[0-9a-f]{4})*+", True),
        (r"(?:[^\\]++|\\.)*+", False),
        (r"(?:\\.[^\\]*+)*+", False),
        (r'(?:[^"]++|"[^"]*+")*+', True),
        (r"(?:.(?!D))++", True),
        (r"(?:[0-9]|,(?=[0-9])){1,20}+", True),
        (r"(?:(?:a++|b)++,|(?!))*+", False),
        (r"((?:ab?c)?+|d)*", True),
        (r"[ab]*+(?:abc)?+", False),
    ],
)
def test_what_fails_halfway_is_found(pattern: str, is_wrong: bool) -> None:
    assert _is_wrong(pattern) == is_wrong
