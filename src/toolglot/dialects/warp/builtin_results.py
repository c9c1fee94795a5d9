"""Convert results for calls of Warp's built-in tools, when the server's tasks are sent back.

A client that declared a tool under a built-in name answers with text. The server expects that tool's own message: text
goes into its text field, JSON of its form is parsed, and anything else becomes an error message. Calls without a result
are cancelled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError

from toolglot.dialects.warp.blocks import INTERNAL, parse_arguments
from toolglot.dialects.warp.transcript import derive_id
from toolglot.receipt import Receipt


def _fill_shell(body: Any, text: str, failed: bool) -> None:
    body.command_finished.output = text
    body.command_finished.exit_code = int(failed)


def _fill_glob(body: Any, text: str, failed: bool) -> None:
    body.success.matched_files = text


def _fill_search(body: Any, text: str, failed: bool) -> None:
    body.success.files.add(content=text)


def _fill_read(body: Any, text: str, failed: bool) -> None:
    body.text_files_success.files.add(content=text)


_TEXT_FILLERS: dict[str, Callable[[Any, str, bool], None]] = {
    "run_shell_command": _fill_shell,
    "file_glob": _fill_glob,
    "search_codebase": _fill_search,
    "read_files": _fill_read,
}


def convert_builtin_results(messages: Any, inputs: Any, receipt: Receipt) -> None:
    """Convert results of `call_mcp_tool` for calls of built-in tools to results of those tools."""
    tools = {
        message.tool_call.tool_call_id: message.tool_call.WhichOneof("tool")
        for message in messages
        if message.HasField("tool_call")
    }
    for index, item in enumerate(inputs):
        result = item.tool_call_result
        tool = tools.get(result.tool_call_id) if item.HasField("tool_call_result") else None
        if tool is None or tool == "call_mcp_tool" or result.WhichOneof("result") != "call_mcp_tool":
            continue
        if tool in result.DESCRIPTOR.fields_by_name:
            _convert_result(result, tool, f"inputs[{index}]", receipt)


def _convert_result(result: Any, tool: str, where: str, receipt: Receipt) -> None:
    given = result.call_mcp_tool
    failed = given.WhichOneof("result") == "error"
    text = given.error.message if failed else "\n".join(item.text.text for item in given.success.results)
    body = getattr(result, tool)  # reading does not change the oneof; only writing does
    value = None if failed or not text.lstrip().startswith("{") else parse_arguments(text)
    if value:
        try:
            ParseDict(value, body)
            body.SetInParent()
            return
        except ParseError:
            body.Clear()
    if tool in _TEXT_FILLERS and (not failed or tool == "run_shell_command"):
        _TEXT_FILLERS[tool](body, text, failed)
    elif "error" in body.DESCRIPTOR.fields_by_name:
        body.error.message = text
        if not failed:
            why = f"a result of Warp's own {tool} must be JSON in its form; any other text becomes an error message"
            receipt.loss(where, f"result of {tool}", why)
    # Results of a tool with an unknown form stay unchanged, so that the server sees at least the text.


def cancel_unanswered(task: Any, inputs: Any) -> None:
    """Cancel the calls of a task that have no result in the task or in the inputs."""
    answered = {item.tool_call_result.tool_call_id for item in inputs if item.HasField("tool_call_result")}
    answered |= {
        message.tool_call_result.tool_call_id for message in task.messages if message.HasField("tool_call_result")
    }
    open_calls = [
        message.tool_call.tool_call_id
        for message in task.messages
        if message.HasField("tool_call") and message.tool_call.WhichOneof("tool") not in INTERNAL
    ]
    for call_id in open_calls:
        if call_id not in answered:
            message = task.messages.add(id=derive_id(task.id, "cancel", call_id), task_id=task.id)
            message.tool_call_result.tool_call_id = call_id
            message.tool_call_result.cancel.SetInParent()
