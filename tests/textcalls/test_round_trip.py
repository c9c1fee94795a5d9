"""The law between the two sides of every format: what is written is read back, however the text is cut.

A format with tags cannot hold everything. What it cannot hold is what `write_calls_with_notes` notes; the law is that
all else comes back. Values have the types that the tool's schema declares, as those of a call that may run have: where
there are only tags, nothing else tells 42 from "42".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.strategies import json_objects
from toolglot.ir import Tool, ToolCall
from toolglot.textcalls import parser
from toolglot.textcalls.prompts import PROMPTS, write_calls_with_notes
from toolglot.textcalls.prompts.escaping import sure_marks

TAGGED = frozenset(name for name, prompt in PROMPTS.items() if prompt.calls.body in ("tagged", "elements"))
TYPED = frozenset(("deepseek_v32", "deepseek_v4", "kimi_k3", "continue_codeblock"))
"""Formats with tags that tell the type of a value themselves."""

MARKS = [
    *("<tool_call>", "</tool_call>", "<function_call>", "</function_call>", "<function_calls>", "</function_calls>"),
    *("<invoke name=", "</invoke>", "<parameter=", "</parameter>", "</parameters>", "<arg_value>", "</arg_value>"),
    *("</function>", "<think>", "</think>", "```json\n", "```", "[TOOL_CALLS]", "[ARGS]", "<|call|>", "<|close|>"),
    *(
        "<content>",
        "</content>",
        "<path>",
        "</path>",
        "</write_file>",
        "END_ARG",
        "]]>",
        '<|"|>',
        "<escape>",
        "</item>",
    ),
    *("Action:", "Observation:", "{", "}", "[", "]", '{"name": "now"}', "]<]minimax[>[", "<![CDATA[", "</param>"),
]
LETTERS = "ab01 .,:;'\"\\/{}[]()<>=&|`\n\r\t\u2028\x00éß日本🌍"
integers = st.integers(-(2**63), 2**64)
numbers = st.floats(-1e12, 1e12, allow_nan=False) | st.integers(-999, 999)

Typed = tuple[dict[str, Any], SearchStrategy[Any]]
"""A schema, and values that fit it."""


def strings_for(name: str) -> SearchStrategy[str]:
    """Strings that a format may stumble over: its own marks above all."""
    part = st.sampled_from(sure_marks(PROMPTS[name])) | st.sampled_from(MARKS) | st.text(LETTERS, max_size=4)
    return st.one_of(
        st.lists(part, min_size=1, max_size=4).map("".join),
        st.text(LETTERS, max_size=10),
        st.sampled_from(["", " ", "\n", "\r\n", "true", "null", "42", "007", "1.0", "[1]", '{"a": 1}', "None", '"x"']),
    )


def kinds_of(strings: SearchStrategy[str]) -> list[Typed]:
    members = {"x": strings, "y": st.booleans()}
    return [
        ({"type": "string"}, strings),
        ({"type": "integer"}, integers),
        ({"type": "number"}, numbers),
        ({"type": "boolean"}, st.booleans()),
        ({"type": "array", "items": {"type": "string"}}, st.lists(strings, max_size=3)),
        ({"type": "array", "items": {"type": "integer"}}, st.lists(integers, max_size=3)),
        (
            {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "boolean"}}},
            st.fixed_dictionaries(members) | st.fixed_dictionaries({}, optional=members),
        ),
    ]


KEYS = ["path", "content", "query", "n", "file-name", "日本"]
NAMES = ["write_file", "search", "now", "get-weather.v2", "mcp__files__read"]


@st.composite
def declared_calls(draw: DrawFn, text_format: str) -> tuple[list[Tool], list[ToolCall]]:
    """Tools, and calls of them with arguments that fit."""
    choices = kinds_of(strings_for(text_format))
    tools: list[Tool] = []
    makers: dict[str, SearchStrategy[dict[str, Any]]] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)):
        keys = draw(st.lists(st.sampled_from(KEYS), max_size=3, unique=True))
        # Strings are what goes wrong, so half of the parameters are strings.
        kinds = {key: draw(st.just(choices[0]) | st.sampled_from(choices)) for key in keys}
        properties = {key: schema for key, (schema, _) in kinds.items()}
        tools.append(Tool(name=name, parameters={"type": "object", "properties": properties}))
        given_keys = {key: values for key, (_, values) in kinds.items()}
        makers[name] = st.fixed_dictionaries(given_keys) | st.fixed_dictionaries({}, optional=given_keys)
    called = draw(st.lists(st.sampled_from(sorted(makers)), min_size=1, max_size=3))
    calls = [
        ToolCall(
            id=f"call_{place}", name=name, arguments=json.dumps(draw(makers[name]), ensure_ascii=draw(st.booleans()))
        )
        for place, name in enumerate(called)
    ]
    return tools, calls


@st.composite
def free_calls(draw: DrawFn) -> tuple[list[Tool], list[ToolCall]]:
    """Calls with any arguments, of tools that declare none."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))
    calls = [ToolCall(id="", name=name, arguments=json.dumps(draw(json_objects))) for name in names]
    return [Tool(name=name) for name in dict.fromkeys(names)], calls


def pieces(text: str, cuts: Sequence[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


def read(name: str, tools: Sequence[Tool], parts: Sequence[str]) -> tuple[list[tuple[str, str]], str]:
    """The whole calls, each with its arguments' text, and everything else that was said."""
    reader = parser(name, [{"name": tool.name, "parameters": tool.parameters} for tool in tools])
    events = [event for part in parts for event in reader.feed(part)]
    events += reader.finish()
    names: list[str] = []
    arguments: list[str] = []
    ended: list[int] = []
    said = ""
    for event in events:
        if event[0] == "start":
            names.append(event[2])
            arguments.append("")
        elif event[0] == "args":
            arguments[event[1]] += event[2]
        elif event[0] == "end":
            ended.append(event[1])
        elif event[0] != "cut":
            said += event[1]
    assert ended == list(range(len(names))), f"a call has no end: {events}"
    return list(zip(names, arguments, strict=True)), said


def check(name: str, tools: Sequence[Tool], calls: Sequence[ToolCall], cuts: Sequence[int]) -> None:
    text, notes = write_calls_with_notes(name, calls)
    assume(not notes)
    wanted = [(call.name, json.loads(call.arguments)) for call in calls]
    for parts in ([text], list(text), pieces(text, cuts)):
        found, said = read(name, tools, parts)
        assert [(called, json.loads(arguments)) for called, arguments in found] == wanted, text
        assert not said.strip(), text


@pytest.mark.parametrize("name", PROMPTS)
@given(st.data(), st.lists(st.integers(0, 10**6), max_size=6))
def test_calls_are_read_as_they_were_written(name: str, data: st.DataObject, cuts: list[int]) -> None:
    tools, calls = data.draw(declared_calls(name))
    check(name, tools, calls, cuts)


@pytest.mark.parametrize("name", sorted(PROMPTS.keys() - TAGGED | TYPED))
@given(free_calls(), st.lists(st.integers(0, 10**6), max_size=6))
def test_any_arguments_are_read_where_the_text_tells_their_types(
    name: str, made: tuple[list[Tool], list[ToolCall]], cuts: list[int]
) -> None:
    tools, calls = made
    check(name, tools, calls, cuts)
