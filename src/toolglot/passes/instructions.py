"""System text that asks for what a target's wire cannot say."""

from __future__ import annotations

from toolglot.ir import Message, Request, Text, replace
from toolglot.passes.blocks import leading


def instruct(request: Request, text: str) -> Request:
    """The request with one more system message, behind those that stand before the conversation."""
    place = leading(request)
    line = Message(role="system", content=(Text(text=text),))
    return replace(request, messages=(*request.messages[:place], line, *request.messages[place:]))
