"""Measure a conversation: messages, tool results, tokens, bytes and images."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import add, sub
from typing import NamedTuple, TypeAlias

from toolglot.ir import OURS, Block, Media, Message, Native, Request, Text, Thinking, ToolCall, ToolResult, replace
from toolglot.passes.blocks import INSTRUCTION_ROLES
from toolglot.tokens import MESSAGE_TOKENS, TokenEstimate, estimate
from toolglot.tokens.media import ImageTokens
from toolglot.wire import json

NOUNS = {
    "max_messages": "messages",
    "max_tool_results": "results of tools",
    "max_tokens": "tokens",
    "max_bytes": "bytes of messages",
    "max_images": "images",
}
"""Limits, each with the plural noun of what it counts."""

NO_IMAGE = "[an image that is no longer sent]"

_SPARE: Mapping[type[Block], int] = {Text: 40, Thinking: 20, ToolCall: 60, ToolResult: 60, Media: 60}
"""Bytes that a block has in the JSON of the IR, with all fields written out, and in no API's JSON."""

Size: TypeAlias = tuple[int, ...]
"""Amount of each measure, in the order of `NOUNS`; tokens and bytes are 0 if they have no limit."""

NOTHING: Size = (0,) * len(NOUNS)
_PLACES = {name: number for number, name in enumerate(NOUNS)}


class Limit(NamedTuple):
    """The maximum of a measure, and the share of it that remains after a cut."""

    name: str
    most: int
    share: float

    @property
    def measure(self) -> int:
        return _PLACES[self.name]

    def mark(self, fixed: int) -> int:
        """Return the amount to keep after a cut. `fixed` is the part that cannot be cut."""
        return fixed + max(int((self.most - fixed) * self.share), 1) if fixed < self.most else self.most

    def __str__(self) -> str:
        cut = f", {self.share:.0%} of that after a cut" if self.share < 1 else ""
        return f"this upstream is sent at most {self.most} {NOUNS[self.name]}{cut}"


def plus(one: Size, other: Size) -> Size:
    return tuple(map(add, one, other))


def minus(one: Size, other: Size) -> Size:
    return tuple(map(sub, one, other))


class Scale:
    """Measures messages and blocks. The size of a message is its bare size plus the sizes of its blocks."""

    def __init__(self, wanted: Collection[str], image_tokens: ImageTokens) -> None:
        self._tokens = TokenEstimate(image_tokens=image_tokens) if "max_tokens" in wanted else None
        self._bytes = "max_bytes" in wanted

    def fixed(self, request: Request) -> Size:
        """Return the size of the request without messages: tools cost tokens too."""
        return (0, 0, 0 if self._tokens is None else estimate(replace(request, messages=())), 0, 0)

    def bare(self, message: Message) -> Size:
        if message.role in INSTRUCTION_ROLES:
            return (0, 0, 0 if self._tokens is None else MESSAGE_TOKENS, 0, 0)
        size = len(json.encode(replace(message, content=(), native=_foreign(message)))) if self._bytes else 0
        return (1, 0, 0 if self._tokens is None else MESSAGE_TOKENS, size, 0)

    def block(self, block: Block, role: str) -> Size:
        system = role in INSTRUCTION_ROLES
        return (
            0,
            int(isinstance(block, ToolResult)),
            0 if self._tokens is None else self._tokens.block(block),
            _bytes(block) if self._bytes and not system else 0,
            _images(block),
        )


def _foreign(message: Message) -> Native:
    """Return the native fields without toolglot's own marks, which are never sent."""
    return {owner: fields for owner, fields in message.native.items() if owner != OURS}


def _bytes(block: Block) -> int:
    """Estimate the bytes of a block in a JSON wire format; rather too high than too low."""
    size = len(json.encode(block)) + 1 - _SPARE.get(type(block), 0)
    return size - sum(_SPARE.get(type(part), 0) for part in block.content) if isinstance(block, ToolResult) else size


def _images(block: Block) -> int:
    if isinstance(block, ToolResult):
        return sum(map(is_image, block.content))
    return int(is_image(block))


def is_image(block: Block) -> bool:
    return isinstance(block, Media) and block.kind == "image"


def without_image(block: Block) -> Block:
    """Replace an image with a placeholder text. Its cache breakpoint stays."""
    return Text(text=NO_IMAGE, cache=block.cache) if isinstance(block, Media) else block
