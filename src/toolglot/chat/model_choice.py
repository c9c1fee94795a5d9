"""Choosing one of several models: the list and the prompt on a terminal, and the error for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolglot.chat.safe_text import one_line

MAX_OFFERED = 30
"""Maximum models to show; others can be chosen by name."""
QUESTION = "Model (number or name): "
NOT_OFFERED = "enter a number or the name of a model from the list"


def offer_lines(names: Sequence[str]) -> Iterator[str]:
    """Yield the list to choose from."""
    for number, name in enumerate(names[:MAX_OFFERED], 1):
        yield f"{number:4}  {one_line(name)}"
    if len(names) > MAX_OFFERED:
        yield f"      … and {len(names) - MAX_OFFERED} more"


def parse_choice(typed: str, names: Sequence[str]) -> str | None:
    """Return the chosen model; None if there is no such model."""
    typed = typed.strip()
    if typed.isdecimal() and 1 <= int(typed) <= min(len(names), MAX_OFFERED):
        return names[int(typed) - 1]
    return typed if typed in names else None


def join_names(names: Sequence[str]) -> str:
    """Return the names in one line, for a session that cannot prompt."""
    more = f" and {len(names) - MAX_OFFERED} more" if len(names) > MAX_OFFERED else ""
    return f"{', '.join(names[:MAX_OFFERED])}{more}"
