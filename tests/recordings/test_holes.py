"""Texts with holes, and what fits into them."""

from __future__ import annotations

import json
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.recordings.holes import LONGEST, fits_text


def fits(then: str, now: str) -> bool:
    return fits_text(json.dumps(then).encode(), json.dumps(now).encode())


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
    assert not fits_text(then, now)


def test_what_keeps_its_length_is_a_hole_too() -> None:
    assert fits("[redacted]*****, hm", "canary-12345678, hm")
    assert fits("[redacte", "12345678")


def test_holes_have_a_bound_and_are_looked_for_in_linear_time() -> None:
    assert not fits("[redacted]", "x" * (LONGEST + 1))
    then, now = "[redacted]ab" * 20_000, "xab" * 19_999 + "xxx"
    began = perf_counter()
    assert not fits(then, now)
    assert perf_counter() - began < 2


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
    ],
)
def test_a_number_is_a_hole_for_numbers_where_it_was_redacted(then: object, now: object, fits: bool) -> None:
    assert fits_text(json.dumps(then).encode(), json.dumps(now).encode()) is fits
