"""Fit prompt-cache breakpoints and settings to the number and lifetimes that the target supports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from toolglot import features
from toolglot.ir import (
    Block,
    Cache,
    Media,
    Opaque,
    PromptCache,
    Refusal,
    Request,
    Text,
    Tool,
    ToolResult,
    replace,
)
from toolglot.passes import Context
from toolglot.passes.blocks import Place
from toolglot.passes.digest import digest
from toolglot.plan import runs_on
from toolglot.tools.declared import DECLARED, Tools
from toolglot.wire.openai_fields import PROMPT_CACHE


def _triggers(context: Context) -> int:
    is_own = context.source == context.target and not _lacks_breakpoints(context)
    return 0 if is_own else features.CACHE_MARKS | features.PROMPT_CACHE


@runs_on(_triggers, in_place=True)
def fit(request: Request, context: Context) -> Request:
    """Fit breakpoints and cache settings to the target. If there are too many breakpoints, the last ones are kept: they
    cover the longest prefix."""
    can, receipt = context.can, context.receipt
    is_own = context.source == context.target
    if is_own and not _lacks_breakpoints(context):
        return request
    if is_own and not can.cache.settings:
        return _without_breakpoints(request, context)
    request = _fit_settings(request, context)
    before = _marks(request)
    if not before and request.cache is None:
        return request
    if not can.cache.lifetimes or not can.cache.breakpoints:
        wanted = len(before) + (request.cache is not None)
        what = f"{wanted} cache breakpoint{'s' if wanted > 1 else ''}"
        why = "the target caches automatically" if can.cache.settings else "the target has none"
        receipt.note("cache", what, f"{why}; answers do not depend on them")
        request = _without_marks(_with_key(request, before, context), before, context)
        return request if request.cache is None else replace(request, cache=None)
    marks = dict(before)
    if request.cache is not None and "cache" not in can.parameters.fields:
        marks = _with_mark_on_last_block(request, request.cache, marks, context)
        request = replace(request, cache=None)
    if can.cache.by_control:
        marks = _move_into_results(request, marks)
    if can.cache.on_parts_only:
        marks = _keep_on_parts(request, marks, context)
    whole = request.cache is not None  # the request-level breakpoint counts too, as the last
    surplus = len(marks) + whole - can.cache.breakpoints
    if surplus > 0:
        why = f"the target takes {can.cache.breakpoints}; the last ones stay"
        receipt.note("cache", f"{len(marks) + whole} cache breakpoints", why)
        marks = dict(list(marks.items())[surplus:])
    if request.cache is not None:
        request = replace(request, cache=_with_lifetime(request.cache, context))
    return _with_marks(
        request, before, {place: _with_lifetime(mark, context) for place, mark in marks.items()}, context
    )


Marks: TypeAlias = Mapping[Place, Cache]
"""Breakpoints by place, in prompt order: tools (as places in message -1), then messages. The parts of a result come
before the result."""
_TOOLS = -1
_WITHOUT_MARKS = (Opaque, Refusal)


def _marks(request: Request) -> Marks:
    tools = request.tools
    marks: dict[Place, Cache] = dict(DECLARED.derive(tools, "marks", None, lambda: _marks_of_tools(tools)))
    for number, message in enumerate(request.messages):
        for index, block in enumerate(message.content):
            if type(block) is ToolResult:
                for inner, part in enumerate(block.content):
                    if type(part) not in _WITHOUT_MARKS and part.cache is not None:  # type: ignore[union-attr]
                        marks[Place(number, index, inner)] = part.cache  # type: ignore[union-attr]
            if type(block) not in _WITHOUT_MARKS and block.cache is not None:  # type: ignore[union-attr]
                marks[Place(number, index)] = block.cache  # type: ignore[union-attr]
    return marks


def _marks_of_tools(tools: Tools) -> Marks:
    return {
        Place(_TOOLS, index): tool.cache
        for index, tool in enumerate(tools)
        if type(tool) is Tool and tool.cache is not None
    }


def _with_marks(request: Request, before: Marks, after: Marks, context: Context) -> Request:
    """Replace the breakpoints `before` with `after`."""
    changed = {place: after.get(place) for place in (*before, *after) if after.get(place) is not before.get(place)}
    tools, of_tools = request.tools, [(place.block, mark) for place, mark in changed.items() if place.message == _TOOLS]
    if of_tools:
        what = f"marked {of_tools}"
        tools = DECLARED.rewrite(
            tools, what, None, lambda _: _with_marks_on_tools(request.tools, of_tools), context.receipt
        )
    contents: dict[int, list[Block]] = {}
    parts: dict[Place, list[Block]] = {}
    for place, mark in changed.items():
        number, index, inner = place
        if number == _TOOLS:
            continue
        content = contents.get(number) or contents.setdefault(number, [*request.messages[number].content])
        if inner < 0:
            content[index] = _recache(content[index], mark)
            continue
        around = place._replace(inner=-1)
        if around not in parts:
            result = content[index]
            assert isinstance(result, ToolResult)
            parts[around] = [*result.content]
        parts[around][inner] = _recache(parts[around][inner], mark)
    for place, content in parts.items():
        result = contents[place.message][place.block]
        assert isinstance(result, ToolResult)
        contents[place.message][place.block] = replace(result, content=tuple(content))
    messages = [*request.messages]
    for number, content in contents.items():
        messages[number] = replace(messages[number], content=tuple(content))
    return replace(request, tools=tools, messages=tuple(messages) if contents else request.messages)


def _without_marks(request: Request, before: Marks, context: Context) -> Request:
    """Remove all breakpoints from tools and blocks. The request-level breakpoint stays."""
    tools = request.tools
    messages = [*request.messages]
    for number in dict.fromkeys([place.message for place in before]):
        if number == _TOOLS:
            tools = DECLARED.rewrite(tools, "unmarked", None, lambda _: _unmark_tools(request.tools), context.receipt)
        else:
            message = messages[number]
            messages[number] = replace(message, content=tuple([_unmark_block(block) for block in message.content]))
    return replace(request, tools=tools, messages=tuple(messages))


def _unmark_block(block: Block) -> Block:
    if isinstance(block, _WITHOUT_MARKS):
        return block
    if isinstance(block, ToolResult) and any(getattr(part, "cache", None) is not None for part in block.content):
        return replace(block, cache=None, content=tuple([_unmark_block(part) for part in block.content]))
    return block if block.cache is None else replace(block, cache=None)


def _unmark_tools(tools: Tools) -> Tools:
    return tuple([replace(tool, cache=None) if isinstance(tool, Tool) and tool.cache else tool for tool in tools])


def _with_marks_on_tools(tools: Tools, marks: Sequence[tuple[int, Cache | None]]) -> Tools:
    marked = list(tools)
    for index, mark in marks:
        tool = marked[index]
        assert isinstance(tool, Tool)
        marked[index] = replace(tool, cache=mark)
    return tuple(marked)


def _lacks_breakpoints(context: Context) -> bool:
    """Return whether this model lacks this form of breakpoint. The model that the client requested may support it."""
    can = context.can.cache
    lacks = not can.breakpoints or can.by_control
    return context.aliased and lacks and "options" not in can.settings


def _without_breakpoints(request: Request, context: Context) -> Request:
    """Remove the breakpoint form and options that only OpenAI's newer models know, for a server of another vendor. Such
    a server may support the rest: `cache_control` and cache keys."""
    marks = _marks(request)
    left = {place: mark for place, mark in marks.items() if mark.by_control}
    if len(left) < len(marks):
        count = len(marks) - len(left)
        what = f"{count} cache breakpoint{'s' if count > 1 else ''}"
        context.receipt.note("cache", what, "the target does not know them; answers do not depend on them")
        request = _with_marks(request, marks, left, context)
    return _fit_settings(request, context, frozenset(PROMPT_CACHE) - {"options"})


def _fit_settings(request: Request, context: Context, takes: AbstractSet[str] | None = None) -> Request:
    """Keep only the cache settings that the target supports."""
    wanted, takes = request.prompt_cache, context.can.cache.settings if takes is None else takes
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


def _with_key(request: Request, marks: Marks, context: Context) -> Request:
    """Replace breakpoints with a cache key. Breakpoints imply that the prompt will repeat, and a key routes it to the
    machine that has it cached."""
    takes, wanted = context.can.cache.settings, request.prompt_cache or PromptCache()
    if "key" not in takes or wanted.key is not None:
        return request
    model, user, tools = request.model, request.user or "", request.tools
    key = DECLARED.derive(tools, f"key {model} {user}", None, lambda: _key(model, user, tools))
    context.receipt.note("prompt_cache_key", "a key", "it replaces the breakpoints; made of model, user and tools")
    long = "retention" in takes and wanted.retention is None and _longest(request, marks) >= _LONG
    return replace(request, prompt_cache=replace(wanted, key=key, retention="24h" if long else wanted.retention))


def _key(model: str, user: str, tools: Tools) -> str:
    return digest(model, user, *[tool.name for tool in tools if isinstance(tool, Tool)])[:_KEY_LENGTH]


def _longest(request: Request, marks: Marks) -> int:
    """Return the longest lifetime in seconds of the breakpoints on tools and texts. Breakpoints on results are ignored:
    they are short-lived."""
    lasting = [mark for place, mark in marks.items() if place.message == _TOOLS or _is_on(request, place, Text)]
    return max((mark.seconds or 0 for mark in (*lasting, request.cache) if mark is not None), default=0)


def _is_on(request: Request, place: Place, *kinds: type[Block]) -> bool:
    """Return whether the block at this place is of one of these kinds."""
    block = request.messages[place.message].content[place.block]
    if place.inner >= 0:
        assert isinstance(block, ToolResult)
        block = block.content[place.inner]
    return isinstance(block, kinds)


_KEY_LENGTH = 32
_LONG = 3600
"""Lifetime in seconds from which the cache should survive a pause of the user."""


def _recache(block: Block, cache: Cache | None) -> Block:
    return block if isinstance(block, (Opaque, Refusal)) else replace(block, cache=cache)


def _with_mark_on_last_block(request: Request, cache: Cache, marks: Marks, context: Context) -> dict[Place, Cache]:
    """Turn the request-level breakpoint into one on the last block that can carry it."""
    for number in range(len(request.messages) - 1, -1, -1):
        content = request.messages[number].content
        for index in range(len(content) - 1, -1, -1):
            block = content[index]
            if isinstance(block, Text) or (isinstance(block, ToolResult) and _may_mark_result(block, context)):
                context.receipt.note("cache", "a breakpoint for the whole request", "it is on the last block")
                place = Place(number, index)
                others = {other: mark for other, mark in marks.items() if other != place}
                return {**others, place: _longer(marks.get(place), cache, context)}
    context.receipt.note("cache", "a breakpoint for the whole request", "no block can carry it")
    return dict(marks)


def _may_mark_result(result: ToolResult, context: Context) -> bool:
    can = context.can.cache
    return last_text(result) is not None if can.by_control else not can.on_parts_only


def last_text(result: ToolResult) -> int | None:
    """Return the index of the last non-blank text in a result; None if there is none."""
    texts = [index for index, part in enumerate(result.content) if isinstance(part, Text) and part.text.strip()]
    return texts[-1] if texts else None


def _move_into_results(request: Request, marks: Marks) -> dict[Place, Cache]:
    """Move breakpoints on results to the last text inside the result."""
    moved: dict[Place, Cache] = {}
    for place, mark in marks.items():
        block = None if place.message == _TOOLS else request.messages[place.message].content[place.block]
        inside = last_text(block) if isinstance(block, ToolResult) and place.inner < 0 else None
        moved[place if inside is None else place._replace(inner=inside)] = mark
    return moved


def _longer(first: Cache | None, second: Cache, context: Context) -> Cache:
    """Choose the breakpoint with the longer lifetime."""
    default = context.can.cache.lifetimes[0]
    if first is None or (first.seconds or default) < (second.seconds or default):
        return second
    return first


def _keep_on_parts(request: Request, marks: Marks, context: Context) -> dict[Place, Cache]:
    """Drop breakpoints on tools, calls and results. The next breakpoint on a text covers them too."""
    kept: dict[Place, Cache] = {}
    for place, mark in marks.items():
        if place.message != _TOOLS and _is_on(request, place, Text, Media):
            kept[place] = mark
        else:
            where = f"tools[{place.block}]" if place.message == _TOOLS else str(place)
            context.receipt.note(f"{where}.cache", "cache breakpoint", "the target has them on text and media only")
    return kept


def _with_lifetime(cache: Cache, context: Context) -> Cache:
    by_control = context.can.cache.by_control
    if cache.seconds is None or cache.seconds in context.can.cache.lifetimes:
        return Cache(cache.seconds, by_control=True) if by_control and not cache.by_control else cache
    seconds = lifetime(cache.seconds, context.can.cache.lifetimes)
    context.receipt.note("cache", f"a lifetime of {cache.seconds} seconds", f"the target's nearest is {seconds}")
    return Cache(seconds, by_control=by_control)


def drop_marks(request: Request, context: Context) -> Request:
    """Remove all breakpoints, for a server that rejected them."""
    marks = _marks(request)
    if not marks and request.cache is None:
        return request
    context.receipt.note("cache", "cache breakpoints", "the upstream refuses them; answers do not depend on them")
    return replace(_without_marks(request, marks, context), cache=None)


def lifetime(seconds: int, lifetimes: tuple[int, ...]) -> int:
    """Choose the shortest lifetime that is long enough, otherwise the longest: a cache that expires early is paid for
    twice."""
    return min((other for other in lifetimes if other >= seconds), default=max(lifetimes))
