"""Views of a text have its escapes undone, and tell where each of their characters stands in it."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from toolglot.recordings.unescaped_views import all_views


def _once(text: str) -> str:
    return json.dumps(text)[1:-1]


@given(text=st.text(st.characters(exclude_categories=["Cs"])), depth=st.integers(0, 3), is_quoted=st.booleans())
@examples(5)
def test_one_of_the_views_is_the_text_that_was_escaped(text: str, depth: int, is_quoted: bool) -> None:
    written = quote(text, safe="") if is_quoted else text
    for _ in range(depth):
        written = _once(written)
    assert any(view.text == text for view in all_views(written))


@given(text=st.text('a\\"u05cé%C3B9n+= ', max_size=40))
@examples(5)
def test_places_in_a_view_follow_one_another_in_the_text(text: str) -> None:
    for view in all_views(text):
        origins = [view.origin(place) for place in range(len(view.text) + 1)]
        assert origins == sorted(origins)
        assert (origins[0], origins[-1]) == (0, len(text))


@pytest.mark.parametrize(
    ("text", "wanted", "original"),
    [
        (r"a J\u00f6rg b", "Jörg", r"J\u00f6rg"),
        (r"a \\\"x\\\" b", '"x"', r"\\\"x\\\""),
        ("a %C3%B6%2Fx b", "ö/x", "%C3%B6%2Fx"),
        (r"\ud83d\ude00!", "😀", r"\ud83d\ude00"),
        (r"\u0025C3\u0025B6!", "ö", r"\u0025C3\u0025B6"),
        ("q=a+b&c", "a b", "a+b"),
        ("J\xc3\xb6rg", "ö", "\xc3\xb6"),
        ("%FF%C3x", "\xff\xc3", "%FF%C3"),
    ],
)
def test_what_is_found_in_a_view_has_a_place_in_the_text(text: str, wanted: str, original: str) -> None:
    spans = [(view, view.text.index(wanted)) for view in all_views(text) if wanted in view.text]
    assert spans
    assert {text[view.origin(at) : view.origin(at + len(wanted))] for view, at in spans} == {original}
