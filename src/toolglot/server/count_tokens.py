"""Counts a request's tokens: by the upstream if it can, otherwise by an estimate. Never answers with 404."""

from __future__ import annotations

import asyncio

from toolglot.dialects import find
from toolglot.errors import ApiError, DecodeError
from toolglot.gateway.errors import FailedError
from toolglot.gateway.features.mcp_loop import add_served_tools
from toolglot.gateway.features.responses_turn import ResponsesTurn
from toolglot.gateway.model_route import resolve_allowed
from toolglot.gateway.received import ReceivedRequest, require_model
from toolglot.gateway.tool_mode import ToolModes
from toolglot.ir import Request, replace
from toolglot.routing import MAX_NAME
from toolglot.server import headers
from toolglot.server.asgi_request import AsgiRequest
from toolglot.server.routes import Match
from toolglot.server.service import Service
from toolglot.tokens import estimate
from toolglot.translate import ExchangeCore
from toolglot.upstream.exchange import make_exchange
from toolglot.upstream.offload import offload
from toolglot.upstream.transport import TransportError, fetch
from toolglot.upstream.upstream import Upstream

UPSTREAM_TIMEOUT = 10.0
"""Seconds that an upstream has for its count. Agents count often, and an estimate is better than a wait."""
MAX_REPLY_BYTES = 1024 * 1024
"""Maximum bytes of an upstream's reply, which is one number."""


async def count_tokens(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """Answer a request for a token count. The header `x-toolglot-count` says who counted."""
    client = find(match.dialect or "")
    if client.counting is None:
        raise FailedError(
            ApiError(
                kind="not_found", code="unknown_path", message=f"{client.title} has no endpoint that counts tokens"
            )
        )
    body = await incoming.body()
    incoming.record.bytes_in = len(body)
    request = await offload(len(body), client.counting.decode_request, body)
    if client.request.model_in_path:
        request = replace(request, model=match.values["model"])
    require_model(request, required=client.counting.needs_model)
    incoming.record.model = request.model[:MAX_NAME]
    target = resolve_allowed(incoming.gateway, incoming.caller, request.model)[0]
    upstream = incoming.gateway.upstreams[target.upstream]
    owner = incoming.record.owner
    _, whole = await ResponsesTurn.begin(
        client.name, body, service.store, owner, upstream_keeps_state=upstream.keeps_state
    )
    if whole is not body:
        request = await offload(len(whole), client.counting.decode_request, whole)
    received = ReceivedRequest(
        client=client, request=request, body=whole, headers=incoming.headers, caller=incoming.caller
    )
    request = await add_served_tools(service, incoming.gateway, received, target)
    calls = await ToolModes(service.tool_support, service.store).find_text_calls(upstream, target, request)
    exchange = make_exchange(client, upstream, target, text_calls=calls)
    incoming.record.upstream, incoming.record.upstream_dialect = upstream.name, upstream.dialect.name
    tokens = await _count_upstream(upstream, exchange, request, len(whole), incoming)
    source = {"x-toolglot-count": "upstream" if tokens is not None else "estimate"}
    if tokens is None:
        if calls is not None and not calls.rescue:
            # A model without tools gets a prompt that describes them.
            request = await offload(len(whole), exchange.rewrite, request)
        tokens = await _estimate(upstream, request, len(whole))
    answer = client.counting.encode_count(tokens)
    await incoming.reply(200, {"content-type": "application/json", **source}, answer)


async def _estimate(upstream: Upstream, request: Request, size: int) -> int:
    return await offload(size, estimate, request, image_tokens=upstream.dialect.request.image_tokens)


async def _count_upstream(
    upstream: Upstream, exchange: ExchangeCore, request: Request, size: int, incoming: AsgiRequest
) -> int | None:
    """Ask the upstream for its count; None if it cannot count, or its reply cannot be read."""
    counting = upstream.dialect.counting
    if counting is None:
        return None
    sent = await offload(size, exchange.rewrite, request)
    body = await offload(size, counting.encode_request, sent, exchange.receipt)
    path = headers.add_query(counting.path(sent), exchange.client, upstream.dialect, incoming.query)
    passed = headers.select_for_upstream(exchange.client, upstream.dialect, incoming.headers, stream=False)
    try:
        async with asyncio.timeout(UPSTREAM_TIMEOUT):
            answer = await fetch(upstream.transport, upstream.call(path, body, passed), MAX_REPLY_BYTES)
        return counting.decode_count(answer.body) if answer.status == 200 else None
    except (TransportError, TimeoutError, DecodeError):
        return None
