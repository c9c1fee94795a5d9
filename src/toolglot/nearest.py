"""Suggest the name that may have been meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(wrong: str, known: Iterable[str]) -> str | None:
    """Return the nearest known name, if there is one."""
    import difflib  # needed only for mistakes

    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(wrong.lower(), names, n=1, cutoff=0.6)
    return names[near[0]] if near else None
