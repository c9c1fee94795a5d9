"""What each route does, by the name in the table of routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from time import time
from typing import Any

from toolglot import __version__
from toolglot.dialects import find
from toolglot.errors import ApiError
from toolglot.models import ModelInfo
from toolglot.routing import Router
from toolglot.server import responses_routes
from toolglot.server.attempts import FailedError
from toolglot.server.counting import count
from toolglot.server.generate import generate
from toolglot.server.incoming import Incoming, dialect_of
from toolglot.server.ingress import read_body
from toolglot.server.metrics import CONTENT_TYPE
from toolglot.server.responses_routes import Ask
from toolglot.server.routes import ROUTES, Match
from toolglot.server.service import Service
from toolglot.wire import json

JSON = {"content-type": "application/json"}
RECEIPTS_LISTED = 100


async def models(service: Service, incoming: Incoming, match: Match) -> None:
    """The models that can be asked for, in the shape that the asking client expects."""
    listing = find(dialect_of(incoming, match)).listing
    router = service.gateway.router
    told = [_told(router, listed.name) for listed in router.models()]
    await incoming.reply(200, JSON, listing.encode_models(told, incoming.query))


async def model(service: Service, incoming: Incoming, match: Match) -> None:
    name = match.values["model"]
    listing = find(dialect_of(incoming, match)).listing
    await incoming.reply(200, JSON, listing.encode_model(_told(service.gateway.router, name)))


def _told(router: Router, name: str) -> ModelInfo:
    """A model as clients may know it. What it reads and whether it reasons is told where the configuration says so:
    a dialect's wire has a place for images, but that is no promise of a model behind it."""
    target = router.resolve(name)[0]
    reads = target.quirks.get("media_in_user")
    return ModelInfo(
        name=name,
        owner=target.upstream,
        context_window=target.context_window,
        max_output_tokens=target.max_output_tokens,
        inputs=frozenset() if reads is None else frozenset({"text", *reads}),
        thinking=bool(target.quirks["efforts"]) if "efforts" in target.quirks else None,
    )


async def stored(service: Service, incoming: Incoming, match: Match) -> None:
    """Stored responses and conversations."""
    if service.store is None:
        message = "This gateway stores no responses: its store could not be opened"
        raise FailedError(ApiError(kind="overloaded", status=503, message=message))
    body = b""
    if incoming.method == "POST":
        body = await read_body(incoming.scope, incoming.receive, service.gateway.config.limits)
    ask = Ask(
        store=service.store,
        owner=incoming.record.key or "",
        values=match.values,
        query=incoming.query,
        body=body,
        now=time(),
    )
    reply = await responses_routes.answer(match.route.method, match.route.path, ask)
    await incoming.reply(reply.status, {"content-type": reply.content_type}, reply.body)


async def receipts(service: Service, incoming: Incoming, match: Match) -> None:
    """The newest receipts; whoever has a key sees those of that key alone."""
    listed = [kept for kept in service.receipts.latest(RECEIPTS_LISTED) if kept["owner"] == incoming.record.key]
    await incoming.reply(200, JSON, json.encode({"receipts": listed}))


async def receipt(service: Service, incoming: Incoming, match: Match) -> None:
    kept = service.receipts.find(match.values["id"])
    if kept is None or kept["owner"] != incoming.record.key:
        message = f"There is no receipt {match.values['id']}: the last requests alone are kept"
        raise FailedError(ApiError(kind="not_found", message=message))
    await incoming.reply(200, JSON, json.encode(kept))


async def health(service: Service, incoming: Incoming, match: Match) -> None:
    """The process is alive. No upstream is asked: a health check must never cost anything."""
    await incoming.reply(200, JSON, b'{"status":"ok"}')


async def ready(service: Service, incoming: Incoming, match: Match) -> None:
    """Requests are taken: the configuration is loaded and the server is not shutting down."""
    status, word = (200, "ready") if service.accepting else (503, "draining")
    await incoming.reply(status, JSON, json.encode({"status": word}))


async def welcome(service: Service, incoming: Incoming, match: Match) -> None:
    """What is here, for whoever opens the address in a browser or with curl."""
    told: dict[str, Any] = {
        "name": "toolglot",
        "version": __version__,
        "endpoints": [f"{route.method} {route.path}" for route in ROUTES if route.path != "/"],
    }
    await incoming.reply(200, JSON, json.encode(told))


async def metrics(service: Service, incoming: Incoming, match: Match) -> None:
    gauges = {"toolglot_requests_in_flight": ("Requests being answered now.", float(service.in_flight))}
    await incoming.reply(200, {"content-type": CONTENT_TYPE}, service.metrics.text(gauges))


ACTIONS: Mapping[str, Callable[[Service, Incoming, Match], Awaitable[None]]] = {
    "generate": generate,
    "count": count,
    "models": models,
    "model": model,
    "stored": stored,
    "receipts": receipts,
    "receipt": receipt,
    "metrics": metrics,
    "health": health,
    "ready": ready,
    "welcome": welcome,
}
