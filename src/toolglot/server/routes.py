"""The table of routes, and the match of a method and a path. Pure.

Common mistakes in base URLs work: with or without `/v1`, with `/v1/v1`. A prefix may name the dialect (`/openai`), for
one gateway that serves all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from toolglot.dialects import DIALECTS
from toolglot.errors import ApiError
from toolglot.manifest import Manifest, Route

PREFIXES = {prefix: manifest.name for manifest in DIALECTS.manifests.values() for prefix in manifest.path_prefixes}
"""First segments of a path that name a dialect, for paths that several dialects share."""
_VERSIONED_DIALECT = next((manifest.name for manifest in DIALECTS.manifests.values() if manifest.owns_versions), None)
"""The only dialect whose clients use versions other than `v1`."""

_VERSION = re.compile(r"v\d+(?:alpha|beta)?\d*")


class Match(Struct, frozen=True):
    route: Route
    dialect: str | None
    values: Mapping[str, str]


class NoMatch(Struct, frozen=True, kw_only=True):
    """No route has this method and path."""

    error: ApiError
    dialect: str | None
    """The dialect of the path."""
    nearest: str | None = None
    """The dialect of the most similar path."""
    allowed: tuple[str, ...] = ()
    """Methods that the path supports."""


def _routes_of(manifest: Manifest) -> Iterator[Route]:
    """Yield the routes of a dialect's clients. A function serves all clients, unless its route names a dialect."""
    for route in manifest.routes:
        yield route if route.action == "function" else replace(route, dialect=manifest.name)


_ADMIN: tuple[tuple[str, str, Literal["viewer", "admin"]], ...] = (
    ("GET", "keys", "viewer"),
    ("POST", "keys", "admin"),
    ("GET", "keys/{id}", "viewer"),
    ("PATCH", "keys/{id}", "admin"),
    ("POST", "keys/{id}/rotate", "admin"),
    ("POST", "keys/{id}/suspend", "admin"),
    ("POST", "keys/{id}/resume", "admin"),
    ("POST", "keys/{id}/revoke", "admin"),
    ("GET", "spend", "viewer"),
    ("GET", "audit", "viewer"),
)

ROUTES = (
    *(route for manifest in DIALECTS.manifests.values() for route in _routes_of(manifest)),
    Route("GET", "/v1/models", "models"),
    Route("GET", "/v1/models/{model}", "model"),
    Route("GET", "/debug/receipts", "receipts"),
    Route("GET", "/debug/receipts/{id}", "receipt"),
    Route("GET", "/debug/mcp", "mcp"),
    Route("GET", "/debug/model", "model_check"),
    Route("GET", "/metrics", "metrics", role="monitor", reserved=True),
    Route("GET", "/v1/key", "own_key"),
    Route("GET", "/auth/login", "sign_in", open=True),
    Route("GET", "/auth/callback", "sign_in", open=True),
    Route("POST", "/auth/logout", "sign_in", open=True),
    *(Route(method, f"/admin/v1/{path}", "admin", role=role) for method, path, role in _ADMIN),
    Route("GET", "/health", "health", open=True, reserved=True),
    Route("GET", "/healthz", "health", open=True, reserved=True),
    Route("GET", "/livez", "health", open=True, reserved=True),
    Route("GET", "/health/liveliness", "health", open=True, reserved=True),
    Route("GET", "/ready", "ready", open=True, reserved=True),
    Route("GET", "/readyz", "ready", open=True, reserved=True),
    Route("GET", "/health/readiness", "ready", open=True, reserved=True),
    Route("GET", "/", "welcome", open=True),
)


def _split_prefix(path: str) -> tuple[str, str | None]:
    """Remove prefix and versions from a path. Returns the rest and the dialect that they name."""
    segments = [segment for segment in path.split("/") if segment]
    dialect = PREFIXES.get(segments[0]) if segments else None
    if dialect is not None:
        segments = segments[1:]
    while segments and _VERSION.fullmatch(segments[0]):
        if dialect is None and segments[0] != "v1":
            dialect = _VERSIONED_DIALECT
        segments = segments[1:]
    return "/".join(segments), dialect


def _compile_path(path: str) -> re.Pattern[str]:
    """Compile a path. A model's name may contain slashes (`openrouter/anthropic/claude`); an id may not."""
    template = re.escape(_split_prefix(path)[0])
    template = template.replace(r"\{model\}", "(?P<model>.+)").replace(r"\{id\}", "(?P<id>[^/]+)")
    return re.compile(template.replace(r"\{item\}", "(?P<item>[^/]+)"))


_OPERATORS = frozenset({"admin", "auth", "debug", "metrics"})
"""First segments of paths that are not for clients. They are served only as they are written, so that a proxy in front
can keep them from others by their beginning."""

_EXACT: dict[str, dict[str, Route]] = {}
_PATTERNS: list[tuple[re.Pattern[str], Route]] = []
for _route in ROUTES:
    if "{" in _route.path:
        _PATTERNS.append((_compile_path(_route.path), _route))
    else:
        _EXACT.setdefault(_split_prefix(_route.path)[0], {})[_route.method] = _route


