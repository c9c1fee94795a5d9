"""The demo's models without native tools, whose names are in `models.py`.

They ignore `tools`, calls and results in a request, like a model that does not support tools. They read the tools that
the prompt describes, and write calls as text in their format: the same agent, by the same rules. So text tool calls can
be tried end to end without a key, a network or a model.
"""

from __future__ import annotations

import re

from toolglot.ir import Block, Message, Request, Response, Stop, Text, ToolCall, ToolChoice, ToolResult, replace
from toolglot.passes.choice import ANY_TOOL, NO_TOOLS
from toolglot.receipt import Receipt
from toolglot.textcalls.history import native_history
from toolglot.textcalls.prompts.render import calls_text, find_prompt
from toolglot.upstream.demo.agent import answer
from toolglot.upstream.demo.prompt_tools import parse_prompt_tools
from toolglot.upstream.demo.usage import estimate_usage

_ONE_CALL = re.compile(r"at most one call", re.IGNORECASE)


def answer_as_text(request: Request, understood: Request, text_format: str) -> Response:
    """Answer a request with calls as text. `understood` is the request as the model read it."""
    response = answer(understood)
    calls = [block for block in response.content if isinstance(block, ToolCall)]
    if calls:
        before = sum(isinstance(block, ToolCall) for message in understood.messages for block in message.content)
        said: list[Block] = [block for block in response.content if not isinstance(block, ToolCall)]
        content = (*said, Text(text=calls_text(text_format, calls, before)))
        response = replace(response, content=content, stop=Stop("end"))
    return replace(response, usage=estimate_usage(request, response))


def read_text_request(request: Request, text_format: str) -> Request:
    """Return the request that a model reads from a prompt that describes everything as text."""
    told = _text_of(request, "system", "developer")
    one = not find_prompt(text_format).several or _ONE_CALL.search(told) is not None
    plain = replace(
        request,
        messages=tuple(_without_native_tools(message) for message in request.messages),
        tools=parse_prompt_tools(told),
        tool_choice=_prompted_tool_choice(request),
        parallel_tool_calls=False if one else None,
    )
    return native_history(plain, text_format, Receipt())


def _text_of(request: Request, *roles: str) -> str:
    messages = (message for message in request.messages if message.role in roles)
    return "\n".join(block.text for message in messages for block in message.content if isinstance(block, Text))


def _without_native_tools(message: Message) -> Message:
    content = tuple(block for block in message.content if not isinstance(block, (ToolCall, ToolResult)))
    return message if len(content) == len(message.content) else replace(message, content=content)


def _prompted_tool_choice(request: Request) -> ToolChoice | None:
    """Return the tool choice that the last message expresses in the gateway's own wording."""
    last = request.messages[-1:] if request.messages else ()
    said = "\n".join(block.text for message in last for block in message.content if isinstance(block, Text))
    if NO_TOOLS in said:
        return ToolChoice(mode="none")
    return ToolChoice(mode="required") if ANY_TOOL in said else None
