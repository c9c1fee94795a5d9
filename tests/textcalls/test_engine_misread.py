"""What looks like a call and is none, and what looks whole and is not: one behaviour a test."""

from __future__ import annotations

from typing import Any

import pytest

from tests.textcalls.reading import read_every_way
from toolglot.textcalls import AUTO


def object_of(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


STRING = {"type": "string"}
TOOLS: dict[str, Any] = {
    "weather": object_of(city=STRING, days={"type": "integer"}),
    "now": object_of(),
}
ROME = ("weather", {"city": "Rome"})
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'
INVOKE = '<invoke name="weather"><parameter name="city">Rome</parameter></invoke>'
SECTION = f"<function_calls>\n{INVOKE}</function_calls>"
SCHEMA = '{"type": "object", "properties": {"city": {"type": "string"}}}'

# ── calls that the answer only speaks of ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes_json", f"Hm. <think>maybe {CALL}</think>No."),
        ("hermes_json", f"``{CALL}``"),
        ("hermes_json", f"``a ` b {CALL}``"),
        ("hermes_json", f"~~~\n{CALL}\n~~~"),
        ("hermes_json", f"~~~\n```\n{CALL}\n~~~"),
        ("hermes_json", f"> ```\n> {CALL}\n> ```"),
        ("hermes_json", f"```md\nWrite:\n```xml\n{CALL}\n```\n```\nOk?"),
        ("hermes_json", f"```md\n~~~xml\n```xml\n{CALL}\n```\n~~~\n```"),
        ("hermes_json", f"~~~ md\n~~~ xml\n{CALL}\n~~~\n~~~"),
        ("hermes_json", f"```a\n```b\n```c\n```\n```\n{CALL}\n```"),
        ("hermes_json", f"```md\n`````xml\n```\n{CALL}\n`````\n```"),
        ("hermes_json", f"```\n- ```json\n  {CALL}\n  ```\n```"),
        (AUTO, f"```md\n```json\n{CALL[11:-12]}\n```\n```"),
        (AUTO, "```md\n```tool\nTOOL_NAME: weather\nBEGIN_ARG: city\nRome\nEND_ARG\n```\n```\nOk?"),
        ("anthropic_xml", f"`{SECTION}`"),
        ("generic_json", '{"tool": "weather", "reason": "it fits best"}'),
        ("llama3_json", '{"project": {"name": "weather", "stars": 5}}'),
        ("markdown_json", '```json\n{"name": "weather", "version": "1.0.0", "private": true}\n```'),
        ("markdown_json", f'```json\n{{"name": "weather", "parameters": {SCHEMA}}}\n```'),
        ("llama3_json", f'{{"name": "weather", "parameters": {SCHEMA}}}'),
        ("llama3_json", '{"name": "now", "parameters": {"type": "object", "properties": {}}}'),
        (AUTO, f'{{"name": "weather", "description": "d", "parameters": {SCHEMA}}}'),
        ("hermes_json", '<tool_call>{"arguments": {"name": "weather"}}</tool_call>'),
    ],
)
def test_calls_that_the_answer_speaks_of_are_text(name: str, text: str) -> None:
    reading = read_every_way(name, TOOLS, text)
    assert (reading.calls, reading.cut) == ([], [])
    assert reading.text == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"So: <think>maybe {CALL}", "So: <think>maybe "),
        (f"```code```\n{CALL}", "```code```\n"),
        (f"````code````\n{CALL}", "````code````\n"),
        (f"~~~\nx\n~~~\n{CALL}", "~~~\nx\n~~~\n"),
        (f"Press `\n{CALL}", "Press `\n"),
        (f"The `<tool_call>` tag:\n{CALL}", "The `<tool_call>` tag:\n"),
        (f"A `<tool_call>\ntag`:\n{CALL}", "A `<tool_call>\ntag`:\n"),
        (f"A `<tool_call> tag\n\n{CALL}", "A `<tool_call> tag\n\n"),
    ],
)
def test_code_and_marks_before_a_call_leave_it_one(text: str, said: str) -> None:
    reading = read_every_way("hermes_json", TOOLS, text)
    assert (reading.calls, reading.text) == ([ROME], said)


