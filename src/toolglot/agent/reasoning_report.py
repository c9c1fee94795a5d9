"""Report served calls as reasoning in an API that has no form for them. Clients show or ignore reasoning, and never
treat it as the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolglot.events import Close, Delta, Open
from toolglot.ir import Text, Thinking, ToolResult
from toolglot.tools.served import ReportPiece, ServedCall

MAX_CHARS = 500
"""Maximum characters of arguments, and of a result."""


class ReasoningReport:
    """One block of reasoning per round."""

    def __init__(self) -> None:
        self._waiting: list[ServedCall] = []

    def begin(self, calls: Sequence[ServedCall]) -> list[ReportPiece]:
        self._waiting = list(calls)
        lines = [f"[{_call_name(call)} {_shorten(call.arguments)}]\n" for call in calls]
        return [Open(0, Thinking()), Delta(0, "".join(lines))]

    def progress(self, call: ServedCall, message: str) -> list[ReportPiece]:
        return [Delta(0, f"[{_call_name(call)}: {_shorten(message)}]\n")]

    def done(self, result: ToolResult) -> list[ReportPiece]:
        call = self._waiting.pop(0)
        words = " ".join(block.text for block in result.content if isinstance(block, Text))
        outcome = "failed" if result.is_error else "returned"
        told: list[ReportPiece] = [Delta(0, f"[{_call_name(call)} {outcome} {_shorten(words)}]\n")]
        return told if self._waiting else [*told, Close(index=0)]


def _call_name(call: ServedCall) -> str:
    return f"{_shorten(call.server)}: {_shorten(call.name)}"


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"
