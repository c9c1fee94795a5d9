"""Read the header of a call or a parameter."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from toolglot.textcalls.grammar import Header
from toolglot.textcalls.marks import MarkSet, mark_set


class HeaderMatch(Struct, frozen=True):
    """A parsed header: its groups, and where it ends."""

    groups: dict[str, str]
    end: int


HeaderVerdict: TypeAlias = HeaderMatch | Literal["no", "wait"]
"""`wait`: more text decides."""


@lru_cache(maxsize=1024)
def _compile(ends: tuple[str, ...], allowed: str, shape: str) -> tuple[MarkSet, re.Pattern[str], re.Pattern[str]]:
    return mark_set(ends), re.compile(f"{allowed}*", re.DOTALL), re.compile(shape, re.DOTALL)


def read_header(header: Header, text: str, at: int) -> HeaderVerdict:
    """Read the header that continues at `at`, after its opener."""
    if not header.ends:
        return HeaderMatch({}, at)
    ends, allowed, shape = _compile(header.ends, header.allowed, header.shape)
    # Search only as far as a header may extend: a text full of openers would take quadratic time otherwise.
    window = at + header.limit + ends.longest + 1
    found = ends.search(text, at, window)
    end = found.start() if found else ends.hold(text, at) if len(text) <= window else window
    said = text[at:end]
    if len(said) > header.limit or not allowed.fullmatch(said):
        return "no"
    if found is None or ends.begins(text, end):
        return "wait"
    shaped = shape.fullmatch(said)
    if shaped is None:
        return "no"
    # One meaning may have several groups, for several ways to quote it: `name`, `name_single`, `name_bare`.
    groups = {name.partition("_")[0]: group for name, group in shaped.groupdict().items() if group is not None}
    return HeaderMatch(groups, end if header.keeps_end else found.end())


def header_at(header: Header, text: str, at: int) -> HeaderVerdict:
    """Read the header, including its opener, at `at`."""
    openers = mark_set(header.openers)
    opener = openers.match(text, at)
    if not opener:
        return "wait" if openers.begins(text, at) else "no"
    return read_header(header, text, at + len(opener))
