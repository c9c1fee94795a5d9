"""System and developer messages where the target can have them."""

from __future__ import annotations

from toolglot.ir import Block, Media, Message, Request, Text, replace
from toolglot.passes import Context
from toolglot.passes.blocks import INSTRUCTION_ROLES, Place, leading, rewrite_messages
from toolglot.passes.media import marker

KNOWN_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


def fit(request: Request, context: Context) -> Request:
    """System text in place: where it may only lead, later text becomes tagged user text and is never hoisted.

    Hoisting would change the beginning of the prompt with every turn, and with it the prompt cache and Claude's
    thinking blocks, which are bound to the prefix. A client of the target's own dialect knows where it may put them.
    """
    if context.source == context.target:
        return request
    first = leading(request)

    def place(message: Message, number: int) -> Message:
        if message.role in INSTRUCTION_ROLES:
            if number >= first and context.can.system == "leading":
                return _as_user(message, number, context)
            return _as_instruction(message, number, context)
        if message.role not in KNOWN_ROLES:
            context.receipt.loss(
                str(Place(number)), f"role {message.role}", "the target does not know it; it is a user's"
            )
            return replace(message, role="user")
        return message

    return rewrite_messages(request, place)


def _as_user(message: Message, number: int, context: Context) -> Message:
    context.receipt.note(
        str(Place(number)), f"a later {message.role} message", "it stands in place as tagged user text"
    )
    return replace(message, role="user", content=tuple(map(_tagged, message.content)))


def _tagged(block: Block) -> Block:
    if not isinstance(block, Text):
        return block
    return replace(block, text=f"<system-reminder>\n{block.text}\n</system-reminder>")


def _as_instruction(message: Message, number: int, context: Context) -> Message:
    role = "system" if message.role == "developer" and not context.can.developer_role else message.role
    content = message.content
    if any(isinstance(block, Media) for block in content):
        content = tuple(_text_only(block, Place(number, index), context) for index, block in enumerate(content))
    if role == message.role and content is message.content:
        return message
    return replace(message, role=role, content=content)


def _text_only(block: Block, place: Place, context: Context) -> Block:
    if not isinstance(block, Media):
        return block
    context.receipt.loss(str(place), block.kind, "system messages hold text alone")
    return marker(block, "left out: system messages hold text alone")
