"""Recorded JSON that has holes, where something was redacted: does it fit a text that has the real value there?

A hole stands for any text inside of one string: it never goes over a quote, so only what has the same structure fits.
Or it stands for a number, for the digits of one in a string, or for something that changes from run to run.

What stands behind a hole for text, up to the next such hole, is right in the first place where it fits: a later one
would make the hole larger, and the next no safer. A number ends where it ends, but for those behind which something
stands that may be a part of it: there all places are followed at once, which are few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from toolglot.recordings.format import UpstreamRequest
from toolglot.recordings.marks import DIGITS, NUMBER, Hole, Kind, holes, marks
from toolglot.recordings.structure import tokens
from toolglot.wire import json

LONGEST = 64 * 1024
"""Bytes that one hole may stand for."""
LONGEST_NUMBER = 1024
MOST_PLACES = 32
"""Places that are followed at once."""
MOST_STEPS = 50_000
"""Holes that are looked at, in all places together, before it is given up."""

_TEXT = re.compile(rb"(?:[^\"\\]++|\\.)++", re.DOTALL)
_NUMBER = re.compile(
    rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![0-9.eE+-])"
    rb"|\"\[redacted number\]\"|\((?:time|seconds)\)"
)
_DIGITS = re.compile(rb"(?:[0-9.eE+-]|,(?=[0-9]{3}(?![0-9]))|\[redacted digits\])++")
"""In a string any part of a number may be redacted."""
_DIGIT = re.compile(rb"[0-9\]]")
_CHANGED = re.compile(rb"\((?:time|id|seconds)\)")
"""What `steady` has put in the place of what changes."""
_NINES = re.compile(r"[90.,:eE+\s\[\]{}-]+")
"""What a number becomes, several with what stands between them, or a part: nines, and in its exponent zeros."""
_ONE_NUMBER = re.compile(r"(?:(?<![0-9A-Za-z])[+-])?[0-9]+(?:,[0-9]{3}(?![0-9]))*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def with_holes(text: str, numbers: Sequence[int]) -> str:
    """A recorded document with holes in the place of numbers that have become nines. `numbers` tells where: where each
    begins, and its length, one after the other."""
    parts, done = list[str](), 0
    for start, end, hole in _holes(text, numbers) if numbers else ():
        if start >= done:
            parts += (text[done:start], hole)
            done = end
    return "".join((*parts, text[done:]))


def recorded(request: UpstreamRequest) -> bytes:
    """The body of a recorded request, with its holes."""
    if request.text is None or not request.numbers:
        return request.data
    return with_holes(request.text, request.numbers).encode("utf-8", "surrogatepass")


def _holes(text: str, numbers: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    told = iter(sorted(zip(numbers[::2], numbers[1::2], strict=False)))
    begins, length = next(told, (len(text), 0))
    for start, end, is_string in tokens(text, (0, len(text))):
        while begins < start:
            begins, length = next(told, (len(text), 0))
        while begins < end:
            # A file may have been edited since.
            if begins + length <= end and _NINES.fullmatch(text, begins, begins + length):
                if is_string:
                    # What stands between two numbers was not redacted.
                    numbers_in = _ONE_NUMBER.finditer(text, begins, begins + length)
                    yield from ((*number.span(), DIGITS) for number in numbers_in)
                else:
                    yield start, end, f'"{NUMBER}"'
            begins, length = next(told, (len(text), 0))


def firmness(data: bytes) -> int:
    """How much of a recorded text is no hole."""
    return len(data) - sum(hole.end - hole.start for hole in holes(data))


class _Step(NamedTuple):
    """A hole, and what stands behind it up to the next one."""

    kind: Kind
    piece: bytes
    otherwise: _Template | None = None
    """What changes may also stand there as it did."""


class _Template(NamedTuple):
    head: bytes
    steps: list[_Step]


def _template(data: bytes, found: Callable[[bytes], Iterable[Hole]] = holes) -> _Template:
    each = list(found(data))
    ends = [*(hole.start for hole in each), len(data)]
    return _Template(data[: ends[0]], [_step(data, hole, end) for hole, end in zip(each, ends[1:], strict=True)])


def _step(data: bytes, hole: Hole, end: int) -> _Step:
    otherwise = _template(data[hole.start : end], marks) if hole.kind == "changing" else None
    return _Step(hole.kind, data[hole.end : end], otherwise)


def fits_text(then: bytes, now: bytes) -> bool:
    """Whether a text with holes is another one."""
    head, steps = _template(then)
    return bool(steps) and now.startswith(head) and _Fitting(now).fits(steps, len(head))


class _Fitting:
    """Looks for the places in a text where the pieces of a template stand."""

    def __init__(self, now: bytes) -> None:
        self._now = now
        self._left = MOST_STEPS
        self._string = range(0)
        """The rest of one, up to its quote."""
        self._behind: Mapping[Kind, Callable[[_Step, int], Iterable[int]]] = {
            "number": self._behind_number,
            "digits": self._behind_digits,
            "changing": self._behind_changing,
        }

    def fits(self, steps: Sequence[_Step], start: int) -> bool:
        texts = [at for at, step in enumerate(steps) if step.kind == "text"]
        places = self._through(steps[: texts[0] if texts else len(steps)], [start])
        for at, following in pairwise((*texts, len(steps))):
            if not places:
                return False
            places = self._behind_text(steps[at:following], places[0], is_last=following == len(steps))
        return len(self._now) in places

    def _text_ends(self, start: int) -> int:
        """Up to where a text may go that begins here."""
        if start not in self._string:
            text = _TEXT.match(self._now, start)
            self._string = range(start, start if text is None else text.end())
        return min(self._string.stop, start + LONGEST)

    def _behind_text(self, steps: Sequence[_Step], start: int, *, is_last: bool) -> list[int]:
        """Where these steps may end, of which the first is any text."""
        now, piece, rest = self._now, steps[0].piece, steps[1:]
        end = self._text_ends(start)
        # What a request ends with stands at its end, and not where it stands for the first time.
        found = max(start, len(now) - len(piece) - 1) if is_last and not rest else start
        whole = start
        while self._left > 0 and (found := now.find(piece, found + 1, end + len(piece))) >= 0:
            self._left -= bool(rest)
            text = _TEXT.match(now, whole, found)
            whole = whole if text is None else text.end()
            places = self._through(rest, [found + len(piece)]) if whole == found else []  # else an escape is torn
            if places and (not is_last or len(now) in places):
                return places
        return []

    def _through(self, steps: Sequence[_Step], places: list[int]) -> list[int]:
        """Where steps may end that begin in one of these places, and of which none is any text."""
        for step in steps:
            self._left -= len(places)
            if self._left < 0:
                return []
            found = {behind for place in places for behind in self._behind[step.kind](step, place)}
            places = sorted(found)[:MOST_PLACES]
            if not places:
                break
        return places

    def _behind_number(self, step: _Step, start: int) -> Iterator[int]:
        number = _NUMBER.match(self._now, start)
        if number is not None and self._now.startswith(step.piece, number.end()):
            yield number.end() + len(step.piece)

    def _behind_digits(self, step: _Step, start: int) -> Iterator[int]:
        number = _DIGITS.match(self._now, start, start + LONGEST_NUMBER)
        first = None if number is None else _DIGIT.search(self._now, start, number.end())
        if number is None or first is None:
            return
        found = first.end() - 1
        for _ in range(MOST_PLACES):
            found = self._now.find(step.piece, found + 1, number.end() + len(step.piece))
            if found < 0:
                break
            yield found + len(step.piece)

    def _behind_changing(self, step: _Step, start: int) -> Iterator[int]:
        changed = _CHANGED.match(self._now, start)
        if changed is not None and self._now.startswith(step.piece, changed.end()):
            yield changed.end() + len(step.piece)
        if step.otherwise is not None and self._now.startswith(step.otherwise.head, start):
            yield from self._through(step.otherwise.steps, [start + len(step.otherwise.head)])


def fits_value(then: Any, now: Any) -> bool:
    """The same for values of JSON that are no objects and no lists."""
    return isinstance(then, str) and isinstance(now, (str, int, float)) and fits_text(*map(json.encode, (then, now)))
