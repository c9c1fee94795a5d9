"""Find where to stop after an unreadable part of a call.

The rest of a broken call is not text for the client, and must not open calls: half a string may contain anything. So it
is skipped up to the mark that closes the call, if there is one.
"""

from __future__ import annotations

from toolglot.textcalls.body import OpenedCall
from toolglot.textcalls.marks import MarkSet, mark_set


def closing_marks(opened: OpenedCall) -> MarkSet:
    """Return the marks that end a broken call. After a weak opener there may be prose: the call ends at once."""
    return mark_set(opened.call.closers or (() if opened.call.weak else opened.followers))


def skip_to_mark(marks: MarkSet, text: str, at: int) -> tuple[int, bool]:
    """Return where the next mark begins, or may begin, and whether it does."""
    if not marks.literals:
        return at, True
    found = marks.search(text, at)
    return (marks.hold(text, at), False) if found is None else (found.start(), True)
