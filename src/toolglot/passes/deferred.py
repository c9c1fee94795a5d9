"""Deferred tools on their way to another dialect: a tool is offered once the conversation has met it.

Claude Code's ToolSearch declares tools with `defer_loading` and answers a search with `tool_reference` blocks inside a
tool result; from then on the model may call them. References mean nothing to another dialect, even if it has deferred
tools of its own, and a search that runs at the vendor stays behind: its tools are all offered, or nothing could find
them. This runs before names change, so that references still fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from toolglot import features
from toolglot.ir import Block, Opaque, Request, Text, Tool, ToolCall, replace
from toolglot.passes import Context
from toolglot.passes.blocks import Place, blocks, rewrite_blocks
from toolglot.passes.tool_history import tool_history
from toolglot.plan import runs_on
from toolglot.receipt import Receipt
from toolglot.tools.declared import DECLARED, Tools


def _triggers(context: Context) -> int:
    return 0 if context.source == context.target and context.can.deferred_tools else features.DEFERRED | features.OPAQUE


@runs_on(_triggers, adds=features.BLANK, in_place=True)
def offer(request: Request, context: Context) -> Request:
    """Offers the deferred tools that something refers to and leaves the others out."""
    if context.source == context.target and context.can.deferred_tools:
        return request
    tools = _offered(request, context) if context.features & features.DEFERRED else request.tools
    # References are told in words whether or not their tools are still declared: the history before stays the same.
    told = rewrite_blocks(request, _tell, Opaque) if context.features & features.OPAQUE else request
    return told if tools is request.tools else replace(told, tools=tools)


def _deferred_names(tools: Tools) -> set[str]:
    return {tool.name for tool in tools if isinstance(tool, Tool) and tool.deferred}


def _offered(request: Request, context: Context) -> tuple[Tool | Opaque, ...]:
    declared = request.tools
    deferred = DECLARED.derive(declared, "deferred", None, lambda: _deferred_names(declared))
    if not deferred:
        return declared
    met = deferred & set(_met(request, context))
    what = f"offered {sorted(met)}"
    return DECLARED.rewrite(declared, what, None, lambda lines: _offer(declared, met, lines), context.receipt)


def _offer(declared: Tools, met: Set[str], receipt: Receipt) -> Tools:
    searched = any(isinstance(tool, Opaque) and _is_search(tool) for tool in declared)
    tools: list[Tool | Opaque] = []
    for index, tool in enumerate(declared):
        if not isinstance(tool, Tool) or not tool.deferred:
            tools.append(tool)
        elif searched or tool.name in met:
            if tool.name not in met:
                receipt.note(f"tools[{index}]", f"deferred tool {tool.name}", "it is offered from the start")
            tools.append(replace(tool, deferred=False))
        else:
            receipt.note(f"tools[{index}]", f"deferred tool {tool.name}", "nothing has referred to it yet")
    return tuple(tools)


def _is_search(tool: Opaque) -> bool:
    """Is it a vendor's own search for tools, such as `tool_search` or `tool_search_tool_regex_20251119`?"""
    kind = tool.value.get("type") if isinstance(tool.value, dict) else None
    return isinstance(kind, str) and kind.startswith("tool_search")


def _met(request: Request, context: Context) -> Iterator[str]:
    """The names of tools that the conversation has called or refers to."""
    history = tool_history(request, context)
    if history.is_flat and not context.features & features.OPAQUE:
        yield from [call.name for call in history.calls]
        return
    for block, _ in blocks(request):
        name = block.name if isinstance(block, ToolCall) else _referred(block)
        if name is not None:
            yield name


def _referred(block: Block) -> str | None:
    """The tool that a `tool_reference` block names."""
    if not isinstance(block, Opaque) or not isinstance(block.value, dict):
        return None
    name = block.value.get("tool_name")
    return name if block.value.get("type") == "tool_reference" and isinstance(name, str) else None


def _tell(block: Block, place: Place) -> tuple[Block, ...]:
    name = _referred(block)
    return (block,) if name is None else (Text(text=f"The tool {name} can be called now."),)
