"""The tools that are served for one request: which servers' they are, under which names the model knows them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from toolglot.agent.names import offered_names
from toolglot.agent.policy import is_chosen, policy_of
from toolglot.agent.tools import ServerTool
from toolglot.config.schema import McpServerConfig
from toolglot.ir import Tool, replace
from toolglot.receipt import Receipt
from toolglot.tools.served import AskedServer


class Attached(Struct, frozen=True, kw_only=True):
    """A server that is at hand for a request: by the model's alias, by a header, or because the request names it.
    `label` is what the client calls it."""

    label: str
    server: str
    config: McpServerConfig
    tools: tuple[ServerTool, ...]
    asked: AskedServer | None = None


class Offered(Struct, frozen=True, kw_only=True):
    """A tool that the model is given. `name` is the model's name of it. `missing`: it was not given it, and calls
    it all the same."""

    name: str
    label: str
    tool: ServerTool
    policy: Literal["auto", "ask", "missing"]


class Toolbox:
    """What the model is offered beside the client's own tools."""

    def __init__(
        self, offered: Sequence[Offered] = (), servers: Mapping[str, str] = {}, taken: Collection[str] = ()
    ) -> None:
        self.offered = tuple(offered)
        self._servers = servers
        self._taken = taken
        self._by_name = {each.name: each for each in offered}
        self._names = {(each.label, each.tool.name): each.name for each in offered}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """As the model is given them. What else a server says of its tools is for hosts: nothing of it is lost here."""
        return tuple(replace(each.tool.tool, name=each.name, native={}) for each in self.offered)

    def find(self, name: str) -> Offered | None:
        """The tool of this name. A server's name stands for that server alone: what it does not have, or no more, is
        missing, and nobody else's."""
        label, _, tool = name.partition("__")
        if name in self._by_name or name in self._taken or label not in self._servers:
            return self._by_name.get(name)
        known = ServerTool(server=self._servers[label], name=tool, tool=Tool(name=tool))
        return Offered(name=name, label=label, tool=known, policy="missing")

    def has(self, name: str) -> bool:
        """Do calls of this name belong to the servers, even where they have no such tool?"""
        return self.find(name) is not None

    def name_of(self, label: str, tool: str) -> str:
        """The model's name of a server's tool, also of one that is not offered any more."""
        known = self._names.get((label, tool))
        return known if known is not None else offered_names([(label, tool)])[label, tool]


def pack(
    attached: Sequence[Attached],
    taken: Collection[str],
    receipt: Receipt,
    *,
    can_ask: Callable[[Attached], bool],
) -> Toolbox:
    """The toolbox of these servers. `taken` are names of the client's own tools, which keep theirs; `can_ask` knows
    whether somebody can be asked about a call to a server's tool. What is left out is told in the receipt."""
    chosen = [
        (each, tool, policy)
        for each in attached
        for tool in each.tools
        if _is_wanted(each, tool) and (policy := policy_of(each.config, tool, each.asked)) != "never"
    ]
    names = offered_names([(each.label, tool.name) for each, tool, _ in chosen], taken)
    offered: list[Offered] = []
    for each, tool, policy in chosen:
        name = names[each.label, tool.name]
        if policy == "ask" and not can_ask(each):
            why = "a call needs somebody's yes and nobody can be asked: a `policy` of `auto` would run it"
            receipt.note(f"mcp.{each.label}", f"tool {tool.name} not offered", why)
            continue
        offered.append(Offered(name=name, label=each.label, tool=tool, policy=policy))
    return Toolbox(offered, {each.label: each.server for each in attached}, taken)


def _is_wanted(attached: Attached, tool: ServerTool) -> bool:
    asked = attached.asked
    return asked is None or (is_chosen(asked.allowed, tool) and tool.name not in asked.refused)
