"""A git repository that the benchmark takes for its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.needs import need


def commit_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a repository of a folder, with one commit."""
    need("git")
    git = ("git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.com")
    for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message=first")):
        subprocess.run((*git, *command), check=True)
    monkeypatch.setattr("bench.gateway.installing.ROOT", folder)
