"""How calls and results are written: the formats beside one another."""

from __future__ import annotations

import json

import pytest

from toolglot.ir import ToolCall
from toolglot.textcalls import FORMATS
from toolglot.textcalls.prompts import (
    PROMPTS,
    Result,
    calls_text,
    find_prompt,
    results_text,
    stop_strings,
    write_calls_with_notes,
)
from toolglot.textcalls.prompts.values import object_members

WRITE = ToolCall(id="call_1", name="write_file", arguments='{"path": "a.txt", "n": 1.50, "tags": ["x"]}')
NOW = ToolCall(id="abcDEF123", name="now", arguments="{}")

CALLS = {
    "hermes_json": """\
<tool_call>
{"name": "write_file", "arguments": {"path": "a.txt", "n": 1.50, "tags": ["x"]}}
</tool_call>
<tool_call>
{"name": "now", "arguments": {}}
</tool_call>""",
    "deepchat": """\
<function_call>
{"function_call": {"name": "write_file", "arguments": {"path": "a.txt", "n": 1.50, "tags": ["x"]}}}
</function_call>
<function_call>
{"function_call": {"name": "now", "arguments": {}}}
</function_call>""",
    "anthropic_xml": """\
<function_calls>
<invoke name="write_file">
<parameter name="path">a.txt</parameter>
<parameter name="n">1.50</parameter>
<parameter name="tags">["x"]</parameter>
</invoke>
<invoke name="now">
</invoke>
</function_calls>""",
    "cline_xml": """\
<write_file>
<path>a.txt</path>
<n>1.50</n>
<tags>["x"]</tags>
</write_file>
<now>
</now>""",
    "qwen3_coder": """\
<tool_call>
<function=write_file>
<parameter=path>
a.txt
</parameter>
<parameter=n>
1.50
</parameter>
<parameter=tags>
["x"]
</parameter>
</function>
</tool_call>
<tool_call>
<function=now>
</function>
</tool_call>""",
    "kimi_k2": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.write_file:4<|tool_call_argument_begin|>"
        '{"path": "a.txt", "n": 1.50, "tags": ["x"]}<|tool_call_end|><|tool_call_begin|>functions.now:5'
        "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
    ),
    "mistral": (
        '[TOOL_CALLS][{"name": "write_file", "arguments": {"path": "a.txt", "n": 1.50, "tags": ["x"]}, '
        '"id": "RksXkbv4v"}, {"name": "now", "arguments": {}, "id": "abcDEF123"}]'
    ),
    "pythonic": '[write_file(path="a.txt", n=1.50, tags=["x"]), now()]',
    "gemma4": (
        '<|tool_call>call:write_file{path:<|"|>a.txt<|"|>,n:1.50,tags:[<|"|>x<|"|>]}<tool_call|>'
        "<|tool_call>call:now{}<tool_call|>"
    ),
    "minimax_m3": (
        ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="write_file">'
        "]<]minimax[>[<path>a.txt]<]minimax[>[</path>]<]minimax[>[<n>1.50]<]minimax[>[</n>"
        "]<]minimax[>[<tags>]<]minimax[>[<item>x]<]minimax[>[</item>]<]minimax[>[</tags>]<]minimax[>[</invoke>\n"
        ']<]minimax[>[<invoke name="now">]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>'
    ),
    "react": 'Action: write_file\nAction Input: {"path": "a.txt", "n": 1.50, "tags": ["x"]}\n'
    "Action: now\nAction Input: {}",
}

