"""`toolglot translate` from and to text formats."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.run import run
from tests.lint.streams import DONE, SOUND, sse
from toolglot import read_response, read_stream
from toolglot.dialects import DIALECTS
from toolglot.events import fold
from toolglot.ir import Response, Text, ToolCall
from toolglot.lint import lint

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Weather now.", "parameters": SCHEMA}}
NATIVE = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Paris", "days": 2}'},
}
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [NATIVE]},
    {"role": "tool", "tool_call_id": "call_1", "content": "17 °C"},
    {"role": "assistant", "content": "Seventeen."},
    {"role": "user", "content": "Thanks."},
]
REQUEST = {"model": "m", "max_tokens": 9, "messages": HISTORY, "tools": [TOOL]}
HERMES = 'I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
CLINE = "I look.\n<weather>\n<city>Paris</city>\n<days>2</days>\n</weather>"
ARGUMENTS = {"city": "Paris", "days": 2}


@pytest.fixture
def tools(tmp_path: Path) -> str:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([TOOL]))
    return str(file)


def translate(source: str, target: str, kind: str, value: Any, *options: str) -> Result:
    data = value if isinstance(value, bytes | str) else json.dumps(value, ensure_ascii=False)
    return run("translate", "--from", source, "--to", target, "--kind", kind, *options, data=data)


def calls_of(response: Response) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in response.content if isinstance(call, ToolCall)]


def text_of(response: Response) -> str:
    return "".join(block.text for block in response.content if isinstance(block, Text))


# ── to text ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_request_tells_its_tools_calls_and_results_as_text_in_its_own_dialect() -> None:
    result = translate("openai_chat", "text:hermes_json", "request", REQUEST)
    assert result.exit_code == 0, result.stderr
    sent = json.loads(result.stdout)
    assert not sent.keys() & {"tools", "tool_choice"}
    assert {message["role"] for message in sent["messages"]} == {"system", "user", "assistant"}
    system, _, called, answered, *_ = (message["content"] for message in sent["messages"])
    assert system.startswith("Be brief.")
    assert "Weather now." in system
    assert '<tool_call>\n{"name": "weather", "arguments": ' in called
    assert "17 °C" in answered
    assert result.stderr.startswith("note: tools: ")


def test_the_request_may_be_written_in_another_dialect() -> None:
    sent = json.loads(translate("openai_chat", "anthropic+text:hermes_json", "request", REQUEST).stdout)
    assert sent["system"].startswith("Be brief.")
    assert "tools" not in sent
    assert "<tool_call>" in json.dumps(sent["messages"])


def test_a_choice_that_nobody_enforces_is_a_loss() -> None:
    result = translate("openai_chat", "text:hermes_json", "request", {**REQUEST, "tool_choice": "required"}, "--strict")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "loss: tool_choice: " in result.stderr


def test_messages_tell_calls_and_results_as_text() -> None:
    messages = json.loads(translate("openai_chat", "text:cline_xml", "messages", HISTORY).stdout)
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert "<weather>\n<city>Paris</city>\n<days>2</days>\n</weather>" in messages[2]["content"]
    assert "17 °C" in messages[3]["content"]


@pytest.mark.parametrize("source", ["openai_chat", "mcp", "anthropic"])
def test_tools_are_told_as_what_the_model_reads(source: str) -> None:
    shapes: dict[str, Any] = {
        "openai_chat": [TOOL],
        "mcp": [{"name": "weather", "description": "Weather now.", "inputSchema": SCHEMA}],
        "anthropic": [{"name": "weather", "description": "Weather now.", "input_schema": SCHEMA}],
    }
    result = translate(source, "text:hermes_json", "tools", shapes[source])
    assert result.exit_code == 0
    assert "Weather now." in result.stdout
    assert "<tool_call>" in result.stdout


def test_a_tool_that_only_its_vendor_runs_is_not_written_as_a_callable_tool() -> None:
    tools = [{"name": "weather", "input_schema": SCHEMA}, {"type": "web_search_20250305", "name": "web_search"}]
    result = translate("anthropic", "text:hermes_json", "tools", tools)
    assert "web_search" not in result.stdout
    assert "loss: tools[1]: web_search_20250305: only its vendor runs this tool" in result.stderr
    refused = translate("anthropic", "text:hermes_json", "tools", tools, "--strict")
    assert (refused.exit_code, refused.stdout) == (3, "")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_is_told_as_the_model_would_have_written_it(dialect: str, tools: str) -> None:
    result = translate(dialect, "text:hermes_json", "stream", SOUND[dialect])
    native = fold(read_stream(SOUND[dialect], dialect))
    assert result.exit_code == 0, result.stderr
    found = json.loads(run("parse", "--format", "hermes_json", data=result.stdout).stdout)
    assert [(call["name"], call["arguments"]) for call in found["calls"]] == calls_of(native)
    assert found["text"].strip() == text_of(native).strip()


def test_a_response_is_told_as_the_model_would_have_written_it() -> None:
    response = read_response(chat_response(None, [NATIVE]), "openai_chat")
    result = translate("openai_chat", "text:hermes_json", "response", chat_response("I look.", [NATIVE]))
    assert calls_of(response) == [("weather", ARGUMENTS)]
    assert (result.exit_code, result.stdout) == (0, f"{HERMES}\n")


def test_a_call_that_was_cut_is_a_loss_and_not_told() -> None:
    cut = {**NATIVE, "function": {"name": "weather", "arguments": '{"city": "Par'}}
    result = translate("openai_chat", "text:hermes_json", "response", chat_response("I look.", [cut], "length"))
    assert result.stdout == "I look.\n"
    assert "loss: content[1]: call of weather: " in result.stderr


def test_a_response_may_hold_the_text_in_its_dialect() -> None:
    result = translate("openai_chat", "anthropic+text:hermes_json", "response", chat_response("I look.", [NATIVE]))
    answer = json.loads(result.stdout)
    assert answer["content"] == [{"type": "text", "text": HERMES, "citations": None}]
    assert answer["stop_reason"] == "end_turn"


def test_a_stream_may_hold_the_text_in_its_dialect() -> None:
    result = translate("openai_chat", "anthropic+text:hermes_json", "stream", SOUND["openai_chat"])
    assert lint("anthropic", [result.stdout_bytes]) == []
    assert "<tool_call>" in text_of(fold(read_stream(result.stdout_bytes, "anthropic")))


def chat_response(content: str | None, calls: list[Any] | None = None, reason: str = "stop") -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
    }


# ── from text ────────────────────────────────────────────────────────────────────────────────────────────────────────

TEXT_HISTORY = [
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": CLINE},
    {"role": "user", "content": "[weather for 'Paris'] Result:\n17 °C"},
    {"role": "assistant", "content": "Seventeen."},
]


def test_calls_in_the_past_become_native_and_are_paired_with_their_results(tools: str) -> None:
    result = translate("text:cline_xml", "openai_chat", "messages", TEXT_HISTORY, "--tools", tools)
    assert result.exit_code == 0, result.stderr
    _, called, answered, last = json.loads(result.stdout)
    (call,) = called["tool_calls"]
    assert called["content"].strip() == "I look."
    assert call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"]) == ARGUMENTS
    assert (answered["role"], answered["tool_call_id"]) == ("tool", call["id"])
    assert "17 °C" in answered["content"]
    assert last["content"] == "Seventeen."


def test_the_past_of_another_dialect_is_known_by_its_marks(tools: str) -> None:
    request = {"system": "Be brief.", "messages": TEXT_HISTORY}
    result = translate("text:cline_xml", "anthropic", "messages", request, "--tools", tools)
    messages = json.loads(result.stdout)["messages"]
    assert messages[1]["content"][-1]["type"] == "tool_use"
    assert messages[2]["content"][0]["type"] == "tool_result"


def test_a_request_of_a_text_client_becomes_native_with_its_tools(tools: str) -> None:
    request = {"model": "m", "max_tokens": 9, "messages": TEXT_HISTORY[:3]}
    sent = json.loads(translate("text:cline_xml", "anthropic", "request", request, "--tools", tools).stdout)
    assert [tool["name"] for tool in sent["tools"]] == ["weather"]
    assert sent["messages"][1]["content"][-1]["input"] == ARGUMENTS


def test_there_and_back_again_is_the_same_history(tools: str) -> None:
    text = translate("openai_chat", "text:hermes_json", "messages", HISTORY).stdout
    back = json.loads(translate("text:hermes_json", "openai_chat", "messages", text, "--tools", tools).stdout)
    assert [message["role"] for message in back] == [message["role"] for message in HISTORY]
    assert back[3]["content"] == "17 °C"
    assert json.loads(back[2]["tool_calls"][0]["function"]["arguments"]) == ARGUMENTS


def test_messages_go_from_one_text_format_to_another(tools: str) -> None:
    result = translate("text:cline_xml", "text:hermes_json", "messages", TEXT_HISTORY, "--tools", tools)
    told = json.loads(result.stdout)
    assert '<tool_call>\n{"name": "weather"' in json.dumps(told).replace('\\"', '"').replace("\\n", "\n")
    assert "<weather>" not in result.stdout


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_plain_text_becomes_a_response_with_native_calls(dialect: str, tools: str) -> None:
    result = translate("text:hermes_json", dialect, "response", HERMES, "--tools", tools)
    assert result.exit_code == 0, result.stderr
    response = read_response(result.stdout_bytes, dialect)
    assert calls_of(response) == [("weather", ARGUMENTS)]
    assert text_of(response).strip() == "I look."
    assert response.stop.reason == "tool_calls"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_plain_text_becomes_a_stream_with_native_calls(dialect: str, tools: str) -> None:
    result = translate("text:hermes_json", dialect, "stream", HERMES, "--tools", tools, "--model", "m")
    assert result.exit_code == 0, result.stderr
    assert lint(dialect, [result.stdout_bytes]) == []
    assert calls_of(fold(read_stream(result.stdout_bytes, dialect))) == [("weather", ARGUMENTS)]


def test_a_response_whose_text_holds_calls_is_known_by_its_marks(tools: str) -> None:
    result = translate("text:hermes_json", "anthropic", "response", chat_response(HERMES), "--tools", tools)
    answer = json.loads(result.stdout)
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use"]
    assert answer["stop_reason"] == "tool_use"
    assert answer["model"] == "m"


def test_a_json_answer_is_no_response_of_a_dialect_because_of_one_member(tools: str) -> None:
    text = '{"name": "weather", "parameters": {"city": "Paris", "days": 2}}'
    result = translate("text:llama3_json", "openai_chat", "response", text, "--tools", tools)
    (call,) = json.loads(result.stdout)["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == ARGUMENTS
    other = translate("text:llama3_json", "openai_chat", "response", '{"output": 7}', "--tools", tools)
    assert json.loads(other.stdout)["choices"][0]["message"]["content"] == '{"output": 7}'


def chat_stream(*texts: str) -> list[Any]:
    deltas: list[Any] = [{"role": "assistant", "content": ""}, *({"content": text} for text in texts)]
    frames = [{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"} for _ in range(len(texts) + 2)]
    choices: list[Any] = [*({"index": 0, "delta": delta, "finish_reason": None} for delta in deltas)]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    return [{**frame, "choices": [choice]} for frame, choice in zip(frames, choices, strict=True)]


def test_a_stream_whose_text_holds_calls_is_known_by_its_first_event(tools: str) -> None:
    stream = b": hello\n\n" + sse(chat_stream(HERMES[:30], HERMES[30:]), named=False) + DONE
    result = translate("text:hermes_json", "anthropic", "stream", stream, "--tools", tools)
    assert lint("anthropic", [result.stdout_bytes]) == []
    assert calls_of(fold(read_stream(result.stdout_bytes, "anthropic"))) == [("weather", ARGUMENTS)]


def test_the_request_tells_the_tools_too(tmp_path: Path) -> None:
    asked = tmp_path / "asked.json"
    asked.write_text(json.dumps({**REQUEST, "stream": True}))
    result = translate("text:hermes_json", "openai_chat", "stream", HERMES, "--request", str(asked))
    assert calls_of(fold(read_stream(result.stdout_bytes, "openai_chat"))) == [("weather", ARGUMENTS)]
    assert "request: note: tools: " in result.stderr


def test_a_native_call_is_told_while_the_model_still_writes_it(tools: str) -> None:
    """A real process and real pipes."""
    command = [sys.executable, "-m", "toolglot", "translate", "--from", "text:hermes_json", "--to", "anthropic"]
    with subprocess.Popen(
        [*command, "--kind", "stream", "--tools", tools], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        heard = b""
        begun = HERMES.index(', "days"')
        for piece, told in ((HERMES[:9], b"I look."), (HERMES[9:begun], b"Paris"), (HERMES[begun:], b"")):
            process.stdin.write(piece.encode())
            while told not in heard:
                heard += process.stdout.read(65536) or pytest.fail("the output ended too soon")
        process.stdin.close()
        heard += process.stdout.read()
        assert process.wait() == 0
    assert lint("anthropic", [heard]) == []


def test_an_answer_goes_from_one_text_format_to_another(tools: str) -> None:
    for kind in ("response", "stream"):
        result = translate("text:cline_xml", "text:hermes_json", kind, CLINE, "--tools", tools)
        assert (result.exit_code, result.stdout) == (0, f"{HERMES}\n")


AUTO = {"hermes_json": HERMES, "cline_xml": CLINE}


@pytest.mark.parametrize("form", AUTO)
@pytest.mark.parametrize("kind", ["response", "stream"])
def test_the_format_of_an_answer_need_not_be_told(tools: str, form: str, kind: str) -> None:
    result = translate("text:auto", "text:hermes_json", kind, AUTO[form], "--tools", tools)
    assert (result.exit_code, result.stdout) == (0, f"{HERMES}\n")


def test_what_was_never_whole_is_text_in_the_target(tools: str) -> None:
    result = translate("text:hermes_json", "openai_chat", "response", HERMES[:-30], "--tools", tools)
    (choice,) = json.loads(result.stdout)["choices"]
    assert choice["finish_reason"] == "stop"
    assert "tool_calls" not in choice["message"]
    shown = choice["message"]["content"]
    assert "cannot be read" in shown
    assert shown.partition("The model wrote: ")[2].removesuffix("]") in HERMES


def test_an_answer_whose_calls_are_told_as_text_has_content_and_does_not_wait_for_results() -> None:
    function = {"name": "weather", "arguments": '{"city": "Rome"}'}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    given = json.dumps({"id": "x", "object": "chat.completion", "model": "m", "created": 1, "choices": [choice]})
    result = translate("openai_chat", "openai_chat+text:cline_xml", "response", given)
    (told,) = json.loads(result.stdout)["choices"]
    assert told["finish_reason"] == "stop"
    assert told["message"] == {"role": "assistant", "content": "<weather>\n<city>Rome</city>\n</weather>"}


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("source", "target", "kind", "told"),
    [
        ("text:smoke", "openai_chat", "request", "there is no text format 'smoke'"),
        ("mcp+text:hermes_json", "openai_chat", "request", "there is no dialect 'mcp'; there are "),
        ("chattext:hermes_json", "openai_chat", "request", "is neither text:FORMAT nor DIALECT+text:FORMAT"),
        ("openai_chat", "text:hermes_json", "error", "an error has no calls"),
        ("text:hermes_json", "openai_chat", "tools", "cannot be read back"),
        ("text:hermes_json", "openai_chat", "response", "give --tools FILE or --request FILE"),
        ("text:hermes_json", "openai_chat", "stream", "give --tools FILE or --request FILE"),
        ("mcp", "text:hermes_json", "messages", "mcp has only tools and results"),
        ("openai_chat", "text:auto", "request", "auto is only for reading"),
        ("text:auto", "openai_chat", "request", "auto is only for answers"),
    ],
)
def test_sides_that_make_no_sense_are_told(source: str, target: str, kind: str, told: str) -> None:
    result = translate(source, target, kind, "{}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


@pytest.mark.parametrize(
    ("target", "kind", "options", "told"),
    [
        ("text:hermes_json", "tools", ("--pretty",), "the output is plain text"),
        ("text:hermes_json", "request", ("--tools", "t.json"), "--tools applies only to --from text:FORMAT"),
        ("anthropic", "request", ("--tools", "t.json"), "--tools applies only to --from text:FORMAT"),
    ],
)
def test_an_option_without_a_meaning_is_told(target: str, kind: str, options: tuple[str, ...], told: str) -> None:
    result = translate("openai_chat", target, kind, [TOOL], *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


@pytest.mark.parametrize(
    ("kind", "data", "told"),
    [
        ("response", b" \n", "the input is empty"),
        ("stream", b"", "the input is empty"),
        ("response", b"a\xff", "invalid UTF-8 at byte 1"),
        ("stream", b"a\xff", "invalid UTF-8 at byte 1"),
        ("messages", b"hello", "not JSON: it begins with 'hello'"),
        ("request", b'{"model": "m", "messages": 7}', "$.messages: expected an array, got a whole number"),
    ],
)
def test_unreadable_input_exits_with_2_and_one_line(tools: str, kind: str, data: bytes, told: str) -> None:
    result = translate("text:hermes_json", "openai_chat", kind, data, "--tools", tools)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"toolglot: <stdin>: {told}\n"


def test_a_native_stream_that_breaks_off_exits_with_2(tools: str) -> None:
    result = translate("openai_chat", "text:hermes_json", "stream", SOUND["openai_chat"][:-300])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("toolglot: <stdin>: ")
