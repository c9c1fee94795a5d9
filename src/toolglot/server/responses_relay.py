"""Relaying requests for stored responses to an upstream that stores responses itself."""

from __future__ import annotations

import asyncio
from urllib.parse import quote, urlencode

from toolglot.errors import header_value
from toolglot.gateway.errors import FailedError
from toolglot.gateway.gateway import Gateway
from toolglot.gateway.upstream_errors import resting_error, transport_error
from toolglot.ir import replace
from toolglot.server import headers
from toolglot.server.asgi_request import AsgiRequest
from toolglot.server.routes import Match
from toolglot.upstream.transport import FetchedAnswer, TransportError, UpstreamCall, fetch
from toolglot.upstream.upstream import Upstream

_GATEWAY_PARAMETERS = ("key",)
"""Query parameters for the gateway, which are not relayed."""


def find_storing_upstream(gateway: Gateway, match: Match) -> Upstream | None:
    """Find the upstream that stores responses, if there is exactly one, for responses that are not stored here."""
    upstreams = [upstream for upstream in gateway.upstreams.values() if upstream.keeps_state]
    return upstreams[0] if len(upstreams) == 1 and match.route.path.startswith("/v1/responses/") else None


async def relay_request(gateway: Gateway, upstream: Upstream, incoming: AsgiRequest, match: Match, body: bytes) -> None:
    """Send the request to the upstream and its answer to the client, unchanged. Raises `FailedError`."""
    path = match.route.path.format(**{name: quote(value, safe="") for name, value in match.values.items()})
    query = {name: value for name, value in incoming.query.items() if name not in _GATEWAY_PARAMETERS}
    passed = headers.select_for_upstream(upstream.dialect, upstream.dialect, incoming.headers, stream=False)
    call = upstream.call(f"{path}?{urlencode(query)}" if query else path, body, passed, match.route.method)
    incoming.record.upstream, incoming.record.upstream_dialect = upstream.name, upstream.dialect.name
    answer = await _call_upstream(gateway, upstream, call)
    fields = headers.select_for_client(upstream.dialect, upstream.dialect, answer.headers)
    kind = header_value(answer.headers.get("content-type")) or "application/json"
    await incoming.reply(answer.status, {"content-type": kind, **fields}, answer.body)


async def _call_upstream(gateway: Gateway, upstream: Upstream, call: UpstreamCall) -> FetchedAnswer:
    """Call the upstream if its breaker allows it. Raises `FailedError`."""
    loop, breaker = asyncio.get_running_loop(), gateway.breaker(upstream)
    ticket = breaker.enter(loop.time())
    if ticket is None:
        raise FailedError(resting_error(upstream.name, breaker, loop.time()))
    try:
        answer = await fetch(upstream.transport, call, gateway.config.limits.response)
    except TransportError as failure:
        breaker.settle(ticket, failure, loop.time())
        raise FailedError(transport_error(upstream.name, failure)) from None
    except BaseException:
        breaker.leave(ticket)
        raise
    error = None
    if answer.status >= 300:
        answer = replace(answer, body=upstream.redact_body(answer.body))
        error = upstream.dialect.decode_error(answer.status, answer.headers, answer.body)
    breaker.settle(ticket, error, loop.time())
    return answer
