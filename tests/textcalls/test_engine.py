"""What the engine does with marks, calls and what is left of them: one behaviour a test."""

from __future__ import annotations

from typing import Any

import pytest

from tests.textcalls.reading import joined, read, read_every_way
from toolglot.textcalls import FORMATS, Engine, find_format, parser
from toolglot.textcalls.vocabulary import vocabulary_of


def object_of(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


STRING = {"type": "string"}
TOOLS: dict[str, Any] = {
    "get_weather": object_of("city", city=STRING, days={"type": "integer"}),
    "run": object_of(command=STRING, description=STRING),
    "now": object_of(),
}
OSLO = ("get_weather", {"city": "Oslo"})
HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
INVOKE = '<invoke name="get_weather">\n<parameter name="city">Oslo</parameter>\n</invoke>'
QWEN = "<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>"

# ── text is held back only while it may be a mark ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [name for name in FORMATS if FORMATS[name].messages is None])
def test_text_is_held_back_only_while_it_may_be_a_mark(name: str) -> None:
    marks = vocabulary_of(find_format(name), tuple(TOOLS)).marks.literals
    prefixes = {mark[:end] for mark in marks for end in range(1, len(mark))}
    engine = Engine(find_format(name), TOOLS)
    text = "If a < b and b <= c, then <b>x</b> or <tool> or 5 <|> 3, <<< and </x> hold; so do <toolbox> and <|x|>."
    said = ""
    for end, character in enumerate(text, 1):
        for event in engine.feed(character):
            assert event[0] == "text"
            said += event[1]
        held = text[len(said) : end]
        assert text.startswith(said)
        assert not held or held in prefixes, f"{held!r} is held for nothing"
    said += "".join(event[1] for event in engine.finish() if event[0] == "text")
    assert said == text


# ── arguments are passed on while they are written ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "opening"),
    [
        ("hermes_json", '<tool_call>\n{"name": "run", "arguments": {"command": "'),
        ("deepchat", '<function_call>{"function_call": {"name": "run", "arguments": {"command": "'),
        ("mistral", '[TOOL_CALLS][{"name": "run", "arguments": {"command": "'),
        ("llama3_json", '{"name": "run", "parameters": {"command": "'),
        ("markdown_json", '```json\n{"name": "run", "arguments": {"command": "'),
        ("kimi_k2", '<|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>{"command": "'),
        ("harmony", '<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"command": "'),
        ("react", 'Action: run\nAction Input: {"command": "'),
        ("anthropic_xml", '<function_calls>\n<invoke name="run">\n<parameter name="command">'),
        ("qwen3_coder", "<tool_call>\n<function=run>\n<parameter=command>\n"),
        ("cline_xml", "<run>\n<command>"),
        ("glm45", "<tool_call>run\n<arg_key>command</arg_key>\n<arg_value>"),
        ("pythonic", '[run(command="'),
        ("gemma4", '<|tool_call>call:run{command:<|"|>'),
    ],
)
def test_arguments_are_passed_on_while_the_call_is_open(name: str, opening: str) -> None:
    reader = parser(name, [{"name": tool, "parameters": schema} for tool, schema in TOOLS.items()])
    events = list(reader.feed(opening + "echo one two"))
    assert events[0] == ("start", 0, "run")
    assert "".join(event[2] for event in events if event[0] == "args").endswith('"command": "echo one two')
    assert list(reader.feed(" three")) == [("args", 0, " three")]


def test_arguments_before_the_name_are_passed_on_when_the_name_is_known() -> None:
    engine = Engine(find_format("hermes_json"), TOOLS)
    assert not engine.feed('<tool_call>{"arguments": {"city": "Oslo"}')
    assert joined(engine.feed(', "name": "get_weather"')) == (
        ("start", 0, "get_weather"),
        ("args", 0, '{"city": "Oslo"}'),
    )
    assert list(engine.feed("}")) == [("end", 0)]


