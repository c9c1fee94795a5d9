"""What a model is told about its tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.ir import Tool, ToolCall, ToolChoice
from toolglot.textcalls.prompts import PROMPTS, calls_text, results_text, tool_instructions
from toolglot.textcalls.prompts.records import Result

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where it goes"},
        "mode": {"enum": ["append", "replace"]},
        "size": {"type": "integer", "minimum": 17},
    },
    "required": ["path"],
}
TOOLS = (Tool(name="write_file", description="Writes a file.", parameters=SCHEMA), Tool(name="now"))

CHOICES = {
    "nothing": (None, "When no tool is needed, answer in words."),
    "auto": (ToolChoice(mode="auto"), "When no tool is needed, answer in words."),
    "opaque": (ToolChoice(mode="opaque"), "When no tool is needed, answer in words."),
    "none": (ToolChoice(mode="none"), "For now, do not call any tool: answer in words."),
    "required": (ToolChoice(mode="required"), "Your next answer must call a tool."),
    "one": (ToolChoice(mode="required", names=("now",)), "Your next answer must call the tool now, and no other."),
    "some of them": (
        ToolChoice(mode="auto", names=("now", "write_file")),
        "When no tool is needed, answer in words. Of the tools, only these may be called now: now, write_file.",
    ),
    "required of some": (
        ToolChoice(mode="required", names=("now", "write_file")),
        "Your next answer must call a tool. Of the tools, only these may be called now: now, write_file.",
    ),
}


def test_the_whole_text_for_hermes() -> None:
    assert (
        tool_instructions("hermes_json", TOOLS[1:], None, None)
        == """\
# Tools

You can call these tools:

