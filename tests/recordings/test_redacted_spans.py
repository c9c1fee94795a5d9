"""Texts with holes, and what fits into them."""

from __future__ import annotations

import json
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.recordings.redacted_spans import MAX_SPAN, matches_text


def fits(then: str, now: str) -> bool:
    return matches_text(json.dumps(then).encode(), json.dumps(now).encode())


PIECES = st.lists(st.text(max_size=8).filter(lambda text: "[" not in text), min_size=2, max_size=5)
SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters='"\\'), min_size=1)


@given(PIECES, SECRETS)
def test_whatever_stood_there_fits(pieces: list[str], secret: str) -> None:
    assert fits("[redacted]".join(pieces), secret.join(pieces))


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (b'{"a":"[redacted]","b":1}', b'{"a":"x","c":"y","b":1}'),
        (b'{"a":"[redacted]"}', b'{"a":""}'),
        (b'{"a":"x [redacted] y"}', b'{"a":"x z"}'),
        (b'"no holes"', b'"no holes"'),
    ],
)
def test_a_hole_stays_inside_of_its_string_and_is_not_empty(then: bytes, now: bytes) -> None:
    assert not matches_text(then, now)


def test_what_keeps_its_length_is_a_hole_too() -> None:
    assert fits("[redacted]*****, hm", "canary-12345678, hm")
    assert fits("[redacte", "12345678")


def test_holes_have_a_bound_and_are_looked_for_in_linear_time() -> None:
    assert not fits("[redacted]", "x" * (MAX_SPAN + 1))
    then, now = "[redacted]ab" * 20_000, "xab" * 19_999 + "xxx"
    began = process_time()
    assert not fits(then, now)
    assert process_time() - began < 10


@pytest.mark.parametrize(
    ("then", "now", "fits"),
    [
        ({"text": "My PIN is [redacted digits]."}, {"text": "My PIN is 123456."}, True),
        ({"text": "[redacted][redacted digits]"}, {"text": "No. 123456"}, True),
        ({"text": "[redacted digits]"}, {"text": "[redacted digits]"}, True),
        ({"text": "My PIN is [redacted digits]."}, {"text": "Your PIN is 123456."}, False),
        ({"text": "My PIN is [redacted digits]."}, {"text": "My PIN is a secret."}, False),
        ({"at": ["[redacted number]", "[redacted number]"]}, {"at": [48.8566, -2.5e10]}, True),
        ({"at": ["[redacted number]"]}, {"at": ["[redacted number]"]}, True),
        ({"at": ["[redacted number]"]}, {"at": [1, 2]}, False),
        ({"at": "[redacted number]"}, {"at": "1"}, False),
        ({"at": [9999, 99.99]}, {"at": [1234, 12.34]}, False),
        ({"at": "[redacted number]"}, {"at": {}}, False),
        ({"at": "[redacted number]"}, {"at": []}, False),
        ({"at": "[redacted number]"}, {"at": None}, False),
        ({"text": '{"n":[redacted digits]}'}, {"text": '{"n":-1.5e+10}'}, True),
        ({"text": '{"n":[redacted digits]}'}, {"text": '{"n":{}}'}, False),
        ({"text": '{"n":[redacted digits]}'}, {"text": '{"n":[]}'}, False),
        ({"text": '{"n":[redacted digits]}'}, {"text": '{"n":[1,2]}'}, False),
        ({"text": '{"n":[[redacted digits]]}'}, {"text": '{"n":[1,2]}'}, False),
        ({"text": '{"n":[redacted digits]}'}, {"text": '{"n":1},{"n":2}'}, False),
        ({"text": "pin [redacted digits]."}, {"text": "pin ..."}, False),
        ({"text": "pin [redacted digits]."}, {"text": "pin 12 34."}, False),
        ({"text": "costs [redacted digits]."}, {"text": "costs 1,234,567.89."}, True),
    ],
)
def test_a_number_is_a_hole_for_numbers_where_it_was_redacted(then: object, now: object, fits: bool) -> None:
    assert matches_text(json.dumps(then).encode(), json.dumps(now).encode()) is fits


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        ("to [redacted] [redacted digits] now", "to John Smith 12345 now", True),
        ("[redacted], [redacted digits]", "Smith, John, 12345", True),
        ("[redacted] [redacted digits] [redacted] [redacted digits]", "A B 1 2 C 3 D 4", True),
        ("[redacted] [redacted digits]", "1 2 3 4", True),
        ("1[redacted digits]4.5e[redacted digits]0", "1244.5e1000", True),
        ("[redacted digits].[redacted digits].", "1.2.3.4.", True),
        ("to [redacted] [redacted digits] now", "to John Smith 12345 later", False),
        ("to [redacted] [redacted digits] now", "to John Smith a12345 now", False),
        ("to [redacted] [redacted digits]", "to John Smith 12345 now", False),
        ("[redacted digits]1[redacted digits]2", "11111111113", False),
    ],
)
def test_the_right_one_of_several_places_is_found(then: str, now: str, expected: bool) -> None:
    assert fits(then, now) is expected


WORDS = st.lists(st.sampled_from(["a", " ", "1", "-", ", ", "x 2", '"', "\\"]), max_size=5).map("".join)
HIDDEN = st.sampled_from([("[redacted]", "a 1"), ("[redacted]", "1-a"), ("[redacted digits]", "12"), ("", "")])


@given(st.lists(st.tuples(WORDS, HIDDEN), min_size=1, max_size=6))
def test_a_text_always_fits_what_was_redacted_in_it(parts: list[tuple[str, tuple[str, str]]]) -> None:
    then, now = ("".join(word + hidden[side] for word, hidden in parts) for side in (0, 1))
    assert fits(then, now) is ("[redacte" in then)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("[redacted digits]1" * 10_000 + "x", "1" * 30_000),
        ("[redacted] " + "[redacted digits] " * 10_000 + "x", "y" + " 1" * 30_000),
        ("[redacted] [redacted digits]x" * 5_000, "y 1 " * 20_000),
        ("-[redacted]-" * 10_000, "-1-" * 10_000 + "x"),
        ("[redacted digits]-" * 10_000, "2026-" * 10_000 + "x"),
    ],
    ids=["digits", "tries", "both", "dashes", "dates"],
)
def test_numbers_and_texts_side_by_side_are_looked_for_in_bounded_time(then: str, now: str) -> None:
    began = process_time()
    assert not fits(then, now)
    assert process_time() - began < 15
