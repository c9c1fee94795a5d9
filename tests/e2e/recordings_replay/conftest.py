"""What is done when the agents are not installed."""

from __future__ import annotations

from tests.e2e.needs import MISSING_AGENTS, MISSING_PYTHON

# One visible skip in ../test_setup.py stands for all of these.
collect_ignore_glob = ["test_*.py"] if MISSING_AGENTS or MISSING_PYTHON else []
