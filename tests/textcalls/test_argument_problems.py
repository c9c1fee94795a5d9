"""What does not fit a tool's schema is told in short sentences; what may fit is not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.textcalls.argument_problems import find_argument_problems, unknown_properties

TREE = {
    "type": "object",
    "properties": {"label": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["label"],
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1},
        "ratio": {"type": "number"},
        "unit": {"enum": ["c", "f", None, 1]},
        "mode": {"const": "fast"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
        "maybe": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "object", "required": ["x"]}]},
        "both": {"allOf": [{"type": "object", "required": ["a"]}, {"required": ["b"]}]},
        "place": {"$ref": "#/$defs/place"},
        "nowhere": {"$ref": "#/$defs/missing"},
        "odd": {"type": "quaternion"},
        "loose": {"type": "str"},
        "opts": {"type": "object", "properties": {"a": True}, "additionalProperties": False},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "never": False,
        "tree": TREE | {"$id": "tree"},
    },
    "required": ["city"],
    "$defs": {"place": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]}},
}

PROBLEMS: list[tuple[Any, list[str]]] = [
    ({}, ["arguments.city is missing"]),
    ({"city": 5}, ["arguments.city should be a string, is the number 5"]),
    ({"city": "x", "limit": "x"}, ['arguments.limit should be an integer, is the string "x"']),
    ({"city": "x", "limit": 1.5}, ["arguments.limit should be an integer, is the number 1.5"]),
    ({"city": "x", "limit": True}, ["arguments.limit should be an integer, is true"]),
    ({"city": "x", "unit": "k"}, ['arguments.unit should be one of ["c", "f", null, 1], is the string "k"']),
    ({"city": "x", "unit": True}, ['arguments.unit should be one of ["c", "f", null, 1], is true']),
    ({"city": "x", "mode": "slow"}, ['arguments.mode should be "fast", is the string "slow"']),
    ({"city": "x", "tags": ["a", 1]}, ["arguments.tags[1] should be a string, is the number 1"]),
    ({"city": "x", "tags": "a"}, ['arguments.tags should be an array, is the string "a"']),
    ({"city": "x", "pair": ["a", "b"]}, ['arguments.pair[1] should be an integer, is the string "b"']),
    ({"city": "x", "maybe": 1}, ["arguments.maybe should be a string or null, is the number 1"]),
    ({"city": "x", "either": "s"}, ['arguments.either should be an integer or an object, is the string "s"']),
    ({"city": "x", "either": {}}, ["arguments.either.x is missing"]),
    ({"city": "x", "both": {"a": 1}}, ["arguments.both.b is missing"]),
    ({"city": "x", "place": {}}, ["arguments.place.lat is missing"]),
    ({"city": "x", "place": {"lat": None}}, ["arguments.place.lat should be a number, is null"]),
    ({"city": "x", "opts": {"b c": 1}}, ['arguments.opts["b c"] is not a known property']),
    ({"city": "x", "map": {"a": "1"}}, ['arguments.map.a should be an integer, is the string "1"']),
    ({"city": "x", "never": 1}, ["arguments.never is not allowed"]),
    ({"city": "x" * 100, "limit": "y" * 100}, [f'arguments.limit should be an integer, is the string "{"y" * 58}…']),
    ([], ["arguments should be an object, is an array"]),
    ("x", ['arguments should be an object, is the string "x"']),
]


@pytest.mark.parametrize(("arguments", "problems"), PROBLEMS)
def test_what_does_not_fit_is_told_with_its_path(arguments: Any, problems: list[str]) -> None:
    assert find_argument_problems(arguments, SCHEMA) == problems


FITTING: list[Any] = [
    {"city": "x", "limit": 5.0, "ratio": 1, "unit": None, "mode": "fast", "tags": [], "pair": ["a"], "maybe": None},
    {"city": "x", "either": 3, "both": {"a": 1, "b": 2}, "place": {"lat": 1.5}, "nowhere": object, "odd": 7},
    {"city": "x", "either": {"x": 1}, "loose": "text", "opts": {"a": []}, "map": {"z": 1}, "further": "is allowed"},
    {"city": "x", "limit": -4, "unit": 1.0},
]


@pytest.mark.parametrize("arguments", FITTING)
def test_what_fits_or_may_fit_is_no_problem(arguments: Any) -> None:
    assert find_argument_problems(arguments, SCHEMA) == []


@pytest.mark.parametrize("schema", [None, True, {}, {"$ref": "#"}, {"$ref": "https://x.y/z"}, {"anyOf": []}, [], "x"])
def test_a_schema_that_says_nothing_finds_nothing(schema: Any) -> None:
    assert find_argument_problems({"a": [1, {"b": None}]}, schema) == []


def test_recursive_schemas_are_followed_as_deep_as_the_value_goes() -> None:
    tree = {"label": "a", "children": [{"label": "b", "children": [{"children": []}]}]}
    assert find_argument_problems(tree, TREE) == ["arguments.children[0].children[0].label is missing"]


def test_circular_schemas_end() -> None:
    loop: dict[str, Any] = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    assert find_argument_problems({}, loop) == []
    assert find_argument_problems({}, {"allOf": [{"$ref": "#"}]}) == []
    assert find_argument_problems({}, {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}) == []


def test_branches_that_lead_back_to_themselves_end() -> None:
    ways = [{"$ref": "#"}, {"$ref": "#"}]
    assert find_argument_problems({}, {"anyOf": ways, "required": ["a"]}) == ["arguments.a is missing"]
    assert find_argument_problems({}, {"allOf": ways, "required": ["a"]}) == ["arguments.a is missing"]
    assert find_argument_problems({}, {"oneOf": ways, "allOf": [{"anyOf": ways}], "type": "string"})


def test_there_are_at_most_twenty_problems() -> None:
    schema = {"type": "array", "items": {"type": "string"}}
    assert len(find_argument_problems(list(range(100)), schema)) == 20


def test_deep_values_do_not_recurse_without_end() -> None:
    value: Any = {"label": "x"}
    for _ in range(5_000):
        value = {"label": "x", "children": [value]}
    assert find_argument_problems(value, TREE) == []


def test_properties_that_no_schema_lists_can_be_asked_for() -> None:
    arguments = {"city": "x", "other": 1, "place": {"lat": 1, "lng": 2}, "map": {"any": 1}}
    assert sorted(unknown_properties(arguments, SCHEMA)) == [
        "arguments.other is not a known property",
        "arguments.place.lng is not a known property",
    ]
    assert unknown_properties({"a": 1}, {"properties": {"b": {}}, "additionalProperties": True}) == []
    assert unknown_properties({"a": 1}, None) == []


schemas = st.recursive(
    st.sampled_from([{}, {"type": "string"}, {"type": "integer"}, {"enum": [1, "a"]}, {"$ref": "#"}, True]),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", ["object", "null"], "any"]),
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
            "required": st.lists(st.sampled_from("ab"), max_size=2),
        },
    ),
    max_leaves=6,
)
values = st.recursive(
    st.sampled_from([None, 1, "a", True]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=5,
)


@given(values, schemas)
def test_any_value_and_any_schema_end_in_sentences(value: Any, schema: Any) -> None:
    problems = find_argument_problems(value, schema)
    assert len(problems) <= 20
    assert all(problem.startswith("arguments") for problem in problems)
