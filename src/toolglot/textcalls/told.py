"""An answer with native calls, as the text that a model would have written which has none."""

from __future__ import annotations

from toolglot.ir import Block, Message, Native, Refusal, Response, Text, Thinking, ToolCall, replace
from toolglot.receipt import Receipt
from toolglot.textcalls import find_format
from toolglot.textcalls.notes import without_notes
from toolglot.textcalls.turns import Turns


def told_as_text(response: Response, format_name: str, receipt: Receipt) -> Response:
    """The response with text alone. A call that was cut is left out: as text it would look whole."""
    content = tuple(block for index, block in enumerate(response.content) if _has_form(block, index, receipt))
    (message,) = Turns(format_name, receipt).rendered((Message(role="assistant", content=content),))
    thinking = _Thinking(format_name, receipt)
    told = (thinking.told(block) if isinstance(block, Thinking) else block for block in message.content)
    stop = replace(response.stop, reason="end", raw=None) if response.stop.reason == "tool_calls" else response.stop
    content = tuple(block for block in told if block is not None)
    # The notes on the shape of the answer (no content, a reason to stop) are those of an answer with calls.
    return replace(response, content=content, stop=stop, native=_reshaped(response.native))


def _reshaped(native: Native) -> Native:
    """Also without an explicit null in place of the content, as Chat has it beside calls."""
    return {
        owner: {
            key: {name: kept for name, kept in value.items() if name != "content"} if key == "message" else value
            for key, value in fields.items()
            if key != "message" or isinstance(value, dict)
        }
        for owner, fields in without_notes(native).items()
    }


def text_of(response: Response) -> str:
    """The text of a response that has nothing else."""
    return "".join(block.text for block in response.content if isinstance(block, (Text, Refusal)))


def _has_form(block: Block, index: int, receipt: Receipt) -> bool:
    where = f"content[{index}]"
    if isinstance(block, ToolCall):
        if not block.complete:
            receipt.loss(where, f"call of {block.name}", "it was cut off, and as text it would look whole")
        return block.complete
    if not isinstance(block, (Text, Refusal, Thinking)):
        receipt.loss(where, "a part that is no text", "it has no form as text")
        return False
    return True


class _Thinking:
    """Reasoning between the format's own marks."""

    def __init__(self, format_name: str, receipt: Receipt) -> None:
        self._marks = next(iter(find_format(format_name).thinking), None)
        self._receipt = receipt

    def told(self, block: Thinking) -> Text | None:
        if not block.text:
            self._receipt.loss("content", "reasoning", "only its own vendor can read it")
            return None
        if self._marks is None:
            self._receipt.loss("content", "reasoning", "the text format has no marks for it")
            return None
        before, after = self._marks
        if after in block.text:
            self._receipt.loss("content", "reasoning", f"it holds {after}, which would end it")
            return None
        return Text(text=f"{before}{block.text}{after}\n")
