"""The separator between two joined texts of an answer. Without it, their sentences would run together."""

from __future__ import annotations


def separator_between(before: str, after: str) -> str:
    """Return a blank line, unless a line break already separates the texts or one is empty."""
    if not before or not after or before.endswith("\n") or after.startswith("\n"):
        return ""
    return "\n\n"
