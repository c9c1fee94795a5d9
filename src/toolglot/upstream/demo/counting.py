"""Tokens, counted the simplest way: four characters are one."""

from __future__ import annotations

from collections.abc import Iterable

from toolglot.ir import Block, Media, Refusal, Request, Response, Text, Thinking, ToolCall, ToolResult, Usage
from toolglot.wire import json

CHARACTERS_OF_MEDIA = 4000
"""What a picture or a document counts as, whatever its size."""


def usage(request: Request, response: Response) -> Usage:
    thinking = [block for block in response.content if isinstance(block, Thinking)]
    return Usage(
        input_tokens=input_tokens(request),
        output_tokens=_tokens(_characters(response.content)),
        reasoning_tokens=_tokens(_characters(thinking)),
    )


def input_tokens(request: Request) -> int:
    """What a request costs: messages, calls, results and the definitions of the tools."""
    messages = sum(_characters(message.content) + len(message.role) for message in request.messages)
    return max(_tokens(messages + sum(len(json.encode(tool)) for tool in request.tools)), 1)


def _tokens(characters: int) -> int:
    return -(-characters // 4)


def _characters(content: Iterable[Block]) -> int:
    total = 0
    for block in content:
        match block:
            case Text(text=text) | Thinking(text=text) | Refusal(text=text):
                total += len(text)
            case ToolCall(name=name, arguments=arguments):
                total += len(name) + len(arguments)
            case ToolResult(content=inner):
                total += _characters(inner)
            case Media():
                total += CHARACTERS_OF_MEDIA
            case _:
                total += len(json.encode(block))
    return total
