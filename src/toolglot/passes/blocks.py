"""Walking over a request's messages and blocks, and rewriting them.

What a rewrite leaves alone stays the same object, so that an untouched request costs no allocation and compares fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from toolglot.ir import Block, Message, Request, ToolResult, replace

INSTRUCTION_ROLES = ("system", "developer")


class Place(NamedTuple):
    """Where a block stands; `inner` counts inside a tool result. Its text is the path that receipts show."""

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
"""What stands for a block: itself, something else, several blocks, or none."""


def blocks(request: Request) -> Iterator[tuple[Block, Place]]:
    """Every block with its place, those inside tool results after their result."""
    for number, message in enumerate(request.messages):
        for index, block in enumerate(message.content):
            yield block, Place(number, index)
            if isinstance(block, ToolResult):
                for inner, part in enumerate(block.content):
                    yield part, Place(number, index, inner)


def rewrite_blocks(request: Request, rewrite: Rewrite) -> Request:
    """Every block replaced by what `rewrite` says, those inside tool results before their result."""
    return rewrite_messages(request, lambda message, number: rewrite_message(message, number, rewrite))


def rewrite_messages(request: Request, rewrite: Callable[[Message, int], Message]) -> Request:
    messages = tuple(rewrite(message, number) for number, message in enumerate(request.messages))
    return with_messages(request, messages)


def with_messages(request: Request, messages: tuple[Message, ...]) -> Request:
    if len(messages) == len(request.messages) and all(
        new is old for new, old in zip(messages, request.messages, strict=True)
    ):
        return request
    return replace(request, messages=messages)


def rewrite_message(message: Message, number: int, rewrite: Rewrite) -> Message:
    content: list[Block] = []
    changed = False
    for index, block in enumerate(message.content):
        inner = rewrite_result(block, number, index, rewrite) if isinstance(block, ToolResult) else block
        new = rewrite(inner, Place(number, index))
        changed = changed or len(new) != 1 or new[0] is not block
        content.extend(new)
    return replace(message, content=tuple(content)) if changed else message


def rewrite_result(result: ToolResult, number: int, index: int, rewrite: Rewrite) -> ToolResult:
    content: list[Block] = []
    changed = False
    for inner, part in enumerate(result.content):
        new = rewrite(part, Place(number, index, inner))
        changed = changed or len(new) != 1 or new[0] is not part
        content.extend(new)
    return replace(result, content=tuple(content)) if changed else result


def has_results(message: Message) -> bool:
    return any(isinstance(block, ToolResult) for block in message.content)


def leading(request: Request) -> int:
    """How many system and developer messages stand before the conversation."""
    for number, message in enumerate(request.messages):
        if message.role not in INSTRUCTION_ROLES:
            return number
    return len(request.messages)
