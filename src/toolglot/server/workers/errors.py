"""Errors of the parent process."""

from __future__ import annotations


class GaveUpError(Exception):
    """Workers die as soon as they are started."""
