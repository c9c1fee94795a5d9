"""The separator between two texts of an answer that become one: without it their sentences would run together."""

from __future__ import annotations


def separator_between(before: str, after: str) -> str:
    """What keeps two texts apart: a blank line, unless there is a line break already or nothing follows."""
    if not before or not after or before.endswith("\n") or after.startswith("\n"):
        return ""
    return "\n\n"
