"""Find the positions of the keys of a TOML document, which the standard library's parser does not report.

It reads text that `tomllib` has accepted, so it does not validate again. It follows keys, skips values, and descends
into arrays and inline tables.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable

from toolglot.config.problems import Path

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(r'"""(?:\\[\s\S]|[^\\])*?"{3,5}|' + r"'''[\s\S]*?'{3,5}|" + r'"(?:\\.|[^"\\\n])*"|' + r"'[^'\n]*'")
_SCALAR = re.compile(r"[^,\]}#\n]+")


def find_positions(text: str) -> dict[Path, tuple[int, int]]:
    """Return the line and column of every key and of every array element."""
    return _Finder(text).find()


class _Finder:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Path, tuple[int, int]] = {}
        self.tables: dict[Path, int] = {}
        """Number of elements so far of each array of tables."""
        self._line = 1
        self._line_start = 0
        self._counted = 0

    def find(self) -> dict[Path, tuple[int, int]]:
        table: Path = ()
        self._skip(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)
        return self.found

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return match[0]

    def _mark(self, path: Path) -> None:
        """Record the position of this path. A table that is opened twice keeps its first position."""
        self._line += self.text.count("\n", self._counted, self.at)
        self._line_start = self.text.rfind("\n", 0, self.at) + 1
        self._counted = self.at
        self.found.setdefault(path, (self._line, self.at - self._line_start + 1))

    def _key(self, path: Path) -> Path:
        """Read a dotted key below this path."""
        while True:
            self._skip(_SPACE)
            start = self.at
            bare = self._skip(_BARE_KEY)
            name = bare or tomllib.loads("key = " + self._skip(_STRING))["key"]
            path = self._inside((*path, name))
            end, self.at = self.at, start
            self._mark(path)
            self.at = end
            self._skip(_SPACE)
            if self.text[self.at] != ".":
                return path
            self.at += 1

    def _inside(self, path: Path) -> Path:
        """Resolve a key inside an array of tables, which refers to the last element."""
        return (*path, self.tables[path] - 1) if path in self.tables else path

    def _header(self) -> Path:
        array = self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        start = self.at
        path = self._key(())
        if array:
            if path in self.tables or isinstance(path[-1], int):
                path = path[:-1]
            self.tables[path] = self.tables.get(path, 0) + 1
            path = (*path, self.tables[path] - 1)
            end, self.at = self.at, start
            self._mark(path)
            self.at = end
        self.at += 2 if array else 1
        return path

    def _pair(self, table: Path) -> None:
        path = self._key(table)
        self.at += 1  # the equals sign
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: Path) -> None:
        first = self.text[self.at]
        if first == "[":
            self._members("]", lambda number: self._element((*path, number)))
        elif first == "{":
            self._members("}", lambda number: self._pair(path))
        elif first in "\"'":
            self._skip(_STRING)
        else:
            self._skip(_SCALAR)

    def _members(self, end: str, member: Callable[[int], None]) -> None:
        self.at += 1
        number = 0
        self._skip(_BLANK)
        while self.text[self.at] != end:
            member(number)
            number += 1
            self._skip(_BLANK)
            if self.text[self.at] == ",":
                self.at += 1
                self._skip(_BLANK)
        self.at += 1

    def _element(self, path: Path) -> None:
        self._mark(path)
        self._value(path)
