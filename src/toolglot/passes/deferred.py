"""Deferred tools for another dialect: a tool is offered once the conversation refers to it.

Claude Code's ToolSearch declares tools with `defer_loading` and answers a search with `tool_reference` blocks inside a
tool result. From then on the model may call these tools. Another dialect does not understand the references, even if it
has deferred tools itself. A search that runs on the vendor's server is not available elsewhere either. Its tools are
all offered, because nothing could find them otherwise. This pass runs before names change, so that references still
match.
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
    return 0 if context.source == context.target and context.can.tools.deferred else features.DEFERRED | features.OPAQUE


@runs_on(_triggers, adds=features.BLANK, in_place=True)
def offer(request: Request, context: Context) -> Request:
    """Offer the deferred tools that the conversation refers to, and drop the others."""
    if context.source == context.target and context.can.tools.deferred:
        return request
    tools = _select_tools(request, context) if context.features & features.DEFERRED else request.tools
    # References become text even if their tools are no longer declared, so that earlier history stays the same.
    described = rewrite_blocks(request, _describe_reference, Opaque) if context.features & features.OPAQUE else request
    return described if tools is request.tools else replace(described, tools=tools)


def _deferred_names(tools: Tools) -> set[str]:
    return {tool.name for tool in tools if isinstance(tool, Tool) and tool.deferred}


def _select_tools(request: Request, context: Context) -> tuple[Tool | Opaque, ...]:
    declared = request.tools
    deferred = DECLARED.derive(declared, "deferred", None, lambda: _deferred_names(declared))
    if not deferred:
        return declared
    referred = deferred & set(_referred_names(request, context))
    what = f"offered {sorted(referred)}"
    return DECLARED.rewrite(
        declared, what, None, lambda lines: _offer_referred(declared, referred, lines), context.receipt
    )


def _offer_referred(declared: Tools, referred: Set[str], receipt: Receipt) -> Tools:
    searched = any(isinstance(tool, Opaque) and _is_search(tool) for tool in declared)
    tools: list[Tool | Opaque] = []
    for index, tool in enumerate(declared):
        if not isinstance(tool, Tool) or not tool.deferred:
            tools.append(tool)
        elif searched or tool.name in referred:
            if tool.name not in referred:
                receipt.note(f"tools[{index}]", f"deferred tool {tool.name}", "it is offered from the start")
            tools.append(replace(tool, deferred=False))
        else:
            receipt.note(f"tools[{index}]", f"deferred tool {tool.name}", "nothing has referred to it yet")
    return tuple(tools)


def _is_search(tool: Opaque) -> bool:
    """Return whether this is a vendor's tool search, for example `tool_search` or `tool_search_tool_regex_20251119`."""
    kind = tool.value.get("type") if isinstance(tool.value, dict) else None
    return isinstance(kind, str) and kind.startswith("tool_search")


def _referred_names(request: Request, context: Context) -> Iterator[str]:
    """Yield the names of the tools that the conversation calls or refers to."""
    history = tool_history(request, context)
    if history.is_flat and not context.features & features.OPAQUE:
        yield from [call.name for call in history.calls]
        return
    for block, _ in blocks(request):
        name = block.name if isinstance(block, ToolCall) else _name_in_reference(block)
        if name is not None:
            yield name


def _name_in_reference(block: Block) -> str | None:
    """Return the tool that a `tool_reference` block names; None for any other block."""
    if not isinstance(block, Opaque) or not isinstance(block.value, dict):
        return None
    name = block.value.get("tool_name")
    return name if block.value.get("type") == "tool_reference" and isinstance(name, str) else None


def _describe_reference(block: Block, place: Place) -> tuple[Block, ...]:
    name = _name_in_reference(block)
    return (block,) if name is None else (Text(text=f"The tool {name} can be called now."),)
