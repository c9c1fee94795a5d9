"""Lint rules for Messages streams that the Python and JavaScript SDKs, the AI SDK and Claude Code enforce."""

from __future__ import annotations

from typing import Any

from toolglot.lint.report import LintFrame, LintReport, LintRules, is_object, plain

RULES = {
    "event-line": "an `event:` line must name the type of the data (the SDKs silently drop events without one)",
    "start-first": "message_start must come first",
    "start-once": "there must be exactly one message_start",
    "start-message": "message_start must contain a message whose `content` is a list of complete blocks, usually empty",
    "start-usage": "message_start.message.usage must be present",
    "index-dense": "content blocks must count up from index 0",
    "one-open": "content blocks must not overlap: one is open at a time",
    "delta-open": "a delta or stop must belong to an open block",
    "delta-type": "the type of a delta must fit the type of its block",
    "input-delta": "a tool's input must come in deltas and start as {} (Claude Code ignores input in the start event)",
    "input-json": "the input of a tool must be a JSON object when its block stops, unless the output limit cut it",
    "signature-once": "a block must have at most one signature (the SDKs keep only the last)",
    "blocks-stopped": "every block must stop before message_delta",
    "delta-usage": "message_delta.usage.output_tokens must be present",
    "usage-kept": "message_delta must not set input_tokens to 0 if message_start reported some",
    "stop-reason": "the last message_delta must have a stop_reason",
    "stop-last": "message_delta, then message_stop, must end the stream",
    "nothing-after": "message_stop or an error must be the last event",
}

_DELTAS: dict[str, frozenset[str]] = {
    "text": frozenset({"text_delta", "citations_delta"}),
    "thinking": frozenset({"thinking_delta", "signature_delta"}),
    "tool_use": frozenset({"input_json_delta"}),
    "server_tool_use": frozenset({"input_json_delta"}),
    "mcp_tool_use": frozenset({"input_json_delta"}),
    "redacted_thinking": frozenset(),
}
_KNOWN_DELTAS = frozenset[str]().union(*_DELTAS.values())
_WITH_INPUT = ("tool_use", "server_tool_use", "mcp_tool_use")
_CUT = ("max_tokens", "model_context_window_exceeded")


class _LintedBlock:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.input: list[str] = []
        self.signatures = 0


class AnthropicLinter:
    def __init__(self, report: LintReport) -> None:
        self._report = report
        self._started = self._delta = self._ended = False
        self._next = 0
        self._open: dict[int | str | None, _LintedBlock] = {}
        self._broken: list[tuple[LintFrame, str]] = []
        self._start_counted_input = False
        self._reason: Any = None
        self._last = ""

    def add(self, frame: LintFrame) -> None:
        if frame.data is None:
            return
        report, kind = self._report, frame.fields.get("type")
        if self._ended:
            report.breach("nothing-after", frame)
            return
        if frame.value is None:
            return
        report.require(frame.event is not None and frame.event == kind, "event-line", frame, f"event: {frame.event}")
        handle = _HANDLERS.get(kind) if isinstance(kind, str) else None
        if kind == "ping":
            return
        if not self._started and kind not in ("message_start", "error"):
            report.breach("start-first", frame)
            self._started = True  # reported once
        if handle is not None:
            handle(self, frame)
        self._last = str(kind)

    def close(self) -> None:
        if self._last == "error":
            return
        self._report.require(self._last == "message_stop" and self._delta, "stop-last", None)
        if self._delta:
            self._report.require(isinstance(self._reason, str), "stop-reason", None)
        if self._reason not in _CUT:
            for frame, text in self._broken:
                self._report.breach("input-json", frame, text[-60:])

    def _start(self, frame: LintFrame) -> None:
        if self._started:
            self._report.breach("start-once", frame)
        self._started = True
        message = frame.fields.get("message")
        message = message if isinstance(message, dict) else {}
        content = message.get("content")
        self._report.require(isinstance(content, list), "start-message", frame)
        if isinstance(content, list) and content:
            # Programmatic tool calling: the message may be whole, and then no message_delta has its stop reason.
            self._next = len(content)
            self._reason = message.get("stop_reason")
            self._delta = isinstance(self._reason, str)
        usage = message.get("usage")
        self._report.require(isinstance(usage, dict), "start-usage", frame)
        self._start_counted_input = isinstance(usage, dict) and bool(usage.get("input_tokens"))

    def _open_block(self, frame: LintFrame) -> None:
        index, block = plain(frame.fields.get("index")), frame.fields.get("content_block")
        fields = block if isinstance(block, dict) else {}
        self._report.require(index == self._next, "index-dense", frame, f"expected {self._next}, got {index}")
        self._report.require(not self._open, "one-open", frame, f"open: {list(self._open)}")
        self._next += 1
        self._open[index] = _LintedBlock(str(fields.get("type")))
        if fields.get("type") == "tool_use":
            self._report.require(not fields.get("input"), "input-delta", frame)

    def _delta_block(self, frame: LintFrame) -> None:
        index, delta = plain(frame.fields.get("index")), frame.fields.get("delta")
        block = self._open.get(index)
        if not self._report.require(block is not None, "delta-open", frame, f"index {index}") or block is None:
            return
        fields = delta if isinstance(delta, dict) else {}
        kind = plain(fields.get("type"))
        if kind in _KNOWN_DELTAS and block.kind in _DELTAS:
            self._report.require(kind in _DELTAS[block.kind], "delta-type", frame, f"{kind} in {block.kind}")
        if kind == "input_json_delta" and isinstance(fields.get("partial_json"), str):
            block.input.append(fields["partial_json"])
        if kind == "signature_delta":
            block.signatures += 1
            self._report.require(block.signatures == 1, "signature-once", frame)

    def _stop_block(self, frame: LintFrame) -> None:
        index = plain(frame.fields.get("index"))
        block = self._open.pop(index, None)
        if not self._report.require(block is not None, "delta-open", frame, f"index {index}") or block is None:
            return
        text = "".join(block.input)
        if block.kind in _WITH_INPUT and not is_object(text):
            self._broken.append((frame, text))

    def _delta_message(self, frame: LintFrame) -> None:
        self._delta = True
        self._report.require(not self._open, "blocks-stopped", frame, f"open: {list(self._open)}")
        self._open.clear()
        usage, delta = frame.fields.get("usage"), frame.fields.get("delta")
        tokens = usage if isinstance(usage, dict) else {}
        self._report.require(isinstance(tokens.get("output_tokens"), int), "delta-usage", frame)
        self._report.require(tokens.get("input_tokens") != 0 or not self._start_counted_input, "usage-kept", frame)
        self._reason = delta.get("stop_reason") if isinstance(delta, dict) else None

    def _stop(self, frame: LintFrame) -> None:
        self._ended = True

    def _error(self, frame: LintFrame) -> None:
        self._ended = True


_HANDLERS = {
    "message_start": AnthropicLinter._start,
    "content_block_start": AnthropicLinter._open_block,
    "content_block_delta": AnthropicLinter._delta_block,
    "content_block_stop": AnthropicLinter._stop_block,
    "message_delta": AnthropicLinter._delta_message,
    "message_stop": AnthropicLinter._stop,
    "error": AnthropicLinter._error,
}


def check(frames: list[LintFrame], report: LintReport) -> None:
    linter = AnthropicLinter(report)
    for frame in frames:
        linter.add(frame)
    linter.close()


LINT = LintRules(rules=RULES, check=check)
