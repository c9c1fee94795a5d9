"""Lint rules for Ollama streams: what its Python and JavaScript clients and Open WebUI require."""

from __future__ import annotations

from typing import Any

from toolglot.lint.report import LintFrame, LintReport, LintRules

RULES = {
    "object": "a line must be a JSON object",
    "no-blank-line": "there must be no blank lines (the clients read each line as JSON)",
    "message": "a line must have a message with a role, or a `response`",
    "content-text": "`content`, `thinking` and `response` must be strings",
    "call-function": "a call must have a function with a name",
    "call-arguments": "the arguments of a call must be an object, not a string",
    "done-flag": "a line must say whether it is `done`",
    "done-last": "the last line must be `done`, or an error",
    "nothing-after": "a line that is `done`, or an error, must be the last one",
}


def check(frames: list[LintFrame], report: LintReport) -> None:
    ended = False
    for frame in frames:
        if not (frame.data or b"").strip():
            report.breach("no-blank-line", frame)
            continue
        report.require(not ended, "nothing-after", frame)
        if not report.require(isinstance(frame.value, dict), "object", frame):
            continue
        if "error" in frame.fields:
            ended = True
            continue
        _check_line(frame, report)
        ended = ended or frame.fields.get("done") is True
    if frames:
        report.require(ended, "done-last", None)


def _check_line(frame: LintFrame, report: LintReport) -> None:
    fields = frame.fields
    message = fields.get("message")
    is_chat = isinstance(message, dict) and isinstance(message.get("role"), str)
    report.require(is_chat or "response" in fields, "message", frame)
    report.require(isinstance(fields.get("done"), bool), "done-flag", frame)
    members: dict[str, Any] = message if isinstance(message, dict) else dict(fields)
    texts = [members[name] for name in ("content", "thinking", "response") if name in members]
    report.require(all(isinstance(text, str) for text in texts), "content-text", frame)
    calls = members.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if report.require(isinstance(function, dict) and isinstance(function.get("name"), str), "call-function", frame):
            assert isinstance(function, dict)
            report.require(isinstance(function.get("arguments"), dict), "call-arguments", frame)


LINT = LintRules(rules=RULES, check=check, is_lines=True)
