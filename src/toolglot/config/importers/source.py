"""Reader for another gateway's configuration, which tracks every field.

A mapping takes every value that it uses, and reports every value that it cannot use, with its place. At the end, all
remaining values are reported, so no setting is lost silently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolglot.config.documents import Document
from toolglot.config.problems import Path, Problem, field_name

NO_SETTING = "toolglot has no setting for this"
_STARS = re.compile(r"\\\*")


class NotTaken(Struct, frozen=True):
    """A setting that is not imported, and the reason. `*` in the pattern matches any text:
    `general_settings.database_*`."""

    pattern: str
    reason: str

    def matches(self, name: str) -> bool:
        return re.fullmatch(_STARS.sub(".*", re.escape(self.pattern)), name) is not None


class ImportLog:
    """Records which values of the source files are imported or reported."""

    def __init__(self, not_taken: Sequence[NotTaken], references: Callable[[str], str | None]) -> None:
        self.reports: list[Problem] = []
        self.references = references
        """Converts the source's references to environment variables to toolglot's form; None if a name is not valid in
        toolglot."""
        self._not_taken = not_taken
        self._settled: dict[str, set[Path]] = {}

    def settle(self, document: Document, path: Path) -> None:
        self._settled.setdefault(document.file, set()).add(path)

    def report(self, document: Document, path: Path, reason: str) -> None:
        """Report a value and everything in it as not imported."""
        self.settle(document, path)
        self.note(document, path, reason)

    def note(self, document: Document, path: Path, reason: str) -> None:
        """Report a difference. The other contents of the value must still be taken or reported."""
        problem = document.problem(path, reason)
        if problem not in self.reports:
            self.reports.append(problem)

    def report_rest(self, document: Document) -> None:
        """Report all values in the document that were neither taken nor reported."""
        for path in self._rest(document.value, (), self._settled.get(document.file, set())):
            self.report(document, path, self._reason(path) or NO_SETTING)

    def _reason(self, path: Path) -> str | None:
        name = field_name(path)
        return next((row.reason for row in self._not_taken if row.matches(name)), None)

    def _rest(self, value: Any, path: Path, settled: set[Path]) -> Iterator[Path]:
        if path in settled or value is None or value in ({}, []):
            return
        is_used = any(each[: len(path)] == path for each in settled)
        is_whole = path and not is_used and (self._reason(path) is not None or not isinstance(value, dict))
        if is_whole or not isinstance(value, (dict, list)):
            yield path
            return
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from self._rest(inner, (*path, name), settled)


class SourceNode(Struct, frozen=True):
    """One value of a source file."""

    log: ImportLog
    document: Document
    path: Path
    value: Any

    def get(self, name: str) -> SourceNode | None:
        """Return the member with this name; None if it is missing or null."""
        found = self.value.get(name) if isinstance(self.value, dict) else None
        return None if found is None else self._inside(name, found)

    def members(self) -> dict[str, SourceNode]:
        """Return the members of a table that are not null; empty for other values."""
        inner: Mapping[str, Any] = self.value if isinstance(self.value, dict) else {}
        return {name: self._inside(name, value) for name, value in inner.items() if value is not None}

    def elements(self) -> list[SourceNode]:
        """Return the elements of a list; empty for other values."""
        inner: Sequence[Any] = self.value if isinstance(self.value, list) else ()
        return [self._inside(number, value) for number, value in enumerate(inner)]

    def take(self) -> Any:
        """Return the value, and record that the mapping uses it."""
        self.log.settle(self.document, self.path)
        return self.value

    def report(self, reason: str) -> None:
        """Report this value and everything in it as not imported, with the reason."""
        self.log.report(self.document, self.path, reason)

    def note(self, reason: str) -> None:
        """Report a change of this value. Its contents must still be taken."""
        self.log.note(self.document, self.path, reason)

    def text(self, name: str) -> str | None:
        """Return the text of a member, with references in toolglot's form; None if there is none."""
        member = self.get(name)
        if member is None:
            return None
        if not isinstance(member.value, str):
            member.report("expected text")
            return None
        converted = self.log.references(member.value)
        if converted is None:
            member.report("the name of this environment variable is not valid here")
            return None
        member.take()
        return converted

    def number(self, name: str) -> SourceNode | None:
        """Return a member that is a finite number. Text with a number counts, because other gateways convert it."""
        member = self.get(name)
        if member is None:
            return None
        try:
            number = float(member.value) if not isinstance(member.value, bool) else math.nan
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            member.report("expected a number")
            return None
        member.take()
        return member.with_number(number)

    def with_number(self, number: float) -> SourceNode:
        """Return the same place with another number. Whole numbers become integers."""
        return replace(self, value=int(number) if number == int(number) else number)

    def _inside(self, name: str | int, value: Any) -> SourceNode:
        return SourceNode(self.log, self.document, (*self.path, name), value)


def origin(problem: Problem) -> str:
    """Format the place of a problem as `config.yaml:12`, without a folder."""
    file = problem.file.replace("\\", "/").rpartition("/")[2]
    return file if problem.line is None else f"{file}:{problem.line}"


def place_of(node: SourceNode) -> Problem:
    """Return the place of a node as a problem with an empty message."""
    return node.document.problem(node.path, "")
