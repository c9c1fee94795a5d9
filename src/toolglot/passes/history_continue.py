"""A word to go on with, for conversations that end in results of tools.

Models that were trained on it answer results by themselves. Others, and servers that are told a conversation in one
text, take the results for something that was said before, and call the same tools again.
"""

from __future__ import annotations

from toolglot.ir import Message, Request, Text, ToolResult, replace
from toolglot.passes import Context, RequestPass


def go_on(words: str) -> RequestPass:
    """The pass that lets the user say these words where the results of tools are the last that was said."""

    def ask(request: Request, context: Context) -> Request:
        if not _ends_in_results(request):
            return request
        context.receipt.note(f"messages[{len(request.messages)}]", "a word to go on", "results of tools come last")
        asking = Message(role="user", content=(Text(text=words),))
        return replace(request, messages=(*request.messages, asking))

    return ask


def _ends_in_results(request: Request) -> bool:
    last = request.messages[-1].content if request.messages else ()
    return bool(last) and all(isinstance(block, ToolResult) for block in last)
