"""JSON Schema reduced to the OpenAPI subset of older endpoints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.dialects.gemini.schema import reduce_schema
from toolglot.receipt import Receipt

ANYTHING = {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}, {"type": "BOOLEAN"}]}


def reduce(schema: Any, receipt: Receipt | None = None) -> dict[str, Any]:
    return reduce_schema(schema, "tools[0].parameters", receipt if receipt is not None else Receipt())


# (name, schema, its reduction)
CASES: list[tuple[str, Any, Any]] = [
    ("string", {"type": "string"}, {"type": "STRING"}),
    ("empty", {}, ANYTHING),
    ("true", True, ANYTHING),
    ("false", False, {**ANYTHING, "description": "(nothing is allowed here)"}),
    ("empty object", {"type": "object", "properties": {}}, {"type": "OBJECT"}),
    (
        "untyped object",
        {"properties": {"a": {"type": "number"}}},
        {"type": "OBJECT", "properties": {"a": {"type": "NUMBER"}}},
    ),
    ("missing items", {"type": "array"}, {"type": "ARRAY", "items": ANYTHING}),
    ("boolean items", {"type": "array", "items": True}, {"type": "ARRAY", "items": ANYTHING}),
    ("untyped array", {"items": {"type": "string"}}, {"type": "ARRAY", "items": {"type": "STRING"}}),
    (
        "tuple",
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
        {
            "type": "ARRAY",
            "items": {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
            "description": '(the items in order: [{"type":"string"},{"type":"integer"}])',
        },
    ),
    (
        "tuple of older drafts",
        {"type": "array", "items": [{"type": "string"}]},
        {"type": "ARRAY", "items": {"type": "STRING"}, "description": '(the items in order: [{"type":"string"}])'},
    ),
    ("nullable by type", {"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
    (
        "several types",
        {"type": ["string", "integer", "null"], "minimum": 1, "maxLength": 3},
        {
            "anyOf": [{"type": "STRING", "maxLength": 3}, {"type": "INTEGER", "minimum": 1}],
            "nullable": True,
        },
    ),
    ("only null", {"type": "null"}, {**ANYTHING, "nullable": True}),
    (
        "nullable by anyOf",
        {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d", "default": None},
        {"type": "STRING", "nullable": True, "default": None, "description": "d"},
    ),
    (
        "oneOf",
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
    ),
    ("anyOf of nulls", {"anyOf": [{"type": "null"}]}, {**ANYTHING, "nullable": True}),
    ("const", {"const": "x"}, {"type": "STRING", "enum": ["x"]}),
    ("const null", {"const": None}, {"type": "STRING", "nullable": True}),
    (
        "const number",
        {"const": 1},
        {"type": "STRING", "enum": ["1"], "description": "(the text of one of: [1])"},
    ),
    ("const boolean", {"const": True}, {"type": "BOOLEAN", "description": "(one of: [true])"}),
    ("const object", {"const": {"a": 1}}, {"type": "OBJECT", "description": '(one of: [{"a":1}])'}),
    ("enum", {"type": "string", "enum": ["a", "b"]}, {"type": "STRING", "enum": ["a", "b"]}),
    ("enum with null", {"enum": ["a", None]}, {"type": "STRING", "enum": ["a"], "nullable": True}),
    (
        "integer enum",
        {"type": "integer", "enum": [1, 2], "description": "How many."},
        {"type": "STRING", "enum": ["1", "2"], "description": "How many. (the text of one of: [1,2])"},
    ),
    (
        "mixed enum",
        {"type": ["string", "integer"], "enum": ["a", 1]},
        {"type": "STRING", "enum": ["a", "1"], "description": '(the text of one of: ["a",1])'},
    ),
    ("boolean enum", {"type": "boolean", "enum": [True]}, {"type": "BOOLEAN", "description": "(one of: [true])"}),
    (
        "exclusive integer",
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9},
        {"type": "INTEGER", "minimum": 1, "maximum": 8},
    ),
    (
        "exclusive number",
        {"type": "number", "exclusiveMinimum": 0.5},
        {"type": "NUMBER", "minimum": 0.5, "description": "(greater than 0.5)"},
    ),
    (
        "exclusive of draft 4",
        {"type": "number", "minimum": 2, "exclusiveMinimum": True},
        {"type": "NUMBER", "minimum": 2, "description": "(greater than 2)"},
    ),
    (
        "huge numbers",
        {"type": "array", "items": {"type": "integer", "maximum": 10**30}, "maxItems": 2**64},
        {
            "type": "ARRAY",
            "items": {"type": "INTEGER", "maximum": 10**30},
            "description": f"(maxItems: {2**64})",
        },
    ),
    ("known format", {"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
    ("unknown format", {"type": "string", "format": "uri"}, {"type": "STRING", "description": "(format: uri)"}),
    (
        "additionalProperties false",
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False, "$schema": "x"},
        {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
    ),
    (
        "additionalProperties schema",
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "OBJECT", "description": '(additionalProperties: {"type":"integer"})'},
    ),
    (
        "properties named like keywords",
        {
            "type": "object",
            "properties": {
                "type": {"type": "string"},
                "properties": {"type": "object", "properties": {"items": {"type": "string"}}},
                "required": {"type": "boolean"},
                "anyOf": {"type": "integer"},
            },
            "required": ["type", "gone"],
        },
        {
            "type": "OBJECT",
            "properties": {
                "type": {"type": "STRING"},
                "properties": {"type": "OBJECT", "properties": {"items": {"type": "STRING"}}},
                "required": {"type": "BOOLEAN"},
                "anyOf": {"type": "INTEGER"},
            },
            "required": ["type"],
        },
    ),
    (
        "property named $ref",
        {"type": "object", "properties": {"$ref": {"type": "string"}}},
        {"type": "OBJECT", "properties": {"$ref": {"type": "STRING"}}},
    ),
    (
        "propertyNames",
        {"type": "object", "propertyNames": {"pattern": "^x"}},
        {"type": "OBJECT", "description": '(propertyNames: {"pattern":"^x"})'},
    ),
    (
        "if and then",
        {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}},
        {"type": "OBJECT", "description": '(if: {"required":["a"]}; then: {"required":["b"]})'},
    ),
    ("not", {"type": "string", "not": {"const": "x"}}, {"type": "STRING", "description": '(not: {"const":"x"})'}),
    (
        "allOf",
        {
            "description": "d",
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"], "description": "e"},
            ],
        },
        {
            "type": "OBJECT",
            "properties": {"a": {"type": "STRING"}, "b": {"type": "STRING"}},
            "required": ["a", "b"],
            "description": 'd (description: "e")',
        },
    ),
    (
        "reference",
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/x", "description": "mine"}},
            "$defs": {"x": {"type": "string", "description": "its"}},
        },
        {"type": "OBJECT", "properties": {"a": {"type": "STRING", "description": "mine"}}},
    ),
    (
        "reference through a list",
        {"anyOf": [{"type": "string"}, {"$ref": "#/anyOf/0"}]},
        {"anyOf": [{"type": "STRING"}, {"type": "STRING"}]},
    ),
    (
        "lost reference",
        {"$ref": "https://example.com/schema"},
        {**ANYTHING, "description": "(https://example.com/schema)"},
    ),
    (
        "recursive reference",
        {
            "$ref": "#/$defs/node",
            "$defs": {
                "node": {
                    "type": "object",
                    "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                }
            },
        },
        {
            "type": "OBJECT",
            "properties": {
                "next": {"type": "OBJECT", "nullable": True, "description": "(the same form as node)"},
            },
        },
    ),
    (
        "reference to the whole",
        {"type": "object", "properties": {"child": {"$ref": "#"}}},
        {
            "type": "OBJECT",
            "properties": {
                "child": {
                    "type": "OBJECT",
                    "properties": {"child": {"type": "OBJECT", "description": "(the same form as #)"}},
                }
            },
        },
    ),
    (
        "other keywords",
        {"type": "number", "title": "N", "multipleOf": 5, "default": 10, "examples": [5], "x-novel": 1},
        {"type": "NUMBER", "title": "N", "default": 10, "description": "(multipleOf: 5; examples: [5])"},
    ),
]


@pytest.mark.parametrize(("schema", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_schema_is_reduced_to_the_subset(schema: Any, expected: Any) -> None:
    before = json.dumps(schema)
    assert reduce(schema) == expected
    assert json.dumps(schema) == before


ALLOWED = {
    "type format title description nullable enum items minItems maxItems properties required propertyOrdering "
    "minProperties maxProperties minimum maximum minLength maxLength pattern example anyOf default"
}
KEYWORDS = frozenset(word for line in ALLOWED for word in line.split())


def keywords(schema: dict[str, Any]) -> set[str]:
    """Every keyword used in a reduced schema."""
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    if "items" in schema:
        inner.append(schema["items"])
    return set(schema).union(*map(keywords, inner))


@pytest.mark.parametrize("schema", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_no_other_keyword_is_left(schema: Any) -> None:
    assert keywords(reduce(schema)) <= KEYWORDS


def test_what_is_lost_stands_in_the_receipt() -> None:
    receipt = Receipt()
    schema = {
        "type": "object",
        "properties": {"n": {"enum": [1, 2]}, "self": {"$ref": "#"}, "has space": {"type": "string", "format": "uri"}},
    }
    reduce(schema, receipt)
    assert {loss.where for loss in receipt.losses} == {
        "tools[0].parameters.n",
        "tools[0].parameters.self.n",
        "tools[0].parameters.self.self",
        "tools[0].parameters.has space",
        "tools[0].parameters.self.has space",
    }
    assert "tools[0].parameters.has space" in {note.where for note in receipt.notes}


def test_references_that_unfold_without_end_are_cut() -> None:
    # Ten definitions that each name all the others: written out, millions of nodes.
    names = [f"d{number}" for number in range(10)]
    definition = {"type": "object", "properties": {name: {"$ref": f"#/$defs/{name}"} for name in names}}
    receipt = Receipt()
    schema = reduce({"$ref": "#/$defs/d0", "$defs": dict.fromkeys(names, definition)}, receipt)
    assert len(json.dumps(schema)) < 1_000_000
    assert receipt.losses


def test_a_deep_schema_is_cut() -> None:
    schema: Any = {"type": "string"}
    for _ in range(300):
        schema = {"type": "array", "items": schema}
    receipt = Receipt()
    reduce(schema, receipt)
    assert len(receipt.losses) == 1


def test_a_ring_of_allof_ends() -> None:
    schema = {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}], "title": "A"}}, "allOf": [{"$ref": "#/$defs/a"}]}
    assert reduce(schema)["title"] == "A"


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
WORDS = st.sampled_from(
    sorted(KEYWORDS | {"$ref", "$defs", "allOf", "oneOf", "const", "not", "exclusiveMinimum", "additionalProperties"})
)
VALUES = LEAVES | st.sampled_from(["object", "array", "string", "#", "#/properties/type", "#/anyOf/0"])


@given(st.recursive(VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4)))
def test_any_json_is_reduced_to_something_in_the_subset(schema: Any) -> None:
    assert keywords(reduce(schema)) <= KEYWORDS


def test_a_schema_that_doubles_with_every_step_is_cut() -> None:
    definitions = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
    receipt = Receipt()
    reduce({"$ref": "#/$defs/a0", "$defs": {**definitions, "a40": {"type": "string"}}}, receipt)
    assert any(loss.what == "part of the schema" for loss in receipt.losses)


def test_a_reference_with_an_endless_index_leads_nowhere() -> None:
    receipt = Receipt()
    reduce({"anyOf": [{"type": "string"}, {"$ref": "#/anyOf/" + "9" * 5000}]}, receipt)
    assert [loss.why for loss in receipt.losses] == ["the reference cannot be resolved"]
    assert reduce({"anyOf": [{"type": "string"}, {"$ref": "#/anyOf/0"}]})["anyOf"] == [{"type": "STRING"}] * 2
