"""Where a body that met something unreadable stops.

What is left of a broken call is neither text for the client nor may it open calls: half a string may hold anything. So
it is passed over up to the mark that closes the call, where there is such a mark.
"""

from __future__ import annotations

from toolglot.textcalls.body import Opened
from toolglot.textcalls.marks import Marks, marks_of


def closing_marks(opened: Opened) -> Marks:
    """The marks at which a broken call is over. Behind a weak opener there may be prose: it is over at once."""
    return marks_of(opened.call.closers or (() if opened.call.weak else opened.followers))


def skip_to(marks: Marks, text: str, at: int) -> tuple[int, bool]:
    """Where the next of the marks begins, or may begin, and whether it does."""
    if not marks.literals:
        return at, True
    found = marks.search(text, at)
    return (marks.hold(text, at), False) if found is None else (found.start(), True)
