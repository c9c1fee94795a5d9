"""Which path means what. Pure: a method and a path in, a match or an error out.

Clients get base URLs wrong in a few well-known ways, and all of them work: with `/v1` or without, with `/v1/v1`, and
below a prefix that names the dialect (`/openai`) for those who run one gateway for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from toolglot.dialects import DIALECTS
from toolglot.errors import ApiError
from toolglot.manifest import Manifest, Route

PREFIXES = {prefix: manifest.name for manifest in DIALECTS.manifests.values() for prefix in manifest.path_prefixes}
"""The first segment of a path that tells the dialect, for the paths that do not."""
_VERSIONED_DIALECT = next((manifest.name for manifest in DIALECTS.manifests.values() if manifest.owns_versions), None)
"""The dialect whose clients alone write versions other than `v1`."""

_VERSION = re.compile(r"v\d+(?:alpha|beta)?\d*")


class Match(Struct, frozen=True):
    route: Route
    dialect: str | None
    values: Mapping[str, str]


class NoMatch(Struct, frozen=True, kw_only=True):
    """There is nothing for this method at this path."""

    error: ApiError
    dialect: str | None
    """Whose path it is."""
    nearest: str | None = None
    """Whose path it nearly is."""
    allowed: tuple[str, ...] = ()
    """The methods that the path takes."""


def _routes_of(manifest: Manifest) -> Iterator[Route]:
    """The routes of a dialect's clients. A function answers anybody, unless its route says whose it is."""
    for route in manifest.routes:
        yield route if route.action == "function" else replace(route, dialect=manifest.name)


