"""Reading the header of a call or a parameter."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from toolglot.textcalls.grammar import Header
from toolglot.textcalls.marks import marks_of


class Read(Struct, frozen=True):
    """A header that was read: what it says and where what follows begins."""

    groups: dict[str, str]
    end: int


Verdict: TypeAlias = Read | Literal["no", "wait"]
"""`wait`: more text decides."""


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


def read_header(header: Header, text: str, at: int) -> Verdict:
    """The header that goes on at `at`, behind its opener."""
    if not header.ends:
        return Read({}, at)
    ends = marks_of(header.ends)
    # Only as far as a header may go: a text full of openers would take quadratic time otherwise.
    window = at + header.limit + ends.longest + 1
    found = ends.search(text, at, window)
    end = found.start() if found else ends.hold(text, at) if len(text) <= window else window
    said = text[at:end]
    if len(said) > header.limit or not _compiled(f"(?:{header.allowed})*+").fullmatch(said):
        return "no"
    if found is None or ends.begins(text, end):
        return "wait"
    shape = _compiled(header.shape).fullmatch(said)
    if shape is None:
        return "no"
    # One meaning may have several groups, for several ways to quote it: `name`, `name_single`, `name_bare`.
    groups = {name.partition("_")[0]: group for name, group in shape.groupdict().items() if group is not None}
    return Read(groups, end if header.keeps_end else found.end())


def header_at(header: Header, text: str, at: int) -> Verdict:
    """The header, with its opener, that stands at `at`."""
    openers = marks_of(header.openers)
    opener = openers.match(text, at)
    if not opener:
        return "wait" if openers.begins(text, at) else "no"
    return read_header(header, text, at + len(opener))
