"""User-defined patterns, searched in time that is linear in the text.

A pattern has the syntax of Python's `re`, and `re` parses it. But `re` searches by backtracking: with an untrusted
text, a pattern like `(a+)+b` can run for years and cannot be stopped. Here a pattern becomes an automaton, which reads
each character twice: backwards to find the start of a match, and forwards from there to find its end. Features that an
automaton does not support are refused: group references, lookahead and lookbehind, `^` and `$`. The longest match is
used, or the shortest with a lazy repeat (`+?`).

A move of the automaton is computed once and cached, but some patterns and texts need a new one for every character. So
a pattern has a work budget, which grows with the length of every text. When the budget is used up, the whole text
counts as a match, and this is reported. So too much may be redacted, but never too little.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, TypeAlias

from toolglot.recordings.replacement import FoundSecret

MAX_MATCH = 64 * 1024
"""Maximum characters of a match; of a longer one, the first characters."""
MAX_STATES = 1000
"""Maximum states of a pattern's automaton: about one per character, and `{100}` is a hundred."""
_MAX_CACHED_MOVES = 20_000
"""Maximum cached moves between sets of states."""
MAX_WORK = 1_000_000
"""Budget of a pattern: computed moves, weighted by their number of states. About a second."""
_WORK_PER_CHARACTER = 1
"""Work that each character of a text adds to the budget."""
_FREE_STEPS = 8
"""Forward steps per character of a text that are free."""

_AMBIGUOUS = (
    "a set `[…]` has characters that later versions of Python may read differently (at position {}): write `\\[` for "
    "a bracket, `-\\-`, `&\\&`, `~\\~` and `|\\|` for pairs, and `\\d` for `[:digit:]`, which is not supported"
)

Test: TypeAlias = Callable[[str], bool]


class PatternError(ValueError):
    """The pattern cannot be used. The message gives the reason."""


class _WorkExceededError(Exception):
    pass


class _MatchBudget:
    def __init__(self) -> None:
        self._left = MAX_WORK

    def earn(self, characters: int) -> None:
        self._left = min(MAX_WORK, max(0, self._left) + _WORK_PER_CHARACTER * characters)

    def spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise _WorkExceededError


