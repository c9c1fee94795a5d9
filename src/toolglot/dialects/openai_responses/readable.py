"""Convert items of Responses for which other dialects have no block.

Calls of the API's own tools that a client runs (shell, patches, the computer) become ordinary calls and results. Calls
that the vendor's server ran (code, file searches, MCP) become text in the assistant's turn: no result follows them. A
`web_search_call` holds no results, so the model does not need its content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import UNSET

from toolglot.dialects.openai_responses.blocks import decode_parts
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.wire import (
    ClientToolCall,
    ClientToolItem,
    ResponsesPart,
    Screenshot,
    ShellOutput,
    TextOutput,
)
from toolglot.errors import expected
from toolglot.ir import Block, Native, Text, ToolCall, ToolResult
from toolglot.readable import ReadableTypes, ReadBlock, hosted_text, take, typed
from toolglot.wire import json
from toolglot.wire.native import make_native
from toolglot.wire.structs import members_without
from toolglot.wire.typed import ValueReader


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


def _call_reader(tool: _ClientTool) -> ReadBlock:
    def read(item: ClientToolCall) -> tuple[Block, ...] | None:
        given, taken = getattr(item, tool.arguments), tool.arguments
        if given in (UNSET, None) and item.actions not in (UNSET, None):  # several computer actions at once
            given, taken = {"actions": item.actions}, "actions"
        if not isinstance(given, dict):
            return None
        call_id, native = _read_identity(item, taken)
        arguments, complete = json.encode_text(given), item.status != "incomplete"
        return (ToolCall(id=call_id, name=tool.name, arguments=arguments, complete=complete, native=native),)

    return typed(ClientToolCall, read)


def _read_identity(item: ClientToolItem, *taken: str, **left: Any) -> tuple[str, Native]:
    """Return the id of the call that an item is or belongs to, and `native` with the members not in `taken`. The output
    of a local shell names its call by `id`."""
    call_id = item.call_id or ("" if item.id in (UNSET, None) else item.id)
    if not isinstance(call_id, str):
        raise expected("$.id", "a string", call_id)
    identity = ("call_id",) if item.call_id or item.id is None else ("call_id", "id")
    return call_id, make_native(NAME, {**members_without(item, "type", *identity, *taken), **left})


def _make_result(item: ClientToolItem, tool: str, content: tuple[Block, ...], **left: Any) -> tuple[Block, ...]:
    call_id, native = _read_identity(item, "output", **left)
    is_error = True if item.status == "failed" else None
    return (
        ToolResult(call_id=call_id, name=_CLIENT_TOOLS[tool].name, content=content, is_error=is_error, native=native),
    )


def _text_result_reader(tool: str) -> ReadBlock:
    def read(item: TextOutput) -> tuple[Block, ...]:
        return _make_result(item, tool, (Text(text=item.output or str(item.status or "")),))

    return typed(TextOutput, read)


def _read_shell_result(item: ShellOutput) -> tuple[Block, ...]:
    """Read one text for each command: its output and its exit status."""
    texts: list[Block] = []
    left: dict[str, Any] = {}
    for index, run in enumerate(item.output or ()):
        said = (run.stdout, run.stderr and f"stderr:\n{run.stderr}", _exit_text(run.outcome or {}))
        texts.append(Text(text="\n".join(part for part in said if part)))
        if run.rest:
            left[f"output[{index}]"] = dict(run.rest)
    return _make_result(item, "shell_call", tuple(texts), **left)


def _exit_text(outcome: dict[str, Any]) -> str:
    code = outcome.get("exit_code")
    return f"exit code: {code}" if code is not None else str(outcome.get("type", ""))


def _read_screenshot(item: Screenshot) -> tuple[Block, ...]:
    shown = item.output
    if shown.get("type") == "computer_screenshot":
        shown = {**shown, "type": "input_image"}
    return _make_result(item, "computer_call", decode_parts(_PARTS.read_value([shown], "$.output"), "tool"))


_PARTS = ValueReader(list[ResponsesPart])


def _hosted_reader(*members: str) -> ReadBlock:
    """Make a reader for calls that the vendor's server ran. `members` are the input and output to keep."""

    def read(item: dict[str, Any]) -> tuple[Block, ...] | None:
        said = take(item, *members)
        if not said:
            return None
        text = hosted_text(str(item.pop("type")), said)
        return (Text(text=text.text, native=make_native(NAME, item)),)

    return read


READABLE: ReadableTypes = {
    **{kind: _call_reader(tool) for kind, tool in _CLIENT_TOOLS.items()},
    "shell_call_output": typed(ShellOutput, _read_shell_result),
    "local_shell_call_output": _text_result_reader("local_shell_call"),
    "apply_patch_call_output": _text_result_reader("apply_patch_call"),
    "computer_call_output": typed(Screenshot, _read_screenshot),
    "mcp_call": _hosted_reader("server_label", "name", "arguments", "output", "error"),
    "code_interpreter_call": _hosted_reader("code", "outputs"),
    "file_search_call": _hosted_reader("queries", "results"),
    "program": _hosted_reader("code"),
    "program_output": _hosted_reader("result"),
}
