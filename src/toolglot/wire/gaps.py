"""Texts that stand apart in an answer and that a client joins: without a gap two sentences would grow together."""

from __future__ import annotations


def gap_between(before: str, after: str) -> str:
    """What keeps two texts apart: a blank line, unless there is a line break already or nothing follows."""
    if not before or not after or before.endswith("\n") or after.startswith("\n"):
        return ""
    return "\n\n"
