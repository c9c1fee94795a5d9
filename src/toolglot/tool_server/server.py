"""Serve the tools with the official SDK's server, which supports both protocol versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from toolglot import __version__
from toolglot.tool_server.arguments import AskModel, CallError, ModelAnswer, record_schema
from toolglot.tool_server.ask_model import NAME, ModelAsker
from toolglot.tool_server.tools import TOOLS, ToolOutput, work_size
from toolglot.upstream.offload import offload

INSTRUCTIONS = (
    "toolglot translates between the formats of LLM APIs (OpenAI Chat and Responses, Anthropic Messages, Google "
    "Gemini, Warp, MCP tools, tool calls as text). Each format is a dialect; list_dialects names them."
)


def make_server(asking: ModelAsker | None = None) -> Server[dict[str, Any]]:
    """Create a server with the tools, and with `ask_model` if models may be asked."""
    tools = _list_tools(asking)
    names = [tool.name for tool in tools]

    async def list_tools(
        context: ServerRequestContext[dict[str, Any]], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(context: ServerRequestContext[dict[str, Any]], params: CallToolRequestParams) -> CallToolResult:
        given = params.arguments or {}
        try:
            if params.name in TOOLS:
                return _result(await offload(work_size(given), TOOLS[params.name].run, given))
            if params.name == NAME and asking is not None:
                return _result(await _ask(asking, context, given))
            raise CallError(f"there is no tool {params.name[:200]!r}; there are {', '.join(names)}")
        except CallError as error:
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)

    return Server(
        "toolglot",
        title="toolglot",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema={tool.name: tool.input_schema for tool in tools}.get,
    )


async def _ask(
    asking: ModelAsker, context: ServerRequestContext[dict[str, Any]], given: Mapping[str, Any]
) -> ToolOutput:
    async def progress(done: float, message: str) -> None:
        await context.session.report_progress(done, None, message)

    return await asking.ask(given, progress)


def _result(told: ToolOutput) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text) for text in told.texts], structured_content=told.structured)


def _list_tools(asking: ModelAsker | None) -> list[Tool]:
    reads = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    tools = [
        Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=record_schema(tool.takes),
            output_schema=record_schema(tool.gives),
            annotations=reads,
        )
        for tool in TOOLS.values()
    ]
    if asking is None:
        return tools
    asks = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True)
    ask = Tool(
        name=NAME,
        title="Ask a model",
        description=asking.description,
        input_schema=record_schema(AskModel),
        output_schema=record_schema(ModelAnswer),
        annotations=asks,
    )
    return [*tools, ask]
