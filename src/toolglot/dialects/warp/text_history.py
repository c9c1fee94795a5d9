"""A conversation told in one text, for servers that do not take a history that they have not written themselves.

Turns stand in their true order, results behind their calls. A line of content that would begin a turn of its own is
marked with a backslash, so that nobody speaks in another's name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from toolglot.dialects.warp.queries import system_text
from toolglot.dialects.warp.transcript import SYSTEM_ROLES
from toolglot.ir import Block, Media, Message, Refusal, Request, Text, Thinking, ToolCall, ToolResult
from toolglot.receipt import Receipt, describe_block
from toolglot.tools.inserted_text import ANALYZE_RESULTS

CONTINUE = "Please continue."
_LABELS = re.compile(r"^(?=\\*(?:User|Assistant|Tool calls|Tool result \(.*\)|Tool error \(.*\)):)", re.MULTILINE)


class TextHistory(NamedTuple):
    query: str
    system: str
    images: tuple[Media, ...]


def render_history(request: Request, receipt: Receipt) -> TextHistory:
    """The one query that tells this conversation, the system prompt, and the images it speaks of."""
    images: list[Media] = []
    system: list[str] = []
    turns: list[str] = []
    spoken: list[Message] = []
    for number, message in enumerate(request.messages):
        where = f"messages[{number}]"
        if message.role in SYSTEM_ROLES:
            system.append(system_text(message, where, receipt))
            continue
        spoken.append(message)
        turns += _render_turn(message, where, images, receipt)
    prompt = "\n\n".join(system)
    if len(spoken) == 1 and spoken[0].role == "user" and not _results(spoken[0]):
        return TextHistory(
            _render_content(spoken[0].content, "messages", images[:0], receipt, plain=True), prompt, tuple(images)
        )
    if spoken and _ends_in_results(spoken):
        turns.append(f"User: {ANALYZE_RESULTS}")
    elif spoken and spoken[-1].role == "assistant":
        turns.append(f"User: {CONTINUE}")
    if spoken:
        receipt.note("messages", "the conversation", "it is told as one text, turn by turn")
    return TextHistory("\n\n".join(turns), prompt, tuple(images))


def _results(message: Message) -> list[ToolResult]:
    return [block for block in message.content if isinstance(block, ToolResult)]


def _ends_in_results(spoken: list[Message]) -> bool:
    return bool(spoken[-1].content) and all(isinstance(block, ToolResult) for block in spoken[-1].content)


def _render_turn(message: Message, where: str, images: list[Media], receipt: Receipt) -> list[str]:
    turns: list[str] = []
    for index, result in enumerate(message.content):
        if isinstance(result, ToolResult):
            label = "Tool error" if result.is_error else "Tool result"
            text = _render_content(result.content, f"{where}.content[{index}]", images, receipt)
            turns.append(f"{label} ({result.call_id}): {text}")
    rest = tuple(block for block in message.content if not isinstance(block, ToolResult))
    if message.role == "assistant":
        calls = [block for block in rest if isinstance(block, ToolCall)]
        lines = [f"Assistant: {_render_content(rest, where, images, receipt)}".rstrip()]
        if calls:
            lines.append(
                "Tool calls: "
                + "; ".join(f"Called {call.name} ({call.id}) with args: {call.arguments or '{}'}" for call in calls)
            )
        return ["\n".join(lines), *turns]
    if rest or not turns:
        turns.append(f"User: {_render_content(rest, where, images, receipt)}")
    return turns


def _render_content(
    content: tuple[Block, ...], where: str, images: list[Media], receipt: Receipt, *, plain: bool = False
) -> str:
    parts: list[str] = []
    for index, block in enumerate(content):
        match block:
            case Text(text=text) | Refusal(text=text):
                parts.append(text if plain else _LABELS.sub(r"\\", text))
            case Media(kind="image", source=source) if source.kind == "base64":
                images.append(block)
                if not plain:
                    parts.append(f"[image {len(images)}]")
            case Thinking():
                receipt.loss(f"{where}.content[{index}]", "reasoning", "a conversation told as text leaves it out")
            case ToolCall() | ToolResult():
                pass
            case _:
                receipt.loss(f"{where}.content[{index}]", describe_block(block), "text cannot tell it")
    return "\n".join(parts) if not plain else "\n\n".join(parts)
