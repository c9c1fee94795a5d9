"""What was sent is completed to the repaired value, or cannot be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.textcalls.continuation import complete_json, is_same_json

texts = st.text(st.characters(codec="utf-8"), max_size=10) | st.text('"\\\n/é😀\x01b', max_size=8)
scalars = texts | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)
objects = st.dictionaries(texts, values, max_size=4)
layouts = st.sampled_from([{"ensure_ascii": False}, {}, {"indent": 2}, {"separators": (",", ":")}])


@given(value=objects, layout=layouts)
def test_every_beginning_of_a_value_is_completed_to_it(value: Any, layout: dict[str, Any]) -> None:
    text = json.dumps(value, **layout)
    for cut in range(len(text) + 1):
        rest = complete_json(text[:cut], value)
        assert rest is not None, text[:cut]
        assert is_same_json(json.loads(text[:cut] + rest), value)


@given(sent=objects, value=objects, layout=layouts, data=st.data())
def test_a_completion_is_right_or_there_is_none(
    sent: Any, value: Any, layout: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(sent, **layout)
    emitted = text[: data.draw(st.integers(0, len(text)))]
    rest = complete_json(emitted, value)
    if rest is not None:
        assert is_same_json(json.loads(emitted + rest), value)


COMPLETED: list[tuple[str, Any, str]] = [
    ("", {"a": 1}, '{"a": 1}'),
    ("{", {"a": 1}, '"a": 1}'),
    ('{"a"', {"a": 1}, ": 1}"),
    ('{"a": ', {"a": [1, 2]}, "[1, 2]}"),
    ('{"a": "x', {"a": 'xy "z"', "b": 2}, 'y \\"z\\"", "b": 2}'),
    ('{"a": "x\\', {"a": "x\ny"}, 'ny"}'),
    ('{"a": "\\u00', {"a": "éa"}, 'e9a"}'),
    ('{"a": "\\ud83d', {"a": "😀"}, '\\ude00"}'),
    ('{"a": "\\uD83D\\uD', {"a": "😀"}, 'e00"}'),
    ('{"a": tr', {"a": True}, "ue}"),
    ('{"a": 1.50', {"a": 1.5}, "}"),
    ('{"a": 1', {"a": 12}, "2}"),
    ('{"b": 2, "', {"a": 1, "b": 2}, 'a": 1}'),
    ('{"a": [1, {"b": "c"', {"a": [1, {"b": "c", "d": None}, 3]}, ', "d": null}, 3]}'),
    ('{"a": 1}', {"a": 1}, ""),
]


@pytest.mark.parametrize(("emitted", "value", "rest"), COMPLETED)
def test_what_is_left_is_written_in_the_value_s_order(emitted: str, value: Any, rest: str) -> None:
    assert complete_json(emitted, value) == rest


@pytest.mark.parametrize(
    ("emitted", "value"),
    [
        ('{"a": "xy', {"a": "x"}),
        ('{"b"', {"a": 1}),
        ('{"a": 1, ', {"a": 1}),
        ('{"a": {"b"', {"a": "b"}),
        ('{"a": "', {"a": 1}),
        ('{"a": 1}', {"a": 1, "b": 2}),
        ('{"a": 2', {"a": 1}),
        ('{"a": false', {"a": 0}),
        ('{"a": [1, 2', {"a": [1]}),
        ('{"a": 1} x', {"a": 1}),
        ('{"a": \'x', {"a": "x"}),
        ('{"a": "x\ny', {"a": "x\ny"}),
        ('{"a" 1', {"a": 1}),
        ('{"a": "\\ud83d', {"a": "é"}),
        ("[", {"a": 1}),
        ('{"a": 1', {"a": float("nan")}),
    ],
)
def test_what_was_sent_amiss_cannot_be_completed(emitted: str, value: Any) -> None:
    assert complete_json(emitted, value) is None


def test_long_and_deep_values_do_no_harm() -> None:
    value = {"text": 'abc "x"\n' * 50_000, "list": [[1, "y"]] * 20_000}
    text = json.dumps(value)
    for cut in (100, len(text) // 2, len(text) - 3):
        rest = complete_json(text[:cut], value)
        assert rest is not None
        assert json.loads(text[:cut] + rest) == value
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert complete_json('{"a": [[', {"a": deep}) is None
    while deep != 1:  # taken apart by hand: freeing it at once would recurse
        deep = deep.pop()
