"""Decide whether a mark without meaning to a reader is dropped or kept as text."""

from __future__ import annotations

import re
from typing import Final

from toolglot.textcalls.grammar import Format
from toolglot.textcalls.marks import mark_set

MAX_SPACE: Final = 1000
"""Characters after an end tag within which the end of the answer is awaited."""
_TAG = re.compile(r"</?[a-z]+>")


def looks_like_tag(mark: str) -> bool:
    """Tell whether the mark looks like a markup tag, which an answer may contain."""
    return _TAG.fullmatch(mark) is not None


def is_dropped(text_format: Format, mark: str, text: str, at: int, *, said: bool, last: bool) -> bool | None:
    """Tell whether the mark at `at` is dropped. One that looks like a tag is dropped only at the beginning of the
    answer or, if it is an end tag, at its end. None: more text decides. `said`: part of the answer came before; `last`:
    nothing follows."""
    if not looks_like_tag(mark) or not said:
        return True
    if not mark.startswith("</"):
        return False
    others = mark_set(text_format.dropped)
    end = at + len(mark)
    after = others.match_run(text, end, end + MAX_SPACE + others.longest)
    if after - end > MAX_SPACE or not (after == len(text) or others.begins(text, after)):
        return False
    return after == len(text) if last else None
