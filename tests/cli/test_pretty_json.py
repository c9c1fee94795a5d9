"""JSON for people: short values on one line, long ones opened, nothing else changed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolglot.cli.pretty_json import WIDTH, pretty_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_it_says_the_same(value: Any) -> None:
    assert json.loads(pretty_json(json.dumps(value).encode())) == value


@given(values)
def test_only_what_cannot_be_opened_is_longer_than_a_line(value: Any) -> None:
    for line in pretty_json(json.dumps(value).encode()).split("\n"):
        opened = line.strip().rstrip(",").endswith(("{", "["))
        assert len(line) <= WIDTH or opened or not line.rstrip(",").endswith(("}", "]")) or line.count('"') > 1


def test_short_values_stay_on_one_line_and_long_ones_are_opened() -> None:
    data = b'{"a":[1,2],"b":[{"long":"%b"},{"c":{}}]}' % (b"x" * 60)
    assert pretty_json(data) == "\n".join(
        ["{", '  "a": [1, 2],', '  "b": [', '    {"long": "%s"},' % ("x" * 60), '    {"c": {}}', "  ]", "}"]
    )


def test_numbers_and_escapes_stay_as_they_are_written() -> None:
    data = b'{"a": 1.0, "b": 1e3, "c": 12345678901234567890123, "d": "\\u00e9", "e": "%b"}' % (b"x" * 80)
    for text in ("1.0", "1e3", "12345678901234567890123", '"\\u00e9"'):
        assert text in pretty_json(data)


def test_what_is_nested_absurdly_is_still_shown() -> None:
    data = b"[" * 900 + b"1" * 90 + b"]" * 900
    assert pretty_json(data).replace("\n", "").replace(" ", "").encode() == data
