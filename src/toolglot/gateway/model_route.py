"""State shared by requests with the same head and model. Agents send both with every request, so it is computed
once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from toolglot.errors import ApiError
from toolglot.gateway.context import shared_context
from toolglot.gateway.errors import FailedError
from toolglot.gateway.features.mcp_servers import filter_servers, note_withheld_servers
from toolglot.gateway.flow import FlowContext
from toolglot.gateway.known_heads import RequestHead
from toolglot.gateway.request_record import RequestRecord
from toolglot.ir import Request, Response
from toolglot.receipt import ReceiptLine
from toolglot.routing import MAX_NAME, Target
from toolglot.server.credentials import hide_in_error
from toolglot.server.headers import MCP_SERVERS
from toolglot.server.security import Caller
from toolglot.tools.served import ServedRequest

if TYPE_CHECKING:
    from toolglot.gateway.gateway import Gateway

MOST_MODELS = 64
"""Maximum routes of one head, because clients choose model names."""


class ModelRoute(Struct, frozen=True, eq=False, kw_only=True):
    targets: tuple[Target, ...]
    """The first one, and its fallbacks."""
    record: RequestRecord
    """Copied for each request."""
    context: FlowContext
    """Copied for each request."""
    upstream_keeps_state: bool
    withheld: tuple[ReceiptLine, ...]
    """Receipt lines about MCP servers that this key may not use."""
    has_servers: bool
    """True if the model's alias attaches MCP servers."""
    find_named_servers: Callable[[Request], ServedRequest] | None
    """Finds the MCP servers that a request names; None if it cannot name any, or if the upstream runs them."""
    answer_without_model: Callable[[Request], Response | None] | None
    """Answers a request that needs no model; None if the upstream supports such requests."""

    def may_have_servers(self, request: Request, headers: Mapping[str, str]) -> bool:
        """Return whether MCP servers may take part in the answer."""
        if self.has_servers or MCP_SERVERS in headers:
            return True
        return self.find_named_servers is not None and bool(self.find_named_servers(request).servers)


def find_route(gateway: Gateway, head: RequestHead, model: str) -> ModelRoute:
    """Raises `UnknownModelError`."""
    route = head.routes.get(model)
    if route is None:
        if len(head.routes) >= MOST_MODELS:
            head.routes.clear()
        route = head.routes[model] = _new_route(gateway, head, model)
    return route


def _new_route(gateway: Gateway, head: RequestHead, model: str) -> ModelRoute:
    client = head.client
    targets = resolve_allowed(gateway, head.caller, model)
    target = targets[0]
    upstream, servers = gateway.upstreams[target.upstream], filter_servers(gateway.config.mcp, head.caller).servers
    is_same_dialect = upstream.dialect.name == client.name
    record = _new_record(head, model)
    return ModelRoute(
        targets=targets,
        record=record,
        context=shared_context(record, gateway.config.limits, partial(_hide, gateway, head.credentials)),
        upstream_keeps_state=upstream.keeps_state,
        withheld=note_withheld_servers(gateway.config.mcp, target, head.caller),
        has_servers=any(name in servers for name in target.mcp),
        find_named_servers=client.served.read_servers
        if client.served is not None and (servers or not is_same_dialect)
        else None,
        answer_without_model=None if is_same_dialect else client.request.answer_without_model,
    )


def resolve_allowed(gateway: Gateway, caller: Caller, model: str) -> tuple[Target, ...]:
    """Resolve a model to the targets that the caller's key may use. An allowed name allows everything that the
    configuration routes it to, except for upstreams that the key may not use.

    Raises:
        UnknownModelError: the model has no route.
        FailedError: the key may not use it.
    """
    targets = gateway.router.resolve(model)
    if caller.account is None:
        return targets
    key, first = caller.account.key, targets[0]
    # `first.asked` is the name without what clients add to it (`[1m]`, `models/`, `:latest`).
    if not key.policy.allows_model((first.asked, f"{first.upstream}/{first.model}")):
        message = f"The key {key.name} may not use the model {model[:MAX_NAME]!r}"
        raise FailedError(ApiError(kind="permission", code="model_not_allowed", param="model", message=message))
    allowed = tuple(target for target in targets if key.policy.allows_upstream(target.upstream))
    if not allowed:
        message = f"The key {key.name} may not use the upstream {first.upstream!r} of the model {model[:MAX_NAME]!r}"
        raise FailedError(ApiError(kind="permission", code="upstream_not_allowed", param="model", message=message))
    return allowed


def _new_record(head: RequestHead, model: str) -> RequestRecord:
    return RequestRecord(
        id="",
        method="POST",
        path=head.path,
        started=0.0,
        route=head.route.path,
        key=head.caller.label or None,
        owner=head.caller.owner,
        client=head.client.name,
        user_agent=head.headers.get("user-agent"),
        traceparent=head.headers.get("traceparent"),
        model=model[:MAX_NAME],
    )


def _hide(gateway: Gateway, shown: tuple[str, ...], error: ApiError) -> ApiError:
    return hide_in_error(error, (*gateway.secrets, *shown))