@pytest.mark.parametrize(
    ("behind", "calls", "text"),
    [("The answer is 42.", [], "The answer is 42."), (f"Go: {CALL}", [ROME], "Go: ")],
)
def test_the_end_of_the_reasoning_ends_a_call_that_it_breaks_off(
    behind: str, calls: list[tuple[str, Any]], text: str
) -> None:
    thought = 'I could write <tool_call>{"name": "weather'
    reading = read_every_way("hermes_json", TOOLS, f"<think>{thought}</think>{behind}")
    assert (reading.reasoning, reading.calls, reading.text) == (thought, calls, text)


# ── calls that are not whole ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("functionary_v31", "<function=weather>{'city': 'it is }"),
        ("hermes_json", '<tool_call>{"name": "weather", "arguments": {\'city\': \'l1\nl2 }'),
        ("hermes_json", "<tool_call>{'name': 'weather', 'arguments': {'city': 'l1 }}"),
        ("mistral", "[TOOL_CALLS][{'name': 'weather', 'arguments': {'city': 'l1 }}]"),
        ("deepseek_v31", "<｜tool▁call▁begin｜>weather<｜tool▁sep｜>{city: \"it's }"),
        ("anthropic_xml", '<invoke name="weather">\n<'),
        ("cline_xml", "<weather>\n<"),
        ("minimax_m3", ']<]minimax[>[<invoke name="weather">]'),
        ("kimi_k3", '<|open|>call tool="weather"<|sep|><|'),
        ("react", "Action: weather\nAction Input:"),
        ("cherry_tool_use", "<tool_use><name>weather</name><arguments>"),
        ("qwen_flower", "✿FUNCTION✿: weather\n✿ARGS✿:"),
        ("functionary_v32", ">>>weather\n"),
        ("continue_codeblock", "TOOL_NAME: weather\n"),
        ("apertus", '<|tools_prefix|>[{"weather": [1]}]<|tools_suffix|>'),
        ("apertus", '<|tools_prefix|>[{"weather": {"city": "Rome"}, "now": {}}]<|tools_suffix|>'),
        ("anthropic_xml", f'{INVOKE[:-9]}<parameter name="city">Oslo</parameter></invoke>'),
        ("cline_xml", "<weather><city>Rome</city><city>Oslo</city></weather>"),
    ],
)
def test_what_is_cut_off_or_given_twice_is_no_call(name: str, text: str) -> None:
    assert read_every_way(name, TOOLS, text).calls == []


def test_a_parameter_that_is_given_twice_cuts_the_call_and_is_told() -> None:
    reading = read_every_way("cline_xml", TOOLS, "<weather><city>Rome</city><city>Oslo</city></weather> Done.")
    assert (reading.cut, reading.text.strip()) == (["weather"], "Done.")
    assert [event[2] for event in reading.events if event[0] == "cut"] == ["city is given twice"]


# ── calls that are whole ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes_json", CALL.replace('"weather"', '" weather\\n"')),
        ("hermes_json", CALL.replace('"weather"', "'weather '")),
        ("hermes_json", CALL.replace("arguments", "kwargs")),
        ("functionary_v32", '>>>weather\r\n{"city": "Rome"}'),
        ("continue_codeblock", '```tool\r\nTOOL_NAME: weather\r\nBEGIN_ARG: city\r\n"Rome"\r\nEND_ARG\r\n```'),
    ],
)
def test_a_call_is_read_whatever_stands_around_its_name(name: str, text: str) -> None:
    assert read_every_way(name, TOOLS, text).calls == [ROME]


