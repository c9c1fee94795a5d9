"""`toolglot parse`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.run import on_terminal, run
from toolglot.textcalls import FORMATS

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
TOOL = {"name": "weather", "description": "Weather now.", "inputSchema": SCHEMA}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich", "days": 2}}\n</tool_call>'
WEATHER = {"name": "weather", "arguments": {"city": "Zürich", "days": 2}, "complete": True}


@pytest.fixture
def tools(tmp_path: Path) -> str:
    return written(tmp_path, [TOOL])


def written(folder: Path, value: Any) -> str:
    file = folder / "tools.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(file)


def parse(tools: str, text: str | bytes, *options: str, form: str = "hermes_json") -> Result:
    return run("parse", "--format", form, "--tools", tools, *options, data=text)


def test_text_reasoning_and_calls_are_one_document(tools: str) -> None:
    result = parse(tools, f"<think>Which city?</think>I look.\n{CALL}")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.count("\n") == 1
    found = json.loads(result.stdout)
    assert list(found) == ["text", "reasoning", "calls"]
    assert (found["text"].strip(), found["reasoning"].strip()) == ("I look.", "Which city?")
    assert found["calls"] == [WEATHER]


def test_a_file_is_read_instead_of_standard_input(tools: str, tmp_path: Path) -> None:
    answer = tmp_path / "answer.txt"
    answer.write_text("\ufeff" + CALL)
    result = run("parse", "--format", "hermes-json", "--tools", tools, str(answer))
    assert json.loads(result.stdout) == {"text": "", "reasoning": "", "calls": [WEATHER]}


def test_the_events_are_a_line_each_and_add_up_to_the_call(tools: str) -> None:
    result = parse(tools, f"I look.\n{CALL}", "--events")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert events[0]["event"] == "text"
    assert {"event": "start", "index": 0, "name": "weather"} in events
    fragments = [event["fragment"] for event in events if event["event"] == "args"]
    assert json.loads("".join(fragments)) == WEATHER["arguments"]
    assert events[-1] == {"event": "end", "index": 0}


def test_events_come_as_the_text_arrives(tools: str) -> None:
    """A real process and real pipes: a call is told while the model still writes it."""
    command = [sys.executable, "-m", "toolglot", "parse", "--format", "hermes_json", "--tools", tools, "--events"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        heard = b""
        before, umlaut, behind = CALL.encode().partition("ü".encode())
        for piece, told in ((before + umlaut[:1], b'"start"'), (umlaut[1:] + behind[:4], "ürich".encode())):
            process.stdin.write(piece)
            while told not in heard:
                heard += process.stdout.read(65536) or pytest.fail("the output ended too soon")
        process.stdin.write(behind[4:])
        process.stdin.close()
        heard += process.stdout.read()
        assert process.wait() == 0
    assert json.loads(heard.splitlines()[-1]) == {"event": "end", "index": 0}


@pytest.mark.parametrize("events", [(), ("--events",)])
def test_a_call_that_is_cut_off_is_told_and_exits_with_1(tools: str, events: tuple[str, ...]) -> None:
    result = parse(tools, CALL[:-30], *events)
    assert result.exit_code == 1
    assert result.stderr.startswith("toolglot: <stdin>: the call of weather is incomplete: ")
    if not events:
        (call,) = json.loads(result.stdout)["calls"]
        assert call["complete"] is False
        assert isinstance(call["arguments"], str)
        assert call["cut"]


@pytest.mark.parametrize("events", [(), ("--events",)])
def test_what_the_model_wrote_of_an_unreadable_call_is_told(tools: str, events: tuple[str, ...]) -> None:
    result = parse(tools, CALL.replace('"Zürich"', "Zürich or Bern"), *events)
    told = [json.loads(line) for line in result.stdout.splitlines()]
    (cut,) = [each for each in told if each["event"] == "cut"] if events else told[0]["calls"]
    assert (result.exit_code, "Zürich or Bern" in cut["raw"]) == (1, True)


@pytest.mark.parametrize("events", [(), ("--events",)])
def test_a_mark_that_opens_no_call_is_told(tools: str, events: tuple[str, ...]) -> None:
    result = parse(tools, "The mark <tool_call> opens a call.", *events)
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert ({"event": "refused", "mark": "<tool_call>"} in told) if events else (told[0]["refused"] == ["<tool_call>"])


def test_a_repair_is_told_with_what_the_model_wrote(tools: str) -> None:
    result = parse(tools, CALL.replace("2}}", "2,}}"))
    (call,) = json.loads(result.stdout)["calls"]
    assert (result.exit_code, call["arguments"]) == (0, WEATHER["arguments"])
    assert "2,}" in call["repaired"]["raw"]
    assert call["repaired"]["how"]


def test_an_id_that_the_model_gave_is_kept(tools: str) -> None:
    marks = "<|tool_calls_section_begin|><|tool_call_begin|>{}<|tool_call_argument_begin|>{}<|tool_call_end|>"
    text = marks.format("functions.weather:3", '{"city": "Paris"}')
    (call,) = json.loads(parse(tools, text, form="kimi_k2").stdout)["calls"]
    assert (call["id"], call["name"]) == ("functions.weather:3", "weather")


def test_numbers_keep_their_digits(tools: str) -> None:
    result = parse(tools, CALL.replace(": 2}", ": 2.50}"))
    assert '"days":2.50' in result.stdout.replace(" ", "")


def test_the_schema_tells_what_raw_text_means(tools: str) -> None:
    text = "<weather>\n<city>12</city>\n<days>12</days>\n</weather>"
    (call,) = json.loads(parse(tools, text, form="cline_xml").stdout)["calls"]
    assert call["arguments"] == {"city": "12", "days": 12}


def test_without_tools_a_sure_sign_still_opens_a_call() -> None:
    result = run("parse", "--format", "hermes_json", data=CALL)
    assert json.loads(result.stdout)["calls"] == [WEATHER]


def test_the_prompt_may_have_opened_the_reasoning(tools: str) -> None:
    found = json.loads(parse(tools, f"Which city?</think>{CALL}", "--starts-in-reasoning").stdout)
    assert found == {"text": "", "reasoning": "Which city?", "calls": [WEATHER]}


AUTO = {
    "hermes_json": CALL,
    "qwen3_coder": "<tool_call>\n<function=weather>\n<parameter=city>\nZürich\n</parameter>\n"
    "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>",
    "mistral": '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Zürich", "days": 2}}]',
    "anthropic_xml": '<function_calls>\n<invoke name="weather">\n<parameter name="city">Zürich</parameter>\n'
    '<parameter name="days">2</parameter>\n</invoke>\n</function_calls>',
}


@pytest.mark.parametrize("form", AUTO)
def test_the_format_need_not_be_told(tools: str, form: str) -> None:
    result = run("parse", "--tools", tools, data=AUTO[form])
    assert json.loads(result.stdout)["calls"] == [WEATHER]


def test_a_terminal_gets_the_document_in_lines(tmp_path: Path) -> None:
    (tmp_path / "answer.txt").write_text(f"{'Look at this. ' * 6}\n{CALL}")
    shown = on_terminal("toolglot parse --format hermes_json answer.txt", tmp_path)
    assert shown.status == 0
    assert '\n  "calls": [' in shown.output


# ── formats ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_formats_can_be_listed() -> None:
    result = run("parse", "--list")
    assert result.exit_code == 0
    first_words = {line.split(" ")[0] for line in result.stdout.splitlines()}
    assert set(FORMATS) <= first_words


@pytest.mark.parametrize(("name", "hint"), [("hermes_jsn", "; did you mean 'hermes_json'?"), ("smoke", "; there are")])
def test_an_unknown_format_is_refused_with_the_nearest_name(name: str, hint: str) -> None:
    result = run("parse", "--format", name)
    assert result.exit_code == 2
    assert f"there is no text format {name!r}{hint}" in result.stderr
    assert "(`toolglot parse --list` shows them)" in result.stderr


# ── tools ────────────────────────────────────────────────────────────────────────────────────────────────────────────

FUNCTION = {"name": "weather", "parameters": SCHEMA}
SHAPES: dict[str, Any] = {
    "mcp": [TOOL],
    "mcp result": {"jsonrpc": "2.0", "id": 1, "result": {"tools": [TOOL]}},
    "openai_chat": [{"type": "function", "function": FUNCTION}],
    "openai_chat request": {"model": "m", "messages": [], "tools": [{"type": "function", "function": FUNCTION}]},
    "openai_chat functions": {"functions": [FUNCTION]},
    "openai_responses": [{"type": "function", **FUNCTION}],
    "a bare function": [FUNCTION],
    "anthropic": [{"name": "weather", "input_schema": SCHEMA}],
    "gemini": [{"functionDeclarations": [{"name": "weather", "parametersJsonSchema": SCHEMA}]}],
    "gemini request": {"tools": [{"functionDeclarations": [{"name": "weather", "parametersJsonSchema": SCHEMA}]}]},
    "several": [{"name": "time", "input_schema": {"type": "object"}}, TOOL],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_tools_are_read_in_any_shape(tmp_path: Path, shape: str) -> None:
    result = parse(written(tmp_path, SHAPES[shape]), "<weather><days>3</days></weather>", form="cline_xml")
    assert [call["arguments"] for call in json.loads(result.stdout)["calls"]] == [{"days": 3}]


def test_a_tool_that_its_vendor_runs_is_told_as_left_out(tmp_path: Path) -> None:
    result = parse(written(tmp_path, [{"type": "web_search", "parameters": {}}, TOOL]), CALL)
    assert result.exit_code == 0
    assert "tool 1 is skipped" in result.stderr


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "the input is empty"),
        ("weather", "not JSON: it begins with 'weather'"),
        ("7", "$: expected an array of tools, or an object that holds one as `tools`, got a whole number"),
        ('{"tools": 7}', "$.tools: expected an array of tools"),
        ('[{"inputSchema": {}}]', "$[0].name: "),
        ('{"tools": [{"name": "a", "inputSchema": {}}, {"name": 7, "inputSchema": {}}]}', "$.tools[1].name: "),
        ('[{"name": "a", "name": "b"}]', "$[0]"),
    ],
)
def test_unreadable_tools_exit_with_2_and_say_what_and_where(tmp_path: Path, content: str, told: str) -> None:
    tools = written(tmp_path, content)
    result = parse(tools, CALL)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"toolglot: {tools}: {told}")


# ── what cannot be read ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "position"), [(b"ab\xff", 2), ("ü".encode()[:1], 0), (b"abc\xe2\x82", 3), (b"\xef\xbb\xbfab\xc3", 5)]
)
def test_what_is_not_utf_8_is_told_with_its_place(tools: str, data: bytes, position: int) -> None:
    result = parse(tools, data)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"toolglot: <stdin>: invalid UTF-8 at byte {position}\n"


def test_a_missing_file_exits_with_2_and_one_line(tmp_path: Path) -> None:
    file = tmp_path / "none.txt"
    result = run("parse", "--format", "hermes_json", str(file))
    assert (result.exit_code, result.stderr) == (2, f"toolglot: {file}: No such file or directory\n")


def test_events_have_no_other_layout(tools: str) -> None:
    result = parse(tools, CALL, "--events", "--pretty")
    assert result.exit_code == 2
    assert "--pretty cannot be combined with --events" in result.stderr


def test_nothing_is_nothing() -> None:
    result = run("parse", "--format", "hermes_json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"text": "", "reasoning": "", "calls": []})
