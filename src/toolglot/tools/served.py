"""Calls that are served on the way: tools of MCP servers, run in the middle of an answer by whoever stands between the
client and the model.

Some APIs have words for it: a request may name MCP servers, and the answer tells which of their tools were called and
what came of it, all before the model's last word. A dialect that has such words says so with a `ServedForms`. Blocks of
that kind are the dialect's own (`Opaque`): no other API's client or model understands them, and to the model they are
calls and results like any others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from toolglot.events import Close, Delta, Open
from toolglot.ir import Block, Request, Tool, ToolResult


class Chosen(Struct, frozen=True, kw_only=True):
    """Some of a server's tools: by their names, or those that say they only read. Both None: all of them."""

    names: tuple[str, ...] | None = None
    read_only: bool | None = None


class AskedServer(Struct, frozen=True, kw_only=True):
    """An MCP server whose tools a request asks for. `label` is what the client calls it, `where` its place in the
    request; `allowed` are the tools it wants, `refused` those it does not; `asks` are those that need its yes for each
    call, and None where the API knows of no such thing. `credentials`: it sends some of its own along."""

    label: str
    where: str
    url: str | None = None
    allowed: Chosen = Chosen()
    refused: tuple[str, ...] = ()
    asks: Chosen | None = None
    never_asks: Chosen | None = None
    credentials: bool = False


class ServedCall(Struct, frozen=True, kw_only=True):
    """A call that is served: the server by the client's label, the tool by its own name, the arguments as the model
    wrote them."""

    id: str
    server: str
    name: str
    arguments: str


class Restored(Struct, frozen=True, kw_only=True):
    """A request whose served calls are calls and results again. `approved` are calls at its end that the client has
    now said yes to: they stand in the history and have no result yet."""

    request: Request
    approved: tuple[ServedCall, ...] = ()


Piece = Open | Delta | Close
"""A part of an answer that tells of served calls. Indices count from 0 for each teller."""


class Teller(Protocol):
    """Tells of the calls of one round as they are run. Its blocks are opened one at a time."""

    def begin(self, calls: Sequence[ServedCall]) -> list[Piece]:
        """They are about to run."""
        ...

    def done(self, result: ToolResult) -> list[Piece]:
        """The next of them has ended: results come in the order of the calls. After the last one no block is open."""
        ...


class ServedForms(Struct, frozen=True, kw_only=True):
    """A dialect's words for served calls, as its clients know them."""

    asked: Callable[[Request], tuple[Request, tuple[AskedServer, ...]]]
    """The request without the MCP servers that it names, and these. Raises `DecodeError` where one makes no sense."""
    teller: Callable[[], Teller]
    restored: Callable[[Request, Callable[[str, str], str]], Restored]
    """The request with the served calls of its history as calls and results. The function gives the name under which
    the model knows a server's tool. Where calls of one round stood, and their results, one round stands again: an
    assistant message with its calls, then their results."""
    listed: Callable[[str, Sequence[Tool]], Block | None] = lambda label, tools: None
    """The block that tells which tools a server has, where the API has one."""
    approval: Callable[[ServedCall], Block] | None = None
    """The block that asks the client for its yes to a call, which ends the answer."""
