from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import DIALECTS, Exchange
from toolglot.capabilities import change_capabilities
from toolglot.ir import Request, Tool
from toolglot.passes import Context, schema

from .targets import ANTHROPIC, CHAT, GEMINI, RESPONSES, asked, lines, to, tool, user

TEXT = {"type": "string"}


def one(parameters: Any, **fields: Any) -> Request:
    return asked(user(), tools=(Tool(name="look", parameters=parameters, **fields),))


def fitted(request: Request, context: Context) -> Tool:
    (found,) = schema.fit(request, context).tools
    assert isinstance(found, Tool)
    return found


def test_an_object_schema_stays_byte_for_byte() -> None:
    parameters = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "properties": {"const": "x"},
            "$ref": {"enum": [1, True, None]},
            "tree": {"$ref": "#/$defs/tree"},
            "big": {"type": "integer", "maximum": 2**80},
        },
        "$defs": {"tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}}},
        "if": {"required": ["tree"]},
        "then": {"required": ["big"]},
    }
    request = one(parameters)
    context = to(ANTHROPIC)
    assert schema.fit(request, context) is request
    assert not context.receipt


@pytest.mark.parametrize(
    ("parameters", "expected", "losses"),
    [
        (None, {"type": "object", "properties": {}}, 0),
        ({}, {"type": "object", "properties": {}}, 0),
        (True, {"type": "object", "properties": {}}, 0),
        (False, {"type": "object", "properties": {}}, 1),
        ({"type": "object"}, {"type": "object", "properties": {}}, 0),
        ({"properties": {"a": TEXT}}, {"type": "object", "properties": {"a": TEXT}}, 0),
        ({"type": ["object", "null"], "properties": {"a": TEXT}}, {"type": "object", "properties": {"a": TEXT}}, 0),
        (TEXT, {"type": "object", "properties": {"value": TEXT}, "required": ["value"]}, 0),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"x": TEXT}}}},
            {
                "type": "object",
                "properties": {"x": TEXT},
                "$defs": {"a": {"type": "object", "properties": {"x": TEXT}}},
            },
            0,
        ),
        ({"$ref": "#"}, {"type": "object", "properties": {}}, 1),
        ({"$ref": "https://example.com/schema"}, {"type": "object", "properties": {}}, 1),
        (
            {"allOf": [{"properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"b": TEXT}, "required": ["b"]}]},
            {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a", "b"]},
            0,
        ),
        (
            {
                "anyOf": [
                    {"type": "object", "properties": {"k": {"const": 1}, "a": TEXT}, "required": ["k", "a"]},
                    {"type": "object", "properties": {"k": {"const": 2}}, "required": ["k"]},
                ]
            },
            {
                "type": "object",
                "properties": {"k": {"anyOf": [{"const": 1}, {"const": 2}]}, "a": TEXT},
                "required": ["k"],
            },
            1,
        ),
        (
            {
                "type": "object",
                "properties": {"a": TEXT, "b": TEXT},
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            {"type": "object", "properties": {"a": TEXT, "b": TEXT}},
            1,
        ),
        (
            {"oneOf": [TEXT, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "object"}}},
            {
                "type": "object",
                "properties": {"value": {"oneOf": [TEXT, {"$ref": "#/$defs/a"}]}},
                "required": ["value"],
                "$defs": {"a": {"type": "object"}},
            },
            0,
        ),
        (
            {"type": "object", "properties": {"a": TEXT}, "not": {"required": ["a"]}},
            {"type": "object", "properties": {"a": TEXT}},
            1,
        ),
    ],
)
def test_the_root_is_made_an_object(parameters: Any, expected: Any, losses: int) -> None:
    context = to(ANTHROPIC)
    once = schema.fit(one(parameters), context)
    assert fitted(once, context).parameters == expected
    assert len(context.receipt.losses) == losses
    assert schema.fit(once, context) is once


def test_parameters_may_be_absent_where_the_target_says_so() -> None:
    request = one(None)
    assert schema.fit(request, to(CHAT)) is request


def test_a_dialect_keeps_what_its_own_client_wrote_below_an_object() -> None:
    request = one({"type": "object", "anyOf": [{"required": ["a"]}]})
    assert schema.fit(request, to(RESPONSES, source="openai_responses")) is request


@pytest.mark.parametrize(
    ("reference", "place"),
    [
        ("#/$defs/a~1b", {"a/b": {"properties": {"x": TEXT}}}),
        ("#/$defs/a~0b", {"a~b": {"properties": {"x": TEXT}}}),
        ("#/$defs/a~01b", {"a~1b": {"properties": {"x": TEXT}}}),
        ("#/$defs/a/anyOf/1", {"a": {"anyOf": [TEXT, {"properties": {"x": TEXT}}]}}),
    ],
)
def test_a_reference_is_followed_as_the_json_pointer_that_it_is(reference: str, place: dict[str, Any]) -> None:
    context = to(ANTHROPIC)
    found = fitted(one({"$ref": reference, "$defs": place}), context)
    assert found.parameters["properties"] == {"x": TEXT}
    assert not context.receipt


@pytest.mark.parametrize("index", ["2", "-1", "x", "", "1" * 5000])
def test_a_reference_behind_the_end_of_a_list_leads_nowhere(index: str) -> None:
    context = to(ANTHROPIC)
    place = {"a": {"anyOf": [TEXT, {"properties": {"x": TEXT}}]}}
    found = fitted(one({"$ref": f"#/$defs/a/anyOf/{index}", "$defs": place}), context)
    assert found.parameters["properties"] == {}
    assert lines(context) == ["loss tools[0].parameters"]


def test_references_that_lead_in_circles_end() -> None:
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    context = to(ANTHROPIC)
    assert fitted(one(circle), context).parameters["type"] == "object"
    assert lines(context) == ["loss tools[0].parameters"]


def test_ten_thousand_levels_are_no_harm() -> None:
    def deep() -> dict[str, Any]:
        node: dict[str, Any] = {"type": "string"}
        for _ in range(10_000):
            node = {"type": "object", "properties": {"next": node}}
        return node

    branches = {"anyOf": [{"properties": {"a": deep()}}, {"properties": {"a": deep()}}]}
    found = fitted(one(branches, strict=True), to(RESPONSES))
    assert list(found.parameters["properties"]) == ["a"]
    assert found.strict is False


STRICT = {"type": "object", "properties": {"a": TEXT}, "required": ["a"], "additionalProperties": False}


def test_strict_stays_when_the_schema_is_strict() -> None:
    request = one(STRICT, strict=True)
    assert schema.fit(request, to(RESPONSES)) is request


@pytest.mark.parametrize(
    "parameters",
    [
        {**STRICT, "required": []},
        {**STRICT, "additionalProperties": True},
        {**STRICT, "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"b": TEXT}}}}},
    ],
)
def test_strict_goes_when_the_schema_is_outside_the_subset(parameters: Any) -> None:
    context = to(RESPONSES)
    assert fitted(one(parameters, strict=True), context).strict is False
    assert lines(context) == ["loss tools[0].strict"]


def test_only_some_targets_want_every_property_required() -> None:
    request = one({**STRICT, "required": []}, strict=True)
    assert schema.fit(request, to(ANTHROPIC)) is request


def test_parameters_may_be_absent_though_they_must_be_an_object() -> None:
    optional = change_capabilities(RESPONSES, parameters_optional=True)
    request = asked(user(), tools=(Tool(name="look"),))
    assert schema.fit(request, to(optional)) is request
    assert fitted(one({}), to(optional)).parameters == schema.EMPTY


def test_a_reference_with_an_absurd_index_leads_nowhere() -> None:
    for index in ("9" * 5000, "²", "-1"):
        context = to(RESPONSES)
        found = fitted(one({"$ref": f"#/anyOf/{index}", "anyOf": [{"type": "object"}]}), context)
        assert found.parameters["type"] == "object"
        assert context.receipt.losses


def test_strict_is_a_loss_where_the_target_has_none() -> None:
    context = to(GEMINI)
    assert fitted(one(STRICT, strict=True), context).strict is None
    assert lines(context) == ["loss tools[0].strict"]


def test_custom_tools_have_no_schema_to_fit() -> None:
    request = asked(user(), tools=(tool("p", kind="custom", parameters=None),))
    assert schema.fit(request, to(RESPONSES)) is request


def test_a_target_that_takes_only_openapi_schemas_gets_every_schema_reduced() -> None:
    dialect = DIALECTS["gemini"]
    exchange = Exchange("openai_chat", dialect, can=change_capabilities(dialect.can, schema="openapi"))
    parameters = {"type": "object", "properties": {"mode": {"const": "fast"}, "n": {"type": ["integer", "null"]}}}
    sent = json.loads(
        exchange.request(
            {
                "model": "gemini-1.0-pro",
                "messages": [{"role": "user", "content": "Hi"}],
                "tools": [{"type": "function", "function": {"name": "f", "parameters": parameters}}],
            }
        )
    )
    (declaration,) = sent["tools"][0]["functionDeclarations"]
    assert "parametersJsonSchema" not in declaration
    assert declaration["parameters"]["properties"]["mode"]["enum"] == ["fast"]
    assert declaration["parameters"]["properties"]["n"]["nullable"] is True


def _exchange(parameters: Any, history: Any, answer: Any) -> tuple[Any, Any, Any, list[str]]:
    """The schema that Anthropic gets, a call of the history as it gets it, a call of its answer as a Chat client gets
    it, and the losses."""
    exchange = Exchange("openai_chat", "anthropic", model="claude-opus-5-5")
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": json.dumps(history)}}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "r"},
    ]
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    sent = json.loads(exchange.request({"model": "m", "messages": messages, "tools": tools}))
    block = {"type": "tool_use", "id": "t", "name": "f", "input": answer}
    answered = json.loads(
        exchange.response({"id": "x", "model": "m", "content": [block], "stop_reason": "tool_use", "usage": {}})
    )
    (given,) = [block["input"] for block in sent["messages"][1]["content"] if block["type"] == "tool_use"]
    arguments = answered["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    return (
        sent["tools"][0]["input_schema"],
        given,
        json.loads(arguments),
        [str(line) for line in exchange.receipt.losses],
    )


def test_a_renamed_parameter_never_takes_the_place_of_another_argument() -> None:
    both = {"$top": 5, "_top": 7}
    _, given, answered, losses = _exchange({"type": "object", "properties": {"$top": {}}}, both, both)
    assert (given, answered, losses) == (both, both, [])


def test_parameters_are_renamed_only_in_the_arguments_themselves_also_where_their_schema_refers_to_itself() -> None:
    parameters = {"type": "object", "properties": {"$and": {"type": "array", "items": {"$ref": "#"}}, "field": {}}}
    call = {"$and": [{"$and": [{"field": 1}]}]}
    made, given, answered, _ = _exchange(parameters, call, {"_and": [{"$and": [{"field": 1}]}]})
    assert given == {"_and": [{"$and": [{"field": 1}]}]}
    assert answered == call
    (name,) = made["$defs"]
    inner = {"type": "array", "items": {"$ref": f"#/$defs/{name}"}}
    assert made["properties"]["_and"] == inner
    assert made["$defs"][name]["properties"]["$and"] == inner


def test_references_follow_parameters_that_are_put_into_an_object() -> None:
    parameters = {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/items/anyOf/0"}, {"$ref": "#"}]}}
    made, given, answered, _ = _exchange(parameters, ["x"], {"value": ["x"]})
    _, first, root = made["properties"]["value"]["items"]["anyOf"]
    assert first == {"$ref": "#/properties/value/items/anyOf/0"}
    assert root == {"$ref": "#/properties/value"}
    assert (given, answered) == ({"value": ["x"]}, ["x"])


@pytest.mark.parametrize("part", [{"if": {}, "then": {"required": ["b"]}}, {"not": {}}, {"minProperties": 1}])
def test_keywords_of_a_part_that_have_no_place_in_one_object_are_a_loss(part: Any) -> None:
    parameters = {"type": "object", "properties": {"a": {}}, "allOf": [part]}
    losses = _exchange(parameters, {}, {"a": 1})[3]
    assert any(", ".join(sorted(part)) in line for line in losses)
