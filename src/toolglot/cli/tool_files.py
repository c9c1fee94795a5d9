"""Read the tools that a text may call, from a file in any supported form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from toolglot.cli.diagnosis import BYTE_ORDER_MARK, not_a_document, other_dialect
from toolglot.cli.parameters import exit_unreadable, print_note, read_chunks
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, expected
from toolglot.fragments import read_tools
from toolglot.ir import Opaque, Tool
from toolglot.receipt import Receipt
from toolglot.tools.mcp import NAME as MCP
from toolglot.wire import json

tools_option = click.option(
    "--tools",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Tools that may be called: definitions in MCP or any dialect, or a request that contains them.",
)


def tools_in(path: Path) -> tuple[Tool, ...]:
    """Return the tools in this file that a client can run, in any form; exits if there are none."""
    tools = all_tools_in(path)
    for index, tool in enumerate(tools):
        if not isinstance(tool, Tool):
            print_note(path, f"tool {index + 1} is skipped: only its vendor can run it")
    return tuple(tool for tool in tools if isinstance(tool, Tool))


def all_tools_in(path: Path, dialect: str = MCP) -> tuple[Tool | Opaque, ...]:
    """Return all tool definitions in this file. `dialect` is the form of those without marks of a dialect."""
    data = b"".join(read_chunks(path)).removeprefix(BYTE_ORDER_MARK)
    if why := not_a_document(data, "tools"):
        exit_unreadable(path, why)
    try:
        tools, where = _list_of_tools(json.decode(data))
        return tuple(found for index, tool in enumerate(tools) for found in _read(tool, f"{where}[{index}]", dialect))
    except DecodeError as error:
        exit_unreadable(path, str(error))


def _list_of_tools(value: Any) -> tuple[list[Any], str]:
    """Return the array of tools in a document (an array, a request, or an MCP server's answer), and its position."""
    where = "$"
    for name in ("result", "tools", "functions"):
        if isinstance(value, dict) and name in value:
            value, where = value[name], f"{where}.{name}"
    if not isinstance(value, list):
        raise expected(where, "an array of tools, or an object that holds one as `tools`", value)
    return value, where


def _read(tool: Any, where: str, dialect: str) -> Sequence[Tool | Opaque]:
    dialect = other_dialect([tool], "tools", "") or dialect
    if dialect in DIALECTS:
        tool = {**DIALECTS[dialect].request.tool_defaults, **tool}
    try:
        return read_tools(json.encode([tool]), dialect, Receipt())
    except DecodeError as error:
        raise DecodeError(error.where.replace("$[0]", where, 1), error.what) from None
