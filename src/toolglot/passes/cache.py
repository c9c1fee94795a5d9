"""Prompt-cache breakpoints: as many and with such lifetimes as the target has."""

from __future__ import annotations

from toolglot import features
from toolglot.ir import (
    Block,
    Cache,
    Media,
    Message,
    Opaque,
    PromptCache,
    Refusal,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    replace,
)
from toolglot.passes import Context
from toolglot.passes.blocks import Place, rewrite_blocks
from toolglot.passes.census import census
from toolglot.passes.digest import digest
from toolglot.plan import runs_on
from toolglot.wire.openai_fields import PROMPT_CACHE

CACHED = (Text, Media, Thinking, ToolCall, ToolResult)
"""Blocks that may have a breakpoint."""


def _triggers(context: Context) -> int:
    is_own = context.source == context.target and not _is_older(context)
    return 0 if is_own else features.CACHE_MARKS | features.PROMPT_CACHE


@runs_on(_triggers, in_place=True)
def fit(request: Request, context: Context) -> Request:
    """The last breakpoints stay, since they cover the longest prefix."""
    can = context.can
    if context.source == context.target and not _is_older(context):
        return request
    request = _fit_settings(request, context)
    count = _count(request, context)
    if not count and request.cache is None:
        return request
    if not can.cache_lifetimes or not can.cache_breakpoints:
        wanted = count + (request.cache is not None)
        what = f"{wanted} cache breakpoint{'s' if wanted > 1 else ''}"
        why = "the target caches by itself" if can.cache_settings else "the target has none"
        context.receipt.note("cache", what, f"{why}; answers do not depend on them")
        return replace(_drop(_with_key(request, context), count), cache=None)
    if request.cache is not None and "cache" not in can.fields:
        request = _on_last_block(request, request.cache, context)
        count = _count(request, context)
    if can.cache_on_parts_only:
        request = _on_parts_only(request, context)
        count = _count(request, context)
    whole = request.cache is not None  # the request's own is one of them, and the last
    if count + whole > can.cache_breakpoints:
        why = f"the target takes {can.cache_breakpoints}; the last ones stay"
        context.receipt.note("cache", f"{count + whole} cache breakpoints", why)
        request = _drop(request, count + whole - can.cache_breakpoints)
    return _with_lifetimes(request, context)


def _is_older(context: Context) -> bool:
    """Is this a model of a client's own vendor that knows less than the one the client thinks it speaks to?"""
    return context.aliased and bool(context.can.cache_settings) and "options" not in context.can.cache_settings


def _fit_settings(request: Request, context: Context) -> Request:
    """The settings of a cache that the target has too."""
    wanted, takes = request.prompt_cache, context.can.cache_settings
    if wanted is None:
        return request
    if isinstance(wanted.options, dict) and wanted.options.get("mode") == "explicit":
        context.client_marks = True
    dropped = [name for name in PROMPT_CACHE if name not in takes and getattr(wanted, name) is not None]
    for name in dropped:
        why = "the target has no such parameter; no answer depends on it"
        context.receipt.note(PROMPT_CACHE[name], PROMPT_CACHE[name], why)
    if not dropped:
        return request
    left = replace(wanted, **dict.fromkeys(dropped))
    return replace(request, prompt_cache=left if left != PromptCache() else None)


def _with_key(request: Request, context: Context) -> Request:
    """Breakpoints say that a prompt will come again: a key sends it to the machine that has it in its cache."""
    takes, wanted = context.can.cache_settings, request.prompt_cache or PromptCache()
    if "key" not in takes or wanted.key is not None:
        return request
    names = [tool.name for tool in request.tools if isinstance(tool, Tool)]
    key = digest(request.model, request.user or "", *names)[:_KEY_LENGTH]
    context.receipt.note("prompt_cache_key", "a key", "it stands for the breakpoints; made of model, user and tools")
    long = "retention" in takes and wanted.retention is None and _longest(request, context) >= _LONG
    return replace(request, prompt_cache=replace(wanted, key=key, retention="24h" if long else wanted.retention))


def _longest(request: Request, context: Context) -> int:
    """The longest lifetime of a breakpoint on tools and texts, in seconds: those on results come and go."""
    tools = [tool.cache for tool in request.tools if isinstance(tool, Tool)]
    texts = [block.cache for block in census(request, context).blocks if isinstance(block, Text)]
    marks = [*tools, *texts, request.cache]
    return max((mark.seconds or 0 for mark in marks if mark is not None), default=0)


_KEY_LENGTH = 32
_LONG = 3600
"""Seconds, from which on a cache is to outlive a pause of its user."""


