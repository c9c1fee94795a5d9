"""The error of a repair that would be a guess."""

from __future__ import annotations


class RepairError(ValueError):
    """The text is not JSON, and what was meant by it cannot be told for sure."""
