"""What items of Responses say that other dialects have no block for.

Calls of the API's own tools that a client runs (shell, patches, the computer) are calls and results like any other.
What the vendor's server ran (code, file searches, MCP) is text in the assistant's turn: it has no result to wait for.
A `web_search_call` holds no results, so there is nothing in it that the model needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from toolglot.dialects.openai_responses.blocks import decode_parts
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.wire import Part
from toolglot.ir import Block, Text, ToolCall, ToolResult
from toolglot.readable import ReadableTypes, ReadBlock, hosted_text
from toolglot.wire import json
from toolglot.wire.reader import Reader, keep
from toolglot.wire.typed import part_reader


class _ClientTool(NamedTuple):
    """A tool of the API that the client runs: its name, and the member of a call that holds the arguments."""

    name: str
    arguments: str


_CLIENT_TOOLS: Mapping[str, _ClientTool] = {
    "shell_call": _ClientTool("shell", "action"),
    "local_shell_call": _ClientTool("local_shell", "action"),
    "apply_patch_call": _ClientTool("apply_patch", "operation"),
    "computer_call": _ClientTool("computer", "action"),
}


def _call(tool: _ClientTool) -> ReadBlock:
    def read(item: Reader) -> tuple[Block, ...] | None:
        given = item.take(tool.arguments)
        if given is None and "actions" in item:  # several at once on the computer
            given = {"actions": item.take("actions")}
        if not isinstance(given, dict):
            return None
        item.take("type")
        is_cut = item.peek("status") == "incomplete"
        call = ToolCall(
            id=item.text("call_id") or item.text("id") or "",
            name=tool.name,
            arguments=json.encode_text(given),
            complete=not is_cut,
            native=keep(NAME, item),
        )
        return (call,)

    return read


def _result(tool: _ClientTool, content_of: Callable[[Reader], tuple[Block, ...]]) -> ReadBlock:
    def read(item: Reader) -> tuple[Block, ...]:
        item.take("type")
        content = content_of(item)
        # The output of a local shell names its call by `id`.
        call_id = item.text("call_id") or item.text("id") or ""
        is_error = True if item.peek("status") == "failed" else None
        native = keep(NAME, item)
        return (ToolResult(call_id=call_id, name=tool.name, content=content, is_error=is_error, native=native),)

    return read


def _plain_output(item: Reader) -> tuple[Block, ...]:
    return (Text(text=item.text("output") or str(item.peek("status") or "")),)


def _shell_output(item: Reader) -> tuple[Block, ...]:
    """One text for each command that was run: what it wrote, and how it ended."""
    texts: list[str] = []
    for index, ran in enumerate(item.objects("output")):
        outcome = ran.object("outcome")
        written, complaint = ran.text("stdout"), ran.text("stderr")
        said = (written, complaint and f"stderr:\n{complaint}", _ending(outcome))
        texts.append("\n".join(part for part in said if part))
        if ran.rest():
            item.rest()[f"output[{index}]"] = ran.rest()
    return tuple(Text(text=text) for text in texts)


def _ending(outcome: Reader | None) -> str:
    if outcome is None:
        return ""
    return f"exit code: {outcome.peek('exit_code')}" if "exit_code" in outcome else str(outcome.peek("type"))


def _screenshot(item: Reader) -> tuple[Block, ...]:
    shown = item.take("output")
    if isinstance(shown, dict) and shown.get("type") == "computer_screenshot":
        shown["type"] = "input_image"
    parts: list[Part] = _read_parts(json.encode([shown]), item.at("output"))
    return decode_parts(parts, "tool")


_read_parts = part_reader(list[Part])


def _hosted(*members: str) -> ReadBlock:
    """A call that the vendor's server ran: these members of it, input and output."""

    def read(item: Reader) -> tuple[Block, ...] | None:
        said: dict[str, Any] = {key: value for key in members if (value := item.take(key)) is not None}
        if not said:
            return None
        kind = item.take("type")
        text = hosted_text(str(kind), said)
        return (Text(text=text.text, native=keep(NAME, item)),)

    return read


READABLE: ReadableTypes = {
    **{kind: _call(tool) for kind, tool in _CLIENT_TOOLS.items()},
    "shell_call_output": _result(_CLIENT_TOOLS["shell_call"], _shell_output),
    "local_shell_call_output": _result(_CLIENT_TOOLS["local_shell_call"], _plain_output),
    "apply_patch_call_output": _result(_CLIENT_TOOLS["apply_patch_call"], _plain_output),
    "computer_call_output": _result(_CLIENT_TOOLS["computer_call"], _screenshot),
    "mcp_call": _hosted("server_label", "name", "arguments", "output", "error"),
    "code_interpreter_call": _hosted("code", "outputs"),
    "file_search_call": _hosted("queries", "results"),
    "program": _hosted("code"),
    "program_output": _hosted("result"),
}