def test_a_value_that_speaks_of_parameters_stays_one_value() -> None:
    value = 'Write <parameter name="x">v</parameter> and then <parameter name="days">3</parameter> in it.\nEnd.'
    text = f'<invoke name="weather"><parameter name="city">{value}</parameter></invoke>'
    assert read_every_way("anthropic_xml", TOOLS, text).calls == [("weather", {"city": value})]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (AUTO, "Regex: `[a-z\n{call}"),
        (AUTO, "Don`t use [1] here\n{call}"),
        ("hermes_json", "I`ll emit <tool_call> now:\n{call}"),
        ("hermes_json", "- ```\n  x\n  ```\n{call}"),
        ("hermes_json", "1) ```sh\nls\n```\n\nNow:\n{call}"),
        ("hermes_json", "```md\n```json\n{}\n```\n```\n{call}"),
        ("hermes_json", "````md\n```json\n{}\n````\n{call}"),
        ("hermes_json", "```md\n```json {} ```\n```\n{call}"),
        ("hermes_json", "```sh\nls\n```          then\n{call}"),
        ("hermes_json", "```sh\nls\n``` {call}"),
    ],
)
def test_a_lone_backtick_or_a_code_block_in_a_list_hides_no_call_of_later_lines(name: str, text: str) -> None:
    call = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'
    assert read_every_way(name, TOOLS, text.replace("{call}", call)).calls == [("weather", {"city": "Rome"})]


def test_a_code_block_behind_a_call_is_no_end_of_it() -> None:
    call = '```json\n{"name": "weather", "arguments": {"city": "Rome"}}\n```'
    read = read_every_way("markdown_json", TOOLS, f"{call}\n```py\n3\n```\n{call}")
    assert read.calls == [("weather", {"city": "Rome"})] * 2
    assert read.text.strip() == "```py\n3\n```"


# ── marks that are text ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (AUTO, "Here are my reasoning steps:\n1. add\nIt is 42.", "Here are my reasoning steps:\n1. add\nIt is 42."),
        (AUTO, "a <response>x</response>", "a <response>x</response>"),
        ("tool_calls_json_array", "Well.\nHere are my reasoning steps:\n1.", "Well.\nHere are my reasoning steps:\n1."),
        ("mistral", "<s>old</s> new", "<s>old</s> new"),
        ("mistral", "old</s>", "old"),
        ("mistral", f"old</s>{' ' * 1100}", f"old</s>{' ' * 1100}"),
        ("granite3", "a <response>x</response> y", "a <response>x</response> y"),
        ("granite3", "<response>x</response><|end_of_text|>", "x"),
        ("granite3", "<response>x</response><|end_of", "x</response><|end_of"),
    ],
)
def test_marks_that_look_like_text_are_dropped_only_around_the_answer(name: str, text: str, said: str) -> None:
    reading = read_every_way(name, TOOLS, text)
    assert (reading.text, reading.reasoning) == (said, "")


def test_a_key_of_any_length_is_read_the_same_however_it_is_cut() -> None:
    call = f'<tool_call>{{"name": "now", "arguments": {{"{"k" * 66_000}": 1}}}}</tool_call>'
    assert [len(arguments) for _, arguments in read_every_way("hermes_json", TOOLS, call).calls] == [1]


# ── two calls of which one lost a mark ───────────────────────────────────────────────────────────────────────────────

