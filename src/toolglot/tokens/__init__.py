"""Estimate offline how many tokens a request has: for upstreams that do not count, or cannot be asked.

Everything that a model reads is counted: system text, messages, tool definitions, calls and their results, images,
documents, sound and reasoning, and the text that APIs add around each. docs/token-counting.md describes the accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from toolglot.ir import Block, Media, Message, Opaque, Refusal, Request, Text, Thinking, Tool, ToolCall, ToolResult
from toolglot.tokens.media import (
    ImageTokens,
    image_size,
    media_tokens,
    tokens_by_area,
    tokens_by_crops,
    tokens_by_tiles,
)
from toolglot.tokens.text import count_text
from toolglot.wire import json

__all__ = [
    "ImageTokens",
    "TokenEstimate",
    "count_text",
    "estimate",
    "image_size",
    "tokens_by_area",
    "tokens_by_crops",
    "tokens_by_tiles",
]

REPLY_TOKENS = 3
"""The prompt for the model's answer."""
MESSAGE_TOKENS = 4
"""The role of a message, its beginning and its end."""
TOOLS_TOKENS = 100
"""Instructions for calling tools, which chat templates and APIs add once if there are tools."""
TOOL_TOKENS = 8
CALL_TOKENS = 8
RESULT_TOKENS = 8

_HIDDEN_TOKENS = 3 / 16
"""Tokens per character of encrypted reasoning: four base64 characters are three bytes, and four bytes of text are about
a token."""


def estimate(
    request: Request, *, counter: Callable[[str], int] = count_text, image_tokens: ImageTokens = tokens_by_area
) -> int:
    """Estimate the number of input tokens of this request.

    Args:
        request: of any dialect.
        counter: counts the tokens of a text, to replace `count_text`. image_tokens: the cost of an image at the
        upstream (`Dialect.request.image_tokens`).
    """
    counted = TokenEstimate(counter, image_tokens)
    total = REPLY_TOKENS + sum(counted.message(message) for message in request.messages)
    if request.tools:
        total += TOOLS_TOKENS + sum(counted.tool(tool) for tool in request.tools)
    if request.response_format is not None and request.response_format.schema is not None:
        total += counted.json(request.response_format.schema)
    return total


class TokenEstimate:
    """The two counting functions that depend on the model, and the sum over everything else."""

    def __init__(self, counter: Callable[[str], int] = count_text, image_tokens: ImageTokens = tokens_by_area) -> None:
        self._text = counter
        self._image = image_tokens

    def message(self, message: Message) -> int:
        return MESSAGE_TOKENS + self.blocks(message.content)

    def blocks(self, content: Iterable[Block]) -> int:
        return sum(self.block(block) for block in content)

    def block(self, block: Block) -> int:
        match block:
            case Text(text=text) | Refusal(text=text):
                return self._text(text)
            case Thinking():
                return self._text(block.text) if block.text else _hidden_tokens(block)
            case ToolCall():
                return CALL_TOKENS + self._text(block.name) + self._text(block.arguments)
            case ToolResult():
                return RESULT_TOKENS + self.blocks(block.content)
            case Media():
                return media_tokens(block, self._image, self._text)
            case Opaque():
                return self.json(block.value)

    def tool(self, tool: Tool | Opaque) -> int:
        if isinstance(tool, Opaque):
            return TOOL_TOKENS + self.json(tool.value)
        if tool.deferred:
            return 0  # the model does not see it before something refers to it
        total = TOOL_TOKENS + self._text(tool.name) + self._text(tool.description or "")
        return total + sum(self.json(part) for part in (tool.parameters, tool.format) if part is not None)

    def json(self, value: object) -> int:
        return self._text(json.encode_text(value))


def _hidden_tokens(thinking: Thinking) -> int:
    """Estimate reasoning if only its encrypted form is available."""
    states = [value for fields in thinking.native.values() for value in fields.values() if isinstance(value, str)]
    return round(_HIDDEN_TOKENS * sum(map(len, states)))