# ── marks that are text ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes_json", f"Write it so:\n```\n{HERMES}\n```\nand no other way."),
        ("hermes_json", f"Write it so:\n````md\n```\n{HERMES}\n```\n````\n"),
        ("hermes_json", 'Write `<tool_call>{"name": "now", "arguments": {}}</tool_call>` for it.'),
        ("hermes_json", "Use the <tool_call> tag and close it with </tool_call>."),
        ("hermes_json", "<tool_callback>x</tool_callback>"),
        ("hermes_json", "</tool_call>"),
        ("hermes_json", '<tool_call>{"name": "", "arguments": {}}</tool_call>'),
        ("hermes_json", '<tool_call>{"name": 5, "arguments": {}}</tool_call>'),
        ("deepchat", 'The <function_call> tag, as in "<function_call>".'),
        ("deepchat", '<function_call>{"function_call_record": {"name": "now", "arguments": {}}}</function_call>'),
        ("anthropic_xml", "<function_calls>\n</function_calls>"),
        ("anthropic_xml", "An <invoke> goes into <function_calls>."),
        ("anthropic_xml", '<invoke name="run">\n<parameter>command</parameter>ls\n</invoke>'),
        ("anthropic_xml", '<invoke name="get_weather"/>'),
        ("qwen3_coder", "<function=run>\n<parameter=command=ls</parameter>\n</function>"),
        ("cline_xml", "To run it, use <run> or <run></x>."),
        ("cline_xml", "The <now/> tag."),
        ("cline_xml", "<unknown>\n<command>ls</command>\n</unknown>"),
        ("pythonic", "[text](https://example.com/now)"),
        ("pythonic", "[unknown(a=1)]"),
        ("llama3_json", '{"name": "Ada", "arguments": {"city": "Oslo"}}'),
        ("generic_json", '[{"name": "unknown", "arguments": {}}]'),
        ("markdown_json", '```json\n{"name": "Ada", "parameters": {}}\n```'),
        ("markdown_json", '```python\nprint("x")\n```'),
        ("react", "Action: unknown\nAction Input: {}"),
        ("react", "The Action: now\nAction Input: {}"),
        ("mistral", "Write [TOOL_CALLS] before it."),
        ("mistral_args", "Write [TOOL_CALLS] and [ARGS] around it."),
    ],
)
def test_marks_that_open_no_call_are_text(name: str, text: str) -> None:
    reading = read_every_way(name, TOOLS, text)
    assert (reading.text, reading.calls, reading.cut) == (text, [], [])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes_json", '<tool_call>{"name": "unknown", "arguments": {"a": 1}}</tool_call>'),
        ("kimi_k2", '<|tool_call_begin|>functions.unknown:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>'),
        ("deepseek_v31", '<｜tool▁call▁begin｜>unknown<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>'),
        ("mistral_args", '[TOOL_CALLS]unknown[ARGS]{"a": 1}'),
        ("harmony", '<|channel|>commentary to=functions.unknown<|message|>{"a": 1}<|call|>'),
    ],
)
def test_a_sure_mark_passes_on_calls_of_unknown_tools(name: str, text: str) -> None:
    assert read_every_way(name, TOOLS, text).calls == [("unknown", {"a": 1})]


# ── reasoning ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_inside_closed_reasoning_is_reasoning() -> None:
    reading = read_every_way("hermes_json", TOOLS, f"<think>I could {HERMES} here</think>\n\nNo.")
    assert (reading.calls, reading.cut) == ([], [])
    assert reading.reasoning == f"I could {HERMES} here"
    assert reading.text == "No."


@pytest.mark.parametrize("before", ["", "Hm. "])
def test_a_call_that_ends_unclosed_reasoning_runs(before: str) -> None:
    reading = read_every_way("hermes_json", TOOLS, f"<think>{before}{HERMES}")
    assert (reading.calls, reading.reasoning) == ([OSLO], before)


def test_a_call_that_a_limit_left_in_reasoning_does_not_run() -> None:
    reading = read_every_way("hermes_json", TOOLS, f"<think>Hm. {HERMES}", cut=True)
    assert (reading.calls, reading.reasoning) == ([], f"Hm. {HERMES}")


@pytest.mark.parametrize(
    "text", [f"<think>{HERMES} or not", f"<think>{HERMES}</think>", "<think><tool_call>{} x", "<think><tool_call>[wri"]
)
def test_what_follows_a_call_in_reasoning_makes_it_reasoning(text: str) -> None:
    reading = read_every_way("hermes_json", TOOLS, text)
    assert not reading.calls
    assert reading.reasoning == text.removeprefix("<think>").removesuffix("</think>")