FILE: dict[str, Any] = {**TOOLS, "write": object_of("path", path=STRING)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kimi_k2", "<|tool_call_begin|>weather<|tool_call_argument_begin|>"
         '{"city": "Rome}<|tool_call_end|><|tool_call_begin|>write<|tool_call_argument_begin|>{"path": "a"}'
         "<|tool_call_end|>"),
        ("mistral", '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Rome}}, '
         '{"name": "write", "arguments": {"path": "a"}}]'),
        ("cohere_command3", '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "weather", "parameters": '
         '{"city": "Rome}}, {"tool_call_id": "1", "tool_name": "write", "parameters": {"path": "a"}}]<|END_ACTION|>'),
        ("apertus", '<|tools_prefix|>[{"weather": {"city": "Rome}}, {"write": {"path": "a"}}]<|tools_suffix|>'),
        ("react", 'Action: weather\nAction Input: {"city": "Rome}\nAction: write\nAction Input: {"path": "a"}'),
        ("anthropic_xml", '<function_calls><invoke name="weather"><parameter name="city">Rome</parameter>/invoke>'
         '<invoke name="write"><parameter name="path">a</parameter></invoke></function_calls>'),
        ("glm45", "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n/tool_call>\n"
         "<tool_call>write\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>"),
    ],
)  # fmt: skip
def test_a_value_that_swallowed_the_next_call_is_no_argument(name: str, text: str) -> None:
    reading = read_every_way(name, FILE, text)
    assert reading.calls == []
    assert reading.cut[0] == "weather"
    assert "a" in "".join(reading.raw)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("anthropic_xml", '<function_calls><invoke name="weather"><parameter name="city">Rome</paramete/invoke>'
         '<invoke name="write"><parameter name="path">a</parameter></invoke></function_calls>'),
        ("anthropic_xml", '<function_calls><invoke name="weather"><parameter name="city">Rome</parameter></invokinvoke '
         'name="write"><parameter name="path">a</parameter></invoke></function_calls>'),
        ("qwen3_coder", "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</paramete/function>\n</tool_call>\n"
         "<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>"),
        ("glm45", "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_valu/tool_call>\n"
         "<tool_call>write\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>"),
        ("minimax_m3", ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="weather">]<]minimax[>[<city>Rome]<]minimax[>'
         '[</ci<]minimax[>[</invoke>]<]minimax[>[<invoke name="write">]<]minimax[>[<path>a]<]minimax[>[</path>'
         "]<]minimax[>[</invoke>]<]minimax[>[</tool_call>"),
        ("minimax_m3", ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="weather">]<]minimax[>[<city>Rome]<]minimax[>'
         '[</city>]<]minimax[>[</invok<]minimax[>[<invoke name="write">]<]minimax[>[<path>a]<]minimax[>[</path>'
         "]<]minimax[>[</invoke>]<]minimax[>[</tool_call>"),
        ("llama3_json", '{"name": "weather", "parameters": {"city":"Rome""name": "write", "parameters": {"path":"a"}}'),
    ],
)  # fmt: skip
def test_two_calls_without_a_sound_mark_between_them_are_not_one(name: str, text: str) -> None:
    reading = read_every_way(name, FILE, text)
    assert reading.calls == []
    assert "a" in reading.text + "".join(reading.raw)


@pytest.mark.parametrize(
    "value", ['<invoke name="write"> is a mark', 'see </parameter> and <parameter name="city">', "<parameter>"]
)
def test_a_value_may_speak_of_marks(value: str) -> None:
    text = (
        f'<function_calls><invoke name="weather"><parameter name="city">{value}</parameter></invoke></function_calls>'
    )
    assert read_every_way("anthropic_xml", FILE, text).calls == [("weather", {"city": value})]


def test_quotes_that_are_not_escaped_are_repaired_where_no_other_call_follows() -> None:
    text = '<tool_call>{"name": "weather", "arguments": {"city": "the "eternal" city"}}</tool_call>'
    assert read_every_way("hermes_json", FILE, text).calls == [("weather", {"city": 'the "eternal" city'})]


def test_a_message_without_the_end_of_its_header_gives_its_name_to_no_other_arguments() -> None:
    first = '<|channel|>commentary to=functions.weather <|constrain|>json{"city": "Rome"}<|call|>'
    second = '<|start|>assistant<|channel|>commentary to=functions.write<|message|>{"path": "a"}<|call|>'
    reading = read_every_way("harmony", FILE, first + second)
    assert reading.calls == [("write", {"path": "a"})]
    assert reading.text == first


@pytest.mark.parametrize(
    ("name", "text", "left"),
    [
        ("mistral", '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Rome"}, "id": "a\\1"}]\nMore.', "More."),
        ("llama3_json", '{"name": "weather", "parameters": {"city": "Rome"}{"name": "write", "parameters": {}}',
         '{"name": "write", "parameters": {}}'),
        ("llama3_json", '{"name": "weather", "parameters": {}}; {"nme": "write", "parameters": {"path": "a"}}',
         '{"nme": "write", "parameters": {"path": "a"}}'),
        ("mistral", '[TOOL_CALLS][{"name": "now", "arguments": {}}, {"nme": "write", "arguments": {"path": "a"}}]',
         '{"nme": "write", "arguments": {"path": "a"}}'),
    ],
)  # fmt: skip
def test_what_follows_a_broken_envelope_is_told(name: str, text: str, left: str) -> None:
    reading = read_every_way(name, FILE, text)
    assert left in reading.text + "".join(reading.raw)
