"""Renders a conversation as one text, for servers that accept only a history that they wrote themselves.

Turns keep their order, and results come after their calls. A content line that looks like the start of a turn gets a
backslash, so that no text can forge another role.
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
    """Render the conversation as one query, with its system prompt and images."""
    images: list[Media] = []
    system: list[str] = []
    turns: list[str] = []
    conversation: list[Message] = []
    for number, message in enumerate(request.messages):
        where = f"messages[{number}]"
        if message.role in SYSTEM_ROLES:
            system.append(system_text(message, where, receipt))
            continue
        conversation.append(message)
        turns += _render_turn(message, where, images, receipt)
    prompt = "\n\n".join(system)
    if len(conversation) == 1 and conversation[0].role == "user" and not _results(conversation[0]):
        return TextHistory(
            _render_content(conversation[0].content, "messages", images[:0], receipt, plain=True), prompt, tuple(images)
        )
    if conversation and _ends_in_results(conversation):
        turns.append(f"User: {ANALYZE_RESULTS}")
    elif conversation and conversation[-1].role == "assistant":
        turns.append(f"User: {CONTINUE}")
    if conversation:
        receipt.note("messages", "the conversation", "it is sent as one text, turn by turn")
    return TextHistory("\n\n".join(turns), prompt, tuple(images))


def _results(message: Message) -> list[ToolResult]:
    return [block for block in message.content if isinstance(block, ToolResult)]


def _ends_in_results(conversation: list[Message]) -> bool:
    return bool(conversation[-1].content) and all(isinstance(block, ToolResult) for block in conversation[-1].content)


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
                receipt.loss(f"{where}.content[{index}]", "reasoning", "a conversation sent as text leaves it out")
            case ToolCall() | ToolResult():
                pass
            case _:
                receipt.loss(f"{where}.content[{index}]", describe_block(block), "text cannot express it")
    return "\n".join(parts) if not plain else "\n\n".join(parts)
