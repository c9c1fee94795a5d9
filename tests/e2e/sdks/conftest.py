"""What is done when the SDKs are not installed."""

from __future__ import annotations

from tests.e2e.needs import MISSING_PYTHON

# One visible skip in ../test_setup.py stands for all of these.
collect_ignore_glob = ["test_*.py"] if MISSING_PYTHON else []