ROUTES = (
    *(route for manifest in DIALECTS.manifests.values() for route in _routes_of(manifest)),
    Route("GET", "/v1/models", "models"),
    Route("GET", "/v1/models/{model}", "model"),
    Route("GET", "/debug/receipts", "receipts"),
    Route("GET", "/debug/receipts/{id}", "receipt"),
    Route("GET", "/debug/mcp", "mcp"),
    Route("GET", "/metrics", "metrics", reserved=True),
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
    """A path without its prefix and versions, and the dialect that those tell."""
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
    """A model's name may have slashes in it (`openrouter/anthropic/claude`); an id has none."""
    template = re.escape(_split_prefix(path)[0])
    template = template.replace(r"\{model\}", "(?P<model>.+)").replace(r"\{id\}", "(?P<id>[^/]+)")
    return re.compile(template.replace(r"\{item\}", "(?P<item>[^/]+)"))


_EXACT: dict[str, dict[str, Route]] = {}
_PATTERNS: list[tuple[re.Pattern[str], Route]] = []
for _route in ROUTES:
    if "{" in _route.path:
        _PATTERNS.append((_compile_path(_route.path), _route))
    else:
        _EXACT.setdefault(_split_prefix(_route.path)[0], {})[_route.method] = _route


def find(method: str, path: str) -> Match | NoMatch:
    """The route of a request, or the error that tells the right path or method. HEAD is answered as GET."""
    tail, told = _split_prefix(path)
    wanted = "GET" if method == "HEAD" else method
    others: list[Route] = []
    if (exact := _EXACT.get(tail)) is not None:
        if wanted in exact:
            return _make_match(exact[wanted], told, {})
        others += exact.values()
    for pattern, route in _PATTERNS:
        if (found := pattern.fullmatch(tail)) is not None:
            # `models/m:generateContent` is no model of that name, whatever the method: such routes stand before.
            if route.method == wanted and not (route.action == "model" and others):
                return _make_match(route, told, found.groupdict())
            # `models/m:generate` is a wrong verb, not a model that is asked for in a wrong way.
            if route.action != "model" or ":" not in found["model"]:
                others.append(route)
    # `responses/compact` is no stored response that is asked for in a wrong way.
    is_known = bool(others) and _find_unserved(tail)[0] is None
    return _method_not_allowed(method, path, others, told) if is_known else _not_found(path, tail, told)


def _make_match(route: Route, told: str | None, values: Mapping[str, str]) -> Match:
    return Match(route, route.dialect or told, values)


def _method_not_allowed(method: str, path: str, others: list[Route], told: str | None) -> NoMatch:
    allowed = dict.fromkeys(
        name for route in others for name in (route.method, *_IMPLIED_METHODS.get(route.method, ()))
    )
    message = f"{method} {path}: this path takes {' or '.join(dict.fromkeys(route.method for route in others))}"
    error = ApiError(kind="bad_request", status=405, code="method_not_allowed", message=message)
    return NoMatch(error=error, dialect=others[0].dialect or told, allowed=tuple(allowed))


_IMPLIED_METHODS = {"GET": ("HEAD",)}


def _not_found(path: str, tail: str, told: str | None) -> NoMatch:
    known = [route for route in ROUTES if route.action in _API_ACTIONS and (told is None or route.dialect == told)]
    near = _find_nearest(tail, known)
    what, whose = _find_unserved(tail)
    if what is not None:
        advice, near = f"toolglot does not serve {what}; {_list_model_paths(known)}", None
    else:
        advice = f"did you mean {near.path}?" if near is not None else _list_model_paths(known)
    error = ApiError(kind="not_found", status=404, code="unknown_path", message=f"There is nothing at {path}: {advice}")
    return NoMatch(error=error, dialect=told, nearest=near.dialect if near is not None else whose)


def _list_model_paths(known: list[Route]) -> str:
    return f"models answer at {', '.join(route.path for route in known if route.action == 'generate')}"


_API_ACTIONS = frozenset({"generate", "count", "stored", "models", "model"})
"""What a client may have meant; nobody who asks a model means a health check."""

UNSERVED: dict[str, tuple[str, str | None]] = {
    "files": ("files", None),
    **{
        place: (what, manifest.name)
        for manifest in DIALECTS.manifests.values()
        for place, what in manifest.unserved.items()
    },
}
"""Endpoints that the vendors have and this gateway has not: what they are, and whose; by how a path begins or ends."""


def _find_unserved(tail: str) -> tuple[str | None, str | None]:
    whole = f"{tail}/"
    for place, told in UNSERVED.items():
        if tail.endswith(place) if place.startswith(":") else whole.startswith(f"{place}/"):
            return told
    return None, None


def _find_nearest(tail: str, known: list[Route]) -> Route | None:
    """The route that this path was meant to be, if it is like one in every segment that both have."""
    rated = [
        (rating, -len(route.path), route)
        for route in known
        if (rating := _rate_likeness(tail, _split_prefix(route.path)[0]))
    ]
    return max(rated, key=lambda entry: entry[:2])[2] if rated else None


def _rate_likeness(tail: str, wanted: str) -> float:
    """From 0, for paths of different things, to 1. One that is cut short is like the whole, a little less."""
    mine, verb = _split_verb(tail)
    theirs, their_verb = _split_verb(wanted)
    if bool(verb) != bool(their_verb) or not mine or len(mine) > len(theirs):
        return 0.0
    pairs = [*zip(mine, theirs, strict=False), (verb, their_verb)]
    likeness = min(1.0 if "{" in right else _rate_similarity(left, right) for left, right in pairs)
    return likeness if likeness >= _MIN_LIKENESS else 0.0


_MIN_LIKENESS = 0.75


def _split_verb(tail: str) -> tuple[list[str], str]:
    """Segments, and the verb behind a colon; before one, a model's name is one segment however many slashes it has."""
    before, colon, verb = tail.rpartition(":")
    return (before.split("/", 1), verb) if colon else (tail.split("/") if tail else [], "")


def _rate_similarity(left: str, right: str) -> float:
    if len(left) >= _MIN_PREFIX and right.startswith(left):
        return max(_MIN_LIKENESS, len(left) / len(right))
    if not left and not right:
        return 1.0
    if len(left) >= 2 * len(right):  # nothing has to be compared to know it
        return 0.0
    from difflib import SequenceMatcher  # needed for paths that nobody knows

    return SequenceMatcher(None, left, right).ratio()


_MIN_PREFIX = 4
"""Letters of a beginning that say what was meant."""
