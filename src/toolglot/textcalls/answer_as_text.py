"""Write an answer with native calls as the text of a model without native calls."""

from __future__ import annotations

from toolglot.ir import Block, Message, Native, Refusal, Response, Text, Thinking, ToolCall, replace
from toolglot.receipt import Receipt
from toolglot.textcalls import find_format
from toolglot.textcalls.render_turns import TurnRenderer


def without_shape_notes(native: Native) -> Native:
    """Remove notes that describe the former shape of an answer."""
    return {
        owner: {key: value for key, value in fields.items() if not key.startswith("$")}
        for owner, fields in native.items()
    }


def answer_as_text(response: Response, format_name: str, receipt: Receipt) -> Response:
    """Return the response with only text. A call that was cut is omitted: as text it would look complete."""
    content = tuple(block for index, block in enumerate(response.content) if _can_be_text(block, index, receipt))
    (message,) = TurnRenderer(format_name, receipt).render((Message(role="assistant", content=content),))
    thinking = _ReasoningWriter(format_name, receipt)
    told = (thinking.write(block) if isinstance(block, Thinking) else block for block in message.content)
    stop = replace(response.stop, reason="end", raw=None) if response.stop.reason == "tool_calls" else response.stop
    content = tuple(block for block in told if block is not None)
    # The notes on the shape of the answer (no content, a stop reason) describe an answer with calls.
    return replace(response, content=content, stop=stop, native=_without_former_shape(response.native))


def _without_former_shape(native: Native) -> Native:
    """Remove the former shape of the content. Also removes an explicit null, which Chat has beside calls."""
    return {
        owner: {
            key: {name: kept for name, kept in value.items() if name != "content"} if key == "message" else value
            for key, value in fields.items()
            if key != "message" or isinstance(value, dict)
        }
        for owner, fields in without_shape_notes(native).items()
    }


def response_text(response: Response) -> str:
    """Return the text of a response that has only text."""
    return "".join(block.text for block in response.content if isinstance(block, (Text, Refusal)))


def _can_be_text(block: Block, index: int, receipt: Receipt) -> bool:
    where = f"content[{index}]"
    if isinstance(block, ToolCall):
        if not block.complete:
            receipt.loss(where, f"call of {block.name}", "it was cut off, and as text it would look whole")
        return block.complete
    if not isinstance(block, (Text, Refusal, Thinking)):
        receipt.loss(where, "a part that is no text", "it has no form as text")
        return False
    return True


class _ReasoningWriter:
    """Writes reasoning between the format's own marks."""

    def __init__(self, format_name: str, receipt: Receipt) -> None:
        self._marks = next(iter(find_format(format_name).thinking), None)
        self._receipt = receipt

    def write(self, block: Thinking) -> Text | None:
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
