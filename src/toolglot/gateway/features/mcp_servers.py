"""MCP servers of a request: those of the model's alias, those in a header, and those that the request names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from toolglot.agent.host import McpHost
from toolglot.agent.toolbox import AttachedServer
from toolglot.config.schema import McpConfig
from toolglot.errors import ApiError
from toolglot.gateway.errors import FailedError
from toolglot.gateway.gateway import Gateway
from toolglot.gateway.received import ReceivedRequest
from toolglot.ir import Request, replace
from toolglot.receipt import Note, Receipt, ReceiptLine
from toolglot.routing import Target
from toolglot.server.headers import MCP_SERVERS
from toolglot.server.security import Caller
from toolglot.team.keys import KeyPolicy
from toolglot.tools.served import AskedServer, ServedRequest

HEADER = MCP_SERVERS


class RequestedServer(Struct, frozen=True, kw_only=True):
    """A server that a request uses, with the client's name of it (`label`) and the configured name (`server`)."""

    label: str
    server: str
    asked: AskedServer | None = None


class RequestedServers(Struct, frozen=True, kw_only=True):
    """The servers that a request uses, and the request without their definitions. `chosen` holds the servers' tools in
    its tool choice."""

    request: Request
    wanted: tuple[RequestedServer, ...] = ()
    chosen: tuple[tuple[str, str | None], ...] = ()


def find_requested_servers(gateway: Gateway, received: ReceivedRequest, target: Target) -> RequestedServers:
    """Find the servers that a request uses. Only configured servers that this key may use are available. A server that
    the request names is identified by its address.

    Raises:
        FailedError: the request uses an unknown server.
        DecodeError: the definition of a server is invalid.
    """
    config = filter_servers(gateway.config.mcp, received.caller)
    alias = [name for name in target.mcp if name in config.servers]
    wanted = [RequestedServer(label=name, server=name) for name in (*alias, *_read_header(config, received))]
    is_its_own = gateway.upstreams[target.upstream].dialect.name == received.client.name
    named = _read_named_servers(received, is_its_own=is_its_own and not config.servers)
    found = [(each, _find_by_address(config, each)) for each in named.servers]
    if is_its_own and all(server is None for _, server in found):
        # An upstream of the client's own dialect may run servers that are not configured here.
        return RequestedServers(request=received.request, wanted=tuple(_deduplicate(wanted)))
    wanted += [_resolve_named(config, each, server) for each, server in found]
    return RequestedServers(request=named.request, wanted=tuple(_deduplicate(wanted)), chosen=named.chosen)


def filter_servers(config: McpConfig, caller: Caller) -> McpConfig:
    """Remove the servers that this caller's key may not use."""
    policy = KeyPolicy() if caller.account is None else caller.account.key.policy
    if not policy.mcp_servers and not any(server.keys for server in config.servers.values()):
        return config
    servers = {
        name: server
        for name, server in config.servers.items()
        if (not server.keys or caller.label in server.keys) and policy.allows_mcp_server(name)
    }
    return replace(config, servers=servers)


def note_withheld_servers(config: McpConfig, target: Target, caller: Caller) -> tuple[ReceiptLine, ...]:
    """Return the receipt lines about servers of the model's alias that this key may not use."""
    servers = filter_servers(config, caller).servers
    why = "this key may not use it"
    return tuple(Note(f"mcp.{name}", "MCP server", why) for name in target.mcp if name not in servers)


def _read_named_servers(received: ReceivedRequest, *, is_its_own: bool) -> ServedRequest:
    """Read the servers that the request names, unless its API has no form for them or the upstream runs them itself."""
    forms = received.client.served
    return (
        ServedRequest(request=received.request) if forms is None or is_its_own else forms.read_servers(received.request)
    )


def _read_header(config: McpConfig, received: ReceivedRequest) -> list[str]:
    names = [name for part in received.headers.get(HEADER, "").split(",") if (name := part.strip())]
    for name in names:
        if name not in config.servers or not config.servers[name].by_header:
            raise FailedError(
                _unknown_server_error(config, f"The header {HEADER} names the MCP server {name[:100]!r}", HEADER)
            )
    return names


def _find_by_address(config: McpConfig, asked: AskedServer) -> str | None:
    """Find the configured name of a server by its address, if clients may attach it."""
    if asked.url is None:
        return None
    where = _split_address(asked.url)
    return next(
        (
            name
            for name, server in config.servers.items()
            if server.by_header and server.url and _split_address(server.url) == where
        ),
        None,
    )


def _resolve_named(config: McpConfig, asked: AskedServer, server: str | None) -> RequestedServer:
    if server is None:
        # The client's URL may contain a credential, so only its host is shown.
        scheme, host, *_ = _split_address(asked.url or "")
        address = f"{scheme}://{host}"[:200] if scheme else "without an address"
        named = f"{asked.where} names the MCP server {asked.label[:100]!r} ({address})"
        raise FailedError(_unknown_server_error(config, named, asked.where))
    return RequestedServer(label=asked.label, server=server, asked=asked)


def _unknown_server_error(config: McpConfig, what: str, where: str) -> ApiError:
    by = "of that name" if where == HEADER else "at that address"
    known = [name for name, server in config.servers.items() if server.by_header]
    there = f"it has {', '.join(known)}" if known else "it has none"
    message = f"{what}: this gateway's configuration has none {by} that clients may attach; {there}"
    return ApiError(kind="bad_request", code="unknown_mcp_server", message=message, param=where)


def _split_address(url: str) -> tuple[str, str, int | None, str, str]:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme.lower())
    except ValueError:
        return ("", url, None, "", "")
    return parts.scheme.lower(), (parts.hostname or "").lower(), port, parts.path.rstrip("/"), parts.query


def _deduplicate(wanted: Sequence[RequestedServer]) -> Iterator[RequestedServer]:
    """Yield each server once. The request's own definition takes precedence over the alias.

    Raises:
        FailedError: two servers have the same label, so that their tools could be confused.
    """
    labels: dict[str, str] = {}
    for each in {each.server: each for each in wanted}.values():
        if labels.setdefault(each.label, each.server) != each.server:
            message = f"There are two MCP servers with the name {each.label[:100]!r}: rename the one in this request"
            where = each.asked.where if each.asked is not None else HEADER
            raise FailedError(ApiError(kind="bad_request", message=message, param=where))
        yield each


def why_unavailable(host: McpHost, server: str) -> str | None:
    """Return the reason why a server is not available; None if it is."""
    try:
        state = host.state(server)
    except KeyError:  # removed by a reload
        return "it is no longer configured"
    return None if state.state == "ready" else state.why or state.state


async def attach_servers(
    host: McpHost, config: McpConfig, wanted: Sequence[RequestedServer], receipt: Receipt
) -> list[AttachedServer]:
    """Attach the servers with their current tools. Unavailable servers are noted in the receipt."""
    await host.ready([each.server for each in wanted])
    attached: list[AttachedServer] = []
    for each in wanted:
        if (why := why_unavailable(host, each.server)) is not None:
            receipt.loss(f"mcp.{each.label}", "MCP server", f"it is not available: {why}")
        if each.asked is not None and each.asked.credentials:
            why = "a server is reached with the credentials of the gateway's own configuration"
            receipt.loss(each.asked.where, "credentials", why)
        tools = host.tools(each.server)
        settings = config.servers[each.server]
        attached.append(
            AttachedServer(label=each.label, server=each.server, config=settings, tools=tools, asked=each.asked)
        )
    return attached
