"""What the engine tells beside text and calls, and what it forgives: one behaviour a test."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.textcalls.reading import read, read_every_way
from toolglot.textcalls import FORMATS, find_format
from toolglot.textcalls.formats import WHOLE_ANSWER


def object_of(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


STRING = {"type": "string"}
TOOLS: dict[str, Any] = {
    "weather": object_of("city", city=STRING, days={"type": "integer"}),
    "list_files": object_of("path", path=STRING, description=STRING),
    "item": object_of(id=STRING, input=STRING, where={"type": "object"}),
    "now": object_of(),
    "anything": None,
}
ROME = ("weather", {"city": "Rome"})
NOW = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'


def tagged(body: str) -> str:
    return f"<tool_call>{body}</tool_call>"


# ── what a cut call was ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "text", "raw"),
    [
        ("hermes_json", '<tool_call>{"name": "weather", "arguments": {"city": "Ro', '{"city": "Ro'),
        ("hermes_json", '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}', '{"city": "Rome"}'),
        ("hermes_json", '<tool_call>{"name": "weather", "argum', '{"name": "weather", "argum'),
        ("hermes_json", tagged('{"name": "weather", "arguments": {"city": oops}}'), '{"city": oops}}'),
        ("hermes_json", tagged('{"name": "weather", "arguments": "Rome"}'), "Rome"),
        ("kimi_k2", "<|tool_call_begin|>weather<|tool_call_argument_begin|>{oops<|tool_call_end|>", "{oops"),
        ("kimi_k2", '<|tool_call_begin|>weather<|tool_call_argument_begin|>{"city": "Ro', '{"city": "Ro'),
        ("react", 'Action: weather\nAction Input: {"city": [}\nObservation: x', '{"city": [}'),
        ("harmony", "<|channel|>commentary to=functions.weather<|message|>", ""),
        ("qwen3_coder", "<function=weather>\n<parameter=city>\nRo", "<parameter=city>\nRo"),
        ("cline_xml", "<weather>\n<days>1</days>\n", "<days>1</days>"),
        ("pythonic", '[now(), weather(city="Ro', 'city="Ro'),
        ("lfm2", '<|tool_call_start|>[weather(city=f("x"))]<|tool_call_end|>', 'city=f("x"))]'),
        ("gemma4", "<|tool_call>call:weather{city:[}<tool_call|>", "{city:[}"),
        ("gemma4", '<|tool_call>call:weather{city:<|"|>Ro', '{city:<|"|>Ro'),
    ],
)
def test_a_cut_call_tells_what_the_model_wrote(name: str, text: str, raw: str) -> None:
    assert read_every_way(name, TOOLS, text).raw == [raw]


def test_of_a_long_value_the_beginning_is_told() -> None:
    text = "<function=weather>\n<parameter=city>\n" + "0123456789" * 5000
    (raw,) = read_every_way("qwen3_coder", TOOLS, text).raw
    assert len(raw) < 20_000
    assert text.endswith(raw[-10:] + text[len(raw) + len("<function=weather>\n") :])


# ── marks in vain ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "text", "refused"),
    [
        ("hermes_json", "Use <tool_call> for it, then <tool_call>.", ["<tool_call>", "<tool_call>"]),
        ("hermes_json", tagged('{"city": "Rome"}'), ["<tool_call>"]),
        ("hermes_json", tagged("rome"), []),
        ("hermes_json", '<tool_call>{"na', ["<tool_call>"]),
        ("hermes_json", f"Use `<tool_call>`:\n```\n{NOW}\n```\n", []),
        ("hermes_json", f"<think>{NOW} or not</think>", []),
        ("anthropic_xml", "<function_calls>\n</function_calls>", ["<function_calls>"]),
        ("anthropic_xml", '<function_calls><invoke name="now"', ["<function_calls>", "<invoke"]),
        ("mistral", "[TOOL_CALLS] x", ["[TOOL_CALLS]"]),
        ("llama3_json", '{"a": 1}', []),
        ("cline_xml", "<weather>", []),
        ("phi4_functools", "The functools module.", []),
        ("cohere_command_r_plus", "The Action: run", []),
    ],
)
def test_a_sure_mark_that_opens_no_call_is_told(name: str, text: str, refused: list[str]) -> None:
    assert read_every_way(name, TOOLS, text).refused == refused


# ── the end of the answer ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "text", "ends_at", "over", "said"),
    [
        ("hermes_json", f"{NOW}\n<tool_response>\n1\n</tool_response>\n{NOW}", "<tool_response>", True, ""),
        ("hermes_json", f"{NOW}\nIt is <tool_response>\n{NOW}", "<tool_response>", True, "\nIt is "),
        ("hermes_json", f"<tool_response>\n{NOW}", "<tool_response>", False, "<tool_response>\n"),
        ("hermes_json", f"{NOW}\n`<tool_response>`", "<tool_response>", False, "\n`<tool_response>`"),
        ("hermes_json", f"{NOW}\n```\n<tool_response>\n```", "<tool_response>", False, "\n```\n<tool_response>\n```"),
        ("hermes_json", f"{NOW}\n<tool_respons", "<tool_response>", False, "\n<tool_respons"),
        ("hermes_json", f'{NOW}<tool_call>{{"name": "now", <tool_response>{NOW}', "<tool_response>", True, None),
        ("react", "Action: now\nAction Input: {}\nObservation: 3\nFinal Answer: 3", "Observation:", True, ""),
        ("react", "Action: now\nAction Input: {}\nAn Observation: 3", "Observation:", False, "\nAn Observation: 3"),
        ("react", "Observation: 3", "Observation:", False, "Observation: 3"),
        ("glm45", "<tool_call>now\n</tool_call><|observation|>x", "<|observation|>", True, ""),
        ("qwen_flower", "✿FUNCTION✿: now\n✿ARGS✿: {}\n✿RESULT✿: 3\n✿RETURN✿: 3", "✿RESULT✿", True, ""),
        ("deepseek_v3", "x <｜tool▁output▁begin｜> y", "<｜tool▁output▁begin｜>", False, None),
    ],
)
def test_the_mark_of_a_result_behind_a_call_ends_the_answer(
    name: str, text: str, ends_at: str, over: bool, said: str | None
) -> None:
    reading = read_every_way(name, TOOLS, text, ends_at=(ends_at,))
    assert reading.over == (ends_at if over else "")
    assert said is None or reading.text == said
    assert len(reading.calls) <= 1


def test_marks_that_end_an_answer_mean_nothing_where_none_are_given() -> None:
    assert len(read_every_way("hermes_json", TOOLS, f"{NOW}\n<tool_response>\n1\n</tool_response>\n{NOW}").calls) == 2


# ── keys of an envelope ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "name", "arguments"),
    [
        ('{"name": "list_files", "path": "/x"}', "list_files", {"path": "/x"}),
        ('{"path": "/x", "type": "function", "name": "list_files"}', "list_files", {"path": "/x"}),
        ('{"name": "list_files", "path": "/x", "description": "d"}', "list_files", {"path": "/x", "description": "d"}),
        ('{"name": "list_files", "arguments": null, "path": "a\nb"}', "list_files", {"path": "a\nb"}),
        ('{"type": "function", "function": {"name": "list_files", "path": "/x"}}', "list_files", {"path": "/x"}),
        ("{'name': 'list_files', 'path': '/x', 'type': 'function'}", "list_files", {"path": "/x"}),
        ('{"name": "item", "id": "5"}', "item", {"id": "5"}),
        ("{'name': 'item', 'id': '5'}", "item", {"id": "5"}),
        ('{"name": "item", "input": "5"}', "item", {"input": "5"}),
        ('{"name": "item", "where": {"a": [1]}}', "item", {"where": {"a": [1]}}),
    ],
)
def test_declared_keys_beside_the_name_are_the_arguments(body: str, name: str, arguments: dict[str, Any]) -> None:
    reading = read_every_way("hermes_json", TOOLS, tagged(body))
    assert reading.calls == [(name, arguments)]
    assert not reading.ids
    assert "flat arguments" in reading.repaired[0]


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "now", "type": "function", "index": 0, "id": "x"}',
        '{"name": "now", "thought": "hm", "arguments": {}, "result": null, "z": null}',
        '{"name": "now", "description": "d", "explanation": "e", "status": "s"}',
        '{"name": "now", "arguments": {}, "tool": "now"}',
        "{'name': 'now', 'thought': 'hm', 'tool': 'now'}",
    ],
)
def test_keys_that_say_something_about_the_call_are_no_arguments(body: str) -> None:
    reading = read_every_way("hermes_json", TOOLS, tagged(body))
    assert (reading.calls, reading.cut) == ([("now", {})], [])


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "list_files", "dir": "/x"}',
        '{"name": "list_files", "path": "/x", "dir": "/x"}',
        '{"name": "list_files", "path": "/x", "path": "/y"}',
        '{"name": "list_files", "arguments": ["/x"]}',
        '{"name": "list_files", "arguments": {}, "path": "/x"}',
        '{"name": "list_files", "arguments": {}, "dir": "/x"}',
        '{"name": "list_files", "arguments": "{}", "path": "/x"}',
        '{"name": "list_files", "arguments": {"path": "/x"}, "arguments": {"path": "/y"}}',
        '{"name": "list_files", "arguments": {"path": "/x"}, "parameters": {"path": "/y"}}',
        '{"name": "weather", "arguments": {"city": "Rome"}, "days": 3}',
        '{"days": 3, "arguments": {"city": "Rome"}, "name": "weather"}',
        '{"name": "weather", "arguments": {"city": "Rome"}, days: 3}',
        "{'name': 'weather', 'arguments': {'city': 'Rome'}, 'days': 3}",
        "{'name': 'weather', 'town': 'Rome'}",
        '{"name": "weather", "arguments": {"city": "Rome"}, "tool": "now"}',
        '{"name": "anything", "a": 1}',
        '{"name": "unknown", "a": 1}',
    ],
)
def test_what_may_be_a_part_of_the_arguments_is_never_left_out(body: str) -> None:
    reading = read_every_way("hermes_json", TOOLS, tagged(body))
    assert (reading.calls, len(reading.cut), reading.text) == ([], 1, "")
    assert reading.raw == [body]


def test_what_no_tool_of_the_schema_can_want_is_left_out_and_told() -> None:
    body = '{"name": "weather", "arguments": {"city": "Rome"}, "confidence": {"x": [1, "}"]}}'
    reading = read_every_way("hermes_json", TOOLS, tagged(body))
    assert (reading.calls, reading.repaired) == ([ROME], ["without the keys next to the arguments: confidence"])


@pytest.mark.parametrize("body", ['{"name": "now", "version": 3}', '{"weather": {"city": "Rome"}}'])
def test_a_bare_object_with_keys_that_do_not_fit_is_text(body: str) -> None:
    reading = read_every_way("llama3_json", TOOLS, body)
    assert (reading.calls, reading.cut, reading.text) == ([], [], body)


# ── calls that are written another way ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "body",
    [
        '{"weather": {"city": "Rome"}}',
        '{"weather": {"city": "Rome",}}',
        '\n```json\n{"name": "weather", "arguments": {"city": "Rome"}}\n```\n',
        '```\n[{"name": "weather", "arguments": {"city": "Rome"}}]```',
        'weather(city="Rome")',
        '\nweather("Rome")\n',
        "[weather(city='Rome')]",
    ],
)
@pytest.mark.parametrize("name", ["hermes_json", "qwen3_coder"])
def test_the_tags_may_hold_a_call_in_other_words(name: str, body: str) -> None:
    reading = read_every_way(name, TOOLS, tagged(body))
    assert (reading.calls, reading.text.strip(), reading.refused) == ([ROME], "", [])


@pytest.mark.parametrize(
    "body", ['unknown(city="Rome")', '{"unknown": {"city": "Rome"}}', '{"weather": {}, "now": {}}']
)
def test_other_words_need_a_declared_tool(body: str) -> None:
    reading = read_every_way("hermes_json", TOOLS, tagged(body))
    assert (reading.calls, reading.text, reading.refused) == ([], tagged(body), ["<tool_call>"])


CLOSED_ENVELOPES = sorted(
    name
    for name, text_format in FORMATS.items()
    if text_format.calls[0].body == "envelope" and text_format.calls[0].closers and not text_format.calls[0].header.ends
)


@pytest.mark.parametrize("name", CLOSED_ENVELOPES)
def test_a_code_block_may_stand_inside_the_tags(name: str) -> None:
    call = FORMATS[name].calls[0]
    body = '{"weather": {"city": "Rome"}}' if call.keyed else '{"name": "weather", "arguments": {"city": "Rome"}}'
    text = f"{call.header.openers[0]}\n```json\n{body}\n```\n{call.closers[0]}"
    reading = read_every_way(name, TOOLS, text)
    assert (reading.calls, reading.text) == ([ROME], "")


BARE = '{"name": "weather", "arguments": {"city": "Rome"}}'
OF_WHOLE_ANSWERS = replace(
    find_format("hermes_json"), calls=(*find_format("hermes_json").calls, *WHOLE_ANSWER), name="with whole answers"
)


@pytest.mark.parametrize(
    "text",
    [
        BARE,
        f"[{BARE}]",
        f"\n```json\n{BARE}\n```",
        "[weather(city='Rome')]",
        f"<think>Hm.</think>\n\n{BARE}",
        tagged(BARE),
    ],
)
def test_a_whole_answer_may_be_a_call_without_marks(text: str) -> None:
    reading = read_every_way(OF_WHOLE_ANSWERS, TOOLS, text)
    assert (reading.calls, reading.text.strip()) == ([ROME], "")


@pytest.mark.parametrize(
    "text", [f"So:\n{BARE}", f"So:\n```json\n{BARE}\n```", f"{NOW}\n{BARE}", '{"a": 1}', "[x](y)", '{"name": "Ada"}']
)
def test_a_call_without_marks_counts_only_at_the_beginning_of_the_answer(text: str) -> None:
    reading = read_every_way(OF_WHOLE_ANSWERS, TOOLS, text)
    assert reading.text.strip() == text.removeprefix(NOW).strip()
    assert ROME not in reading.calls


# ── strings without an end ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("between", ["", "}}", "\n", "\n}}\n", "\r\n  \n"])
@pytest.mark.parametrize(
    ("name", "opening", "closer", "call"),
    [
        ("hermes_json", '<tool_call>{"name": "weather", "arguments": {"city": "Rome', "</tool_call>", NOW),
        ("hermes_json", '<tool_call>{"name": "weather", "arguments": "{\\"city\\": \\"Rome', "</tool_call>", NOW),
        (
            "kimi_k2",
            '<|tool_call_begin|>weather<|tool_call_argument_begin|>{"city": "Rome',
            "<|tool_call_end|>",
            "<|tool_call_begin|>now<|tool_call_argument_begin|>{}<|tool_call_end|>",
        ),
    ],
)
def test_a_closer_beside_a_line_break_ends_a_call_with_an_open_string(
    name: str, opening: str, closer: str, call: str, between: str
) -> None:
    reading = read_every_way(name, TOOLS, f"{opening}{between}{closer}\nAnd now:\n{call}")
    assert reading.calls[-1:] == [("now", {})]
    assert reading.text.strip().endswith("And now:")


@pytest.mark.parametrize(
    "content", ["a\nb", "a\n\n", "a </tool_call> b", "\n <tool_call>\n", "</tool_call", "\n </tool\n"]
)
def test_a_closer_elsewhere_in_a_string_is_a_part_of_it(content: str) -> None:
    reading = read_every_way(
        "hermes_json", TOOLS, tagged(f'{{"name": "weather", "arguments": {{"city": "{content}"}}}}')
    )
    assert reading.calls == [("weather", {"city": content})]


@pytest.mark.parametrize("spaces", [998, 999, 1000, 1001, 2500])
def test_much_white_space_in_a_string_is_read_the_same_however_it_is_cut(spaces: int) -> None:
    for text in ('<tool_call>{"name": "weather", "arguments": {"city": "X</tool_call>\nx', f"{NOW}X</tool_call>X{NOW}"):
        read_every_way("hermes_json", TOOLS, text.replace("X", "\n" * spaces))


# ── repairs are told ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_brackets_of_an_envelope_are_no_stray_ones() -> None:
    reading = read_every_way("hermes_json", TOOLS, tagged('{"name": "weather", "arguments": {"city": \'Rome\'}}'))
    assert (reading.calls, reading.repaired) == ([ROME], ["single quotes"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("qwen3_coder", "<function=item>\n<parameter=where>\n{'a': 1,}\n</parameter>\n</function>"),
        (
            "minimax_m3",
            ']<]minimax[>[<invoke name="item">]<]minimax[>[<where>]<]minimax[>[<a>{"b": 1,}]<]minimax[>[</a>'
            "]<]minimax[>[</where>]<]minimax[>[</invoke>",
        ),
    ],
)
def test_the_repair_of_a_value_between_tags_is_told(name: str, text: str) -> None:
    tools = {"item": object_of(where={"type": "object", "properties": {"a": {"type": ["object", "integer"]}}})}
    reading = read_every_way(name, tools, text)
    assert len(reading.calls) == 1
    assert reading.repaired[0].startswith("where: repaired (")


@pytest.mark.parametrize("behind", ["", "\n</tool_call>", "\n</tool_call>\nDone.", "\nDone."])
def test_the_end_of_a_call_ends_a_value_that_can_be_no_text(behind: str) -> None:
    text = f"<tool_call>\n<function=weather>\n<parameter=city>Rome\n<parameter=days>3\n</function>{behind}"
    reading = read_every_way("qwen3_coder", TOOLS, text)
    assert (reading.calls, reading.cut) == ([("weather", {"city": "Rome", "days": 3})], [])


def test_a_value_may_hold_the_mark_that_wraps_it() -> None:
    text = '<function name="weather"><param name="city"><![CDATA[<![CDATA[x]]></param></function>'
    assert read_every_way("minicpm5", TOOLS, text).calls == [("weather", {"city": "<![CDATA[x"})]


def test_a_limit_inside_a_call_in_a_code_block_leaves_none() -> None:
    text = tagged('```json\n{"name": "weather", "arguments": {"city": "Rome"}}\n```')
    for end in range(len(text)):
        assert len(read("hermes_json", TOOLS, text[:end], cut=True).calls) <= 1
