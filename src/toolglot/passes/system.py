"""System and developer messages where the target can have them."""

from __future__ import annotations

from toolglot.ir import Block, Media, Message, Request, Text, native_of, replace
from toolglot.passes import Context
from toolglot.passes.blocks import INSTRUCTION_ROLES, Place, leading, with_messages
from toolglot.passes.media import marker

KNOWN_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})

INLINE = "$inline"
"""A dialect's note on a leading system message that did not stand in its place for the system prompt."""


def fit(request: Request, context: Context) -> Request:
    """System text in place: where it may only lead, later text becomes tagged user text and is never hoisted.

    Hoisting would change the beginning of the prompt with every turn, and with it the prompt cache and Claude's
    thinking blocks, which are bound to the prefix. A client of the target's own dialect knows where it may put them,
    unless its model was exchanged for another one.
    """
    if context.source == context.target and not context.aliased:
        return request
    first = leading(request)
    messages: list[Message] = []
    tagged = False  # the system messages before this one, with nothing between, were tagged
    for number, message in enumerate(request.messages):
        if message.role not in INSTRUCTION_ROLES:
            tagged = False
            messages.append(_with_known_role(message, number, context))
        elif number < first or context.can.system == "anywhere":
            messages.append(_as_instruction(message, number, context))
        elif context.can.system == "leading" or tagged or not _may_follow(messages[-1]):
            tagged = True
            messages.append(_as_user(message, number, context))
        else:
            _add_instruction(messages, _as_instruction(message, number, context), number, context)
    return with_messages(request, tuple(messages))


def _with_known_role(message: Message, number: int, context: Context) -> Message:
    if message.role in KNOWN_ROLES or context.source == context.target:
        return message
    context.receipt.loss(str(Place(number)), f"role {message.role}", "the target does not know it; it is a user's")
    return replace(message, role="user")


def _may_follow(message: Message) -> bool:
    """May system text stand right behind this? Behind a user's turn that says something, or what follows one."""
    if message.role in INSTRUCTION_ROLES:
        return True
    return message.role in ("user", "tool") and any(
        not isinstance(block, Text) or block.text.strip() for block in message.content
    )


def _add_instruction(messages: list[Message], message: Message, number: int, context: Context) -> None:
    """One system message for several in a row."""
    before = messages[-1]
    if before.role not in INSTRUCTION_ROLES:
        messages.append(message)
        return
    context.receipt.note(str(Place(number)), "one more system message in a row", "it is one with that before it")
    messages[-1] = replace(before, content=(*before.content, *message.content))


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
    if context.can.system != "anywhere" and INLINE in native_of(message, context.target):
        message = _in_the_prompt(message, number, context)
    if role == message.role and content is message.content:
        return message
    return replace(message, role=role, content=content)


def _in_the_prompt(message: Message, number: int, context: Context) -> Message:
    """A leading system message without the note that it stood among the others."""
    own = {key: value for key, value in native_of(message, context.target).items() if key != INLINE}
    others = {owner: fields for owner, fields in message.native.items() if owner != context.target}
    context.receipt.note(str(Place(number)), "a leading system message", "it is part of the system prompt")
    return replace(message, native={**others, context.target: own} if own else others)


def _text_only(block: Block, place: Place, context: Context) -> Block:
    if not isinstance(block, Media):
        return block
    context.receipt.loss(str(place), block.kind, "system messages hold text alone")
    return marker(block, "left out: system messages hold text alone")