def test_the_prompt_may_have_opened_the_reasoning() -> None:
    reading = read_every_way("hermes_json", TOOLS, f"Hm.</think>\n{HERMES}", starts_in_reasoning=True)
    assert (reading.reasoning, reading.text, reading.calls) == ("Hm.", "", [OSLO])


@pytest.mark.parametrize("text", [f"<think>Hm.</think></think>{HERMES}", f"<think>Hm.</think>{HERMES[:-12]}</think>"])
def test_one_end_of_the_reasoning_too_many_means_nothing(text: str) -> None:
    reading = read_every_way("hermes_json", TOOLS, text)
    assert (reading.reasoning, reading.text.strip(), reading.calls) == ("Hm.", "", [OSLO])


# ── marks that are missing, wrong or too many ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes_json", HERMES.removesuffix("</tool_call>")),
        ("hermes_json", HERMES.removesuffix("call>")),
        ("hermes_json", f"{HERMES}</tool_call></tool_call>"),
        ("hermes_json", HERMES.replace("}}", "}}}")),
        ("hermes_json", HERMES.replace("\n", "")),
        ("hermes_json", HERMES.replace("\n", "\r\n \t\n")),
        ("anthropic_xml", INVOKE),
        ("anthropic_xml", f"<function_calls>{INVOKE}"),
        ("anthropic_xml", f"{INVOKE}</function_calls>"),
        ("anthropic_xml", f"<function_calls>{INVOKE.removesuffix('</invoke>')}</function_calls>"),
        ("anthropic_xml", f"<function_calls>{INVOKE.removesuffix('</invoke>')}"),
        ("anthropic_xml", f"<function_calls>{INVOKE.replace('</parameter>', '')}</function_calls>"),
        ("anthropic_xml", INVOKE.replace('"', "'")),
        ("anthropic_xml", INVOKE.replace('"', "")),
        ("anthropic_xml", INVOKE.replace(" name=", "  name = ").replace('">', '" >')),
        ("anthropic_xml", '<invoke name="get_weather">{"city": "Oslo"}</invoke>'),
        ("qwen3_coder", QWEN),
        ("qwen3_coder", f"{QWEN}\n</tool_call>"),
        ("qwen3_coder", f"<tool_call>\n{QWEN.removesuffix('</function>')}</tool_call>"),
        ("qwen3_coder", f"<tool_call>\n{QWEN.removesuffix('</function>')}"),
        ("qwen3_coder", f"<tool_call>\n{QWEN.replace('</parameter>', '').replace('Oslo' + chr(10), 'Oslo')}\n"),
        ("qwen3_coder", QWEN.replace("=get_weather", '="get_weather"').replace("=city", "='city'")),
        ("glm45", "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo\n</tool_call>"),
        ("cline_xml", "<get_weather>\n<city>Oslo</ city>\n</get_weather>"),
        ("cline_xml", "<get_weather><city> Oslo </city></get_weather>"),
        ("cline_xml", "<get_weather>\n<city>Oslo\n</get_weather>"),
        ("kimi_k2", '<|tool_call_begin|>get_weather<|tool_call_argument_begin|>{"city": "Oslo"}'),
        ("deepseek_v3", '<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Oslo"}\n```'),
    ],
)
def test_a_call_is_read_although_marks_are_missing_or_odd(name: str, text: str) -> None:
    reading = read_every_way(name, TOOLS, text)
    assert (reading.calls, reading.text.strip(), reading.cut) == ([OSLO], "", [])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("anthropic_xml", '<function_calls>\n<invoke name="now"/>\n</function_calls>'),
        ("anthropic_xml", '<invoke name="now" />'),
        ("cline_xml", "<now/>"),
        ("cline_xml", "<now />"),
        ("cline_xml", "<now></now>"),
        ("qwen3_coder", "<tool_call>\n<function=now/>\n</tool_call>"),
        ("minicpm5", '<function name="now"/>'),
        ("deepseek_v32", '<｜DSML｜invoke name="now"/>'),
    ],
)
def test_a_call_without_arguments_may_be_closed_at_once(name: str, text: str) -> None:
    reading = read_every_way(name, TOOLS, text)
    assert (reading.calls, reading.text) == ([("now", {})], "")


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("hermes_json", HERMES.removesuffix("\n</tool_call>"), HERMES),
        ("anthropic_xml", INVOKE.removesuffix("\n</invoke>"), INVOKE),
        ("anthropic_xml", INVOKE.replace("</parameter>", ""), INVOKE),
        ("qwen3_coder", QWEN.removesuffix("\n</function>"), QWEN),
        ("qwen3_coder", QWEN.replace("\n</parameter>", ""), QWEN),
    ],
)
def test_the_next_call_ends_one_that_was_not_closed(name: str, first: str, second: str) -> None:
    assert read_every_way(name, TOOLS, f"{first}\n{second}").calls == [OSLO, OSLO]


