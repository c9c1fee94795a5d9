"""Print the changelog's section of a version. Fails if the version in pyproject.toml is another one.

python -m scripts.release_notes 0.2.0
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

from scripts.dependency_group import PYPROJECT, read_pyproject

CHANGELOG = PYPROJECT.parent / "CHANGELOG.md"
_HEADING = re.compile(r"^## (Unreleased|([0-9]+\.[0-9]+\.[0-9]+\S*) - ([0-9]{4}-[0-9]{2}-[0-9]{2}))$")


class Section(NamedTuple):
    version: str | None
    """None for what is not released."""
    date: str
    text: str


def read_sections(changelog: str) -> Iterator[Section]:
    _, *parts = re.split(r"^(?=## )", changelog, flags=re.MULTILINE)
    for part in parts:
        heading, _, text = part.partition("\n")
        if (found := _HEADING.match(heading)) is None:
            raise ValueError(f"CHANGELOG.md: `{heading}` is neither `## Unreleased` nor `## VERSION - YYYY-MM-DD`")
        yield Section(found[2], found[3] or "", text.strip())


def notes_of(version: str, changelog: str, packaged: str) -> str:
    """The notes of a version that is about to be released. Raises `ValueError` if it is not ready."""
    if version != packaged:
        raise ValueError(f"pyproject.toml has version {packaged}, not {version}")
    first, *rest = read_sections(changelog)
    if first.version is None and first.text:
        raise ValueError("CHANGELOG.md has unreleased changes: give the section a version and a date")
    for section in (first, *rest):
        if section.version == version:
            return section.text
    raise ValueError(f"CHANGELOG.md has no section `## {version} - YYYY-MM-DD`")


if __name__ == "__main__":
    try:
        print(notes_of(sys.argv[1].removeprefix("v"), CHANGELOG.read_text(), read_pyproject()["project"]["version"]))
    except ValueError as error:
        sys.exit(str(error))
