"""Served calls: tools of MCP servers that the gateway runs in the middle of an answer, between the client and the
model.

Some APIs support it: a request may name MCP servers, and the answer reports which of their tools were called and the
results, all before the model's final text. A dialect with such blocks has a `ServedForms`. These blocks are the
dialect's own (`Opaque`): no other API's client or model understands them, and to the model they are ordinary calls and
results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from toolglot.events import Close, Delta, Open
from toolglot.ir import Block, Request, Tool, ToolResult


class ToolSelection(Struct, frozen=True, kw_only=True):
    """Some of a server's tools: by name, or the read-only ones. Both None: all of them."""

    names: tuple[str, ...] | None = None
    read_only: bool | None = None


class AskedServer(Struct, frozen=True, kw_only=True):
    """An MCP server whose tools a request asks for.

    `label` is the client's name of it, `where` its position in the request; `allowed` are the tools that it requests,
    `refused` those that it excludes. `asks` are those that need approval for each call, `never_asks` those that do not,
    and `others_ask` applies to all others; it is unset if the API has no approvals. `credentials`: the client sends its
    own.
    """

    label: str
    where: str
    url: str | None = None
    allowed: ToolSelection = ToolSelection()
    refused: tuple[str, ...] = ()
    asks: ToolSelection | None = None
    never_asks: ToolSelection | None = None
    others_ask: bool = False
    credentials: bool = False


class ServedRequest(Struct, frozen=True, kw_only=True):
    """The servers that a request asks for, and the request without them.

    `chosen` are tools of these servers that its tool choice names, by label and name (None: any of the server's). The
    request's own choice has the right mode and lacks them: they must be added under the names that the model gets.
    """

    request: Request
    servers: tuple[AskedServer, ...] = ()
    chosen: tuple[tuple[str, str | None], ...] = ()


class ServedCall(Struct, frozen=True, kw_only=True):
    """A served call: the server by the client's label, the tool by its own name, the arguments as the model wrote them.

    `approval` is the approval request that the client answered, if any. `joins`: it was made together with the served
    call reported before it; a reporter knows that of its own calls. `followed`: it is the first served call of its
    round, which continues with other blocks after its served calls, up to the end of the answer.
    """

    id: str
    server: str
    name: str
    arguments: str
    approval: str | None = None
    joins: bool = False
    followed: bool = False


class RestoredHistory(Struct, frozen=True, kw_only=True):
    """A request whose served calls are calls and results again.

    `approved` are calls at its end that the client has now approved: they are in the history without a result. `listed`
    are servers, by label, whose tools the history has shown to the client.
    """

    request: Request
    approved: tuple[ServedCall, ...] = ()
    listed: tuple[str, ...] = ()


ReportPiece = Open | Delta | Close
"""A part of an answer that reports served calls. Indices count from 0 for each reporter."""


class CallReporter(Protocol):
    """Reports the calls of one round as they are run. Its blocks are opened one at a time."""

    def begin(self, calls: Sequence[ServedCall]) -> list[ReportPiece]:
        """Report calls that are about to run or are running. Also called for calls that follow other blocks of the
        round, when no block is open.
        """
        ...

    def progress(self, call: ServedCall, message: str) -> list[ReportPiece]:
        """Return the bytes that report the progress of a call; empty if the API has no place for them."""
        ...

    def done(self, result: ToolResult) -> list[ReportPiece]:
        """Report the end of the next call. Results are in call order. After the last one, no block is open."""
        ...


class ServedForms(Struct, frozen=True, kw_only=True):
    """A dialect's blocks for served calls, as its clients know them."""

    read_servers: Callable[[Request], ServedRequest]
    """The MCP servers that the request names. Raises `DecodeError` if one is invalid."""
    new_reporter: Callable[[], CallReporter]
    restore_history: Callable[[Request, Callable[[str, str], str]], RestoredHistory]
    """The request with the served calls of its history as calls and results. The function returns the model's name of a
    server's tool. The calls of one round become one round again: an assistant message with its calls, then their
    results. Raises `DecodeError` if the history is invalid."""
    encode_tool_list: Callable[[str, Sequence[Tool]], Block | None] = lambda label, tools: None
    """The block that lists a server's tools, if the API has one."""
    encode_approval_request: Callable[[ServedCall], Block] | None = None
    """The block that asks the client to approve a call, which ends the answer."""
