"""Text that other blocks stood between: Chat has one text, and without a gap two sentences would grow together."""

from __future__ import annotations

GAP_WHY = "Chat has one text; a blank line stands where another block was"


def gap_between(before: str, after: str) -> str:
    """What keeps two texts apart: a blank line, unless there is a line break already or nothing follows."""
    if not before or not after or before.endswith("\n") or after.startswith("\n"):
        return ""
    return "\n\n"
