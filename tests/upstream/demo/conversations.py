"""Small conversations with the demo, and the tools that people and agents offer it."""

from __future__ import annotations

import json
from typing import Any

from toolglot.ir import Message, Request, Response, Text, Tool, ToolCall, ToolResult, replace
from toolglot.upstream.demo.agent import answer


def tool(name: str, description: str | None = None, /, **properties: Any) -> Tool:
    """A tool that requires these parameters; a type may stand for a whole schema."""
    members = {key: {"type": value} if isinstance(value, str) else value for key, value in properties.items()}
    schema = {"type": "object", "properties": members, "required": list(members)}
    return Tool(name=name, description=description, parameters=schema)


WEATHER = tool("get_weather", "Get the current weather in a city.", city="string")
TIME = tool("local_time", "The time of day in a city.", city="string")
CLAUDE_CODE = (
    tool("Agent", "Launch an agent.", description="string", prompt="string"),
    tool("Bash", "Executes a given bash command.", command="string"),
    tool("Edit", "Edits a file.", file_path="string", old_string="string", new_string="string"),
    tool("Read", "Reads a file.", file_path="string"),
    tool("ReportFindings", "Reports findings.", findings={"type": "array"}),
    tool("ToolSearch", "Fetches tools.", query="string", max_results="number"),
    tool("Write", "Writes a file.", file_path="string", content="string"),
)
CODEX = (
    tool("exec_command", "Runs a command in a PTY.", cmd="string"),
    tool("write_stdin", "Writes characters to a session.", session_id="number"),
    tool("view_image", "View a local image.", path="string"),
    tool("read_mcp_resource", "Read a resource of a server.", server="string", uri="string"),
    Tool(name="get_goal", parameters={"type": "object", "properties": {}}),
    tool("update_goal", "Update the goal.", status={"enum": ["complete", "blocked"]}),
)
GEMINI_CLI = (
    tool("update_topic", "Tells the topic.", strategic_intent="string"),
    tool("list_directory", "Lists a directory.", dir_path="string"),
    tool("read_file", "Reads a file.", file_path="string"),
    tool("read_background_output", "Reads the output of a process.", pid="integer"),
    tool("run_shell_command", "Runs a shell command.", command="string"),
    tool("google_web_search", "Searches the web.", query="string"),
)
AGENT_WISH = "Use your tools to run the echo command and read hello.txt, then report."


def said(text: str, role: str = "user") -> Message:
    return Message(role=role, content=(Text(text=text),))


def asked(wish: str, *tools: Tool, before: tuple[Message, ...] = (), **fields: Any) -> Request:
    return Request(model="demo", messages=(*before, said(wish)), tools=tools, **fields)


def calls_of(response: Response) -> list[ToolCall]:
    return [block for block in response.content if isinstance(block, ToolCall)]


def called(request: Request) -> list[tuple[str, Any]]:
    """The tools that the demo calls, with their arguments."""
    return [
        (call.name, json.loads(call.arguments) if call.kind == "function" else call.arguments)
        for call in calls_of(answer(request))
    ]


def text_of(response: Response) -> str:
    return "".join(block.text for block in response.content if isinstance(block, Text))


def answered(request: Request, *results: ToolResult | str, beside: tuple[Text, ...] = ()) -> Request:
    """The conversation after the demo's calls have been made and their results sent back."""
    response = answer(request)
    calls = calls_of(response)
    content = tuple(
        ToolResult(call_id=call.id, content=(Text(text=result),)) if isinstance(result, str) else result
        for call, result in zip(calls, results or ["done"] * len(calls), strict=True)
    )
    return replace(
        request,
        messages=(
            *request.messages,
            Message(role="assistant", content=response.content),
            Message(role="user", content=(*content, *beside)),
        ),
    )
