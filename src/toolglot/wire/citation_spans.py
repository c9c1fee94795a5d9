"""Spans of citations: places in one text block (IR) <-> places in the whole text of an answer (most wires)."""

from __future__ import annotations

from toolglot.ir import Citation, replace


def shift_span(citation: Citation, by: int) -> Citation:
    """Move the span of a citation by this many characters."""
    start, end = citation.start, citation.end
    if not by or (start is None and end is None):
        return citation
    return replace(citation, start=None if start is None else start + by, end=None if end is None else end + by)


def span_of(citation: Citation, length: int) -> tuple[int, int]:
    """The span for a wire that requires one. Where a citation does not say, it begins and ends with its text, which is
    this long."""
    return citation.start or 0, length if citation.end is None else citation.end
