"""Converts citation spans: offsets in one text block (IR) <-> offsets in the whole text of an answer (most wires)."""

from __future__ import annotations

from toolglot.ir import Citation, replace


def shift_span(citation: Citation, by: int) -> Citation:
    """Move the span of a citation by this many characters."""
    start, end = citation.start, citation.end
    if not by or (start is None and end is None):
        return citation
    return replace(citation, start=None if start is None else start + by, end=None if end is None else end + by)


def span_of(citation: Citation, length: int) -> tuple[int, int]:
    """Return the span for a wire format that requires one. It defaults to the whole text, which has this length."""
    return citation.start or 0, length if citation.end is None else citation.end


def with_span(citation: Citation, length: int) -> Citation:
    """Give a citation without a span that of its whole text, which has this many characters."""
    start, end = span_of(citation, length)
    return citation if (start, end) == (citation.start, citation.end) else replace(citation, start=start, end=end)


def cut_span(citation: Citation, length: int) -> Citation:
    """Cut the span of a citation at the end of its text, which has this many characters."""
    return citation if citation.end is None or citation.end <= length else replace(citation, end=length)
