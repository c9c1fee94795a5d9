"""The error for a repair that would be a guess."""

from __future__ import annotations


class RepairError(ValueError):
    """The text is not JSON, and its intended value is ambiguous."""
