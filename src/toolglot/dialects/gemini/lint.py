"""Lint rules for `streamGenerateContent?alt=sse`: what google-genai, whose reader is not an SSE parser, and Gemini CLI
require."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from toolglot.lint.report import LintFrame, LintReport, LintRules, is_bare_error, is_field, plain

RULES = {
    "data-only": "every line must be `data: ` with one space: no comment, no `event:`, no `id:` (google-genai fails); "
    "only an error may be a bare document",
    "no-done": "`data: [DONE]` must not be sent",
    "camel-case": "keys must be camelCase (others are silently lost)",
    "error-first": "in an error chunk `error` must be the first key and `error.code` a number",
    "finish": "a candidate must have a finishReason, or promptFeedback a blockReason",
    "finish-last": "content must not follow the finishReason",
    "args-object": "the args of a functionCall must be an object",
    "call-name": "a functionCall must have a name",
    "signature": "a thoughtSignature must be base64",
}

_FREE = ("args", "response", "labels", "partialArgs")
"""Members whose inner keys belong to the user."""
_SNAKE = re.compile(r"[a-z0-9]_[a-z]")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")


def check(frames: list[LintFrame], report: LintReport) -> None:
    finished: dict[Any, bool] = {}
    failed = blocked = False
    for frame in frames:
        if is_bare_error(frame):
            failed = True
            continue
        if not all(_is_plain_data(line) for line in frame.lines if is_field(line)):
            report.breach("data-only", frame)
        if frame.data == b"[DONE]":
            report.breach("no-done", frame)
        if "error" in frame.fields:
            failed = True
            _check_error(frame, report)
            continue
        if snake := next(_snake_keys(frame.value), None):
            report.breach("camel-case", frame, snake)
        feedback = frame.fields.get("promptFeedback")
        blocked = blocked or (isinstance(feedback, dict) and bool(feedback.get("blockReason")))
        candidates = frame.fields.get("candidates")
        for candidate in candidates if isinstance(candidates, list) else ():
            if isinstance(candidate, dict):
                _check_candidate(candidate, finished, frame, report)
    if not failed and not blocked and not (finished and all(finished.values())):
        report.breach("finish", None)


def _is_plain_data(line: bytes) -> bool:
    return line.startswith(b"data: ") and not line.startswith(b"data:  ")


def _check_error(frame: LintFrame, report: LintReport) -> None:
    error = frame.fields["error"]
    sound = next(iter(frame.fields)) == "error" and isinstance(error, dict) and type(error.get("code")) is int
    report.require(sound, "error-first", frame)


def _snake_keys(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield from filter(_SNAKE.search, node)
            pending.extend(inner for key, inner in node.items() if key not in _FREE)
        elif isinstance(node, list):
            pending.extend(node)


def _check_candidate(
    candidate: dict[str, Any], finished: dict[Any, bool], frame: LintFrame, report: LintReport
) -> None:
    index = plain(candidate.get("index", 0))
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    parts = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    report.require(not (finished.get(index) and parts), "finish-last", frame)
    finished[index] = finished.get(index, False) or bool(candidate.get("finishReason"))
    for part in parts:
        _check_part(part, frame, report)


def _check_part(part: dict[str, Any], frame: LintFrame, report: LintReport) -> None:
    signature = part.get("thoughtSignature")
    if signature is not None:
        report.require(isinstance(signature, str) and bool(_BASE64.fullmatch(signature)), "signature", frame)
    call = part.get("functionCall")
    if isinstance(call, dict):
        arguments = call.get("args")
        report.require(arguments is None or isinstance(arguments, dict), "args-object", frame)
        # Streamed arguments (Vertex) have the name only in their first part.
        streamed = "partialArgs" in call or "willContinue" in call or not call
        report.require(bool(call.get("name")) or streamed, "call-name", frame)


LINT = LintRules(rules=RULES, check=check)
