"""Marks that mean nothing to a reader: where they count, and where they are text."""

from __future__ import annotations

import re
from typing import Final

from toolglot.textcalls.grammar import Format
from toolglot.textcalls.marks import marks_of

MAX_SPACE: Final = 1000
"""So far behind an end tag the end of the answer is waited for."""
_TAG = re.compile(r"</?[a-z]+>")


def is_tag(mark: str) -> bool:
    """A mark that looks like a tag of any markup, so that an answer may well hold it."""
    return _TAG.fullmatch(mark) is not None


def is_dropped(text_format: Format, mark: str, text: str, at: int, *, said: bool, last: bool) -> bool | None:
    """Whether the mark at `at` is dropped: one that looks like a tag only at the beginning of the answer or, if it is
    an end tag, at its end. None: more text decides. `said`: some of the answer came before; `last`: nothing follows."""
    if not is_tag(mark) or not said:
        return True
    if not mark.startswith("</"):
        return False
    others = marks_of(text_format.dropped)
    end = at + len(mark)
    after = others.match_run(text, end, end + MAX_SPACE + others.longest)
    if after - end > MAX_SPACE or not (after == len(text) or others.begins(text, after)):
        return False
    return after == len(text) if last else None
