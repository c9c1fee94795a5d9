"""Match recorded JSON with redacted spans against a text with the real values.

A redacted span matches any text inside one string: it never crosses a quote, so only a text with the same structure
matches. It may also match a number, digits in a string, or a value that changes between runs.

The literal text after a text span, up to the next such span, is matched at its first occurrence: a later one would only
make the span larger, and the next no safer. A number has a clear end, unless the following text may be part of it. Then
all possible positions, which are few, are followed at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from toolglot.recordings.format import UpstreamRequest
from toolglot.recordings.json_structure import json_tokens
from toolglot.recordings.placeholders import (
    DIGITS_PLACEHOLDER,
    NUMBER_PLACEHOLDER,
    RedactedSpan,
    SpanKind,
    placeholders,
    redacted_spans,
)
from toolglot.wire import json

MAX_SPAN = 64 * 1024
"""Maximum bytes that one span may match."""
MAX_NUMBER = 1024
MAX_PLACES = 32
"""Maximum positions that are followed at once."""
MAX_STEPS = 50_000
"""Maximum spans that are tried, over all positions, before giving up."""

_TEXT = re.compile(rb"(?:[^\"\\]++|\\.)++", re.DOTALL)
_NUMBER = re.compile(
    rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![0-9.eE+-])"
    rb"|\"\[redacted number\]\"|\((?:time|seconds)\)"
)
_DIGITS = re.compile(rb"(?:[0-9.eE+-]|,(?=[0-9]{3}(?![0-9]))|\[redacted digits\]|(?!))++")
"""In a string any part of a number may be redacted."""
_DIGIT = re.compile(rb"[0-9\]]")
_VOLATILE = re.compile(rb"\((?:time|id|seconds)\)")
"""Placeholder that `normalize_volatile` inserts."""
_NINES = re.compile(r"[90.,:eE+\s\[\]{}-]+")
"""Replacement of a number, of several numbers with the text between them, or of a part of one: nines, and zeros in the
exponent."""
_ONE_NUMBER = re.compile(r"(?:(?<![0-9A-Za-z])[+-])?[0-9]+(?:,[0-9]{3}(?![0-9]))*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def mark_numbers(text: str, numbers: Sequence[int]) -> str:
    """Mark the numbers of a recorded document that were redacted to nines. `numbers` has their positions: start and
    length of each, in one flat list."""
    parts, done = list[str](), 0
    for start, end, hole in _number_spans(text, numbers) if numbers else ():
        if start >= done:
            parts += (text[done:start], hole)
            done = end
    return "".join((*parts, text[done:]))


def recorded_body(request: UpstreamRequest) -> bytes:
    """Return the body of a recorded request, with its redacted spans marked."""
    if request.text is None or not request.numbers:
        return request.data
    return mark_numbers(request.text, request.numbers).encode("utf-8", "surrogatepass")


def _number_spans(text: str, numbers: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    told = iter(sorted(zip(numbers[::2], numbers[1::2], strict=False)))
    begins, length = next(told, (len(text), 0))
    for start, end, is_string in json_tokens(text, (0, len(text))):
        while begins < start:
            begins, length = next(told, (len(text), 0))
        while begins < end:
            # The file may have been edited since.
            if begins + length <= end and _NINES.fullmatch(text, begins, begins + length):
                if is_string:
                    # Text between two numbers was not redacted.
                    numbers_in = _ONE_NUMBER.finditer(text, begins, begins + length)
                    yield from ((*number.span(), DIGITS_PLACEHOLDER) for number in numbers_in)
                else:
                    yield start, end, f'"{NUMBER_PLACEHOLDER}"'
            begins, length = next(told, (len(text), 0))


def literal_size(data: bytes) -> int:
    """Return the size of a recorded text without its redacted spans."""
    return len(data) - sum(hole.end - hole.start for hole in redacted_spans(data))


class _TemplateStep(NamedTuple):
    """A redacted span, and the literal text after it up to the next one."""

    kind: SpanKind
    piece: bytes
    otherwise: _Template | None = None
    """A volatile part may also be unchanged."""


class _Template(NamedTuple):
    head: bytes
    steps: list[_TemplateStep]


def _make_template(data: bytes, found: Callable[[bytes], Iterable[RedactedSpan]] = redacted_spans) -> _Template:
    each = list(found(data))
    ends = [*(hole.start for hole in each), len(data)]
    return _Template(data[: ends[0]], [_make_step(data, hole, end) for hole, end in zip(each, ends[1:], strict=True)])


def _make_step(data: bytes, hole: RedactedSpan, end: int) -> _TemplateStep:
    otherwise = _make_template(data[hole.start : end], placeholders) if hole.kind == "changing" else None
    return _TemplateStep(hole.kind, data[hole.end : end], otherwise)


def matches_text(then: bytes, now: bytes) -> bool:
    """Return whether a text with redacted spans matches another text."""
    head, steps = _make_template(then)
    return bool(steps) and now.startswith(head) and _TemplateMatcher(now).matches(steps, len(head))


class _TemplateMatcher:
    """Finds the positions in a text where the pieces of a template match."""

    def __init__(self, now: bytes) -> None:
        self._now = now
        self._left = MAX_STEPS
        self._string = range(0)
        """Position of the quote that ends the current string."""
        self._behind: Mapping[SpanKind, Callable[[_TemplateStep, int], Iterable[int]]] = {
            "number": self._behind_number,
            "digits": self._behind_digits,
            "changing": self._behind_changing,
        }

    def matches(self, steps: Sequence[_TemplateStep], start: int) -> bool:
        texts = [at for at, step in enumerate(steps) if step.kind == "text"]
        places = self._follow_steps(steps[: texts[0] if texts else len(steps)], [start])
        for at, following in pairwise((*texts, len(steps))):
            if not places:
                return False
            places = self._behind_text(steps[at:following], places[0], is_last=following == len(steps))
        return len(self._now) in places

    def _text_ends(self, start: int) -> int:
        """Return the possible end of a text that begins here."""
        if start not in self._string:
            text = _TEXT.match(self._now, start)
            self._string = range(start, start if text is None else text.end())
        return min(self._string.stop, start + MAX_SPAN)

    def _behind_text(self, steps: Sequence[_TemplateStep], start: int, *, is_last: bool) -> list[int]:
        """Return the possible ends of these steps; the first step is any text."""
        now, piece, rest = self._now, steps[0].piece, steps[1:]
        end = self._text_ends(start)
        # The last literal must match at the end of the request, not at its first occurrence.
        found = max(start, len(now) - len(piece) - 1) if is_last and not rest else start
        whole = start
        while self._left > 0 and (found := now.find(piece, found + 1, end + len(piece))) >= 0:
            self._left -= bool(rest)
            text = _TEXT.match(now, whole, found)
            whole = whole if text is None else text.end()
            # otherwise an escape would be split
            places = self._follow_steps(rest, [found + len(piece)]) if whole == found else []
            if places and (not is_last or len(now) in places):
                return places
        return []

    def _follow_steps(self, steps: Sequence[_TemplateStep], places: list[int]) -> list[int]:
        """Return the possible ends of steps that begin at one of these positions; none of the steps is any text."""
        for step in steps:
            self._left -= len(places)
            if self._left < 0:
                return []
            found = {behind for place in places for behind in self._behind[step.kind](step, place)}
            places = sorted(found)[:MAX_PLACES]
            if not places:
                break
        return places

    def _behind_number(self, step: _TemplateStep, start: int) -> Iterator[int]:
        number = _NUMBER.match(self._now, start)
        if number is not None and self._now.startswith(step.piece, number.end()):
            yield number.end() + len(step.piece)

    def _behind_digits(self, step: _TemplateStep, start: int) -> Iterator[int]:
        number = _DIGITS.match(self._now, start, start + MAX_NUMBER)
        first = None if number is None else _DIGIT.search(self._now, start, number.end())
        if number is None or first is None:
            return
        found = first.end() - 1
        for _ in range(MAX_PLACES):
            found = self._now.find(step.piece, found + 1, number.end() + len(step.piece))
            if found < 0:
                break
            yield found + len(step.piece)

    def _behind_changing(self, step: _TemplateStep, start: int) -> Iterator[int]:
        changed = _VOLATILE.match(self._now, start)
        if changed is not None and self._now.startswith(step.piece, changed.end()):
            yield changed.end() + len(step.piece)
        if step.otherwise is not None and self._now.startswith(step.otherwise.head, start):
            yield from self._follow_steps(step.otherwise.steps, [start + len(step.otherwise.head)])


def matches_value(then: Any, now: Any) -> bool:
    """Same, for JSON values that are not objects or lists."""
    return isinstance(then, str) and isinstance(now, (str, int, float)) and matches_text(*map(json.encode, (then, now)))
