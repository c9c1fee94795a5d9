"""What a parent fails with."""

from __future__ import annotations


class GaveUpError(Exception):
    """Workers die as soon as they are started."""
