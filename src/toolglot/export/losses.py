"""What a page for people has no place for: told while the messages go by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from toolglot.dialect import Capabilities
from toolglot.dialects import DIALECTS
from toolglot.export.ledger import Tell, pass_on
from toolglot.export.visible import shown
from toolglot.ir import Block, Media, Message, Refusal, Request, Text, Thinking, ToolCall, ToolResult
from toolglot.passes import Context, foreign
from toolglot.passes.blocks import Place
from toolglot.passes.reasoning import STATE
from toolglot.receipt import Receipt

_NOBODY = Capabilities(fields=frozenset())


def watched(
    messages: Iterable[Message], dialect: str, tell: Tell, *, left_out: Callable[[Media], str | None]
) -> Iterator[Message]:
    """The messages as they are. `left_out` is why the page does not show a medium; None where it does."""
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
            _block(block, Place(0, index), receipt, left_out)
            for inner, part in enumerate(block.content if isinstance(block, ToolResult) else ()):
                _block(part, Place(0, index, inner), receipt, left_out)
        pass_on(receipt, tell, number)
        yield message


def _block(block: Block, place: Place, receipt: Receipt, left_out: Callable[[Media], str | None]) -> None:
    where = str(place)
    if isinstance(block, Media) and (why := left_out(block)) is not None:
        receipt.loss(where, block.kind, why)
    if _has_state(block):
        receipt.loss(where, "reasoning state", "a page for people has no place for it")
    if _hides(block):
        receipt.note(where, "control characters", "they are made visible")


def _has_state(block: Block) -> bool:
    if isinstance(block, Thinking):
        return any(
            not key.startswith("$") and value for fields in block.native.values() for key, value in fields.items()
        )
    return any(fields.keys() & STATE for fields in block.native.values())


def _hides(block: Block) -> bool:
    match block:
        case Text(text=text) | Refusal(text=text) | Thinking(text=text) | ToolCall(arguments=text):
            return shown(text) != text
    return False