@pytest.mark.parametrize("spaces", [63, 65, 999, 1001, 1999, 2001, 5000])
@pytest.mark.parametrize(
    "text", ["<tool_call>{}X</tool_call>y", "<tool_call>X{}y", "<tool_call>{}X<tool_call>{}", "<think>a</think>X{}"]
)
def test_much_white_space_is_read_the_same_however_it_is_cut(text: str, spaces: int) -> None:
    for character in (" ", "\n"):
        whole = text.replace("X", character * spaces).replace("{}", '{"name": "now", "arguments": {"a":X1}}')
        read_every_way("hermes_json", TOOLS, whole.replace("X", character * spaces))


# ── the shapes of an envelope ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "get_weather", "parameters": {"city": "Oslo"}}',
        '{"name": "get_weather", "args": {"city": "Oslo"}}',
        '{"name": "get_weather", "input": {"city": "Oslo"}}',
        '{"arguments": {"city": "Oslo"}, "name": "get_weather"}',
        '{"name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}',
        '{"arguments": "{\\"city\\": \\"Oslo\\"}", "name": "get_weather"}',
        '{"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}',
        '{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}',
        '{"function_call": {"name": "get_weather", "arguments": {"city": "Oslo"}}}',
        '{"call": {"name": "get_weather", "arguments": {"city": "Oslo"}}}',
        '{"thought": "a {", "n": [1, {"x": 2}], "name": "get_weather", "arguments": {"city": "Oslo"}, "z": null}',
        '{"name": "get_weather", "parameters": null, "arguments": {"city": "Oslo"}}',
        '[{"name": "get_weather", "arguments": {"city": "Oslo"}}]',
        '```json\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n```',
        "{'name': 'get_weather', 'arguments': {'city': 'Oslo'}}",
        '{"name": "get_weather", "arguments": {"city": "Oslo",}}',
        '{name: "get_weather", arguments: {city: "Oslo"}}',
    ],
)
def test_an_envelope_is_read_in_every_shape(body: str) -> None:
    assert read_every_way("deepchat", TOOLS, f"<function_call>{body}</function_call>").calls == [OSLO]


@pytest.mark.parametrize(
    "body", ['{"name": "now"}', '{"name": "now", "arguments": null}', '{"tool": "now", "args": ""}']
)
def test_no_arguments_are_an_empty_object(body: str) -> None:
    assert read_every_way("hermes_json", TOOLS, f"<tool_call>{body}</tool_call>").calls == [("now", {})]


@pytest.mark.parametrize("arguments", ['["Oslo"]', "5", "true", '"[1]"', '"Oslo"'])
def test_arguments_that_are_no_object_cut_the_call(arguments: str) -> None:
    reading = read_every_way(
        "hermes_json", TOOLS, f'<tool_call>{{"name": "get_weather", "arguments": {arguments}}}</tool_call>'
    )
    assert (reading.calls, reading.cut) == ([], ["get_weather"])


def test_a_list_has_several_calls() -> None:
    text = '<tool_call>[{"name": "now", "arguments": {}}, {"name": "now"}]</tool_call>'
    assert read_every_way("hermes_json", TOOLS, text).calls == [("now", {}), ("now", {})]


