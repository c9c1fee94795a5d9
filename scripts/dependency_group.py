"""Print the requirements of a dependency group in pyproject.toml: only recent versions of pip know `--group`.

python -m scripts.dependency_group dev
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


def read_pyproject() -> dict[str, Any]:
    return tomllib.loads(PYPROJECT.read_text())


def dependencies() -> Iterator[str]:
    """What users install."""
    yield from read_pyproject()["project"]["dependencies"]


def requirements(group: str) -> Iterator[str]:
    for entry in read_pyproject()["dependency-groups"][group]:
        if isinstance(entry, dict):
            yield from requirements(entry["include-group"])
        else:
            yield entry


if __name__ == "__main__":
    print(*requirements(sys.argv[1]), sep="\n")
