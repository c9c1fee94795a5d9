"""Telling of served calls in an API that has no words for them: as reasoning, which clients show or leave aside, and
which never counts as the answer."""

from __future__ import annotations

from collections.abc import Sequence

from toolglot.events import Close, Delta, Open
from toolglot.ir import Text, Thinking, ToolResult
from toolglot.tools.served import Piece, ServedCall

SHOWN = 500
"""Characters of arguments, and of a result."""


class Aside:
    """One block of reasoning a round."""

    def __init__(self) -> None:
        self._waiting: list[ServedCall] = []

    def begin(self, calls: Sequence[ServedCall]) -> list[Piece]:
        self._waiting = list(calls)
        lines = [f"[{_named(call)} {_short(call.arguments)}]\n" for call in calls]
        return [Open(0, Thinking()), Delta(0, "".join(lines))]

    def progress(self, call: ServedCall, message: str) -> list[Piece]:
        return [Delta(0, f"[{_named(call)}: {_short(message)}]\n")]

    def done(self, result: ToolResult) -> list[Piece]:
        call = self._waiting.pop(0)
        words = " ".join(block.text for block in result.content if isinstance(block, Text))
        outcome = "failed" if result.is_error else "returned"
        told: list[Piece] = [Delta(0, f"[{_named(call)} {outcome} {_short(words)}]\n")]
        return told if self._waiting else [*told, Close(index=0)]


def _named(call: ServedCall) -> str:
    return f"{_short(call.server)}: {_short(call.name)}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
