"""Receipt lines of a long conversation. Each is reported once and not stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from toolglot.capabilities import Capabilities
from toolglot.dialects import DIALECTS
from toolglot.export.visible_text import make_visible
from toolglot.ir import Block, Media, Message, Refusal, Request, Text, Thinking, ToolCall, ToolResult, replace
from toolglot.passes import Context, foreign
from toolglot.passes.blocks import Place
from toolglot.passes.reasoning import STATE
from toolglot.receipt import Receipt, ReceiptLine

ReportLoss: TypeAlias = Callable[[ReceiptLine], None]
"""Called with each line as it arises."""

_MESSAGE = re.compile(r"messages\[(\d+)\]")


def ignore_loss(line: ReceiptLine) -> None:
    """Discard the line."""


def report_losses(lines: Iterable[ReceiptLine], tell: ReportLoss, before: int) -> None:
    """Report lines, adding the offset of a part of the conversation to their message numbers."""
    for line in lines:
        tell(
            replace(line, where=_MESSAGE.sub(lambda match: f"messages[{int(match[1]) + before}]", line.where, count=1))
        )


_NOBODY = Capabilities()


def watch_losses(
    messages: Iterable[Message], dialect: str, tell: ReportLoss, *, left_out: Callable[[Media], str | None]
) -> Iterator[Message]:
    """Yield the messages unchanged. `left_out` gives the reason why media is not shown; None if it is."""
    own = DIALECTS[dialect].can if dialect in DIALECTS else _NOBODY
    for number, message in enumerate(messages):
        receipt = Receipt()
        context = Context(
            source=dialect,
            target="",
            can=_NOBODY,
            receipt=receipt,
            source_can=own,
        )
        foreign.report(Request(model="", messages=(message,)), context)
        for index, block in enumerate(message.content):
            _check_block(block, Place(0, index), receipt, left_out)
            for inner, part in enumerate(block.content if isinstance(block, ToolResult) else ()):
                _check_block(part, Place(0, index, inner), receipt, left_out)
        report_losses(receipt, tell, number)
        yield message


def _check_block(block: Block, place: Place, receipt: Receipt, left_out: Callable[[Media], str | None]) -> None:
    where = str(place)
    if isinstance(block, Media) and (why := left_out(block)) is not None:
        receipt.loss(where, block.kind, why)
    if _has_state(block):
        receipt.loss(where, "reasoning state", "a page for people has no place for it")
    if _hides_content(block):
        receipt.note(where, "control characters", "they are made visible")


def _has_state(block: Block) -> bool:
    if isinstance(block, Thinking):
        return any(
            not key.startswith("$") and value for fields in block.native.values() for key, value in fields.items()
        )
    return any(fields.keys() & STATE for fields in block.native.values())


def _hides_content(block: Block) -> bool:
    match block:
        case Text(text=text) | Refusal(text=text) | Thinking(text=text) | ToolCall(arguments=text):
            return make_visible(text) != text
    return False
