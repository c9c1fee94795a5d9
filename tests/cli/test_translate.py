"""`toolglot translate`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.run import on_terminal, run
from tests.lint.streams import ANTHROPIC, CHAT, DONE, SOUND, block, sse
from toolglot import translate_request, translate_stream
from toolglot.dialects import DIALECTS
from toolglot.lint import lint

CHAT_REQUEST: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Hello"}],
    "max_tokens": 10,
    "seed": 7,
}
CHAT_RESPONSE: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


def translate(source: str, target: str, kind: str, value: Any, *options: str) -> Result:
    data = value if isinstance(value, bytes | str) else json.dumps(value)
    return run("translate", "--from", source, "--to", target, "--kind", kind, *options, data=data)


def test_a_request_goes_to_standard_output_and_its_receipt_to_standard_error() -> None:
    result = translate("openai_chat", "anthropic", "request", CHAT_REQUEST)
    assert result.exit_code == 0
    assert json.loads(result.stdout) == translate_request(CHAT_REQUEST, "openai_chat", "anthropic").json()
    assert result.stdout.endswith("}\n")
    assert result.stderr.startswith("loss: seed: ")


def test_a_file_is_read_instead_of_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(CHAT_REQUEST))
    result = run("translate", "--from", "openai_chat", "--to", "anthropic", "--kind", "request", str(file))
    assert json.loads(result.stdout)["messages"] == [{"role": "user", "content": "Hello"}]


def test_the_receipt_goes_to_a_file_as_json(tmp_path: Path) -> None:
    file = tmp_path / "receipt.json"
    result = translate("openai_chat", "anthropic", "request", CHAT_REQUEST, "--receipt", str(file))
    assert result.stderr == ""
    (line,) = json.loads(file.read_text())
    assert sorted(line) == ["severity", "what", "where", "why"]
    assert (line["severity"], line["where"]) == ("loss", "seed")


def test_an_empty_receipt_is_an_empty_array(tmp_path: Path) -> None:
    file = tmp_path / "receipt.json"
    translate("openai_chat", "openai_chat", "request", CHAT_REQUEST, "--receipt", str(file))
    assert json.loads(file.read_text()) == []


def test_a_receipt_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "none" / "receipt.json"
    result = translate("openai_chat", "anthropic", "request", CHAT_REQUEST, "--receipt", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"toolglot: {file}: No such file or directory\n"


def test_a_receipt_that_cannot_be_written_is_told_before_a_stream_begins(tmp_path: Path) -> None:
    file = tmp_path / "none" / "receipt.json"
    result = translate("openai_chat", "anthropic", "stream", SOUND["openai_chat"], "--receipt", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"toolglot: {file}: No such file or directory\n"


def test_strict_exits_with_3_and_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "receipt.json"
    result = translate("openai_chat", "anthropic", "request", CHAT_REQUEST, "--strict", "--receipt", str(file))
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == "toolglot: <stdin>: refused (--strict): 1 loss\n"
    assert [line["where"] for line in json.loads(file.read_text())] == ["seed"]


def test_strict_tells_the_losses_and_how_many_there_are() -> None:
    result = translate("openai_chat", "anthropic", "request", {**CHAT_REQUEST, "logit_bias": {"1": 1}}, "--strict")
    *losses, refused = result.stderr.splitlines()
    assert [line.split(":")[0] for line in losses] == ["loss", "loss"]
    assert refused == "toolglot: <stdin>: refused (--strict): 2 losses"


def test_strict_without_a_loss_is_as_without_it() -> None:
    request = {key: value for key, value in CHAT_REQUEST.items() if key != "seed"}
    assert translate("openai_chat", "anthropic", "request", request, "--strict").exit_code == 0


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"model": "m", "messages": [{"role": 3}]}', "$.messages[0].role: expected a string, got a whole number"),
        (b'{"model": "m", "messages": [', "$.messages[0]: Input data was truncated (byte 28)"),
        (b'{"model": "\xff"}', "$.model: invalid UTF-8 at byte 11"),
        (b"", "the input is empty"),
        (b" \n", "the input is empty"),
        (b"\xef\xbb\xbf", "the input is empty"),
        (b"hello\n", "not JSON: it begins with 'hello'"),
        (b"<!DOCTYPE html><html lang=en>", "not JSON: it begins with '<!DOCTYPE html><html…'"),
        (b"\x89PNG\r\n\x1a\n", r"not JSON: it begins with '\x89PNG'"),
        (b"\x1b[2J", r"not JSON: it begins with '\x1b[2J'"),
        (b"7", "$: expected an object, got a whole number"),
        ('{"model": "m"}'.encode("utf-16"), "this is UTF-16; JSON must be UTF-8"),
        ('{"model": "m"}'.encode("utf-16-be"), "this is UTF-16; JSON must be UTF-8"),
        (b"data: {}\n\n", "not JSON: it begins with 'data: {}'; is it a stream? --kind stream"),
    ],
)
def test_unreadable_input_exits_with_2_and_one_line_that_says_what_and_where(data: bytes, told: str) -> None:
    result = translate("openai_chat", "anthropic", "request", data)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"toolglot: <stdin>: {told}\n"


def test_a_missing_file_exits_with_2_and_one_line(tmp_path: Path) -> None:
    file = tmp_path / "none.json"
    result = run("translate", "--from", "openai_chat", "--to", "gemini", "--kind", "request", str(file))
    assert result.exit_code == 2
    assert result.stderr == f"toolglot: {file}: No such file or directory\n"


def test_a_response_is_translated() -> None:
    result = translate("openai_chat", "anthropic", "response", CHAT_RESPONSE)
    assert json.loads(result.stdout)["content"] == [{"type": "text", "text": "Hi", "citations": None}]


def test_an_error_in_place_of_a_response_is_told_as_one() -> None:
    result = translate("openai_chat", "anthropic", "response", {"error": {"message": "no", "type": "server_error"}})
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "--kind error" in result.stderr


def test_an_error_takes_the_form_of_the_target() -> None:
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    result = translate("anthropic", "gemini", "error", body, "--status", "529")
    assert json.loads(result.stdout)["error"]["status"] == "UNAVAILABLE"
    assert result.stderr.startswith("note: status: 529 is 503 there: ")


def test_an_error_may_be_no_json_at_all() -> None:
    result = translate("openai_chat", "anthropic", "error", b"<h1>Bad gateway</h1>", "--status", "502")
    assert (result.exit_code, json.loads(result.stdout)["type"]) == (0, "error")


def test_an_error_is_a_bad_request_unless_told_otherwise() -> None:
    result = translate("openai_chat", "anthropic", "error", {"error": {"message": "no"}})
    assert json.loads(result.stdout)["error"]["type"] == "invalid_request_error"


def test_gemini_gets_its_model_and_stream_from_options() -> None:
    request = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    result = translate("gemini", "anthropic", "request", request, "--model", "claude-x", "--stream")
    written = json.loads(result.stdout)
    assert (written["model"], written["stream"]) == ("claude-x", True)
    result = translate("gemini", "anthropic", "request", request, "--model", "claude-x", "--no-stream")
    assert not json.loads(result.stdout).get("stream")


@pytest.mark.parametrize("target", [name for name in DIALECTS if name != "gemini"])
def test_a_gemini_request_without_a_model_is_refused(target: str) -> None:
    result = translate("gemini", target, "request", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]})
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "toolglot: <stdin>: a gemini request has no model name: give --model\n"


def test_pretty_output_is_indented_and_says_the_same() -> None:
    plain = translate("openai_chat", "anthropic", "request", CHAT_REQUEST)
    pretty = translate("openai_chat", "anthropic", "request", CHAT_REQUEST, "--pretty")
    assert pretty.stdout.startswith('{\n  "model": "m"')
    assert json.loads(pretty.stdout) == json.loads(plain.stdout)


def test_a_terminal_gets_pretty_output_and_a_pipe_gets_one_line(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps({**CHAT_REQUEST, "max_tokens": 1000}))
    command = f"{sys.executable} -m toolglot translate --from openai_chat --to anthropic --kind request {file}"
    shown = on_terminal(command, tmp_path).output
    assert '{\n  "model": "m",\n  "max_tokens": 1000,\n  "messages": [{"role": "user", "content": "Hello"}]\n}' in shown
    assert '{"model":"m",' in on_terminal(f"{command} | cat", tmp_path).output
    assert '{"model":"m",' in on_terminal(f"{command} --no-pretty", tmp_path).output


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_within_one_dialect_no_byte_is_added_but_a_last_line_end(end: bytes) -> None:
    data = b'{"model": "m", "messages": [] }' + end
    assert translate("openai_chat", "openai_chat", "request", data).stdout_bytes == data.rstrip() + b"\n"
    assert translate("openai_chat", "openai_chat", "request", data, "--pretty").stdout.endswith("}\n")


def test_a_byte_order_mark_is_skipped() -> None:
    data = b"\xef\xbb\xbf" + json.dumps(CHAT_REQUEST).encode()
    assert translate("openai_chat", "anthropic", "request", data).exit_code == 0


def test_names_in_a_receipt_have_no_power_over_the_terminal() -> None:
    tool = {"type": "function", "function": {"name": "\x1b[2Jx", "parameters": {"type": "object"}}}
    result = translate("openai_chat", "anthropic", "request", {**CHAT_REQUEST, "tools": [tool]})
    assert r"\x1b[2Jx" in result.stderr
    assert "\x1b" not in result.stderr


HELLO = {"role": "user", "content": "Hello"}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "files.read", "parameters": {"type": "object"}}}
ASKED: dict[str, Any] = {**CHAT_REQUEST, "tools": [TOOL], "stream_options": {"include_usage": True}}
ANSWERED: dict[str, Any] = {
    **ANTHROPIC[0]["message"],
    "content": [{"type": "tool_use", "id": "toolu_1", "name": "files_read", "input": {}}],
    "stop_reason": "tool_use",
}


def test_an_answer_gets_its_names_back_from_its_request(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(ASKED))
    result = translate("anthropic", "openai_chat", "response", ANSWERED, "--request", str(file))
    (call,) = json.loads(result.stdout)["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "files.read"
    assert "files_read" in translate("anthropic", "openai_chat", "response", ANSWERED).stdout


def test_a_streamed_answer_gets_its_names_back_too(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(ASKED))
    events = [event for event in ANTHROPIC if event.get("index") in (None, 0)]
    call = {"type": "tool_use", "id": "toolu_1", "name": "files_read", "input": {}}
    recording = sse([events[0], *block(0, call), *events[-2:]], named=True)
    result = translate("anthropic", "openai_chat", "stream", recording, "--request", str(file))
    assert (result.exit_code, '"name":"files.read"' in result.stdout) == (0, True)


def test_a_bad_request_of_an_answer_is_told_with_its_own_name(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text('{"model": "m", "messages": [{"role": 3}]}')
    result = translate("anthropic", "openai_chat", "response", ANSWERED, "--request", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"toolglot: {file}: $.messages[0].role: expected a string, got a whole number\n"


def test_the_request_of_an_answer_may_need_a_model(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text('{"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}')
    result = translate("anthropic", "gemini", "response", ANSWERED, "--request", str(file))
    assert result.stderr == f"toolglot: {file}: a gemini request has no model name: give --model\n"
    again = translate("anthropic", "gemini", "response", ANSWERED, "--request", str(file), "--model", "claude-x")
    assert (again.exit_code, again.stderr.count("loss")) == (0, 0)


@pytest.mark.parametrize("kind", ["response", "stream"])
def test_strict_is_about_the_answer_and_not_about_its_request(kind: str, tmp_path: Path) -> None:
    file, receipt = tmp_path / "request.json", tmp_path / "receipt.json"
    file.write_text(json.dumps(ASKED))
    text = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi"})
    recording = sse([ANTHROPIC[0], *text, *ANTHROPIC[-2:]], named=True)
    answer = ANSWERED if kind == "response" else recording
    options = ("--request", str(file), "--strict")
    result = translate("anthropic", "openai_chat", kind, answer, *options)
    assert result.exit_code == 0
    # The recording stops for a call that it does not have.
    corrected = [["note", " stop", " tool_use"]] if kind == "stream" else []
    assert [line.split(":")[:3] for line in result.stderr.splitlines()] == [
        ["request", " note", " tools[0]"],
        ["request", " loss", " seed"],
        *corrected,
    ]
    translate("anthropic", "openai_chat", kind, answer, *options, "--receipt", str(receipt))
    assert [(line["of"], line["where"]) for line in json.loads(receipt.read_text())[:2]] == [
        ("request", "tools[0]"),
        ("request", "seed"),
    ]


@pytest.mark.parametrize("kind", ["response", "stream"])
def test_a_loss_of_the_answer_counts_beside_those_of_its_request(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(
        json.dumps({"model": "m", "max_tokens": 9, "inference_geo": "eu", "messages": [HELLO], "container": "c"})
    )
    second = {**CHAT[1], "choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": None}]}
    choices = [*CHAT_RESPONSE["choices"], {**CHAT_RESPONSE["choices"][0], "index": 1}]
    recording = sse([*CHAT[:2], second, *CHAT[2:]], named=False) + DONE
    answer = {**CHAT_RESPONSE, "choices": choices} if kind == "response" else recording
    result = translate("openai_chat", "anthropic", kind, answer, "--request", str(file), "--strict")
    assert result.exit_code == 3
    lines = result.stderr.splitlines()
    assert lines[-1] == "toolglot: <stdin>: refused (--strict): 1 loss"
    assert [line.split(":")[0] for line in lines[:-1]] == ["request", "request", "loss"]


def test_a_custom_call_that_the_answer_spoils_is_a_loss_of_the_answer(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    custom = {"type": "custom", "name": "run", "description": "Runs code."}
    file.write_text(json.dumps({"model": "m", "input": "Hi", "max_output_tokens": 99, "tools": [custom]}))
    answer = {**ANSWERED, "content": [{"type": "tool_use", "id": "toolu_1", "name": "run", "input": {"other": 1}}]}
    result = translate("anthropic", "openai_responses", "response", answer, "--request", str(file), "--strict")
    assert result.exit_code == 3
    assert "\nloss: content: " in f"\n{result.stderr}"


def test_tools_alone_from_mcp() -> None:
    listed = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "now", "inputSchema": {"type": "object"}}]}}
    result = translate("mcp", "gemini", "tools", listed)
    assert json.loads(result.stdout)[0]["functionDeclarations"][0]["name"] == "now"
    back = translate("gemini", "mcp", "tools", result.stdout)
    assert [tool["name"] for tool in json.loads(back.stdout)] == ["now"]


def test_a_history_alone() -> None:
    history = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    result = translate("openai_chat", "anthropic", "messages", history)
    assert json.loads(result.stdout) == {"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_an_unknown_dialect_lists_the_known_ones(option: str) -> None:
    other = "--to" if option == "--from" else "--from"
    result = run("translate", option, "cohere", other, "gemini", "--kind", "request")
    assert result.exit_code == 2
    assert ", ".join((*DIALECTS, "mcp")) in result.stderr


def test_a_hyphen_in_a_dialect_is_as_good_as_an_underscore() -> None:
    assert translate("openai-chat", "Anthropic", "request", CHAT_REQUEST).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--from", "mcp", "--to", "gemini", "--kind", "request"), "--kind tools"),
        (("--from", "gemini", "--to", "gemini", "--kind", "response", "--model", "m"), "--model cannot be combined"),
        (("--from", "gemini", "--to", "gemini", "--kind", "tools", "--stream"), "--stream cannot be combined"),
        (("--from", "gemini", "--to", "gemini", "--kind", "request", "--status", "400"), "--status cannot be combined"),
        (("--from", "gemini", "--to", "gemini", "--kind", "stream", "--pretty"), "--pretty cannot be combined"),
        (("--from", "gemini", "--to", "gemini", "--kind", "request", "--request", "x"), "--request cannot be combined"),
        (("--from", "gemini", "--to", "gemini", "--kind", "request", "--receipt", "-"), "--receipt needs a file"),
        (("--from", "gemini", "--to", "gemini", "--kind", "poem"), "poem"),
    ],
)
def test_options_without_a_meaning_are_refused(arguments: tuple[str, ...], told: str) -> None:
    result = run("translate", *arguments)
    assert result.exit_code == 2
    assert told in result.stderr


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_a_stream_is_translated_between_every_pair(source: str, target: str) -> None:
    result = translate(source, target, "stream", SOUND[source])
    assert result.exit_code == 0
    assert result.stdout_bytes == b"".join(translate_stream([SOUND[source]], source, target))
    assert lint(target, [result.stdout_bytes]) == []


def test_a_stream_that_stops_too_soon_ends_in_an_error_and_exits_with_2() -> None:
    result = translate("openai_chat", "anthropic", "stream", sse(CHAT[:2], named=False))
    assert result.exit_code == 2
    assert "event: error" in result.stdout
    assert result.stderr.startswith("toolglot: <stdin>: The upstream ended the stream")


def test_a_strict_stream_that_loses_something_exits_with_3() -> None:
    second = {**CHAT[1], "choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": None}]}
    recording = sse([*CHAT[:2], second, *CHAT[2:]], named=False) + DONE
    result = translate("openai_chat", "anthropic", "stream", recording, "--strict")
    assert result.exit_code == 3
    assert "event: error" in result.stdout
    assert result.stderr.endswith("toolglot: <stdin>: refused (--strict): 1 loss\n")
    assert translate("openai_chat", "anthropic", "stream", recording).exit_code == 0


def test_the_output_of_a_stream_comes_as_its_input_arrives() -> None:
    """A real process and real pipes: each part is answered while the input is still open."""
    command = [sys.executable, "-m", "toolglot", "translate", "--from", "openai_chat", "--to", "anthropic"]
    with subprocess.Popen(
        [*command, "--kind", "stream"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        heard = b""
        for event, answer in ((CHAT[0], b"message_start"), (CHAT[1], b"Hello"), (CHAT[2], b"content_block_stop")):
            process.stdin.write(sse([event], named=False))
            while answer not in heard:
                piece = process.stdout.read(65536)
                assert piece, "the output ended too soon"
                heard += piece
        process.stdin.write(sse(CHAT[3:], named=False) + DONE)
        process.stdin.close()
        heard += process.stdout.read()
        assert process.wait() == 0
    assert lint("anthropic", [heard]) == []


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic"])
def test_a_model_is_given_also_within_one_dialect(dialect: str) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "openai_chat": {"model": "asked", "messages": [{"role": "user", "content": "Hi"}]},
        "openai_responses": {"model": "asked", "input": "Hi"},
        "anthropic": {"model": "asked", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    }
    body = bodies[dialect]
    result = translate(dialect, dialect, "request", body, "--model", "given", "--stream")
    assert json.loads(result.stdout) == {**body, "model": "given", "stream": True}
