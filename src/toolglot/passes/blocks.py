"""Iterate over a request's messages and blocks, and rewrite them.

Values that a rewrite does not change remain the same objects. An unchanged request costs no allocation and compares
fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import NamedTuple, TypeAlias, get_args

from toolglot.ir import Block, Message, Request, ToolResult, replace

NO_CONTENT = "it has no content that can be sent, so the message is left out"
"""Receipt reason for a dropped message: it was empty, or the passes removed all content that the target cannot read."""

INSTRUCTION_ROLES = ("system", "developer")


class Place(NamedTuple):
    """Position of a block; `inner` is the index inside a tool result. `str()` gives the path that receipts show."""

    message: int
    block: int = -1
    inner: int = -1

    def __str__(self) -> str:
        path = f"messages[{self.message}]"
        if self.block >= 0:
            path += f".content[{self.block}]"
        if self.inner >= 0:
            path += f".content[{self.inner}]"
        return path


Rewrite: TypeAlias = Callable[[Block, Place], tuple[Block, ...]]
"""Maps a block to its replacement: the same block, another one, several, or none."""


def blocks(request: Request) -> Iterator[tuple[Block, Place]]:
    """Iterate over all blocks and their places. Blocks inside a tool result follow the result."""
    for number, message in enumerate(request.messages):
        for index, block in enumerate(message.content):
            yield block, Place(number, index)
            if isinstance(block, ToolResult):
                for inner, part in enumerate(block.content):
                    yield part, Place(number, index, inner)


def rewrite_blocks(request: Request, rewrite: Rewrite, *kinds: type[Block]) -> Request:
    """Apply `rewrite` to every block of these kinds (default: all). Blocks inside a tool result come before the
    result."""
    return rewrite_messages(request, lambda message, number: rewrite_message(message, number, rewrite, *kinds))


def rewrite_messages(request: Request, rewrite: Callable[[Message, int], Message]) -> Request:
    messages = tuple([rewrite(message, number) for number, message in enumerate(request.messages)])
    return with_messages(request, messages)


def with_messages(request: Request, messages: tuple[Message, ...]) -> Request:
    before = request.messages
    if messages is before or (len(messages) == len(before) and all(map(is_, messages, before))):
        return request
    return replace(request, messages=messages)


def rewrite_message(message: Message, number: int, rewrite: Rewrite, *kinds: type[Block]) -> Message:
    """Apply `rewrite` to one message. Most passes handle few kinds, and most messages contain none of them."""
    kinds = kinds or get_args(Block)
    content: list[Block] | None = None
    for index, block in enumerate(message.content):
        kind = type(block)
        new: tuple[Block, ...] | None = None
        if kind is ToolResult:
            block = rewrite_result(block, number, index, rewrite, kinds)
            new = None if block is message.content[index] else (block,)
        if kind in kinds:
            new = rewrite(block, Place(number, index))
            new = None if len(new) == 1 and new[0] is message.content[index] else new
        if new is not None and content is None:
            content = list(message.content[:index])
        if content is not None:
            content.extend((block,) if new is None else new)
    return message if content is None else replace(message, content=tuple(content))


def rewrite_result(result: Block, number: int, index: int, rewrite: Rewrite, kinds: tuple[type[Block], ...]) -> Block:
    assert isinstance(result, ToolResult)
    if not any(type(part) in kinds for part in result.content):
        return result
    content: list[Block] = []
    for inner, part in enumerate(result.content):
        content.extend(rewrite(part, Place(number, index, inner)) if type(part) in kinds else (part,))
    same = len(content) == len(result.content) and all(map(is_, content, result.content))
    return result if same else replace(result, content=tuple(content))


def has_results(message: Message) -> bool:
    return any(isinstance(block, ToolResult) for block in message.content)


def leading(messages: Sequence[Message]) -> int:
    """Count the system and developer messages before the conversation."""
    for number, message in enumerate(messages):
        if message.role not in INSTRUCTION_ROLES:
            return number
    return len(messages)
