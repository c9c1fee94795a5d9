"""Find literal marks in text that arrives in pieces."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from re import Match
from typing import Final

from toolglot.textcalls.grammar import CallSyntax, Format

MAX_NESTED: Final = 20
"""Depth after which literals with a common prefix are written out."""


def _common_prefix(first: str, last: str) -> str:
    """Return the common prefix."""
    same = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(same, min(len(first), len(last)))]


def _pattern_of(literals: Sequence[str], depth: int = 0) -> str:
    """Return a regular expression for the longest matching literal; they come longest first. Common prefixes are
    written once, so that the tags of hundreds of tools take no more time."""
    if depth > MAX_NESTED:
        return f"(?:{'|'.join(map(re.escape, literals))})"
    groups: dict[str, list[str]] = {}
    for literal in literals:
        if literal:
            groups.setdefault(literal[0], []).append(literal)
    ways = []
    for group in groups.values():
        common = _common_prefix(min(group), max(group))
        ways.append(re.escape(common) + _pattern_of([literal[len(common) :] for literal in group], depth + 1))
    if not ways:
        return ""
    if "" in literals:
        return f"(?:{'|'.join(ways)})?"
    return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"


class MarkSet:
    """A set of literals. At each position, the longest one that matches is found."""

    __slots__ = ("_firsts", "_longest", "_pattern", "_prefixes", "_run", "literals")

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals = tuple(sorted({literal for literal in literals if literal}, key=lambda mark: (-len(mark), mark)))
        # Without literals the pattern never matches.
        self._pattern = re.compile(_pattern_of(self.literals) or r"(?!)")
        self._run: re.Pattern[str] | None = None  # compiled on first use
        self._prefixes = frozenset(mark[:end] for mark in self.literals for end in range(1, len(mark)))
        self._longest = max((len(mark) - 1 for mark in self.literals), default=0)
        firsts = "".join(sorted({mark[0] for mark in self.literals}))
        self._firsts = re.compile(f"[{re.escape(firsts)}]" if firsts else r"(?!)")

    def search(self, text: str, at: int, end: int = sys.maxsize) -> Match[str] | None:
        return self._pattern.search(text, at, end)

    @property
    def longest(self) -> int:
        """Length of the longest mark."""
        return self._longest + 1

    def next(self, text: str, at: int, *, last: bool = False) -> tuple[int, str]:
        """Return the position of the next mark, and the mark. The mark is empty if more text may complete or extend it,
        and at the end of a text without marks. `last`: the input ends here.
        """
        found = self._pattern.search(text, at)
        if found is not None and (last or found.start() < len(text) - self._longest):
            return found.start(), found.group()
        hold = len(text) if last else self.hold(text, at)
        if found is None or hold <= found.start():
            return hold, ""
        return found.start(), found.group()

    def match(self, text: str, at: int) -> str:
        """Return the mark at `at`; empty if there is none."""
        found = self._pattern.match(text, at)
        return found.group() if found else ""

    def match_run(self, text: str, at: int, end: int = sys.maxsize) -> int:
        """Return the end of a run of marks with white space around them that begins at `at`."""
        if self._run is None:
            self._run = re.compile(rf"[ \t\r\n]*+(?:{self._pattern.pattern}[ \t\r\n]*+|(?!))*+")
        found = self._run.match(text, at, end)
        return found.end() if found else at

    def begins(self, text: str, at: int) -> bool:
        """Return whether the text from `at` on is the beginning of a mark, so that more text may complete it."""
        return len(text) - at <= self._longest and text[at:] in self._prefixes

    def hold(self, text: str, at: int) -> int:
        """Return the start of the last part of the text that may become a mark; the length of the text if there is
        none.
        """
        length = len(text)
        for found in self._firsts.finditer(text, max(at, length - self._longest)):
            if text[found.start() :] in self._prefixes:
                return found.start()
        return length


@lru_cache(maxsize=1024)
def mark_set(literals: tuple[str, ...]) -> MarkSet:
    """Return the cached mark set of these literals."""
    return MarkSet(literals)


class TextUntil:
    """Collects text up to the first of some marks."""

    __slots__ = ("_marks", "parts", "size")

    def __init__(self, marks: MarkSet) -> None:
        self._marks = marks
        self.parts: list[str] = []
        self.size = 0

    def read(self, text: str, at: int) -> tuple[int, str]:
        """Return the position, and the mark that was found there (it is not consumed); empty if none was found."""
        end, mark = self._marks.next(text, at)
        self.parts.append(text[at:end])
        self.size += end - at
        return end, mark

    @property
    def text(self) -> str:
        return "".join(self.parts)


MAX_SPACE_AFTER_TAG: Final = 1000
"""Maximum characters after an end tag to wait for the end of the answer."""
_TAG = re.compile(r"</?[a-z]+>")


def looks_like_tag(mark: str) -> bool:
    """Return whether the mark looks like a markup tag, which an answer may contain."""
    return _TAG.fullmatch(mark) is not None


def is_dropped(text_format: Format, mark: str, text: str, at: int, *, said: bool, last: bool) -> bool | None:
    """Return whether the mark at `at` is dropped. One that looks like a tag is dropped only at the beginning of the
    answer or, if it is an end tag, at its end. None: more text is needed. `said`: part of the answer came before;
    `last`: the input ends here."""
    if not looks_like_tag(mark) or not said:
        return True
    if not mark.startswith("</"):
        return False
    others = mark_set(text_format.dropped)
    end = at + len(mark)
    after = others.match_run(text, end, end + MAX_SPACE_AFTER_TAG + others.longest)
    if after - end > MAX_SPACE_AFTER_TAG or not (after == len(text) or others.begins(text, after)):
        return False
    return after == len(text) if last else None


MAX_EXTRA: Final = 3
"""Maximum number of surplus brackets that are skipped after a call."""

MAX_SPACE_AFTER_CALL: Final = 1000
"""Maximum white space after a call before the next text."""


class ClosingMarks:
    """The closing marks of the last call. Missing ones are dropped if they arrive later."""

    __slots__ = ("_brackets", "_unclosed", "marks")

    def __init__(self) -> None:
        self.marks: tuple[str, ...] = ()
        self._unclosed: set[str] = set()
        self._brackets = 0

    def begin(self, call: CallSyntax | None, sections: tuple[str, ...]) -> None:
        """Start after a call; `sections` are the marks that end a section of calls."""
        closers = call.closers if call else ()
        self.marks = (*closers, *sections)
        self._unclosed = set(self.marks)
        self._brackets = MAX_EXTRA if closers else 0

    def is_missed(self, mark: str) -> bool:
        return mark in self._unclosed

    def on_mark(self, mark: str) -> None:
        self._unclosed.discard(mark)

    def takes_bracket(self, character: str) -> bool:
        """Return whether this is a surplus bracket."""
        if not character or character not in "}]" or not self._brackets:
            return False
        self._brackets -= 1
        return True