def _count(request: Request, context: Context) -> int:
    tools = sum(isinstance(tool, Tool) and tool.cache is not None for tool in request.tools)
    return tools + census(request, context).cached


def _cache(block: Block) -> Cache | None:
    return None if isinstance(block, Opaque | Refusal) else block.cache


def _recache(block: Block, cache: Cache | None) -> Block:
    return block if isinstance(block, Opaque | Refusal) else replace(block, cache=cache)


def _drop(request: Request, count: int) -> Request:
    """Without the first `count` breakpoints; tools stand before messages."""

    def drop(tool: Tool | Opaque) -> Tool | Opaque:
        nonlocal count
        if isinstance(tool, Opaque) or tool.cache is None or not count:
            return tool
        count -= 1
        return replace(tool, cache=None)

    def drop_block(block: Block, place: Place) -> tuple[Block, ...]:
        nonlocal count
        if _cache(block) is None or not count:
            return (block,)
        count -= 1
        return (_recache(block, None),)

    return rewrite_blocks(replace(request, tools=tuple(map(drop, request.tools))), drop_block, *CACHED)


def _on_last_block(request: Request, cache: Cache, context: Context) -> Request:
    """A breakpoint for the whole request stands for one on the last block."""
    request = replace(request, cache=None)
    for number in range(len(request.messages) - 1, -1, -1):
        message = request.messages[number]
        for index in range(len(message.content) - 1, -1, -1):
            block = message.content[index]
            if isinstance(block, Text) or (isinstance(block, ToolResult) and not context.can.cache_on_parts_only):
                context.receipt.note("cache", "a breakpoint for the whole request", "it stands on the last block")
                return _with_block(
                    request, number, message, index, _recache(block, _longer(block.cache, cache, context))
                )
    context.receipt.note("cache", "a breakpoint for the whole request", "no block can carry it")
    return request


def _longer(first: Cache | None, second: Cache, context: Context) -> Cache:
    """The one of two breakpoints that lives longer."""
    default = context.can.cache_lifetimes[0]
    if first is None or (first.seconds or default) < (second.seconds or default):
        return second
    return first


def _on_parts_only(request: Request, context: Context) -> Request:
    """Without the breakpoints on tools, calls and results; the next one on a text covers them too."""

    def misplaced(where: str) -> None:
        context.receipt.note(f"{where}.cache", "cache breakpoint", "the target has them on text and media only")

    def bare(block: Block, place: Place) -> tuple[Block, ...]:
        if _cache(block) is None or isinstance(block, Text | Media):
            return (block,)
        misplaced(str(place))
        return (_recache(block, None),)

    tools: list[Tool | Opaque] = []
    for index, tool in enumerate(request.tools):
        if isinstance(tool, Tool) and tool.cache is not None:
            misplaced(f"tools[{index}]")
            tool = replace(tool, cache=None)
        tools.append(tool)
    return rewrite_blocks(replace(request, tools=tuple(tools)), bare, *CACHED)


def _with_block(request: Request, number: int, message: Message, index: int, block: Block) -> Request:
    content = (*message.content[:index], block, *message.content[index + 1 :])
    messages = (*request.messages[:number], replace(message, content=content), *request.messages[number + 1 :])
    return replace(request, messages=messages)


def _with_lifetimes(request: Request, context: Context) -> Request:
    def fitted(cache: Cache | None) -> Cache | None:
        if cache is None or cache.seconds is None or cache.seconds in context.can.cache_lifetimes:
            return cache
        seconds = lifetime(cache.seconds, context.can.cache_lifetimes)
        context.receipt.note("cache", f"a lifetime of {cache.seconds} seconds", f"the target's nearest is {seconds}")
        return Cache(seconds)

    def fit_block(block: Block, place: Place) -> tuple[Block, ...]:
        cache = fitted(_cache(block))
        return (block,) if cache is _cache(block) else (_recache(block, cache),)

    tools = tuple(
        tool
        if isinstance(tool, Opaque) or fitted(tool.cache) is tool.cache
        else replace(tool, cache=fitted(tool.cache))
        for tool in request.tools
    )
    if any(new is not old for new, old in zip(tools, request.tools, strict=True)):
        request = replace(request, tools=tools)
    if fitted(request.cache) is not request.cache:
        request = replace(request, cache=fitted(request.cache))
    return rewrite_blocks(request, fit_block, *CACHED)


def lifetime(seconds: int, lifetimes: tuple[int, ...]) -> int:
    """The shortest lifetime that is long enough, else the longest: a cache that dies early is paid for twice."""
    return min((other for other in lifetimes if other >= seconds), default=max(lifetimes))
