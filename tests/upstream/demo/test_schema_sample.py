"""Arguments keep to their schema, whatever the wish says."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.upstream.demo.schemas import NODE, objects, problems, schemas
from toolglot.ir import Message, Request, Text, Tool, ToolCall, ToolChoice
from toolglot.upstream.demo.agent import answer
from toolglot.upstream.demo.hints import Hints
from toolglot.upstream.demo.regex_sample import matching_text
from toolglot.upstream.demo.schema_sample import sample_value

WISHES = st.sampled_from(
    [
        "",
        "What is the weather in Paris and Oslo, in fahrenheit?",
        "Read hello.txt and fetch https://example.org/a?b=1 on 2024-05-06",
        "add 2 and 300, then run `echo hi`",
        "It is -7.5 degrees; say “a very long quotation that hardly fits anywhere”",
    ]
)


@examples(5)
@given(objects(schemas), WISHES)
def test_arguments_keep_to_any_schema(schema: dict[str, Any], wish: str) -> None:
    schema = {**schema, "$defs": {"node": NODE}}
    request = Request(
        model="demo",
        messages=(Message(role="user", content=(Text(text=wish or "go"),)),),
        tools=(Tool(name="tool", parameters=schema),),
        tool_choice=ToolChoice(mode="required", names=("tool",)),
    )
    calls = [block for block in answer(request).content if isinstance(block, ToolCall)]
    assert calls
    for call in calls:
        assert problems(json.loads(call.arguments), schema, schema) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"n": NODE["properties"]["next"]}, "required": ["n"], "$defs": {"node": NODE}},
        {"type": "array", "items": {"type": "integer"}, "minItems": 3, "uniqueItems": True},
        {"type": "array", "items": {"type": "string", "maxLength": 3}, "minItems": 3, "uniqueItems": True},
        {"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 3, "uniqueItems": True},
        {"oneOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}]},
        {"allOf": [{"type": "number", "minimum": 3}, {"type": "integer", "maximum": 3}]},
        {"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]},
        {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": "object", "required": ["undeclared"]},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {"const": 3}}, "required": ["a"]},
    ],
)
def test_awkward_schemas_are_met(schema: dict[str, Any]) -> None:
    value = sample_value(schema, Hints.of_text("Weather in Paris"))
    assert problems(value, schema, schema) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"type": "array", "minItems": 10**9},
        {"type": "string", "minLength": 10**12},
        {"type": "string", "pattern": "(" * 5000},
        {"type": "string", "pattern": "(a{900}){900}"},
        {"type": "integer", "minimum": 5, "maximum": 1},
        {"type": "number", "minimum": 10**400, "maximum": float("inf"), "multipleOf": 1e-320, "default": 10**400},
        {"type": "integer", "exclusiveMinimum": 1e300, "multipleOf": 1e-320},
        {"anyOf": [], "enum": [], "type": []},
        {"type": 7, "properties": 3, "required": "x", "enum": "y"},
        {"$ref": "https://elsewhere.example/schema"},
        {"type": "object", "properties": {f"p{n}": {"$ref": "#"} for n in range(20)}, "minProperties": 20},
    ],
)
def test_schemas_that_nothing_meets_or_that_make_no_sense_still_end(schema: dict[str, Any]) -> None:
    sample_value(schema, Hints.of_text("anything"))


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[A-Z]{2,3}-\d+$",
        r"^(foo|bar)+(?:baz)?$",
        r"^[^\d\s]{4}$",
        r"^\+?[1-9]\d{1,14}$",
        r"^#(?:[0-9a-fA-F]{3}){1,2}$",
        r"^(?P<year>\d{4})/(?P<month>0[1-9]|1[0-2])$",
        r"^[\w.+-]+@[\w-]+\.[a-z]{2,}$",
        r"\x41é",
        r"^[]a]\]$",
        r"^a*?$",
    ],
)
@pytest.mark.parametrize("least", [0, 1])
def test_a_text_is_written_that_the_pattern_matches(pattern: str, least: int) -> None:
    text = matching_text(pattern, least)
    assert text is not None
    assert re.search(pattern, text)
    assert len(text) >= least


@pytest.mark.parametrize("pattern", [r"(?=a)b", r"(a)\1", r"\bword\b", "[a", "(a", "a)", "*", r"\p{L}"])
def test_a_pattern_that_is_not_understood_is_told_apart(pattern: str) -> None:
    assert matching_text(pattern) is None


def test_a_longer_text_is_written_where_the_schema_wants_one() -> None:
    assert matching_text("^[a-z]+$", 9) == "a" * 9
    assert matching_text("abc", 5) == "abcxx"
