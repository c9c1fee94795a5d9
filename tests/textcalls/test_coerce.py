"""Raw text becomes the JSON that its schema asks for, digit by digit, or stays the string that it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.textcalls.coerce import coerce_value, is_plain_string, value_schema

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
OBJECT = {"type": "object"}
ARRAY = {"type": "array"}
NESTED = {"type": "object", "properties": {"n": INTEGER, "s": STRING, "l": ARRAY}}
TYPED: dict[str, tuple[str, Any, str]] = {
    "a string": ("42", STRING, '"42"'),
    "a string with its spaces": (' "a"\n', STRING, '" \\"a\\"\\n"'),
    "a string that says null": ("null", STRING, '"null"'),
    "an empty string": ("", STRING, '""'),
    "an integer": (" 42\n", INTEGER, "42"),
    "an integer with a sign": ("+42", INTEGER, "42"),
    "a large integer": ("123456789012345678901234567890", INTEGER, "123456789012345678901234567890"),
    "an integer with a zero behind the point": ("5.0", INTEGER, "5.0"),
    "a number": ("5.0", {"type": "number"}, "5.0"),
    "a number with all its digits": ("0.1000000000000000055", {"type": "number"}, "0.1000000000000000055"),
    "a number that begins with its point": (".5", {"type": "number"}, "0.5"),
    "a number that ends in its point": ("-5.", {"type": "number"}, "-5.0"),
    "an exponent": ("1e5", {"type": "number"}, "1e5"),
    "true": ("True", {"type": "boolean"}, "true"),
    "one as a boolean": ("1", {"type": "boolean"}, "true"),
    "zero as a boolean": ("0", {"type": "boolean"}, "false"),
    "null where it is allowed": ("null", {"type": ["integer", "null"]}, "null"),
    "None where null is allowed": ("None", {"type": ["string", "null"]}, "null"),
    "null of a nullable type": ("null", {"type": "integer", "nullable": True}, "null"),
    "an object": ('{"a": 1.50}', OBJECT, '{"a": 1.50}'),
    "an array": (' [1, 2.0] ', ARRAY, "[1, 2.0]"),
    "nothing as an object": ("", OBJECT, "{}"),
    "nothing as an array": (" \n", ARRAY, "[]"),
    "an object in a string": ('"{\\"a\\": 1}"', OBJECT, '{"a": 1}'),
    "the first type that fits": ("42", {"anyOf": [INTEGER, STRING]}, "42"),
    "the next type that fits": ("4x", {"anyOf": [INTEGER, STRING]}, '"4x"'),
    "a string that is listed first": ("42", {"anyOf": [STRING, INTEGER]}, '"42"'),
    "a string or null": ("text", {"oneOf": [{"type": "null"}, STRING]}, '"text"'),
    "an array or an object": ("[1]", {"oneOf": [OBJECT, ARRAY]}, "[1]"),
    "all of several schemas": ("42", {"allOf": [{"description": "n"}, INTEGER]}, "42"),
    "a member of an enum": ("2", {"enum": [1, 2, "auto"]}, "2"),
    "a string of an enum": (" auto\n", {"enum": [1, 2, "auto"]}, '"auto"'),
    "digits in an enum of strings": ("1", {"enum": ["1", "2"]}, '"1"'),
    "a string beside an enum of numbers": ("x", {"enum": [1, "y"]}, '"x"'),
    "a constant": ("7", {"const": 7}, "7"),
    "a constant null": ("null", {"enum": ["a", None]}, "null"),
    "str": ("42", {"type": "str"}, '"42"'),
    "int": ("42", {"type": "int"}, "42"),
    "int64": ("42", {"type": "int64"}, "42"),
    "float": ("4.0", {"type": "float"}, "4.0"),
    "bool": ("true", {"type": "bool"}, "true"),
    "dict": ('{"a": 1}', {"type": "dict[str, int]"}, '{"a": 1}'),
    "list": ("[1]", {"type": "List"}, "[1]"),
    "a schema without a type, with properties": ('{"a": 1}', {"properties": {"a": {}}}, '{"a": 1}'),
    "a reference": ("42", {"$ref": "#/$defs/n", "$defs": {"n": INTEGER}}, "42"),
    "typed strings inside an array": ('["1", 2.0, "x"]', ARRAY | {"items": INTEGER}, '[1, 2.0, "x"]'),
    "typed strings inside an object": ('{"n": "5", "s": "5"}', NESTED, '{"n": 5, "s": "5"}'),
    "a list inside a string inside an object": ('{"l": "[1.0]"}', NESTED, '{"l": [1.0]}'),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "schema", "text"), TYPED.values(), ids=TYPED)
def test_the_schema_tells_the_type(raw: str, schema: Any, text: str) -> None:
    assert coerce_value(raw, schema) == (text, None)


KEPT: dict[str, tuple[str, Any]] = {
    "a word for an integer": ("many", INTEGER),
    "a fraction for an integer": ("1.5", INTEGER),
    "zeros in front of an integer": ("007", INTEGER),
    "digits of another script": ("٤٢", INTEGER),
    "yes for a boolean": ("yes", {"type": "boolean"}),
    "NaN for a number": ("NaN", {"type": "number"}),
    "a point for a number": (".", {"type": "number"}),
    "null for an integer": ("null", INTEGER),
    "nothing for an integer": ("", INTEGER),
    "text for an object": ("town is Bern", OBJECT),
    "an array for an object": ("[1]", OBJECT),
    "an object that is cut": ('{"a": "b', OBJECT),
    "an array with NaN": ("[NaN]", ARRAY),
}


@pytest.mark.parametrize(("raw", "schema"), KEPT.values(), ids=KEPT)
def test_what_does_not_fit_stays_a_string_with_a_note(raw: str, schema: Any) -> None:
    text, note = coerce_value(raw, schema)
    assert text == json.dumps(raw, ensure_ascii=False)
    assert note


def test_broken_objects_are_repaired_and_that_is_noted() -> None:
    schema = OBJECT | {"properties": {"town": STRING, "n": INTEGER}}
    assert coerce_value("{'town': 'Bern', 'n': 1,}", schema) == (
        '{"town": "Bern", "n": 1}',
        "repaired (single quotes, extra commas)",
    )
    assert coerce_value("['a', None]", ARRAY) == ('["a", null]', "repaired (single quotes, Python's literals)")


@pytest.mark.parametrize("schema", [None, {}, True, {"description": "x"}, {"type": "any"}, {"$ref": "#/nowhere"}])
def test_without_a_type_the_format_decides(schema: Any) -> None:
    assert coerce_value("42", schema) == ('"42"', None)
    assert coerce_value("42", schema, untyped="json") == ("42", None)
    assert coerce_value(' {"a": 1.0} ', schema, untyped="json") == ('{"a": 1.0}', None)
    assert coerce_value("plain text", schema, untyped="json") == ('"plain text"', None)
    assert coerce_value("NaN", schema, untyped="json") == ('"NaN"', None)


PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/n"}, "tree": {"$ref": "#/$defs/tree"}},
    "patternProperties": {"^x_": {"type": "boolean"}, "(a+)+$": {"type": "array"}, "[": {}},
    "additionalProperties": {"type": "number"},
    "$defs": {"n": INTEGER, "tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}, "n": INTEGER}}},
}


def test_the_schema_of_a_property_keeps_its_definitions_in_reach() -> None:
    assert coerce_value("1", value_schema(PARAMETERS, "a")) == ("1", None)
    tree = value_schema(value_schema(PARAMETERS, "tree"), "next")
    assert coerce_value('{"next": {"n": "3"}}', tree) == ('{"next": {"n": 3}}', None)


def test_further_properties_have_their_schema() -> None:
    assert coerce_value("1", value_schema(PARAMETERS, "x_on")) == ("true", None)
    assert coerce_value("1.0", value_schema(PARAMETERS, "other")) == ("1.0", None)
    assert coerce_value("1.0", value_schema(PARAMETERS, "a" * 100 + "b")) == ("1.0", None)
    assert value_schema({"type": "object"}, "other") is None
    assert value_schema(None, "other") is None


def test_properties_of_branches_are_found() -> None:
    schema = {"anyOf": [{"properties": {"a": INTEGER}}, {"allOf": [{"properties": {"b": STRING}}]}]}
    assert coerce_value("1", value_schema(schema, "a")) == ("1", None)
    assert is_plain_string(value_schema(schema, "b"))


def test_only_what_can_be_nothing_but_a_string_is_a_plain_string() -> None:
    plain = [STRING, {"type": ["string"]}, {"type": "str"}, {"anyOf": [STRING, STRING | {"format": "uri"}]}]
    assert all(is_plain_string(schema) for schema in plain)
    others = [None, {}, INTEGER, {"type": ["string", "null"]}, {"anyOf": [STRING, INTEGER]}, {"enum": ["a"]}]
    assert not any(is_plain_string(schema) for schema in others)


@pytest.mark.parametrize(
    "schema",
    [{"anyOf": [{"$ref": "#"}]}, {"allOf": [{"anyOf": [{"$ref": "#"}, STRING]}]}, {"allOf": [{"$ref": "#"}, INTEGER]}],
)
def test_circular_schemas_end(schema: Any) -> None:
    json.loads(coerce_value("1", schema)[0])
    json.loads(coerce_value('{"a": [1]}', schema, untyped="json")[0])


types = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array", "int", "any"])
schemas = st.fixed_dictionaries({}, optional={"type": types | st.lists(types, max_size=3), "enum": st.just([1, "a"])})
raws = st.text(max_size=20) | st.text("0123456789.+-eE \n{}[]\"',:tru", max_size=12)


@given(raws, schemas, st.sampled_from(["string", "json"]))
def test_any_text_gives_json_and_strings_keep_every_character(raw: str, schema: Any, untyped: Any) -> None:
    text, note = coerce_value(raw, schema, untyped=untyped)
    value = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    if note and not note.startswith("repaired"):
        assert value == raw


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_keep_their_digits(number: float) -> None:
    assert coerce_value(repr(number), {"type": "number"})[0] == repr(number)
