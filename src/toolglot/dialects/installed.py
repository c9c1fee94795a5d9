"""Find the dialects of installed packages by the entry-point group `toolglot.dialects`. `importlib.metadata` does the
same, but costs every gateway 13 ms and 900 KB. So this module reads the files itself: `entry_points.txt` of each
distribution that has one, and only if it contains this group.
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
    """An installed package declares a dialect but does not provide it."""


def installed_manifests() -> Iterator[Manifest]:
    """Return the manifests of installed packages. Raises: BadPluginError: one cannot be loaded or is no manifest."""
    for name, reference in dict(_entry_points()).items():
        try:
            manifest = load(reference)
        except Exception as error:
            raise BadPluginError(f"the dialect {name} cannot be loaded from {reference}: {error}") from error
        if not isinstance(manifest, Manifest) or manifest.name != name:
            raise BadPluginError(f"the dialect {name}: {reference} is not a manifest with that name")
        yield manifest


def _entry_points() -> Iterator[tuple[str, str]]:
    """Return names and references of the group in path order. The first entry of a name is last."""
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
