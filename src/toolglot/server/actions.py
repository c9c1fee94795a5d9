"""The handler of each route, by the name of its action in the table of routes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import time
from typing import Any

from msgspec import to_builtins
from msgspec.structs import asdict

from toolglot import __version__
from toolglot.dialects import find
from toolglot.errors import ApiError, RefusedError
from toolglot.gateway.errors import FailedError
from toolglot.gateway.features.mcp_servers import filter_servers
from toolglot.gateway.model_route import resolve_allowed
from toolglot.manifest import load
from toolglot.routing import UnknownModelError
from toolglot.server import responses_relay, responses_routes
from toolglot.server.asgi_request import AsgiRequest, find_client_dialect
from toolglot.server.count_tokens import count_tokens
from toolglot.server.credentials import hide_in_json
from toolglot.server.generate import generate
from toolglot.server.metrics import CONTENT_TYPE, encode_merged
from toolglot.server.responses_routes import ResponsesRequest, no_store_error
from toolglot.server.routes import ROUTES, Match
from toolglot.server.service import Service
from toolglot.upstream.offload import offload
from toolglot.wire import json

JSON = {"content-type": "application/json"}
RECEIPTS_LISTED = 100


async def list_models(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """List the models that clients can use, in the format of the client's dialect."""
    listing = find(find_client_dialect(incoming, match)).listing
    models = await incoming.gateway.catalog.models()
    if incoming.caller.account is not None:
        models = [model for model in models if _is_allowed(incoming, model.name)]
    body = listing.encode_models(models, incoming.query)
    await incoming.reply(200, JSON, body)


def _is_allowed(incoming: AsgiRequest, model: str) -> bool:
    """Return whether the caller's key may use this model."""
    try:
        return bool(resolve_allowed(incoming.gateway, incoming.caller, model))
    except (FailedError, UnknownModelError):
        return False


async def show_model(service: Service, incoming: AsgiRequest, match: Match) -> None:
    listing = find(find_client_dialect(incoming, match)).listing
    name = match.values.get("model") or listing.decode_name(await incoming.body())
    resolve_allowed(incoming.gateway, incoming.caller, name)
    await incoming.reply(200, JSON, listing.encode_model(incoming.gateway.catalog.model(name)))


