"""Insert instructions for the model in place of settings that the target's wire format cannot express."""

from __future__ import annotations

from toolglot.ir import INSTRUCTION, Message, Request, Text, replace
from toolglot.passes import Context
from toolglot.passes.blocks import INSTRUCTION_ROLES, leading


def instruct(request: Request, text: str, context: Context) -> Request:
    """Insert an instruction for this turn, after the user's last message.

    The next turn may not need it again. Before the conversation, it would change the beginning of the prompt whenever
    it is added or removed, and invalidate the prompt cache.
    """
    messages = request.messages
    place = len(messages)
    while place and messages[place - 1].role == "assistant":  # a prefilled answer that the model continues
        place -= 1
    first = leading(request.messages)
    only = context.can.messages.system == "first"
    if place <= first and only and first:
        prompt = messages[first - 1]
        joined_prompt = replace(prompt, content=(*prompt.content, Text(text=text)))
        return replace(request, messages=(*messages[: first - 1], joined_prompt, *messages[first:]))
    if place <= first:
        return replace(request, messages=(*messages[:first], _system(text), *messages[first:]))
    before = messages[place - 1]
    if only or context.can.messages.system == "leading":
        reminder = f"<system-reminder>\n{text}\n</system-reminder>"
        line = Message(role="user", content=(Text(text=reminder, native=INSTRUCTION),))
        joined = before.role == "user"
    else:
        line = _system(text)
        joined = context.can.messages.system == "after_user" and before.role in INSTRUCTION_ROLES
    if joined:
        place, line = place - 1, replace(before, content=(*before.content, *line.content))
    rest = messages[place + 1 :] if joined else messages[place:]
    return replace(request, messages=(*messages[:place], line, *rest))


def _system(text: str) -> Message:
    return Message(role="system", content=(Text(text=text),))
