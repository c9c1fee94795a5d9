"""Report what a page for people cannot show, while the messages pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from toolglot.capabilities import Capabilities
from toolglot.dialects import DIALECTS
from toolglot.export.loss_report import ReportLoss, report_losses
from toolglot.export.visible_text import make_visible
from toolglot.ir import Block, Media, Message, Refusal, Request, Text, Thinking, ToolCall, ToolResult
from toolglot.passes import Context, foreign
from toolglot.passes.blocks import Place
from toolglot.passes.reasoning import STATE
from toolglot.receipt import Receipt

_NOBODY = Capabilities()


def watch_losses(
    messages: Iterable[Message], dialect: str, tell: ReportLoss, *, left_out: Callable[[Media], str | None]
) -> Iterator[Message]:
    """Yield the messages unchanged. `left_out` is why the page does not show media; None if it does."""
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