def test_what_is_broken_behind_a_call_of_a_list_ends_no_call_twice() -> None:
    reading = read_every_way("hermes_json", TOOLS, '<tool_call>[{"name": "now", "arguments": {}}, oops]</tool_call>')
    assert reading.calls == [("now", {})]


def test_a_call_that_breaks_off_before_its_arguments_is_none() -> None:
    reading = read_every_way("hermes_json", TOOLS, f'<tool_call>{{"name": "get_weather", {HERMES}')
    assert reading.calls == [OSLO]


# ── what the richer events tell ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "text", "call_id"),
    [
        (
            "kimi_k2",
            "<|tool_call_begin|>functions.now:7<|tool_call_argument_begin|>{}<|tool_call_end|>",
            "functions.now:7",
        ),
        ("mistral", '[TOOL_CALLS][{"id": "abcdefghi", "name": "now", "arguments": {}}]', "abcdefghi"),
        ("mistral_args", "[TOOL_CALLS]now[CALL_ID]abcdefghi[ARGS]{}", "abcdefghi"),
        ("cohere_command3", '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "now", "parameters": {}}]', "0"),
    ],
)
def test_an_id_that_the_model_gave_is_told_before_the_call(name: str, text: str, call_id: str) -> None:
    reading = read_every_way(name, TOOLS, text)
    assert reading.events[:2] == (("id", 0, call_id), ("start", 0, "now"))


@pytest.mark.parametrize(
    "arguments", ["{'city': 'Oslo'}", '{"city": "Oslo",}', '{city: "Oslo"}', '{"city": "Oslo"', '{"city": "Os\nlo"}']
)
def test_a_repair_is_told_with_the_raw_text(arguments: str) -> None:
    text = f'<tool_call>{{"name": "get_weather", "arguments": {arguments}}}</tool_call>'
    told = [event for event in read_every_way("hermes_json", TOOLS, text).events if event[0] == "repaired"]
    assert len(told) == 1
    assert "city" in told[0][2]
    assert told[0][3]


CUT_TEXTS: list[tuple[str, str]] = [
    ("hermes_json", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Os'),
    ("hermes_json", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"'),
    ("hermes_json", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo\\'),
    ("hermes_json", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}'),
    ("hermes_json", '<tool_call>\n{"name": "get_weather", "arguments"'),
    ("kimi_k2", "<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"),
    ("anthropic_xml", '<invoke name="get_weather">\n<parameter name="city">Os'),
    ("anthropic_xml", '<invoke name="get_weather">\n<parameter name="days">2</parameter>\n'),
    ("anthropic_xml", '<invoke name="get_weather">\n<parameter name="city">Oslo</para'),
    ("qwen3_coder", "<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=da"),
    ("cline_xml", "<get_weather>\n<city>Os"),
    ("pythonic", '[get_weather(city="Os'),
    ("gemma4", '<|tool_call>call:get_weather{city:<|"|>Os'),
    ("harmony", "<|channel|>commentary to=functions.get_weather<|message|>"),
]


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(("name", "text"), CUT_TEXTS)
def test_a_call_that_is_not_whole_never_ends(name: str, text: str, cut: bool) -> None:
    reading = read_every_way(name, TOOLS, text, cut=cut)
    assert (reading.calls, reading.cut) == ([], ["get_weather"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("anthropic_xml", INVOKE.removesuffix("</invoke>")),
        ("qwen3_coder", QWEN.removesuffix("</function>")),
        ("cline_xml", "<get_weather>\n<city>Oslo</city>\n"),
    ],
)
def test_what_a_stop_string_ate_is_missed_only_if_a_limit_ended_the_text(name: str, text: str) -> None:
    assert read(name, TOOLS, text).calls == [OSLO]
    limited = read(name, TOOLS, text, cut=True)
    assert (limited.calls, limited.cut) == ([], ["get_weather"])


def test_a_parser_tells_only_the_stable_events() -> None:
    reader = parser("hermes_json", [{"name": "now"}])
    events = list(reader.feed('<tool_call>{"id": "x", "name": "now", "arguments": {\'a\': 1}}</tool_call>'))
    events += reader.feed('<tool_call>{"name": "now", "arguments": {"a": ')
    events += reader.finish()
    assert {event.kind for event in events} == {"start", "args", "end", "cut"}
