"""The task of a test, and what is done when the agents are not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.needs import MISSING_AGENTS, MISSING_PYTHON

from .task import Task

# One visible skip in ../test_setup.py stands for all of these.
collect_ignore_glob = ["test_*.py"] if MISSING_AGENTS or MISSING_PYTHON else []


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path)
