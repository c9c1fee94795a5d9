"""Recognize the dialect of messages by the marks of the dialects (`marks.py`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolglot.dialects import DEFAULT as UNMARKED
from toolglot.dialects import DIALECTS
from toolglot.manifest import load
from toolglot.marks import Marks, marks_in, nearest

__all__ = ["UNMARKED", "dialect_of_body", "dialect_of_message", "dialect_of_messages", "marks_by_dialect", "marks_of"]


def marks_of(dialect: str) -> Marks:
    """Return the marks of a dialect; empty if it has none."""
    manifest = DIALECTS.manifest(dialect)
    reference = manifest.marks if manifest is not None else ""
    marks: Marks = load(reference) if reference else Marks()
    return marks


def marks_by_dialect(kind: str) -> dict[str, frozenset[str]]:
    """Return the marks of each dialect for a kind of document, by the name of a field of `Marks`."""
    return {name: getattr(marks_of(name), kind) for name in DIALECTS}


def nearest_dialect(value: Any, kind: str, depth: int) -> str | None:
    """Return the dialect whose marks a document has; None if it has none, or as many of another dialect."""
    found = set(marks_in(value, depth))
    proven = [name for name in DIALECTS if found & marks_of(name).decisive]
    return proven[0] if len(proven) == 1 else nearest(found, marks_by_dialect(kind))


def dialect_of_message(message: Any) -> str | None:
    return nearest_dialect(message, "message", 3)


def dialect_of_body(body: Any) -> str | None:
    if (dialect := nearest_dialect(body, "body", 2)) is not None:
        return dialect
    messages = body.get("messages") if isinstance(body, dict) else None
    return dialect_of_messages(messages if isinstance(messages, list) else ())


def dialect_of_messages(messages: Iterable[Any]) -> str | None:
    """Return the dialect of the first message with a mark."""
    return next((found for message in messages if (found := dialect_of_message(message)) is not None), None)
