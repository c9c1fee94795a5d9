"""Rewrite content that a client sent in the form of another API to the form of its own.

Cursor sends tools and content of the Messages API to Chat endpoints (CLIProxyAPI #3805). The decoder reads them and
notes their form, so that a request can be written unchanged. Servers of the dialect refuse that form. Requests for
other dialects are encoded from scratch anyway.
"""

from __future__ import annotations

from operator import is_

from toolglot import features
from toolglot.dialects import DIALECTS
from toolglot.ir import Block, Message, Opaque, Request, Tool, ToolCall, replace
from toolglot.passes import Context
from toolglot.passes.blocks import Place, has_results, rewrite_message, with_messages
from toolglot.passes.native_fields import N, without_native
from toolglot.passes.turns import split_results
from toolglot.plan import runs_on


@runs_on(lambda context: features.OTHER_FORMS if context.source == context.target else 0, adds=None)
def normalize(request: Request, context: Context) -> Request:
    if context.source != context.target or context.target not in DIALECTS:
        return request
    notes = DIALECTS[context.target].upstream.other_forms
    if not notes:
        return request

    def plain(node: N, where: str) -> N:
        new = node
        for note in notes:
            new = without_native(new, context.target, note)
        if new is not node:
            context.receipt.note(where, "the form of another API", "the target has a form of its own for it")
        return new

    def rewrite(block: Block, place: Place) -> tuple[Block, ...]:
        return (block if isinstance(block, Opaque) else plain(block, str(place)),)

    messages: list[Message] = []
    for number, message in enumerate(request.messages):
        new = rewrite_message(message, number, rewrite)
        if new is message:
            messages.append(message)
            continue
        if all(isinstance(block, ToolCall) for block in new.content):
            new = without_native(new, context.target, "$content")  # no content is left beside the calls
        messages += split_results([new], context) if has_results(new) else [new]
    request = with_messages(request, tuple(messages))
    choice = request.tool_choice
    if choice is not None and (new_choice := plain(choice, "tool_choice")) is not choice:
        request = replace(request, tool_choice=new_choice)
    tools = tuple(
        [plain(tool, f"tools[{index}]") if isinstance(tool, Tool) else tool for index, tool in enumerate(request.tools)]
    )
    return request if all(map(is_, tools, request.tools)) else replace(request, tools=tools)
