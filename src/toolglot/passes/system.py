"""Place system and developer messages where the target accepts them."""

from __future__ import annotations

from collections.abc import Iterable

from toolglot import features
from toolglot.ir import Block, Media, Message, Request, Text, native_of, replace
from toolglot.passes import Context
from toolglot.passes.blocks import INSTRUCTION_ROLES, Place, leading, with_messages
from toolglot.passes.media import marker
from toolglot.plan import runs_on

_SPEAKERS = frozenset({"user", "assistant", "tool"})
KNOWN_ROLES = _SPEAKERS.union(INSTRUCTION_ROLES)

INLINE = "$inline"
"""Native note on a leading system message that was among the messages, not in the dialect's system prompt field."""


def _triggers(context: Context) -> int:
    own = context.source == context.target
    if own and not context.aliased:
        return 0
    bits = features.SYSTEM_MEDIA | (0 if own else features.ODD_ROLE)
    if context.can.messages.system == "first":
        bits |= features.ANY  # no feature tells how many system messages there are
    elif context.can.messages.system != "anywhere":
        bits |= features.LATER_SYSTEM | features.INLINE
    return bits if context.can.messages.developer_role else bits | features.DEVELOPER


@runs_on(_triggers, adds=features.NEIGHBOURS, keeps_messages=True)
def fit(request: Request, context: Context) -> Request:
    """Keep system text in place. If the target accepts it only at the beginning, later text becomes tagged user text.
    It is never hoisted.

    Hoisting would change the beginning of the prompt with every turn. That invalidates the prompt cache and Claude's
    thinking blocks, which are bound to the prefix. A client of the target's own dialect knows where system messages may
    be, unless its model was replaced.
    """
    if context.source == context.target and not context.aliased:
        return request
    first = leading(request.messages)
    roles = {message.role for message in request.messages[first:]}
    if roles <= _SPEAKERS:
        instructions = (_as_instruction(request.messages[number], number, context) for number in range(first))
        return with_messages(request, (*_as_prompt(instructions, context), *request.messages[first:]))
    leading_run = (_as_instruction(request.messages[number], number, context) for number in range(first))
    messages: list[Message] = [*_as_prompt(leading_run, context)]
    run: list[Message] = []  # consecutive system messages that may stay; they are merged
    for number, (message, before_answer) in enumerate(zip(request.messages, _before_answers(request), strict=True)):
        if number < first:
            continue
        if message.role not in INSTRUCTION_ROLES:
            messages += _as_one(run)
            run = []
            messages.append(_with_known_role(message, number, context))
        elif context.can.messages.system == "anywhere":
            messages.append(_as_instruction(message, number, context))
        elif context.can.messages.system == "after_user" and before_answer and (run or _may_follow(messages[-1])):
            if run:
                context.receipt.note(
                    str(Place(number)), "another system message in a row", "it is merged into the one before it"
                )
            run.append(_as_instruction(message, number, context))
        else:
            messages.append(_as_user(message, number, context))
    return with_messages(request, (*messages, *_as_one(run)))


def _before_answers(request: Request) -> list[bool]:
    """Return for each message whether the assistant's turn or the end comes next, apart from system messages.

    "role 'system' must precede an 'assistant' message or end the array" (claude-code #73821).
    """
    answers: list[bool] = []
    following = True
    for message in reversed(request.messages):
        answers.append(following)
        if message.role not in INSTRUCTION_ROLES:
            following = message.role == "assistant"
    return answers[::-1]


def _as_prompt(instructions: Iterable[Message], context: Context) -> tuple[Message, ...]:
    """Return the system messages before the conversation; a single one if the target accepts only one."""
    run = list(instructions)
    if context.can.messages.system != "first" or len(run) < 2:
        return tuple(run)
    for number in range(1, len(run)):
        context.receipt.note(str(Place(number)), "one more system message", "the target takes one; it joins the first")
    return _as_one(run)


def _as_one(run: list[Message]) -> tuple[Message, ...]:
    if len(run) < 2:
        return tuple(run)
    return (replace(run[0], content=tuple(block for message in run for block in message.content)),)


def _with_known_role(message: Message, number: int, context: Context) -> Message:
    if message.role in KNOWN_ROLES or context.source == context.target:
        return message
    context.receipt.loss(str(Place(number)), f"role {message.role}", "the target does not know it; it is a user's")
    return replace(message, role="user")


def _may_follow(message: Message) -> bool:
    """Return whether system text may follow this message: a user's turn that is not blank."""
    return message.role in ("user", "tool") and any(
        not isinstance(block, Text) or block.text.strip() for block in message.content
    )


def _as_user(message: Message, number: int, context: Context) -> Message:
    context.receipt.note(
        str(Place(number)), f"a later {message.role} message", "it is in its place as tagged user text"
    )
    return replace(message, role="user", content=tuple(map(_tag, message.content)))


def _tag(block: Block) -> Block:
    if not isinstance(block, Text):
        return block
    return replace(block, text=f"<system-reminder>\n{block.text}\n</system-reminder>")


def _as_instruction(message: Message, number: int, context: Context) -> Message:
    role = "system" if message.role == "developer" and not context.can.messages.developer_role else message.role
    content = message.content
    if any(isinstance(block, Media) for block in content):
        content = tuple(_text_only(block, Place(number, index), context) for index, block in enumerate(content))
    if context.can.messages.system != "anywhere" and INLINE in native_of(message, context.target):
        message = _move_to_prompt(message, number, context)
    if role == message.role and content is message.content:
        return message
    return replace(message, role=role, content=content)


def _move_to_prompt(message: Message, number: int, context: Context) -> Message:
    """Remove the `INLINE` note from a leading system message, so that it becomes part of the system prompt."""
    own = {key: value for key, value in native_of(message, context.target).items() if key != INLINE}
    others = {owner: fields for owner, fields in message.native.items() if owner != context.target}
    context.receipt.note(str(Place(number)), "a leading system message", "it is part of the system prompt")
    return replace(message, native={**others, context.target: own} if own else others)


def _text_only(block: Block, place: Place, context: Context) -> Block:
    if not isinstance(block, Media):
        return block
    context.receipt.loss(str(place), block.kind, "system messages hold only text")
    return marker(block, "left out: system messages hold only text")
