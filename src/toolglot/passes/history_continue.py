"""Add a user message that asks the model to continue, for conversations that end in tool results.

Models trained for tool use answer results without it. Other models, and servers that get the conversation as one text,
mistake the results for earlier context and call the same tools again.
"""

from __future__ import annotations

from toolglot.ir import Message, Request, Text, ToolResult, replace
from toolglot.passes import Context, RequestPass


def append_question(words: str) -> RequestPass:
    """Create a pass that appends these words as a user message if the conversation ends in tool results."""

    def append_message(request: Request, context: Context) -> Request:
        if not _ends_in_results(request):
            return request
        context.receipt.note(
            f"messages[{len(request.messages)}]", "a request to continue", "the conversation ends with tool results"
        )
        continuation = Message(role="user", content=(Text(text=words),))
        return replace(request, messages=(*request.messages, continuation))

    return append_message


def _ends_in_results(request: Request) -> bool:
    last = request.messages[-1].content if request.messages else ()
    return bool(last) and all(isinstance(block, ToolResult) for block in last)
