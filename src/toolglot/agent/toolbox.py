"""The MCP tools of one request: their servers, and their names for the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import Literal

from msgspec import Struct

from toolglot.agent.policy import call_policy, is_tool_chosen
from toolglot.agent.server_records import ServerTool
from toolglot.config.schema import McpServerConfig
from toolglot.ir import Tool, replace
from toolglot.receipt import Receipt
from toolglot.tools.served import AskedServer


class AttachedServer(Struct, frozen=True, kw_only=True):
    """A server that is available to a request: by the model's alias, by a header, or because the request names it.
    `label` is the client's name of it."""

    label: str
    server: str
    config: McpServerConfig
    tools: tuple[ServerTool, ...]
    asked: AskedServer | None = None


class OfferedTool(Struct, frozen=True, kw_only=True):
    """A tool that the model is offered. `name` is the model's name of it. `missing`: it was not offered, and the model
    calls it anyway."""

    name: str
    label: str
    tool: ServerTool
    policy: Literal["auto", "ask", "missing"]


class Toolbox:
    """The tools that the model is offered in addition to the client's own."""

    def __init__(
        self, offered: Sequence[OfferedTool] = (), servers: Mapping[str, str] = {}, taken: Collection[str] = ()
    ) -> None:
        self.offered = tuple(offered)
        self._servers = servers
        self._taken = taken
        self._by_name = {each.name: each for each in offered}
        self._names = {(each.label, each.tool.name): each.name for each in offered}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the tools for the model. The other data that a server sends about tools is for hosts, so nothing is
        lost here.
        """
        return tuple(replace(each.tool.tool, name=each.name, native={}) for each in self.offered)

    def find(self, name: str) -> OfferedTool | None:
        """Return the tool of this name. A server's prefix belongs only to that server: an unknown or removed tool is
        missing, and is never taken from another server.
        """
        label, _, tool = name.partition("__")
        if name in self._by_name or name in self._taken or label not in self._servers:
            return self._by_name.get(name)
        known = ServerTool(server=self._servers[label], name=tool, tool=Tool(name=tool))
        return OfferedTool(name=name, label=label, tool=known, policy="missing")

    def has(self, name: str) -> bool:
        """Return whether calls of this name belong to the servers, even if they have no such tool."""
        return self.find(name) is not None

    def offered_name(self, label: str, tool: str) -> str:
        """Return the model's name of a server's tool, even if it is no longer offered."""
        known = self._names.get((label, tool))
        return known if known is not None else offered_names([(label, tool)])[label, tool]


def make_toolbox(
    attached: Sequence[AttachedServer],
    taken: Collection[str],
    receipt: Receipt,
    *,
    can_ask: Callable[[AttachedServer], bool],
) -> Toolbox:
    """Make the toolbox of these servers. `taken` are names of the client's own tools, which keep theirs; `can_ask`
    tells whether a user can approve a call to a server's tool. Skipped tools are noted in the receipt.
    """
    chosen = [
        (each, tool, policy)
        for each in attached
        for tool in each.tools
        if _is_wanted(each, tool) and (policy := call_policy(each.config, tool, each.asked)) != "never"
    ]
    names = offered_names([(each.label, tool.name) for each, tool, _ in chosen], taken)
    offered: list[OfferedTool] = []
    for each, tool, policy in chosen:
        name = names[each.label, tool.name]
        if policy == "ask" and not can_ask(each):
            why = "a call needs approval and there is no user to ask: a `policy` of `auto` would run it"
            receipt.note(f"mcp.{each.label}", f"tool {tool.name} not offered", why)
            continue
        offered.append(OfferedTool(name=name, label=each.label, tool=tool, policy=policy))
    return Toolbox(offered, {each.label: each.server for each in attached}, taken)


def _is_wanted(attached: AttachedServer, tool: ServerTool) -> bool:
    asked = attached.asked
    return asked is None or (is_tool_chosen(asked.allowed, tool) and tool.name not in asked.refused)


MAX_NAME = 64
_SERVER = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]|_(?=[A-Za-z0-9-]))*")
"""Server names have no `__`, and no `_` at the end. Gemini requires a letter at the beginning."""
_TOOL = re.compile(r"[A-Za-z0-9_-]+")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_HASH = 8


def offered_names(pairs: Sequence[tuple[str, str]], reserved: Collection[str] = ()) -> dict[tuple[str, str], str]:
    """Return the name of each pair of a server and one of its tools, independent of their order. `reserved` are names
    that are already taken.
    """
    names: dict[tuple[str, str], str] = {}
    taken = set(reserved)
    for pair in sorted(set(pairs), key=lambda pair: (_unhashed_name(*pair) is None, pair)):
        names[pair] = _free_name(pair, taken)
        taken.add(names[pair])
    return {pair: names[pair] for pair in pairs}


def _unhashed_name(server: str, tool: str) -> str | None:
    """Return the name that needs no hash, if there is one. No two pairs have the same."""
    name = f"{server}__{tool}"
    fits = len(name) <= MAX_NAME and _SERVER.fullmatch(server) and _TOOL.fullmatch(tool)
    return name if fits else None


def _free_name(pair: tuple[str, str], taken: set[str]) -> str:
    name, attempt = _unhashed_name(*pair), 0
    while name is None or name in taken:
        name = _hashed_name(*pair, attempt)
        attempt += 1
    return name


def _hashed_name(server: str, tool: str, attempt: int) -> str:
    meant = f"{len(server)}:{server}{tool}{attempt or ''}".encode("utf-8", "surrogatepass")
    readable = _ILLEGAL.sub("_", f"{server}__{tool}")
    if not readable[0].isalpha():
        readable = f"_{readable}"
    return f"{readable[: MAX_NAME - _HASH - 1]}_{sha256(meant).hexdigest()[:_HASH]}"
