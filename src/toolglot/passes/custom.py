"""Wrap custom tools (free text, optionally constrained by a grammar) as functions with one text parameter, for targets
without custom tools.

Definitions, calls and results change together. In the answer, the event pass `Restorer` extracts the text from the
object again: `context.tools`, written earlier by `names.shorten`, records that the tool is a custom one.
"""

from __future__ import annotations

from operator import is_

from toolglot import features
from toolglot.ir import Block, Json, Opaque, Request, Tool, ToolCall, ToolResult, replace
from toolglot.passes import Context
from toolglot.passes.blocks import Place, rewrite_blocks
from toolglot.passes.tool_history import tool_history
from toolglot.plan import runs_on
from toolglot.receipt import Receipt
from toolglot.tools.declared import DECLARED, Tools
from toolglot.wire import json

MEMBER = "input"
"""The only parameter of the function that represents a custom tool."""


def _triggers(context: Context) -> int:
    is_own = context.source == context.target and not context.aliased
    return 0 if context.can.tools.custom or is_own else features.CUSTOM


@runs_on(_triggers, in_place=True)
def wrap(request: Request, context: Context) -> Request:
    """Turn custom tools into functions `{"input": text}` if the target has no custom tools.

    A client of the target's own dialect knows whether the model that it requests accepts them.
    """
    if context.can.tools.custom or (context.source == context.target and not context.aliased):
        return request
    tools = request.tools
    functions = DECLARED.rewrite(tools, "functions", None, lambda lines: _wrap_tools(tools, lines), context.receipt)
    if functions is not tools:
        request = replace(request, tools=functions)
    history = tool_history(request, context)
    if history.is_flat and not history.has_custom:
        return request
    return rewrite_blocks(request, _wrap_block, ToolCall, ToolResult)


def _wrap_block(block: Block, place: Place) -> tuple[Block, ...]:
    match block:
        case ToolCall(kind="custom"):
            return (replace(block, kind="function", arguments=json.encode_text({MEMBER: block.arguments})),)
        case ToolResult(kind="custom"):
            return (replace(block, kind="function"),)
    return (block,)


def _wrap_tools(tools: Tools, receipt: Receipt) -> Tools:
    functions = tuple(_wrap_tool(tool, f"tools[{index}]", receipt) for index, tool in enumerate(tools))
    return tools if all(map(is_, functions, tools)) else functions


def _wrap_tool(tool: Tool | Opaque, where: str, receipt: Receipt) -> Tool | Opaque:
    if isinstance(tool, Opaque) or tool.kind != "custom":
        return tool
    receipt.note(where, f"custom tool {tool.name}", f"it is a function with one text parameter, {MEMBER}")
    grammar = _grammar(tool.format)
    if grammar:
        receipt.loss(f"{where}.format", "the grammar", "the description states it and nothing enforces it")
    format_note = f"The input is free text that must match this {grammar[0]} grammar:\n{grammar[1]}" if grammar else ""
    return replace(
        tool,
        kind="function",
        description="\n\n".join(part for part in (tool.description, format_note) if part) or None,
        parameters={
            "type": "object",
            "properties": {MEMBER: {"type": "string", "description": "The whole input of the tool, as plain text."}},
            "required": [MEMBER],
            "additionalProperties": False,
        },
        format=None,
    )


def _grammar(format_: Json) -> tuple[str, str] | None:
    """Return the syntax and definition of a grammar. Chat nests them under `grammar`; Responses does not."""
    if not isinstance(format_, dict) or format_.get("type") != "grammar":
        return None
    inner = format_.get("grammar")
    fields = inner if isinstance(inner, dict) else format_
    definition = fields.get("definition")
    return (str(fields.get("syntax") or "given"), definition) if isinstance(definition, str) else None
