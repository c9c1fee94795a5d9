"""Report one round to the client: its served calls, their approval requests, and the model's text between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from toolglot.agent.merge import HeldBlock, RoundMerger
from toolglot.events import Close, Event, Open, unfold_content
from toolglot.ir import Block, ToolCall, ToolResult
from toolglot.tools.served import CallReporter, ReportPiece, ServedCall

MoveState = Callable[[Block], Block | None]
"""Convert state after its call to the form before it; None for any other block."""


def order_round(
    held: Sequence[HeldBlock],
    is_served: Callable[[ToolCall], bool],
    reports: Mapping[str, ServedCall | Block],
    move_state: MoveState,
) -> list[ServedCall | Block | HeldBlock]:
    """Return the held blocks with reports in the place of served calls, by their ids. The state of a reported call
    comes before it, and that of a call without a report is dropped with it."""
    ordered: list[ServedCall | Block | HeldBlock] = []
    before: HeldBlock | None = None
    for each in held:
        behind_served = before is not None and isinstance(before.block, ToolCall) and is_served(before.block)
        if isinstance(each.block, ToolCall) and is_served(each.block):
            if (report := reports.get(each.block.id)) is not None:
                ordered.append(report)
            elif before is not None and before.is_state and ordered and ordered[-1] is before:
                ordered.pop()
        elif behind_served and each.is_state and (moved := move_state(each.block)) is not None:
            assert before is not None
            assert isinstance(before.block, ToolCall)
            if before.block.id in reports:
                ordered.insert(-1, moved)
        else:
            ordered.append(each)
        before = each
    return ordered


def words_first(ordered: Sequence[ServedCall | Block | HeldBlock]) -> list[ServedCall | Block | HeldBlock]:
    """Move the content after the last call to the front. After a call that has its result, it would count as part of
    the next round.
    """
    calls = [number for number, each in enumerate(ordered) if isinstance(each, ServedCall)]
    end = calls[-1] + 1 if calls else 0
    return [*ordered[end:], *ordered[:end]]


class RoundReport:
    """Reports entries in order. An entry waits until the report of an earlier call is complete."""

    def __init__(
        self,
        merge: RoundMerger,
        reporter: CallReporter | None,
        entries: Iterable[ServedCall | Block | HeldBlock],
    ) -> None:
        self._merge = merge
        self._reporter = reporter
        self._entries = deque(entries)
        self._places: dict[int, int] = {}
        self._open = 0

    def begin(self) -> list[Event]:
        seen: list[Event] = []
        while self._entries and not self._open:
            entry = self._entries.popleft()
            if isinstance(entry, HeldBlock):
                seen += self._merge.emit_held(entry)
            elif isinstance(entry, ServedCall):
                calls = [entry]
                while self._entries and isinstance(following := self._entries[0], ServedCall):
                    calls.append(following)
                    self._entries.popleft()
                seen += [] if self._reporter is None else self._insert(self._reporter.begin(calls))
            else:
                seen += self._merge.insert(tuple(unfold_content([entry])), {})
        return seen

    def progress(self, call: ServedCall, message: str) -> list[Event]:
        return [] if self._reporter is None else self._insert(self._reporter.progress(call, message))

    def done(self, result: ToolResult) -> list[Event]:
        seen = [] if self._reporter is None else self._insert(self._reporter.done(result))
        return seen + self.begin()

    def _insert(self, pieces: Sequence[ReportPiece]) -> list[Event]:
        self._open += sum(isinstance(piece, Open) for piece in pieces)
        self._open -= sum(isinstance(piece, Close) for piece in pieces)
        return self._merge.insert(pieces, self._places)
