"""Set cache breakpoints for clients whose API has none, on models that cache nothing without breakpoints.

Breakpoints are set in prompt order (an upstream hashes tools, then system text, then messages):

1. The last tool.
2. The last block of the system text.
3. The last block of the user's previous turn, where the previous request had (4). Without it, the upstream would not
   find the cached prefix if the newest turn has more blocks than its lookback limit.
4. The last block of the user's newest turn, which advances with the conversation.

Each one is set only if the prompt up to it certainly reaches the model's minimum, and never on reasoning or blank text.
They have the target's default lifetime, and a cache read renews them. A cache write costs extra and is wasted on a
prompt that never repeats. Breakpoints are therefore set only in a tool loop, or if the caller knows that the prefix
repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from toolglot import features
from toolglot.ir import Block, Cache, Media, Message, Opaque, Request, Text, Tool, ToolCall, ToolResult, replace
from toolglot.passes import CacheMarks, Context
from toolglot.passes.blocks import blocks
from toolglot.passes.cache import last_text
from toolglot.passes.tool_history import tool_history
from toolglot.plan import runs_on
from toolglot.tools.declared import DECLARED
from toolglot.wire import json

CHARACTERS = 4
"""Upper bound of characters per token. Code and JSON have fewer, so an estimated token count is never too high."""

_SYSTEM = ("system", "developer")
_USER = ("user", "tool")


class MarkPlan(Struct, frozen=True, gc=False):
    """The places that get a breakpoint."""

    tools: bool = False
    system: bool = False
    earlier: bool = False
    newest: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.tools or self.system or self.earlier or self.newest)


class PromptSizes(Struct, frozen=True, gc=False):
    """Characters up to each place; -1 if there is no such place."""

    tools: int
    system: int
    earlier: int
    newest: int


def plan_marks(
    sizes: PromptSizes, minimum: int, marks: CacheMarks, *, in_loop: bool, goes_on: bool, repeats: bool
) -> MarkPlan:
    """Choose the breakpoints for a prompt of these sizes. `in_loop`: it has calls; `goes_on`: it has answers;
    `repeats`: the same tools and system text were sent recently."""
    if marks == "never" or not (marks == "always" or in_loop or repeats):
        return MarkPlan()
    least = minimum * CHARACTERS
    messages = marks == "always" or in_loop or goes_on
    return MarkPlan(
        tools=sizes.tools >= least,
        system=sizes.system >= least,
        earlier=messages and sizes.earlier >= least,
        newest=messages and sizes.newest >= least,
    )


@runs_on(lambda context: features.ANY if may_originate(context) else 0, in_place=True)
def originate(request: Request, context: Context) -> Request:
    """Set breakpoints (see the module's docstring), unless the client set its own."""
    if not may_originate(context):
        return request
    calls = bool(tool_history(request, context).calls)
    if not (context.cache_marks == "always" or calls or context.prefix_repeats):
        return request
    if _has_marks(request, context):
        return request
    totals = _totals(request)
    if totals[-1] < context.can.cache.minimum * CHARACTERS:
        return request  # the whole prompt is too short for the cache
    leading = _count_leading(request.messages)
    newest, earlier = _user_turns(request.messages, leading)
    system = totals[leading] if leading else -1
    sizes = PromptSizes(totals[0] or -1, system, *[totals[at + 1] if at >= 0 else -1 for at in (earlier, newest)])
    answers = any(message.role == "assistant" for message in request.messages)
    plan = plan_marks(
        sizes,
        context.can.cache.minimum,
        context.cache_marks,
        in_loop=calls,
        goes_on=answers,
        repeats=context.prefix_repeats,
    )
    if plan.is_empty:
        return request
    context.receipt.note("cache", "breakpoints", WHY)
    messages = list(request.messages)
    places = ((plan.system, leading - 1), (plan.earlier, earlier), (plan.newest, newest))
    for index in [place for is_planned, place in places if is_planned]:
        messages[index] = _mark_message(messages[index], context)
    tools = request.tools
    if plan.tools and not context.can.cache.on_parts_only:
        tools = DECLARED.rewrite(tools, "originated", None, lambda _: _mark_last_tool(request.tools), context.receipt)
    return replace(request, tools=tools, messages=tuple(messages))


WHY = "the client's API has none, and the target caches only what is marked: toolglot has set them"


def may_originate(context: Context) -> bool:
    return context.source != context.target and context.can.cache.by_marks and context.cache_marks != "never"


def _has_marks(request: Request, context: Context) -> bool:
    """Return whether the client itself specified what to cache, or to cache nothing."""
    if request.cache is not None or context.client_marks:
        return True
    if not context.features & features.CACHE_MARKS:
        return False
    if any(getattr(block, "cache", None) is not None for block, _ in blocks(request)):
        return True
    return any(isinstance(tool, Tool) and tool.cache is not None for tool in request.tools)


def _count_leading(messages: Sequence[Message]) -> int:
    return next((index for index, message in enumerate(messages) if message.role not in _SYSTEM), len(messages))


def _user_turns(messages: Sequence[Message], leading: int) -> tuple[int, int]:
    """Return the index of the last message of the user's newest turn, and of the previous turn that was answered; -1 if
    none."""
    newest, answered = -1, False
    for index in range(len(messages) - 1, leading - 1, -1):
        message = messages[index]
        if message.role in _USER and _last_place(message.content) is not None:
            if newest < 0:
                newest = index
            elif answered:
                return newest, index
        answered = answered or (newest >= 0 and message.role == "assistant")
    return newest, -1


def _totals(request: Request) -> list[int]:
    """Return the cumulative numbers of characters: up to the end of the tools, then up to the end of each message."""
    declared = request.tools
    total = DECLARED.derive(declared, "size", None, lambda: tools_size(declared)) if declared else 0
    totals = [total]
    for message in request.messages:
        total += content_size(message.content)
        totals.append(total)
    return totals


def tools_size(tools: Iterable[Tool | Opaque]) -> int:
    """Count the characters of the tools that the model sees. Deferred tools are excluded."""
    known = [tool for tool in tools if isinstance(tool, Tool) and not tool.deferred]
    texts = sum(len(tool.name) + len(tool.description or "") for tool in known)
    return texts + sum(len(json.encode(tool.parameters)) for tool in known if tool.parameters is not None)


def content_size(content: Iterable[Block]) -> int:
    total = 0
    for block in content:
        if type(block) is Text:
            total += text_size(block.text)
        elif type(block) is ToolCall:
            total += len(block.name) + len(block.arguments)
        elif type(block) is ToolResult:
            total += content_size(block.content)
    return total


def text_size(text: str) -> int:
    """Count the characters of a text; 0 if it is blank, because blank text may be dropped before it reaches the
    upstream."""
    return 0 if text.isspace() else len(text)


def _last_place(content: Sequence[Block]) -> int | None:
    for index in range(len(content) - 1, -1, -1):
        block = content[index]
        if isinstance(block, (ToolResult, Media)) or (isinstance(block, Text) and text_size(block.text)):
            return index
    return None


def _mark_message(message: Message, context: Context) -> Message:
    index = _last_place(message.content)
    if index is None:
        return message
    block = message.content[index]
    assert isinstance(block, (Text, Media, ToolResult))
    marked = _mark_block(block, Cache(by_control=context.can.cache.by_control))
    return replace(message, content=(*message.content[:index], marked, *message.content[index + 1 :]))


def _mark_block(block: Text | Media | ToolResult, mark: Cache) -> Block:
    """Set a breakpoint on a block. In a result, `cache_control` goes on the last text, if there is one."""
    if not mark.by_control or not isinstance(block, ToolResult):
        return replace(block, cache=mark)
    if (index := last_text(block)) is None:
        return block
    part = replace(block.content[index], cache=mark)
    return replace(block, content=(*block.content[:index], part, *block.content[index + 1 :]))


def _mark_last_tool(tools: tuple[Tool | Opaque, ...]) -> tuple[Tool | Opaque, ...]:
    for index in range(len(tools) - 1, -1, -1):
        tool = tools[index]
        if isinstance(tool, Tool) and not tool.deferred:
            return (*tools[:index], replace(tool, cache=Cache()), *tools[index + 1 :])
    return tools
