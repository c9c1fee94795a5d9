"""Which path means what. Pure: a method and a path in, a match or an error out.

Clients get base URLs wrong in a few well-known ways, and all of them work: with `/v1` or without, with `/v1/v1`, and
below `/openai`, `/anthropic` or `/gemini` for those who run one gateway for all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from toolglot.errors import ApiError

PREFIXES = {"openai": "openai_chat", "anthropic": "anthropic", "gemini": "gemini", "google": "gemini"}
"""The first segment of a path that tells the dialect, for the paths that do not."""

_VERSION = re.compile(r"v\d+(?:alpha|beta)?\d*")


class Route(Struct, frozen=True):
    """`action` names a function in `server/actions.py`; `dialect` is None where the client's headers tell it."""

    method: str
    path: str
    action: str
    dialect: str | None = None
    open: bool = False
    """Answered without a key."""
    reserved: bool = False
    """Answered although the server has as many connections or requests as it takes: whoever watches it asks here."""


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


ROUTES = (
    Route("POST", "/v1/chat/completions", "generate", "openai_chat"),
    Route("POST", "/v1/responses", "generate", "openai_responses"),
    Route("POST", "/v1/responses/input_tokens", "count", "openai_responses"),
    Route("GET", "/v1/responses/{id}", "stored", "openai_responses"),
    Route("DELETE", "/v1/responses/{id}", "stored", "openai_responses"),
    Route("GET", "/v1/responses/{id}/input_items", "stored", "openai_responses"),
    Route("POST", "/v1/responses/{id}/cancel", "stored", "openai_responses"),
    Route("POST", "/v1/conversations", "stored", "openai_responses"),
    Route("GET", "/v1/conversations/{id}", "stored", "openai_responses"),
    Route("POST", "/v1/conversations/{id}", "stored", "openai_responses"),
    Route("DELETE", "/v1/conversations/{id}", "stored", "openai_responses"),
    Route("GET", "/v1/conversations/{id}/items", "stored", "openai_responses"),
    Route("POST", "/v1/conversations/{id}/items", "stored", "openai_responses"),
    Route("GET", "/v1/conversations/{id}/items/{item}", "stored", "openai_responses"),
    Route("DELETE", "/v1/conversations/{id}/items/{item}", "stored", "openai_responses"),
    Route("POST", "/v1/messages", "generate", "anthropic"),
    Route("POST", "/v1/messages/count_tokens", "count", "anthropic"),
    Route("POST", "/v1beta/models/{model}:generateContent", "generate", "gemini"),
    Route("POST", "/v1beta/models/{model}:streamGenerateContent", "generate", "gemini"),
    Route("POST", "/v1beta/models/{model}:countTokens", "count", "gemini"),
    Route("POST", "/ai/multi-agent", "generate", "warp"),
    Route("POST", "/api/encode", "warp_bridge"),
    Route("POST", "/api/decode", "warp_bridge"),
    Route("POST", "/api/stream-decode", "warp_bridge"),
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


def _tail(path: str) -> tuple[str, str | None]:
    """A path without its prefix and versions, and the dialect that those tell."""
    segments = [segment for segment in path.split("/") if segment]
    dialect = PREFIXES.get(segments[0]) if segments else None
    if dialect is not None:
        segments = segments[1:]
    while segments and _VERSION.fullmatch(segments[0]):
        # Gemini's own clients are the only ones that say `v1beta`.
        if dialect is None and segments[0] != "v1":
            dialect = "gemini"
        segments = segments[1:]
    return "/".join(segments), dialect


def _pattern(path: str) -> re.Pattern[str]:
    """A model's name may have slashes in it (`openrouter/anthropic/claude`); an id has none."""
    template = re.escape(_tail(path)[0])
    template = template.replace(r"\{model\}", "(?P<model>.+)").replace(r"\{id\}", "(?P<id>[^/]+)")
    return re.compile(template.replace(r"\{item\}", "(?P<item>[^/]+)"))


_EXACT: dict[str, dict[str, Route]] = {}
_PATTERNS: list[tuple[re.Pattern[str], Route]] = []
for _route in ROUTES:
    if "{" in _route.path:
        _PATTERNS.append((_pattern(_route.path), _route))
    else:
        _EXACT.setdefault(_tail(_route.path)[0], {})[_route.method] = _route


def find(method: str, path: str) -> Match | NoMatch:
    """The route of a request, or the error that tells the right path or method. HEAD is answered as GET."""
    tail, told = _tail(path)
    wanted = "GET" if method == "HEAD" else method
    others: list[Route] = []
    if (exact := _EXACT.get(tail)) is not None:
        if wanted in exact:
            return _match(exact[wanted], told, {})
        others += exact.values()
    for pattern, route in _PATTERNS:
        if (found := pattern.fullmatch(tail)) is not None:
            if route.method == wanted:
                return _match(route, told, found.groupdict())
            # `models/m:generate` is a wrong verb, not a model that is asked for in a wrong way.
            if route.action != "model" or ":" not in found["model"]:
                others.append(route)
    # `responses/compact` is no stored response that is asked for in a wrong way.
    is_known = bool(others) and _unserved(tail)[0] is None
    return _method_not_allowed(method, path, others, told) if is_known else _not_found(path, tail, told)


def _match(route: Route, told: str | None, values: Mapping[str, str]) -> Match:
    return Match(route, route.dialect or told, values)


def _method_not_allowed(method: str, path: str, others: list[Route], told: str | None) -> NoMatch:
    allowed = dict.fromkeys(name for route in others for name in (route.method, *_IMPLIED.get(route.method, ())))
    message = f"{method} {path}: this path takes {' or '.join(dict.fromkeys(route.method for route in others))}"
    error = ApiError(kind="bad_request", status=405, code="method_not_allowed", message=message)
    return NoMatch(error=error, dialect=others[0].dialect or told, allowed=tuple(allowed))


_IMPLIED = {"GET": ("HEAD",)}


def _not_found(path: str, tail: str, told: str | None) -> NoMatch:
    known = [route for route in ROUTES if route.action in _API and (told is None or route.dialect == told)]
    near = _nearest(tail, known)
    what, whose = _unserved(tail)
    if what is not None:
        advice, near = f"toolglot does not serve {what}; {_answering(known)}", None
    else:
        advice = f"did you mean {near.path}?" if near is not None else _answering(known)
    error = ApiError(kind="not_found", status=404, code="unknown_path", message=f"There is nothing at {path}: {advice}")
    return NoMatch(error=error, dialect=told, nearest=near.dialect if near is not None else whose)


def _answering(known: list[Route]) -> str:
    return f"models answer at {', '.join(route.path for route in known if route.action == 'generate')}"


_API = frozenset({"generate", "count", "stored", "models", "model"})
"""What a client may have meant; nobody who asks a model means a health check."""

UNSERVED: dict[str, tuple[str, str | None]] = {
    "assistants": ("assistants", "openai_chat"),
    "audio": ("audio", "openai_chat"),
    "batches": ("batches", "openai_chat"),
    "completions": ("completions of a prompt, the API before chat", "openai_chat"),
    "embeddings": ("embeddings", "openai_chat"),
    "files": ("files", None),
    "fine_tuning": ("fine-tuning", "openai_chat"),
    "images": ("images", "openai_chat"),
    "messages/batches": ("batches", "anthropic"),
    "moderations": ("moderations", "openai_chat"),
    "responses/compact": ("compaction", "openai_responses"),
    "realtime": ("the realtime API", "openai_chat"),
    "threads": ("threads", "openai_chat"),
    "uploads": ("uploads", "openai_chat"),
    "vector_stores": ("vector stores", "openai_chat"),
    ":batchEmbedContents": ("embeddings", "gemini"),
    ":embedContent": ("embeddings", "gemini"),
    ":predict": ("images", "gemini"),
}
"""Endpoints that the vendors have and this gateway has not: what they are, and whose; by how a path begins or ends."""


def _unserved(tail: str) -> tuple[str | None, str | None]:
    whole = f"{tail}/"
    for place, told in UNSERVED.items():
        if tail.endswith(place) if place.startswith(":") else whole.startswith(f"{place}/"):
            return told
    return None, None


def _nearest(tail: str, known: list[Route]) -> Route | None:
    """The route that this path was meant to be, if it is like one in every segment that both have."""
    rated = [(rating, -len(route.path), route) for route in known if (rating := _likeness(tail, _tail(route.path)[0]))]
    return max(rated, key=lambda entry: entry[:2])[2] if rated else None


def _likeness(tail: str, wanted: str) -> float:
    """From 0, for paths of different things, to 1. One that is cut short is like the whole, a little less."""
    mine, verb = _parts(tail)
    theirs, their_verb = _parts(wanted)
    if bool(verb) != bool(their_verb) or not mine or len(mine) > len(theirs):
        return 0.0
    pairs = [*zip(mine, theirs, strict=False), (verb, their_verb)]
    likeness = min(1.0 if "{" in right else _similar(left, right) for left, right in pairs)
    return likeness if likeness >= _ALIKE else 0.0


_ALIKE = 0.75


def _parts(tail: str) -> tuple[list[str], str]:
    """Segments, and the verb behind a colon; before one, a model's name is one segment however many slashes it has."""
    before, colon, verb = tail.rpartition(":")
    return (before.split("/", 1), verb) if colon else (tail.split("/") if tail else [], "")


def _similar(left: str, right: str) -> float:
    if len(left) >= _SHORTEST and right.startswith(left):
        return max(_ALIKE, len(left) / len(right))
    if not left and not right:
        return 1.0
    if len(left) >= 2 * len(right):  # nothing has to be compared to know it
        return 0.0
    from difflib import SequenceMatcher  # needed for paths that nobody knows

    return SequenceMatcher(None, left, right).ratio()


_SHORTEST = 4
"""Letters of a beginning that say what was meant."""
