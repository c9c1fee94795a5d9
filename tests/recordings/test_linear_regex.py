"""Patterns find what `re` finds, and in time that grows with the text alone."""

from __future__ import annotations

import re
from random import Random
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.recordings.linear_regex import LinearPattern, PatternError

SAME = [
    r"sk-[A-Za-z0-9]+",
    r"\b\d{4}\b",
    r"[\w.]+@[\w.]+",
    r"(a+)+b",
    r'"p": ".*?"',
    r"(?i)secret\s*[:=]\s*\S+",
    r"x{2,4}",
    r"(?:foo|bar)+",
    r"[^a-c]d",
    r"(?s)a.b",
    r"\Ba1",
    r"a(?i:B)c?",
    r"\bfoo\b",
    r"\w*-s\b",
]


@pytest.mark.parametrize("pattern", SAME)
@given(text=st.text('abcdx 01234@.-skSECRETx:="foobarp\n', max_size=40))
def test_a_pattern_finds_what_re_finds(pattern: str, text: str) -> None:
    found = [(each.start, each.end) for each in LinearPattern(pattern).find(text)]
    assert found == [match.span() for match in re.finditer(pattern, text)]


def test_of_several_choices_the_longest_counts() -> None:
    assert [(each.start, each.end) for each in LinearPattern("a|ab|abc").find("xabcx")] == [(1, 4)]


REFUSED = {
    r"^a": "`^`",
    r"a$": "`$`",
    r"(a)\1": "reference to a group",
    r"(?<=x)a": "looking ahead or behind",
    r"a(?!b)": "looking ahead or behind",
    r"(?>a)b": "cannot be matched",
    r"a*": "empty text",
    r"\b": "empty text",
    r"a{5000}": "too large",
    r"(a{50}){50}": "too large",
    r"(": "not a regular expression",
    r"[z-a]": "not a regular expression",
    r"[[:digit:]]+": "a set `[…]` has characters that later versions of Python may read differently (at position 1)",
    r"x[a&&b]": "a set `[…]` has characters that later versions of Python may read differently (at position 3)",
}


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_cannot_be_searched_for_is_refused_with_a_reason(pattern: str) -> None:
    with pytest.raises(PatternError, match=re.escape(REFUSED[pattern])):
        LinearPattern(pattern)


HARD = {
    r"(a+)+b": "a" * 60_000 + "c",
    r"(a|aa)+b": "a" * 60_000,
    r"(\w+\s?)+!": "word " * 12_000,
    r"a|a[ab]*z": "ab" * 30_000,
    r"(a|b)*a(a|b){14}c": "abbabaaab" * 6_000 + "c",
    r"[\w.]+@[\w.]+": "x" * 60_000 + "@",
    r".*.*.*=": "y" * 60_000 + "=",
    r"(a|ab)*@(a|ab)*c": "ab@ab " * 10_000,
    r"[\w@]+=x": ("w" * 250 + "=x ") * 300 + "=" * 10_000,
}


@pytest.mark.parametrize("pattern", HARD)
def test_no_text_makes_a_search_slow(pattern: str) -> None:
    made = LinearPattern(pattern)
    began = process_time()
    list(made.find(HARD[pattern]))
    assert process_time() - began < 3


def test_where_the_work_has_no_end_all_of_the_text_counts_as_found() -> None:
    text = "ab" * 30_000
    assert [(each.start, each.end) for each in LinearPattern(r"a|a[ab]*z").find(text)] == [(0, len(text))]


ENDLESS = {
    r"a[ab]{400}b[ab]{400}": "ab",
    r"(a|b)*a(a|b){150}": "ab",
    r"[ab]{480}a[ab]*c": "abc",
}


@pytest.mark.parametrize("pattern", ENDLESS)
def test_the_work_of_a_pattern_has_one_bound_for_all_texts(pattern: str) -> None:
    chosen = Random(1)
    told: list[None] = []
    made = LinearPattern(pattern, lambda: told.append(None))
    began = process_time()
    for _ in range(10):
        text = "".join(chosen.choices(ENDLESS[pattern], k=20_000))
        list(made.find(text))
    assert process_time() - began < 10
    assert len(told) > 7 or "c" in ENDLESS[pattern]


def test_a_pattern_that_has_given_up_finds_again_what_is_easy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolglot.recordings.linear_regex.MAX_WORK", 50_000)
    made = LinearPattern(r"(a|b)*a(a|b){150}|ACME-[0-9]{6}")
    hard = "".join(Random(1).choices("ab", k=60_000))
    assert [(each.start, each.end) for each in made.find(hard)] == [(0, len(hard))]
    for _ in range(20):
        found = [(each.start, each.end) for each in made.find("there is ACME-123456 " + "." * 1000)]
    assert found == [(9, 20)]