def find(method: str, path: str) -> Match | NoMatch:
    """Find the route of a request, or the error that names the right path or method. HEAD matches GET."""
    tail, named_dialect = _split_prefix(path)
    if tail.partition("/")[0] in _OPERATORS and path != f"/{tail}":
        return _not_found(path, tail, named_dialect)
    wanted = "GET" if method == "HEAD" else method
    others: list[Route] = []
    if (exact := _EXACT.get(tail)) is not None:
        if wanted in exact:
            return _make_match(exact[wanted], named_dialect, {})
        others += exact.values()
    for pattern, route in _PATTERNS:
        if (found := pattern.fullmatch(tail)) is not None:
            # `models/m:generateContent` is not a model of that name, for any method: an earlier route matched.
            if route.method == wanted and not (route.action == "model" and others):
                return _make_match(route, named_dialect, found.groupdict())
            # `models/m:generate` is a wrong verb, not a model with a wrong method.
            if route.action != "model" or ":" not in found["model"]:
                others.append(route)
    # `responses/compact` is an unserved endpoint, not a stored response with a wrong method.
    is_known = bool(others) and _find_unserved(tail)[0] is None
    return (
        _method_not_allowed(method, path, others, named_dialect) if is_known else _not_found(path, tail, named_dialect)
    )


def _make_match(route: Route, named_dialect: str | None, values: Mapping[str, str]) -> Match:
    return Match(route, route.dialect or named_dialect, values)


def _method_not_allowed(method: str, path: str, others: list[Route], named_dialect: str | None) -> NoMatch:
    allowed = dict.fromkeys(
        name for route in others for name in (route.method, *_IMPLIED_METHODS.get(route.method, ()))
    )
    message = f"{method} {path}: this path takes {' or '.join(dict.fromkeys(route.method for route in others))}"
    error = ApiError(kind="bad_request", status=405, code="method_not_allowed", message=message)
    return NoMatch(error=error, dialect=others[0].dialect or named_dialect, allowed=tuple(allowed))


_IMPLIED_METHODS = {"GET": ("HEAD",)}


def _not_found(path: str, tail: str, named_dialect: str | None) -> NoMatch:
    known = [
        route
        for route in ROUTES
        if route.action in _API_ACTIONS and (named_dialect is None or route.dialect == named_dialect)
    ]
    near = _find_nearest(tail, known)
    what, whose = _find_unserved(tail)
    if what is not None:
        advice, near = f"toolglot does not serve {what}; {_list_model_paths(known)}", None
    else:
        advice = f"did you mean {near.path}?" if near is not None else _list_model_paths(known)
    error = ApiError(kind="not_found", status=404, code="unknown_path", message=f"There is nothing at {path}: {advice}")
    return NoMatch(error=error, dialect=named_dialect, nearest=near.dialect if near is not None else whose)


def _list_model_paths(known: list[Route]) -> str:
    return f"models answer at {', '.join(route.path for route in known if route.action == 'generate')}"


_API_ACTIONS = frozenset({"generate", "count", "stored", "models", "model"})
"""Actions that an error may suggest: API endpoints, not health checks."""

UNSERVED: dict[str, tuple[str, str | None]] = {
    "files": ("files", None),
    **{
        place: (what, manifest.name)
        for manifest in DIALECTS.manifests.values()
        for place, what in manifest.unserved.items()
    },
}
"""Vendors' endpoints that this gateway does not serve: description and dialect, by the start or end of a path."""


def _find_unserved(tail: str) -> tuple[str | None, str | None]:
    whole = f"{tail}/"
    for place, endpoint in UNSERVED.items():
        if tail.endswith(place) if place.startswith(":") else whole.startswith(f"{place}/"):
            return endpoint
    return None, None


def _find_nearest(tail: str, known: list[Route]) -> Route | None:
    """Find the route that the client probably meant: similar in every segment that both have."""
    rated = [
        (rating, -len(route.path), route)
        for route in known
        if (rating := _rate_likeness(tail, _split_prefix(route.path)[0]))
    ]
    return max(rated, key=lambda entry: entry[:2])[2] if rated else None


def _rate_likeness(tail: str, wanted: str) -> float:
    """Rate the likeness of two paths from 0 (different) to 1. A shortened path is like the whole one, a little less."""
    mine, verb = _split_verb(tail)
    theirs, their_verb = _split_verb(wanted)
    if bool(verb) != bool(their_verb) or not mine or len(mine) > len(theirs):
        return 0.0
    pairs = [*zip(mine, theirs, strict=False), (verb, their_verb)]
    likeness = min(1.0 if "{" in right else _rate_similarity(left, right) for left, right in pairs)
    return likeness if likeness >= _MIN_LIKENESS else 0.0


_MIN_LIKENESS = 0.75


def _split_verb(tail: str) -> tuple[list[str], str]:
    """Split a path into segments and the verb after a colon. Before a verb, a model's name is one segment."""
    before, colon, verb = tail.rpartition(":")
    return (before.split("/", 1), verb) if colon else (tail.split("/") if tail else [], "")


def _rate_similarity(left: str, right: str) -> float:
    if len(left) >= _MIN_PREFIX and right.startswith(left):
        return max(_MIN_LIKENESS, len(left) / len(right))
    if not left and not right:
        return 1.0
    if len(left) >= 2 * len(right):  # too different in length for a comparison
        return 0.0
    from difflib import SequenceMatcher  # only needed for unknown paths

    return SequenceMatcher(None, left, right).ratio()


_MIN_PREFIX = 4
"""Minimum letters of a common beginning that count as similar."""
