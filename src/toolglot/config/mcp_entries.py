"""Convert an MCP server entry of another program to the fields of `McpServerConfig`.

Claude Desktop and Claude Code, Cursor, VS Code, Gemini CLI, Cline, Windsurf and others agree on `command`, `args`,
`env` and `url`, and on little else. Supported members are converted; the others are reported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from toolglot.config.schema import McpServerConfig

RENAMED = {
    "httpUrl": "url",
    "serverUrl": "url",
    "environment": "env",
    "httpHeaders": "headers",
    "http_headers": "headers",
    "requestHeaders": "headers",
}
"""Other names of members, in order of precedence. In Gemini CLI, `url` next to `httpUrl` means the old transport."""
APPROVED = ("autoApprove", "alwaysAllow", "auto_approve")
REFUSED = ("excludeTools", "disabledTools", "disabled_tools")
ONLY = ("includeTools", "enabledTools", "enabled_tools", "tools")
TYPES = frozenset(
    {"stdio", "local", "http", "remote", "streamable", "streamable-http", "streamablehttp", "streamable_http"}
)
TYPE_NAMES = ("type", "transport", "transportType")
OLD_TRANSPORT = "sse"
OWN = frozenset(McpServerConfig.__struct_fields__)
MAX_SECONDS = 3600
"""A longer timeout is in milliseconds: programs use either unit under the same name."""
_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_INPUT = re.compile(r"\$\{input:([^}]*)\}")


class McpEntry(Struct):
    """An MCP server entry during its conversion. Locations are member names of the entry as the user wrote it."""

    value: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """Our names of members -> their original names."""
    unused: list[str] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    wrong: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Invalid members, by our names if they have one, each with the problem and the correct form."""
    is_off: bool = False


def convert_entry(written: Mapping[str, Any]) -> McpEntry:
    entry = McpEntry(is_off=written.get("disabled") is True or written.get("enabled") is False)
    if entry.is_off:
        return entry
    handled = {"disabled", "enabled", *TYPE_NAMES, *APPROVED, *REFUSED, *ONLY, "trust"}
    for name, value in written.items():
        own = RENAMED.get(name, name)
        if name in handled or value is None:
            continue
        if own not in OWN:
            entry.unused.append(name)
        elif own not in entry.value or name == "httpUrl":
            entry.value[own], entry.sources[own] = convert_references(value), name
    _type(written, entry)
    _command(entry)
    _timeout(entry)
    _policies(written, entry)
    for name, value in list(entry.value.items()):
        if (asked := _asks(value)) is not None:
            told = f"`${{input:{asked}}}` is an interactive input of another program"
            entry.wrong.append((name, told, "use an environment variable instead: `${NAME}`"))
            del entry.value[name]
    return entry


def _type(written: Mapping[str, Any], entry: McpEntry) -> None:
    for name in TYPE_NAMES:
        said = written.get(name)
        if said is None or (isinstance(said, str) and said.lower() in TYPES):
            continue
        if isinstance(said, str) and said.lower() == OLD_TRANSPORT:
            told = "the transport `sse` was replaced in 2025 and is not supported"
            entry.wrong.append((name, told, "most such servers also offer Streamable HTTP: `type: http`"))
        else:
            entry.wrong.append((name, "unknown transport", "supported: stdio and http"))


def _command(entry: McpEntry) -> None:
    """Split a command that includes its arguments, as some programs allow."""
    match entry.value.get("command"):
        case [str(command), *arguments]:
            entry.value["command"] = command
            given = entry.value.get("args", [])
            entry.value["args"] = [*arguments, *given] if isinstance(given, list) else given
            entry.sources.setdefault("args", entry.sources["command"])


def _timeout(entry: McpEntry) -> None:
    said = entry.value.get("timeout")
    if isinstance(said, (int, float)) and not isinstance(said, bool) and said > MAX_SECONDS:
        entry.value["timeout"] = said / 1000
        entry.notes.append((entry.sources["timeout"], f"{said} is read as milliseconds"))


def _policies(written: Mapping[str, Any], entry: McpEntry) -> None:
    """Return the policies of tools: those that run without approval, and those that never run."""
    if written.get("trust") is True:
        entry.value.setdefault("policy", "auto")
    tools: dict[str, Any] = {}
    if isinstance(written.get("tools"), dict):
        tools.update(written["tools"])
    only = _names(written, ONLY, entry)
    if only and "*" not in only:
        usual = entry.value.get("policy", McpServerConfig().policy)
        tools.update({"*": "never", **dict.fromkeys(only, usual)})
    for names, policy in ((APPROVED, "auto"), (REFUSED, "never")):
        tools.update(dict.fromkeys(_names(written, names, entry), policy))
    if tools:
        entry.value["tools"] = tools


def _names(written: Mapping[str, Any], members: tuple[str, ...], entry: McpEntry) -> list[str]:
    found: list[str] = []
    for member in members:
        said = written.get(member)
        if said is None or isinstance(said, dict):
            continue
        if isinstance(said, list) and all(isinstance(name, str) for name in said):
            found += said
            entry.sources.setdefault("tools", member)
        else:
            entry.wrong.append((member, "expected a list of tool names", None))
    return found


def convert_references(value: Any) -> Any:
    """Convert references to our syntax. `$NAME` alone and `${/}` are the syntax of other programs."""
    if isinstance(value, dict):
        return {name: convert_references(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [convert_references(inner) for inner in value]
    if not isinstance(value, str):
        return value
    if whole := _VARIABLE.fullmatch(value):
        return f"${{{whole[1]}}}"
    return value.replace("${/}", os.sep)


def _asks(value: Any) -> str | None:
    """Return the name of the input that this value prompts the user for; None if it has no prompt."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, str):
        found = _INPUT.search(value)
        return found[1] if found else None
    return next((asked for inner in inside if (asked := _asks(inner)) is not None), None)