async def serve_stored(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """Serve stored responses and conversations, from the store or from an upstream that stores responses itself."""
    body = b""
    if incoming.method == "POST":
        body = await incoming.body()
    upstream = responses_relay.find_storing_upstream(incoming.gateway, match)
    if service.store is None and upstream is not None:
        await responses_relay.relay_request(incoming.gateway, upstream, incoming, match, body)
        return
    if service.store is None:
        raise FailedError(no_store_error(match.route.path, service.store_failure))
    request = ResponsesRequest(
        store=service.store,
        owner=incoming.record.owner,
        values=match.values,
        query=incoming.query,
        body=body,
        now=time(),
    )
    try:
        reply = await responses_routes.handle_request(match.route.method, match.route.path, request)
    except RefusedError as refusal:
        if upstream is None or refusal.error.code != "response_not_found":
            raise
        await responses_relay.relay_request(incoming.gateway, upstream, incoming, match, body)
        return
    await incoming.reply(reply.status, {"content-type": reply.content_type}, reply.body)


async def list_receipts(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """List the newest receipts of this key."""
    owner = incoming.record.owner
    listed = service.receipts.latest_dated(owner, RECEIPTS_LISTED)
    if service.peers is not None:
        listed += await service.peers.receipts(owner, RECEIPTS_LISTED)
        listed = sorted(listed, key=lambda dated: dated[0], reverse=True)[:RECEIPTS_LISTED]
    hidden = (*incoming.gateway.secrets, *incoming.credentials)
    await incoming.reply(200, JSON, json.encode({"receipts": [hide_in_json(each, hidden) for _, each in listed]}))


async def show_receipt(service: Service, incoming: AsgiRequest, match: Match) -> None:
    owner, request_id = incoming.record.owner, match.values["id"]
    kept = service.receipts.find(owner, request_id)
    if kept is None and service.peers is not None:
        kept = await service.peers.receipt(owner, request_id)
    if kept is None:
        message = f"There is no receipt {request_id}: only the receipts of recent requests are kept"
        raise FailedError(ApiError(kind="not_found", code="receipt_not_found", message=message))
    hidden = (*incoming.gateway.secrets, *incoming.credentials)
    await incoming.reply(200, JSON, json.encode(hide_in_json(kept, hidden)))


async def list_mcp_servers(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """Report the state of the MCP servers that this key may use."""
    config = incoming.gateway.config.mcp
    hidden = config.servers.keys() - filter_servers(config, incoming.caller).servers.keys()
    states = [] if service.host is None else [each for each in service.host.states() if each.name not in hidden]
    servers = [{name: value for name, value in asdict(state).items() if name != "log"} for state in states]
    await incoming.reply(200, JSON, json.encode({"servers": servers}))


async def check_model(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """Check whether requests for a model can work: its upstream is asked for its list of models."""
    from toolglot.doctor import models  # most gateways are never asked

    name = incoming.query.get("name", "")
    if not name:
        message = "The query parameter `name` is missing: /debug/model?name=MODEL"
        raise FailedError(ApiError(kind="bad_request", code="missing_parameter", param="name", message=message))
    resolve_allowed(incoming.gateway, incoming.caller, name)
    checked = await models.check_model(incoming.gateway, name)
    hidden = (*incoming.gateway.secrets, *incoming.credentials)
    await incoming.reply(200, JSON, json.encode(hide_in_json(to_builtins(checked), hidden)))


async def report_health(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """Report that the process is alive. No upstream is called: a health check must not cost anything."""
    await incoming.reply(200, JSON, b'{"status":"ok"}')


async def report_readiness(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """Report whether requests are accepted: not while the server shuts down."""
    status, word = (200, "ready") if service.is_accepting else (503, "draining")
    await incoming.reply(status, JSON, json.encode({"status": word}))


async def show_welcome(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """List the endpoints, for people who open the address in a browser."""
    description: dict[str, Any] = {
        "name": "toolglot",
        "version": __version__,
        "endpoints": [f"{route.method} {route.path}" for route in ROUTES if route.path != "/"],
    }
    await incoming.reply(200, JSON, json.encode(description))


async def administer(service: Service, incoming: AsgiRequest, match: Match) -> None:
    from toolglot.server import admin_routes  # most gateways have no team

    await admin_routes.administer(service, incoming, match)


async def sign_in(service: Service, incoming: AsgiRequest, match: Match) -> None:
    from toolglot.server import sign_in as steps

    await steps.sign_in(service, incoming, match)


async def show_own_key(service: Service, incoming: AsgiRequest, match: Match) -> None:
    from toolglot.server import admin_routes

    await admin_routes.show_own_key(service, incoming, match)


async def show_metrics(service: Service, incoming: AsgiRequest, match: Match) -> None:
    now = service.snapshot(asyncio.get_running_loop().time())
    try:
        snapshots = [now] if service.peers is None else await service.peers.snapshots(now)
    except TimeoutError:
        message = "The counts of the other workers did not arrive in time"
        raise FailedError(ApiError(kind="overloaded", status=503, message=message, retry_after=1.0)) from None
    await incoming.reply(200, {"content-type": CONTENT_TYPE}, encode_merged(snapshots))


async def call_function(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """Call a dialect's function that needs no upstream, if the configuration enables it."""
    route = match.route
    if route.setting and not getattr(incoming.gateway.config.server, route.setting):
        message = f"{route.path} is disabled: set `{route.setting}` under `server` in the configuration"
        raise FailedError(ApiError(kind="not_found", code="unknown_path", message=message))
    body = await incoming.body() if route.method == "POST" else b""
    await incoming.reply(200, JSON, await offload(len(body), load(route.function), body))


ACTIONS: Mapping[str, Callable[[Service, AsgiRequest, Match], Awaitable[None]]] = {
    "generate": generate,
    "count": count_tokens,
    "models": list_models,
    "model": show_model,
    "stored": serve_stored,
    "receipts": list_receipts,
    "receipt": show_receipt,
    "mcp": list_mcp_servers,
    "model_check": check_model,
    "function": call_function,
    "metrics": show_metrics,
    "own_key": show_own_key,
    "admin": administer,
    "sign_in": sign_in,
    "health": report_health,
    "ready": report_readiness,
    "welcome": show_welcome,
}
