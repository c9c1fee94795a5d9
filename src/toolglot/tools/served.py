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
    request; `allowed` are the tools it wants, `refused` those it does not. `asks` are those that need its yes for each
    call, `never_asks` those that do not, and `others_ask` is said of tools that are neither: all unset where the API
    knows of no such thing. `credentials`: it sends some of its own along."""

    label: str
    where: str
    url: str | None = None
    allowed: Chosen = Chosen()
    refused: tuple[str, ...] = ()
    asks: Chosen | None = None
    never_asks: Chosen | None = None
    others_ask: bool = False
    credentials: bool = False


class Asked(Struct, frozen=True, kw_only=True):
    """What a request asks for, and the request without it. `chosen` are tools of these servers that its choice of tools
    names, by label and name (None: any of the server's). The request's own choice has the right mode and lacks them:
    they are to be added to its names, under the names that the model is told."""

    request: Request
    servers: tuple[AskedServer, ...] = ()
    chosen: tuple[tuple[str, str | None], ...] = ()


class ServedCall(Struct, frozen=True, kw_only=True):
    """A call that is served: the server by the client's label, the tool by its own name, the arguments as the model
    wrote them. `approval` is what the client's yes to it answered, if it was asked. `joins`: it was made in one breath
    with the served call that was told before it; a teller knows that of its own calls."""

    id: str
    server: str
    name: str
    arguments: str
    approval: str | None = None
    joins: bool = False


class Restored(Struct, frozen=True, kw_only=True):
    """A request whose served calls are calls and results again. `approved` are calls at its end that the client has
    now said yes to: they stand in the history and have no result yet. `listed` are servers, by label, whose tools the
    history has told the client."""

    request: Request
    approved: tuple[ServedCall, ...] = ()
    listed: tuple[str, ...] = ()


Piece = Open | Delta | Close
"""A part of an answer that tells of served calls. Indices count from 0 for each teller."""


class Teller(Protocol):
    """Tells of the calls of one round as they are run. Its blocks are opened one at a time."""

    def begin(self, calls: Sequence[ServedCall]) -> list[Piece]:
        """They are about to run."""
        ...

    def progress(self, call: ServedCall, message: str) -> list[Piece]:
        """What one of them says while it runs; nothing where the API has no place for it."""
        ...

    def done(self, result: ToolResult) -> list[Piece]:
        """The next of them has ended: results come in the order of the calls. After the last one no block is open."""
        ...


class ServedForms(Struct, frozen=True, kw_only=True):
    """A dialect's words for served calls, as its clients know them."""

    asked: Callable[[Request], Asked]
    """The MCP servers that the request names. Raises `DecodeError` where one makes no sense."""
    teller: Callable[[], Teller]
    restored: Callable[[Request, Callable[[str, str], str]], Restored]
    """The request with the served calls of its history as calls and results. The function gives the name under which
    the model knows a server's tool. Where calls of one round stood, and their results, one round stands again: an
    assistant message with its calls, then their results. Raises `DecodeError` where the history makes no sense."""
    listed: Callable[[str, Sequence[Tool]], Block | None] = lambda label, tools: None
    """The block that tells which tools a server has, where the API has one."""
    approval: Callable[[ServedCall], Block] | None = None
    """The block that asks the client for its yes to a call, which ends the answer."""
