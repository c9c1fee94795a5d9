"""Checks of an MCP server beyond its types: it has either a command or an address, and its names and values can be
sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolglot.config.addresses import url_problem
from toolglot.config.build import RecordBuilder
from toolglot.config.problems import Path, one_of
from toolglot.config.record_checks import KEY_LABEL
from toolglot.config.schema import Config, McpServerConfig

NAME = re.compile(r"(?!.*__)[A-Za-z0-9_-]{1,32}")
"""A server's name precedes `__` and the name of a tool, in at most 64 characters."""
MAX_STARS = 4
_STARTED = ("args", "env", "cwd")
_REACHED = ("headers",)
_VARIABLE = re.compile(r"[^=\x00]+")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\x80-\xff]+")


def own_servers(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the servers under `mcp.servers` of a file, valid or not."""
    mcp = value.get("mcp")
    servers = mcp.get("servers") if isinstance(mcp, dict) else None
    return tuple(servers) if isinstance(servers, dict) else ()


def check_servers(config: Config, builder: RecordBuilder) -> None:
    """Check the servers of the configuration itself, and the models that name servers."""
    own = own_servers(builder.document.value)
    for name in own:
        path: Path = ("mcp", "servers", name)
        if not NAME.fullmatch(name):
            told = "an MCP server's name may have up to 32 letters, digits, `-` and `_`, and no `__`"
            builder.add_problem(path, told, f"such as `{nearest_valid_name(name)}`")
        if name in config.mcp.servers:
            check_server(config.mcp.servers[name], path, builder)
            _check_keys(config, name, path, builder)
    known = {*config.mcp.servers, *own}
    for model, said in config.models.items():
        for number, name in enumerate(said.mcp):
            if name not in known:
                near = one_of(name, sorted(known)) if known else f"add one: `[mcp.servers.{nearest_valid_name(name)}]`"
                builder.add_problem(("models", model, "mcp", number), f"there is no MCP server `{name[:40]}`", near)


def _check_keys(config: Config, name: str, path: Path, builder: RecordBuilder) -> None:
    count = len(config.server.keys)
    for number, label in enumerate(config.mcp.servers[name].keys):
        if not KEY_LABEL.fullmatch(label):
            told = "expected a key's label, not the key itself"
            builder.add_problem((*path, "keys", number), told, "`key-1` is the first of `server.keys`")
        elif int(label.removeprefix("key-")) > count:
            builder.add_problem((*path, "keys", number), f"there is no {label}: `server.keys` has {count}")


def nearest_valid_name(name: str) -> str:
    """Return the nearest valid server name."""
    return re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]", "_", name)).strip("_")[:32].rstrip("_") or "server"


def check_server(server: McpServerConfig, path: Path, builder: RecordBuilder) -> None:
    """Add the problems of one server to the builder."""
    if server.command is not None and server.url is not None:
        told = "set either `command` or `url`, not both"
        builder.add_problem((*path, "url"), told)
    elif server.command is None and server.url is None:
        if all(builder.is_right((*path, field)) for field in ("command", "url")):
            told = "`command` or `url` is missing"
            builder.add_problem(path, told, "set the program to start, or the address of a running server")
    elif server.command is not None:
        _alone(server, _REACHED, "applies only to a `url`; use `env` for a `command`", path, builder)
    else:
        _alone(server, _STARTED, "applies only to a `command`; this server has a `url`", path, builder)
    if server.command is not None:
        _command(server, path, builder)
    if server.url is not None:
        problem = url_problem(server.url, "the address of an MCP server", "use `headers`")
        if problem is not None:
            builder.add_problem((*path, "url"), problem)
    _values(server, path, builder)
    _patterns(server.tools, path, builder)


def _alone(server: McpServerConfig, fields: tuple[str, ...], told: str, path: Path, builder: RecordBuilder) -> None:
    for field in fields:
        if getattr(server, field):
            builder.add_problem((*path, field), f"`{field}` {told}")


def _command(server: McpServerConfig, path: Path, builder: RecordBuilder) -> None:
    command = server.command or ""
    if "\0" in command:
        builder.add_problem((*path, "command"), "a command must not contain null characters")
    first, _, rest = command.strip().partition(" ")
    if rest and not server.args and not re.search(r"[/\\]", first):
        told = "this contains arguments, but the command is not run by a shell"
        builder.add_problem((*path, "command"), told, "put each argument into `args`")


def _values(server: McpServerConfig, path: Path, builder: RecordBuilder) -> None:
    """Check values. They may be secret, so problems are reported without them."""
    for name, value in server.env.items():
        if not _VARIABLE.fullmatch(name):
            builder.add_problem((*path, "env", name), "invalid variable name")
        if "\0" in value:
            builder.add_problem((*path, "env", name), "an environment variable must not contain null characters")
    for name, value in server.headers.items():
        if not _HEADER_NAME.fullmatch(name):
            builder.add_problem((*path, "headers", name), "invalid header name")
        if not _HEADER_VALUE.fullmatch(value):
            told = "invalid header value: it contains a line break or another control character"
            builder.add_problem((*path, "headers", name), told)
    for number, argument in enumerate(server.args):
        if "\0" in argument:
            builder.add_problem((*path, "args", number), "an argument must not contain null characters")


def _patterns(tools: Mapping[str, object], path: Path, builder: RecordBuilder) -> None:
    for name in tools:
        place = (*path, "tools", name)
        if not name or any(character.isspace() or not character.isprintable() for character in name):
            builder.add_problem(place, "a tool name must not be empty or contain spaces")
        elif name.count("*") > MAX_STARS:
            builder.add_problem(place, f"a pattern has at most {MAX_STARS} `*`")
        elif "**" in name:
            builder.add_problem(place, "one `*` already matches any text")