RESULTS = {
    "hermes_json": "<tool_response>\nfine\n</tool_response>\n<tool_response>\nError: no clock\n</tool_response>",
    "anthropic_xml": """\
<function_results>
<result>
<tool_name>write_file</tool_name>
<stdout>fine</stdout>
</result>
<result>
<tool_name>now</tool_name>
<error>no clock</error>
</result>
</function_results>""",
    "cline_xml": "[write_file] Result:\nfine\n\n[now] Result:\n[ERROR] no clock",
    "kimi_k2": "## Return of functions.write_file:4\nfine\n\n## Return of functions.now:5\nError: no clock",
    "mistral": (
        '[TOOL_RESULTS]{"content": "fine", "call_id": "RksXkbv4v"}[/TOOL_RESULTS]'
        '[TOOL_RESULTS]{"content": "Error: no clock", "call_id": "abcDEF123"}[/TOOL_RESULTS]'
    ),
    "react": "Observation: fine\nObservation: Error: no clock",
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_written_as_the_model_would_write_them(name: str) -> None:
    assert calls_text(name, [WRITE, NOW], 4) == CALLS[name]


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_told_apart_and_errors_are_marked(name: str) -> None:
    told = (
        Result(name="write_file", id="call_1", text="fine", index=4),
        Result(name="now", id="abcDEF123", text="no clock", is_error=True, index=5),
    )
    assert results_text(name, told) == RESULTS[name]


def test_every_format_that_is_read_can_be_written() -> None:
    assert PROMPTS.keys() == FORMATS.keys()
    assert all(name == prompt.name for name, prompt in PROMPTS.items())


def test_formats_are_found_by_their_other_names() -> None:
    assert find_prompt("hermes") is PROMPTS["hermes_json"]


@pytest.mark.parametrize(("name", "told"), [("hermes_jsno", "did you mean 'hermes_json'"), ("auto", "name one format")])
def test_a_format_that_cannot_be_written_is_told(name: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        find_prompt(name)


@pytest.mark.parametrize("name", PROMPTS)
def test_an_error_reads_unlike_a_result(name: str) -> None:
    fine, bad = (results_text(name, [Result(name="now", text="x", is_error=error)]) for error in (False, True))
    assert fine != bad
    assert "error" in bad.lower()


@pytest.mark.parametrize("name", PROMPTS)
def test_every_format_writes_every_part_of_a_call(name: str) -> None:
    text, notes = write_calls_with_notes(name, [WRITE, NOW])
    assert not notes
    for part in ("write_file", "path", "a.txt", "1.50", "tags", "now"):
        assert part in text


@pytest.mark.parametrize("name", PROMPTS)
def test_broken_arguments_stay_as_they_are_and_are_told(name: str) -> None:
    text, notes = write_calls_with_notes(name, [ToolCall(id="1", name="now", arguments='{"a": "b')])
    assert '{"a": "b' in text
    assert len(notes) == 1
    assert "now" in notes[0]


@pytest.mark.parametrize("name", PROMPTS)
def test_no_arguments_are_an_empty_object(name: str) -> None:
    bare = ToolCall(id="1", name="now")
    assert calls_text(name, [bare]) == calls_text(name, [ToolCall(id="1", name="now", arguments="{}")])


@pytest.mark.parametrize("name", PROMPTS)
def test_nothing_is_written_for_nothing(name: str) -> None:
    assert calls_text(name, []) == results_text(name, []) == ""


@pytest.mark.parametrize("name", PROMPTS)
def test_dollars_in_values_are_no_templates(name: str) -> None:
    text = calls_text(name, [ToolCall(id="$id", name="now", arguments='{"a": "$name ${key} $$"}')])
    assert "$name ${key} $$" in text
    assert "$name ${key} $$" in results_text(name, [Result(name="now", text="$name ${key} $$")])


MISREAD = {
    "anthropic_xml": ('{"a": "x</parameter>\\n</invoke>"}', "</parameter>"),
    "cline_xml": ('{"a": " x"}', "white space"),
    "qwen3_coder": ('{"a": "x\\r"}', "line break"),
    "gemma4": ('{"a": "x<|\\"|>y"}', '<|"|>'),
    "minicpm5": ('{"a": "x]]></param></function>"}', "]]>"),
    "kimi_k3": ('{"a": "<|close|>argument<|sep|><|close|>call<|sep|>"}', "<|close|>"),
}


@pytest.mark.parametrize("name", MISREAD)
def test_what_a_format_cannot_hold_is_told(name: str) -> None:
    arguments, why = MISREAD[name]
    _, notes = write_calls_with_notes(name, [ToolCall(id="1", name="now", arguments=arguments)])
    assert notes
    assert why in " ".join(notes)
    assert all(note.startswith("a of now ") for note in notes)


def test_a_name_that_no_tag_can_have_is_told() -> None:
    call = ToolCall(id="1", name='say "hi"')
    assert write_calls_with_notes("anthropic_xml", [call])[1]
    assert not write_calls_with_notes("hermes_json", [call])[1]


def test_arguments_too_deep_for_a_format_are_json() -> None:
    deep = '{"a": ' + "[" * 600 + "]" * 600 + "}"
    text, notes = write_calls_with_notes("pythonic", [ToolCall(id="1", name="now", arguments=deep)])
    assert deep in text
    assert len(notes) == 1


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a"', '{"a":', '{"a": 1', '{"a": 1,}', '{"a": 1} x', "[1]", "1", '{"a": NaN}', "{'a': 1}", '{a": 1}'],
)
def test_members_of_what_is_no_object(text: str) -> None:
    assert object_members(text) is None


def test_members_keep_their_text() -> None:
    found = object_members(' {"a" : 1.50 , "b":{"x": [1e3]},"c":"\\ud800" }\n')
    assert found is not None
    assert [(key, raw) for key, raw, _ in found] == [("a", "1.50"), ("b", '{"x": [1e3]}'), ("c", '"\\ud800"')]


def test_numbers_of_any_length_are_kept() -> None:
    digits = "9" * 5000
    assert f"n={digits}" in calls_text("pythonic", [ToolCall(id="1", name="f", arguments=f'{{"n": {digits}}}')])


@pytest.mark.parametrize("name", PROMPTS)
def test_stop_strings_are_never_part_of_a_call(name: str) -> None:
    """All begin with a line break, and stand only where strings are JSON, which has none."""
    for stop in stop_strings(name):
        assert stop.startswith("\n")
        call = ToolCall(id="1", name="f", arguments=json.dumps({"a": f"x{stop} y"}))
        assert stop not in calls_text(name, [call, call])