<tools>
{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
</tools>

## How to call a tool

Write the call exactly in this form (example_tool and its arguments are only an example):

<tool_call>
{"name": "example_tool", "arguments": {"first": "some text", "second": 2}}
</tool_call>

The arguments are one valid JSON object.

You may make several calls in one answer when they do not depend on each other, one after the other:

<tool_call>
{"name": "example_tool", "arguments": {"first": "some text", "second": 2}}
</tool_call>
<tool_call>
{"name": "example_tool", "arguments": {"first": "some text", "second": 2}}
</tool_call>

Then stop. The results come in the next message, in this form:

<tool_response>
what the tool returned
</tool_response>

Never write a result yourself.

When no tool is needed, answer in words."""
    )


def test_the_tools_as_types_for_harmony() -> None:
    assert """\
namespace functions {

// Writes a file.
type write_file = (_: {
// Where it goes
path: string,
mode?: "append" | "replace",
size?: number, // {"minimum": 17}
}) => any;

type now = () => any;

} // namespace functions
""" in tool_instructions("harmony", TOOLS, None, None)


@pytest.mark.parametrize("name", PROMPTS)
def test_every_format_tells_all_there_is_to_know(name: str) -> None:
    text = tool_instructions(name, TOOLS, None, None)
    for part in ("write_file", "Writes a file.", "path", "Where it goes", "append", "replace", "17", "now"):
        assert part in text


@pytest.mark.parametrize("name", PROMPTS)
def test_the_example_is_what_a_call_looks_like(name: str) -> None:
    call = ToolCall(id="example01", name="example_tool", arguments='{"first": "some text", "second": 2}')
    text = tool_instructions(name, TOOLS, None, None)
    assert calls_text(name, [call]) in text or calls_text(name, [call]).strip("\n") in text
    result = Result(name="example_tool", text="what the tool returned", id="example01")
    assert results_text(name, [result]).strip("\n") in text


@pytest.mark.parametrize("name", PROMPTS)
def test_two_calls_are_shown_where_several_may_be_made(name: str) -> None:
    arguments = '{"first": "some text", "second": 2}'
    calls = [ToolCall(id=f"example0{number}", name="example_tool", arguments=arguments) for number in (1, 2)]
    shown = calls_text(name, calls).strip("\n")
    assert (shown in tool_instructions(name, TOOLS, None, None)) == PROMPTS[name].several
    assert shown not in tool_instructions(name, TOOLS, None, False)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("pythonic", "all of them in one list"),
        ("mistral", "all of them in one list"),
        ("anthropic_xml", "all of them between <function_calls> and </function_calls>"),
        ("hermes_json", "one after the other"),
    ],
)
def test_where_several_calls_stand_is_said(name: str, how: str) -> None:
    assert f"when they do not depend on each other, {how}:" in tool_instructions(name, TOOLS, None, True)


def test_the_example_has_no_declared_name() -> None:
    tools = (Tool(name="example_tool"), Tool(name="example_tool_"))
    assert '"name": "example_tool__"' in tool_instructions("hermes_json", tools, None, None)


@pytest.mark.parametrize("name", PROMPTS)
@pytest.mark.parametrize("which", CHOICES)
def test_the_choice_comes_last(name: str, which: str) -> None:
    choice, told = CHOICES[which]
    text = tool_instructions(name, TOOLS, choice, None)
    assert text.endswith(told)
    assert text.removesuffix(told) == tool_instructions(name, TOOLS, None, None).removesuffix(CHOICES["nothing"][1])


@pytest.mark.parametrize("name", PROMPTS)
def test_one_call_at_a_time_where_that_is_wanted(name: str) -> None:
    assert "at most one call" in tool_instructions(name, TOOLS, None, False)
    assert ("several calls" in tool_instructions(name, TOOLS, None, True)) == PROMPTS[name].several


@pytest.mark.parametrize("name", PROMPTS)
def test_no_tools_need_no_instructions(name: str) -> None:
    assert tool_instructions(name, (), ToolChoice(mode="auto"), True) == ""


@pytest.mark.parametrize("name", PROMPTS)
def test_one_more_tool_leaves_the_others_as_they_were(name: str) -> None:
    """A tool is written alone, so that the text up to the end of the list stays what it was."""
    fewer, more = (tool_instructions(name, tools, None, None) for tools in (TOOLS[:1], TOOLS))
    same = next(at for at, (one, other) in enumerate(zip(fewer, more, strict=False)) if one != other)
    assert same > fewer.index("Writes a file.") + len("Writes a file.")
    assert "size" in fewer[:same]


SHAPES: dict[str, tuple[Any, str]] = {
    "nothing known": (True, "any"),
    "constant": ({"const": 3}, "3"),
    "union": ({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "number"}]}, "string | number"),
    "array of unions": ({"type": "array", "items": {"type": ["string", "null"]}}, "(string | null)[]"),
    "nullable": ({"type": "boolean", "nullable": True}, "boolean | null"),
    "object of anything": ({"type": "object"}, "object"),
    "reference": ({"$ref": "#/$defs/x"}, 'any, // {"$ref": "#/$defs/x"}'),
    "unknown type": ({"type": "file"}, "any"),
    "nested": ({"type": "object", "properties": {"a b": {"type": "null"}}}, '{\n  "a b"?: null,\n}'),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_types_of_schemas(shape: str) -> None:
    schema, told = SHAPES[shape]
    tool = Tool(name="f", parameters={"type": "object", "properties": {"p": schema}})
    assert f"p?: {told}" in tool_instructions("harmony", [tool], None, None)


@pytest.mark.parametrize("name", PROMPTS)
@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}, True, {"properties": None, "required": 3}])
def test_any_schema_can_be_told(name: str, parameters: Any) -> None:
    assert "odd" in tool_instructions(name, [Tool(name="odd", parameters=parameters)], None, None)


@pytest.mark.parametrize("name", PROMPTS)
def test_a_schema_with_references_is_told_whole(name: str) -> None:
    schema = {
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/color"}},
        "$defs": {"color": {"enum": ["red", "green"]}},
    }
    text = tool_instructions(name, [Tool(name="paint", parameters=schema)], None, None)
    assert "red" in text
    assert "green" in text


def test_a_deep_schema_ends_somewhere() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"p": schema}}
    assert "any" in tool_instructions("harmony", [Tool(name="deep", parameters=schema)], None, None)
    assert json.dumps(schema) in tool_instructions("hermes_json", [Tool(name="deep", parameters=schema)], None, None)