class LinearPattern:
    """A pattern that matches in linear time. `gave_up` is called for each text when the budget is exceeded."""

    def __init__(self, text: str, gave_up: Callable[[], None] = lambda: None) -> None:
        tree = _parse(text)
        flags = tree.state.flags
        self._gave_up = gave_up
        self._work = _MatchBudget()
        self._forwards = _Automaton(tree, flags, self._work, backwards=False)
        self._backwards = _Automaton(tree, flags, self._work, backwards=True)
        if self._forwards.matches_nothing:
            raise PatternError("it matches the empty text")
        self._shortest = self._forwards.lazy
        self._needle = "" if flags & re.IGNORECASE else _needle(tree)

    def find(self, text: str) -> Iterable[FoundSecret]:
        """Yield all matches, from left to right."""
        if self._needle not in text:
            return ()
        self._work.earn(len(text))
        try:
            return list(self._find(text))
        except _WorkExceededError:
            self._gave_up()
            return [FoundSecret(0, len(text), 0)]

    def _find(self, text: str) -> Iterator[FoundSecret]:
        steps = _FREE_STEPS * len(text)
        for left, right in self._candidate_ranges(text):
            # Includes the adjacent characters, which determine word boundaries.
            before, done = max(0, left - 1), 0
            stretch = text[before : right + 1]
            for start in self._backwards.ends(stretch):
                if start < done:
                    continue
                end, taken = self._forwards.end(stretch, start, shortest=self._shortest)
                steps -= taken
                if steps < 0:
                    self._work.spend(-steps)
                    steps = 0
                if end > start:
                    yield FoundSecret(before + start, before + end, before + start)
                    done = end

    def _candidate_ranges(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield ranges of possible matches: around the required literal, up to characters that no match contains."""
        if not self._needle:
            yield 0, len(text)
            return
        may_have, right = self._forwards.may_have, 0
        while (left := text.find(self._needle, right)) >= 0:
            done, right = right, left + len(self._needle)
            while left > done and may_have(text[left - 1]):
                left -= 1
            while right < len(text) and may_have(text[right]):
                right += 1
            yield left, right


def _parse(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return parser.parse(text)
        except (re.error, RecursionError, OverflowError) as error:
            raise PatternError(f"this is not a regular expression: {error}") from None
        except Warning as warning:
            raise PatternError(_AMBIGUOUS.format(str(warning).rpartition(" ")[2])) from None


def _needle(tree: Any) -> str:
    """Return a literal that every match contains: the longest run of plain characters outside of any choice."""
    runs = [""]
    for kind, value in tree:
        if kind is kinds.LITERAL:
            runs[-1] += chr(value)
        else:
            runs.append("")
    return max(runs, key=len)


class _StateSet:
    """A set of states as bits, and the move for each character: the next set, and whether a match ends before it."""

    __slots__ = ("is_word", "moves", "states")

    def __init__(self, states: int, is_word: bool) -> None:
        self.states = states
        self.is_word = is_word
        self.moves: dict[str, tuple[_StateSet, bool]] = {}


class _Automaton:
    """State 0 is the end. A state has a test and a next state, or moves on without a character."""

    def __init__(self, tree: Any, flags: int, work: _MatchBudget, *, backwards: bool) -> None:
        self._work = work
        self._order = -1 if backwards else 1
        self._tests: list[Test | None] = [None]
        self._known_tests: dict[tuple[Any, ...], Test] = {}
        self._next: list[list[int]] = [[]]
        self._at: dict[int, bool] = {}  # states that need a word boundary (True), or no boundary (False)
        self.lazy = False
        self._first = 1 << self._sequence(tree, flags, 0)
        self._behind = [sum(1 << state for state in {*behind}) for behind in self._next]
        # The states that are reachable from each state without a character, inside a word and at its boundary.
        self._reached = tuple(
            [self._epsilon_closure(state, at) for state in range(len(self._next))] for at in (False, True)
        )
        self.matches_nothing = any(reached[self._first.bit_length() - 1] & 1 for reached in self._reached)
        self._with_test: dict[Test, int] = {}
        for state, test in enumerate(self._tests):
            if test is not None:
                self._with_test[test] = self._with_test.get(test, 0) | 1 << state
        self._searching = backwards
        self._sets: dict[tuple[int, bool], _StateSet] = {}
        self._kept = 0
        self._taking: dict[str, int] = {}

    def may_have(self, character: str) -> bool:
        """Return whether a match can contain this character."""
        return self._states_accepting(character) != 0

    def _states_accepting(self, character: str) -> int:
        """Return the states that accept this character."""
        told = self._taking.get(character)
        if told is None:
            if len(self._taking) > _MAX_CACHED_MOVES:
                self._taking.clear()
            passed = (states for test, states in self._with_test.items() if test(character))
            told = self._taking[character] = sum(passed)  # each state is in only one of them
        return told

    def ends(self, text: str) -> list[int]:
        """Scan backwards. Returns the starts of matches, from left to right."""
        found: list[int] = []
        current = self._set(self._first, False)
        for place in range(len(text) - 1, -1, -1):
            character = text[place]
            move = current.moves.get(character) or self._move(current, character)
            if move[1]:
                found.append(place + 1)
            current = move[0]
        if self._move(current, "")[1]:
            found.append(0)
        found.reverse()
        return found

    def end(self, text: str, start: int, *, shortest: bool) -> tuple[int, int]:
        """Scan forwards from here. Returns the end of the match, and the number of characters read."""
        current = self._set(self._first, start > 0 and _is_word(text[start - 1]))
        found, place = start, start
        most = min(len(text), start + MAX_MATCH)
        while place < most:
            character = text[place]
            move = current.moves.get(character) or self._move(current, character)
            if move[1]:
                found = place
                if shortest:
                    return found, place - start
            current = move[0]
            if not current.states:
                return found, place - start
            place += 1
        follows = text[place] if place < len(text) else ""
        return (place if self._move(current, follows)[1] else found), place - start

    def _move(self, current: _StateSet, character: str) -> tuple[_StateSet, bool]:
        """Compute the move for this character from there; the empty character is the end of the text."""
        is_word = _is_word(character)
        table = self._reached[current.is_word != is_word]
        reached = behind = 0
        for state in _bits(current.states):
            reached |= table[state]
        taken = reached & self._states_accepting(character) if character else 0
        for state in _bits(taken):
            behind |= self._behind[state]
        self._work.spend(1 + (current.states.bit_count() + taken.bit_count()) // 4)
        if self._kept > _MAX_CACHED_MOVES:
            self._sets.clear()
            self._kept = 0
        self._kept += 1
        move = (self._set(behind | self._first if self._searching else behind, is_word), reached & 1 == 1)
        current.moves[character] = move
        return move

    def _set(self, states: int, is_word: bool) -> _StateSet:
        if not self._at:
            is_word = False  # irrelevant here
        made = self._sets.get((states, is_word))
        if made is None:
            made = self._sets[states, is_word] = _StateSet(states, is_word)
        return made

    def _epsilon_closure(self, start: int, at_boundary: bool) -> int:
        """Return this state and those reachable without a character."""
        reached, waiting = 0, [start]
        while waiting:
            state = waiting.pop()
            if reached >> state & 1:
                continue
            reached |= 1 << state
            if self._tests[state] is None and self._at.get(state, at_boundary) == at_boundary:
                waiting += self._next[state]
        return reached

    def _state(self, test: Test | None, behind: Iterable[int]) -> int:
        if len(self._tests) >= MAX_STATES:
            raise PatternError("it is too large: are its repeats (`{1,1000}`) too many?")
        self._tests.append(test)
        self._next.append(list(behind))
        return len(self._tests) - 1

    def _sequence(self, items: Any, flags: int, behind: int) -> int:
        for kind, value in list(items)[:: -self._order]:
            behind = self._item(kind, value, flags, behind)
        return behind

    def _item(self, kind: Any, value: Any, flags: int, behind: int) -> int:
        if kind in (kinds.LITERAL, kinds.NOT_LITERAL, kinds.ANY, kinds.IN):
            key = kind, str(value), flags  # identical copies, as repeats create them, are one
            if key not in self._known_tests:
                self._known_tests[key] = _test(kind, value, flags)
            return self._state(self._known_tests[key], [behind])
        if kind is kinds.BRANCH:
            return self._state(None, [self._sequence(each, flags, behind) for each in value[1]])
        if kind is kinds.SUBPATTERN:
            return self._sequence(value[3], (flags | value[1]) & ~value[2], behind)
        if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT):
            self.lazy = self.lazy or kind is kinds.MIN_REPEAT
            least, most, items = value
            return self._repeat(least, most, items, flags, behind)
        if kind is kinds.AT and value in (kinds.AT_BOUNDARY, kinds.AT_NON_BOUNDARY):
            state = self._state(None, [behind])
            self._at[state] = value is kinds.AT_BOUNDARY
            return state
        name = _REFUSED.get(kind, "this kind of group")
        raise PatternError(f"it has a construct that cannot be matched in bounded time or in pieces: {name}")

    def _repeat(self, least: int, most: int, items: Any, flags: int, behind: int) -> int:
        if most == kinds.MAXREPEAT:
            entry = self._state(None, [behind])
            self._next[entry].append(self._sequence(items, flags, entry))
        else:
            entry = behind
            for _ in range(most - least):
                entry = self._state(None, [self._sequence(items, flags, entry), behind])
        for _ in range(least):
            entry = self._sequence(items, flags, entry)
        return entry


def _bits(states: int) -> Iterator[int]:
    while states:
        lowest = states & -states
        yield lowest.bit_length() - 1
        states ^= lowest


_REFUSED = {
    kinds.AT: "`^`, `$`, `\\A` or `\\Z`",
    kinds.GROUPREF: "a reference to a group",
    kinds.GROUPREF_EXISTS: "a condition on a group",
    kinds.ASSERT: "looking ahead or behind",
    kinds.ASSERT_NOT: "looking ahead or behind",
}


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


_CATEGORIES: dict[Any, Test] = {
    kinds.CATEGORY_DIGIT: str.isdecimal,
    kinds.CATEGORY_SPACE: str.isspace,
    kinds.CATEGORY_WORD: _is_word,
    kinds.CATEGORY_NOT_DIGIT: lambda character: not character.isdecimal(),
    kinds.CATEGORY_NOT_SPACE: lambda character: not character.isspace(),
    kinds.CATEGORY_NOT_WORD: lambda character: not _is_word(character),
}


def _test(kind: Any, value: Any, flags: int) -> Test:
    """Return a character test. Non-ASCII letters and digits match even with `(?a)`, which finds more."""
    if kind is kinds.ANY:
        return (lambda character: True) if flags & re.DOTALL else (lambda character: character != "\n")
    if kind is kinds.IN:
        negated = value[0][0] is kinds.NEGATE
        tests = [_character_test(*each) for each in (value[1:] if negated else value)]
    else:
        negated, tests = kind is kinds.NOT_LITERAL, [_character_test(kinds.LITERAL, value)]
    cases: tuple[Callable[[str], str], ...] = (str,)
    if flags & re.IGNORECASE:
        cases = (str, str.lower, str.upper)
    return lambda character: negated != any(test(case(character)) for test in tests for case in cases)


def _character_test(kind: Any, value: Any) -> Test:
    if kind is kinds.RANGE:
        low, high = map(chr, value)
        return lambda character: low <= character <= high
    if kind is kinds.CATEGORY:
        return _CATEGORIES[value]
    wanted = chr(value)
    return lambda character: character == wanted
