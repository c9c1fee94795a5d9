"""Dialects that installed packages bring: their manifests, by the entry-point group `toolglot.dialects`.

`importlib.metadata` would do the same, and takes 13 ms and 900 KB of every gateway for it. So the files are read here:
`entry_points.txt` of each distribution that has one, and only if a group of this name is in it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from toolglot.errors import ToolglotError
from toolglot.manifest import Manifest, load

GROUP = "toolglot.dialects"
_HEADER = f"[{GROUP}]"


class BadPluginError(ToolglotError):
    """An installed package says that it brings a dialect, and it does not."""


def installed_manifests() -> Iterator[Manifest]:
    """The manifests that installed packages name.

    Raises:
        BadPluginError: one cannot be loaded, or is no manifest.
    """
    for name, reference in dict(_entry_points()).items():
        try:
            manifest = load(reference)
        except Exception as error:
            raise BadPluginError(f"the dialect {name} cannot be loaded from {reference}: {error}") from error
        if not isinstance(manifest, Manifest) or manifest.name != name:
            raise BadPluginError(f"the dialect {name}: {reference} is not a manifest with that name")
        yield manifest


def _entry_points() -> Iterator[tuple[str, str]]:
    """Names and references of the group, in the order of the path, the first of a name last."""
    for folder in reversed(sys.path):
        for file in sorted(Path(folder or ".").glob("*.*-info/entry_points.txt")):
            text = file.read_text("utf-8", "replace")
            if _HEADER in text:
                yield from _lines_of_group(text)


def _lines_of_group(text: str) -> Iterator[tuple[str, str]]:
    in_group = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            in_group = line == _HEADER
        elif in_group and "=" in line and not line.startswith(("#", ";")):
            name, _, reference = line.partition("=")
            yield name.strip(), reference.strip()
