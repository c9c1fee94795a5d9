"""What the command line says of input that is not what it was told to expect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.case_files import Case, cases_with
from tests.cli.run import run
from tests.exchanges import JSON_NAMES
from tests.lint.streams import SOUND
from toolglot.cli.diagnosis import first_event, json_or_none, marks_of_kind, other_dialect
from toolglot.dialects import DIALECTS

TOOL = {"name": "f", "description": "F."}
SCHEMA = {"type": "object"}
RESULT = {"type": "tool_result", "tool_use_id": "a"}

DOCUMENTS: list[tuple[str, str, Any]] = [
    ("request", "openai_chat", {"model": "m", "messages": [], "tools": [{"type": "function", "function": TOOL}]}),
    ("request", "openai_chat", {"model": "m", "messages": [{"role": "system", "content": "x"}]}),
    ("request", "openai_chat", {"model": "m", "messages": [], "functions": [TOOL]}),
    ("request", "openai_responses", {"model": "m", "input": "Hi"}),
    ("request", "anthropic", {"model": "m", "max_tokens": 9, "system": "x", "messages": []}),
    ("request", "anthropic", {"model": "m", "messages": [], "tools": [{**TOOL, "input_schema": SCHEMA}]}),
    ("request", "anthropic", {"messages": [{"role": "user", "content": [RESULT]}]}),
    ("request", "gemini", {"contents": [{"parts": [{"text": "Hi"}]}]}),
    ("response", "openai_chat", {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}}]}),
    ("response", "openai_responses", {"object": "response", "output": []}),
    ("response", "anthropic", {"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn"}),
    ("response", "gemini", {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}),
    ("tools", "openai_chat", [{"type": "function", "function": TOOL}]),
    ("tools", "openai_responses", {"tools": [{"type": "function", **TOOL, "parameters": SCHEMA}]}),
    ("tools", "anthropic", [{**TOOL, "input_schema": SCHEMA}]),
    ("tools", "gemini", [{"functionDeclarations": [TOOL]}]),
    ("tools", "gemini", {"tools": [{"function_declarations": [TOOL]}]}),
    ("tools", "mcp", [{**TOOL, "inputSchema": SCHEMA}]),
    ("tools", "mcp", {"result": {"tools": [{**TOOL, "inputSchema": SCHEMA}]}}),
    ("messages", "openai_chat", [{"role": "tool", "tool_call_id": "a", "content": "x"}]),
    ("messages", "openai_responses", [{"type": "function_call_output", "call_id": "a", "output": "x"}]),
    ("messages", "anthropic", [{"role": "user", "content": [RESULT]}]),
    ("messages", "gemini", [{"role": "user", "parts": [{"text": "Hi"}]}]),
    ("result", "openai_chat", {"role": "tool", "tool_call_id": "a", "content": "x"}),
    ("result", "openai_responses", [{"type": "function_call_output", "call_id": "a", "output": "x"}]),
    ("result", "anthropic", RESULT),
    ("result", "anthropic", {"role": "user", "content": [RESULT]}),
    ("result", "gemini", {"functionResponse": {"id": "a", "name": "f", "response": {}}}),
    ("result", "mcp", {"content": [], "isError": True}),
    ("error", "anthropic", {"type": "error", "error": {"type": "api_error", "message": "x"}}),
    ("error", "gemini", {"error": {"code": 500, "message": "x", "status": "INTERNAL"}}),
]


def names(kind: str) -> list[str]:
    return [*JSON_NAMES, "mcp"] if kind in ("tools", "result") else list(JSON_NAMES)


@pytest.mark.parametrize(("kind", "dialect", "document"), DOCUMENTS)
def test_a_document_of_another_dialect_is_told_as_one(kind: str, dialect: str, document: Any) -> None:
    for told in names(kind):
        arguments = ["--from", told, "--to", told if told != "mcp" else "gemini", "--kind", kind]
        if (dialect, told) == ("openai_chat", "ollama"):  # whose documents are mostly the same
            continue
        model = ["--model", "m"] if kind == "request" else []
        model += ["--call-id", "a", "--name", "f"] if kind == "result" else []
        result = run("translate", *arguments, *model, data=json.dumps(document))
        line = f"toolglot: <stdin>: this looks like {dialect}, not {told}"
        told_lines = [line for line in result.stderr.splitlines() if "looks like" in line]
        assert [found.partition(" (")[0] for found in told_lines] == ([] if told == dialect else [line])
        if kind in ("tools", "messages", "result") and told != dialect:
            assert (result.exit_code, result.stdout) == (2, "")
            assert result.stderr.count("\n") == 1


def test_what_could_be_either_is_not_told() -> None:
    document = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    for dialect in ("openai_chat", "anthropic"):
        assert other_dialect(document, "request", dialect) is None


@pytest.mark.parametrize("kind", ["request", "response", "error"])
def test_no_real_document_is_taken_for_another_dialects(kind: str) -> None:
    cases: list[Case] = cases_with(kind)
    assert cases
    for case in cases:
        assert other_dialect(json_or_none(case.read(kind)), kind, case.dialect) is None, (case.dialect, case.name)


@pytest.mark.parametrize("kind", ["tools", "messages"])
def test_no_real_request_is_taken_for_another_dialects_tools_or_history(kind: str) -> None:
    for case in (case for case in cases_with("request") if case.dialect in JSON_NAMES):
        request = case.value("request")
        key = "tools" if kind == "tools" else DIALECTS[case.dialect].request.history_key
        for document in (request, request.get(key)):
            assert other_dialect(document, kind, case.dialect) is None, (case.dialect, case.name)


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic"])
def test_a_system_message_in_a_history_is_nobodys_mark(dialect: str) -> None:
    history = [{"role": "user", "content": "Hi"}, {"role": "system", "content": "Be brief."}]
    assert other_dialect(history, "messages", dialect) is None
    assert other_dialect({"messages": history}, "messages", dialect) is None


@pytest.mark.parametrize("strict", [[], ["--strict"]])
def test_tools_of_another_dialect_lose_no_schema_in_silence(strict: list[str]) -> None:
    tools = [{"type": "function", "function": {**TOOL, "parameters": SCHEMA}}]
    arguments = ["--from", "anthropic", "--to", "gemini", "--kind", "tools", *strict]
    result = run("translate", *arguments, data=json.dumps(tools))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "toolglot: <stdin>: this looks like openai_chat, not anthropic\n"


@pytest.mark.parametrize("told", DIALECTS)
@pytest.mark.parametrize("dialect", JSON_NAMES)
def test_a_stream_of_another_dialect_is_told_and_gets_no_answer(dialect: str, told: str) -> None:
    target = "anthropic" if told != "anthropic" else "openai_chat"
    result = run("translate", "--from", told, "--to", target, "--kind", "stream", data=SOUND[dialect])
    if told == dialect:
        assert (result.exit_code, "looks like" in result.stderr) == (0, False)
    else:
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.endswith(f"toolglot: <stdin>: this looks like {dialect}, not {told}\n")


@pytest.mark.parametrize("data", [b"", b'{"choices": []}', b"hello\n", bytes(range(256)), b"[]"])
def test_what_is_no_stream_is_told_and_gets_no_answer(data: bytes) -> None:
    for target in DIALECTS:
        result = run("translate", "--from", "openai_chat", "--to", target, "--kind", "stream", data=data)
        assert (result.exit_code, result.stdout) == (2, "")
        told = "no server-sent event in it; is it a whole response? --kind response" if data else "the input is empty"
        assert result.stderr.endswith(f"toolglot: <stdin>: {told}\n")


def test_a_stream_in_utf_16_is_told() -> None:
    data = SOUND["openai_chat"].decode().encode("utf-16")
    result = run("translate", "--from", "openai_chat", "--to", "gemini", "--kind", "stream", data=data)
    assert result.stderr.endswith("toolglot: <stdin>: this is UTF-16; a stream must be UTF-8\n")


def test_every_kind_and_every_dialect_has_marks() -> None:
    for kind in ("request", "response", "tools", "messages", "result", "error", "stream"):
        alike = {"ollama"} if kind in ("tools", "error") else set()  # as Chat has them, or nothing but a text
        assert [name for name, marks in marks_of_kind(kind).items() if marks] == [
            name for name in names(kind) if name not in alike
        ]


def test_no_real_stream_is_taken_for_another_dialects() -> None:
    for case in cases_with("stream"):
        event = first_event(case.read("stream"))
        assert other_dialect(event, "stream", case.dialect) is None, (case.dialect, case.name)


def test_a_comment_may_come_long_before_the_first_event() -> None:
    for target in DIALECTS:
        data = b": wait\n\n" * 20_000 + SOUND["openai_chat"]
        result = run("translate", "--from", "openai_chat", "--to", target, "--kind", "stream", data=data)
        assert result.exit_code == 0
