"""Schemas that a model is bound to: what the API can enforce stays, and the rest is said in prose."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.dialects.anthropic.dialect import ANTHROPIC
from toolglot.dialects.anthropic.schema import reduce_schema
from toolglot.ir import Message, Request, ResponseFormat, Text, Tool
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

CLOSED = {"additionalProperties": False}
ANYTHING = {"anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "null")]}

# name, schema, as it is written, severities and places of what is told
CASES: list[tuple[str, Any, Any, list[str]]] = [
    (
        "bounds are prose",
        {"type": "integer", "minimum": 1, "maximum": 10, "description": "A number"},
        {"type": "integer", "description": "A number\n\n{minimum: 1, maximum: 10}"},
        ["loss s"],
    ),
    (
        "annotations are prose and no loss",
        {"type": "string", "default": "x"},
        {"type": "string", "description": '{default: "x"}'},
        ["note s"],
    ),
    ("known formats stay", {"type": "string", "format": "date"}, {"type": "string", "format": "date"}, []),
    (
        "other formats are prose",
        {"type": "string", "format": "regex"},
        {"type": "string", "description": '{format: "regex"}'},
        ["loss s"],
    ),
    (
        "objects are closed",
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^x"}}, "required": ["a"], **CLOSED},
        {
            "type": "object",
            "properties": {"a": {"type": "string", "description": '{pattern: "^x"}'}},
            "required": ["a"],
            **CLOSED,
        },
        ["loss s.properties.a"],
    ),
    ("an open object is told", {"type": "object"}, {"type": "object", "properties": {}, **CLOSED}, ["note s"]),
    (
        "a map cannot be had",
        {"type": "object", "additionalProperties": {"type": "string"}},
        {
            "type": "object",
            "properties": {},
            **CLOSED,
            "description": '{additionalProperties: {"type":"string"}}',
        },
        ["loss s"],
    ),
    (
        "one item at least can be asked for",
        {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
        {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "{maxItems: 3}"},
        ["loss s"],
    ),
    (
        "two are prose",
        {"type": "array", "items": True, "minItems": 2},
        {"type": "array", "items": ANYTHING, "description": "{minItems: 2}"},
        ["loss s"],
    ),
    (
        "alternatives",
        {"oneOf": [{"type": "string"}, {"type": "null"}], "title": "T"},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "T"},
        [],
    ),
    (
        "several types",
        {"type": ["string", "null"], "format": "email"},
        {"anyOf": [{"type": "string", "format": "email"}, {"type": "null"}]},
        [],
    ),
    ("literals say their type", {"type": "string", "enum": ["a", "b"]}, {"enum": ["a", "b"]}, []),
    ("a constant", {"type": "integer", "const": 3}, {"const": 3}, []),
    (
        "a reference with words beside it",
        {"$ref": "#/definitions/A", "description": "d", "definitions": {"A": {"type": "string"}}},
        {"$defs": {"A": {"type": "string"}}, "anyOf": [{"$ref": "#/$defs/A"}], "description": "d"},
        [],
    ),
    (
        "one part of all",
        {"allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"type": "string"}}},
        {"$defs": {"A": {"type": "string"}}, "$ref": "#/$defs/A"},
        [],
    ),
    (
        "parts of one object",
        {
            "allOf": [
                {"properties": {"a": {"type": "null"}}, "required": ["a"]},
                {"properties": {"b": {"type": "null"}}},
            ],
            **CLOSED,
        },
        {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "required": ["a"], **CLOSED},
        [],
    ),
    (
        "parts that are no objects",
        {"allOf": [{"type": "string"}, {"type": "string", "format": "date"}]},
        {"allOf": [{"type": "string"}, {"type": "string", "format": "date"}]},
        [],
    ),
    (
        "conditions on an object are prose",
        {"type": "object", "properties": {}, "anyOf": [{"required": ["a"]}], **CLOSED},
        {"type": "object", "properties": {}, **CLOSED, "description": '{anyOf: [{"required":["a"]}]}'},
        ["loss s"],
    ),
    ("nothing said", {}, ANYTHING, ["loss s"]),
    (
        "a reference elsewhere",
        {"$ref": "https://x/y"},
        {**ANYTHING, "description": '{$ref: "https://x/y"}'},
        ["loss s"] * 2,
    ),
    ("the dialect of the schema", {"$schema": "https://x", "type": "null"}, {"type": "null"}, []),
]


@pytest.mark.parametrize(("schema", "written", "told"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_schema_is_reduced(schema: Any, written: Any, told: list[str]) -> None:
    receipt = Receipt()
    assert reduce_schema(schema, "s", receipt) == written
    assert [f"{line.severity} {line.where}" for line in receipt] == told


def test_a_schema_that_contains_itself_stays_so() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}, "required": ["next"], **CLOSED}
    schema = {"$defs": {"N": node}, "$ref": "#/$defs/N"}
    assert reduce_schema(schema, "s", Receipt()) == schema


@pytest.mark.parametrize(
    "outer",
    [
        lambda inner: {"type": "array", "items": inner},
        lambda inner: {"type": "object", "properties": {"a": inner}, **CLOSED},
        lambda inner: {"anyOf": [inner]},
        lambda inner: {"$defs": {"a": inner}, "$ref": "#/$defs/a"},
    ],
    ids=["items", "properties", "branches", "definitions"],
)
def test_a_schema_is_kept_a_hundred_levels_deep(outer: Callable[[Any], dict[str, Any]]) -> None:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(100):
        schema = outer(schema)
    receipt = Receipt()
    assert reduce_schema(schema, "s", receipt) == schema
    assert not receipt
    reduce_schema(outer(schema), "s", receipt)
    assert [line.what for line in receipt.losses] == ["a part of the schema"]


def test_a_schema_may_be_as_deep_as_it_likes() -> None:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    receipt = Receipt()
    reduce_schema(schema, "s", receipt)
    assert [line.what for line in receipt.losses] == ["a part of the schema"]


WORDS = ("type", "properties", "required", "items", "allOf", "anyOf", "oneOf", "$ref", "$defs", "definitions", "enum")
MORE_WORDS = ("const", "format", "minItems", "additionalProperties", "description", "title", "object", "#/$defs/a", "a")
KEYWORDS = st.sampled_from((*WORDS, *MORE_WORDS))
ANY_SCHEMA = st.recursive(
    st.none() | st.booleans() | st.integers() | KEYWORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=4),
    max_leaves=20,
)
ALLOWED = {"type", "enum", "const", "anyOf", "allOf", "$defs", "$ref", "properties", "required", "items", "minItems"}
ALLOWED |= {"additionalProperties", "format", "title", "description"}


def nodes(schema: dict[str, Any]) -> list[dict[str, Any]]:
    inner = [*schema.get("anyOf", ()), *schema.get("allOf", ()), *schema.get("$defs", {}).values()]
    inner += [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return [schema, *(node for part in inner for node in nodes(part))]


@given(ANY_SCHEMA)
def test_whatever_is_given_only_what_the_api_takes_is_written(schema: Any) -> None:
    for node in nodes(reduce_schema(schema, "s", Receipt())):
        assert node.keys() <= ALLOWED
        assert node.get("type") != "object" or node["additionalProperties"] is False


WEATHER = {"type": "object", "properties": {"days": {"type": "integer", "minimum": 1}}, "required": ["days"], **CLOSED}
REDUCED = {**WEATHER, "properties": {"days": {"type": "integer", "description": "{minimum: 1}"}}}


def test_the_answers_schema_and_strict_tools_of_another_dialect_are_reduced() -> None:
    function = {"name": "f", "parameters": WEATHER, "strict": True}
    body = {
        "model": "claude-opus-4-8",
        "messages": [{"role": "user", "content": "Hi"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": WEATHER}},
        "tools": [
            {"type": "function", "function": function},
            {"type": "function", "function": {**function, "name": "g", "strict": False}},
        ],
    }
    exchange = ExchangeCore("openai_chat", "anthropic")
    sent = json.loads(exchange.request(body))
    assert sent["output_config"]["format"]["schema"] == REDUCED
    assert [tool["input_schema"] for tool in sent["tools"]] == [REDUCED, WEATHER]
    assert {line.where for line in exchange.receipt.losses} == {
        "response_format.schema.properties.days",
        "tools[0].parameters.properties.days",
    }


def test_schemas_of_this_dialect_stay_as_they_are() -> None:
    body = {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "output_config": {"format": {"type": "json_schema", "schema": WEATHER}},
        "tools": [{"name": "f", "input_schema": WEATHER, "strict": True}],
        "messages": [{"role": "user", "content": "Hi"}],
    }
    receipt = Receipt()
    request = ANTHROPIC.decode_request(json.dumps(body).encode())
    assert json.loads(ANTHROPIC.encode_request(request, receipt)) == body
    assert not receipt


def test_models_before_45_are_asked_in_words_and_bound_to_no_schema() -> None:
    request = Request(
        model="claude-sonnet-4-20250514",
        messages=(Message(role="user", content=(Text(text="Hi"),)),),
        tools=(Tool(name="f", parameters=WEATHER, strict=True),),
        response_format=ResponseFormat(kind="json_schema", schema=WEATHER),
    )
    exchange = ExchangeCore("openai_chat", "anthropic")
    sent = exchange.rewrite(request)
    assert sent.response_format is None
    assert isinstance(tool := sent.tools[0], Tool)
    assert tool.strict is None
