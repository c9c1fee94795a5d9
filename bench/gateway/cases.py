"""What is measured: by whom something is asked of whom, how it is answered, how large the request is, and how many ask
at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from bench.captures import Captured
from bench.gateway.answers import Dialect
from bench.gateway.requests import Asked, Size

Manner = Literal["plain", "burst", "paced", "brief", "agent"]

PACE = 10
"""Milliseconds between the chunks of a paced stream."""


class Style(NamedTuple):
    """How an answer comes."""

    streamed: bool = True
    pace: int = 0
    is_brief: bool = False


STYLES: dict[Manner, Style] = {
    "plain": Style(streamed=False),
    "burst": Style(),
    "paced": Style(pace=PACE),
    "brief": Style(pace=PACE, is_brief=True),
    "agent": Style(streamed=False),
}
"""As a whole; as a stream that is sent at once; as one with a pause between chunks; as such a one that is over soon;
and, to a request of a real agent, as a whole, so that the request is most of the cost."""

WORDS: dict[Dialect, str] = {
    "openai_chat": "chat",
    "openai_responses": "responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
}


class Route(NamedTuple):
    """What the client speaks, and what the upstream speaks."""

    client: Dialect
    upstream: Dialect

    @property
    def name(self) -> str:
        return f"{WORDS[self.client]}->{WORDS[self.upstream]}"


ANTHROPIC_TO_CHAT = Route("anthropic", "openai_chat")
CHAT_TO_CHAT = Route("openai_chat", "openai_chat")
CHAT_TO_ANTHROPIC = Route("openai_chat", "anthropic")
RESPONSES_TO_CHAT = Route("openai_responses", "openai_chat")
ROUTES = (ANTHROPIC_TO_CHAT, CHAT_TO_CHAT, CHAT_TO_ANTHROPIC, RESPONSES_TO_CHAT)
"""Those on which other gateways are compared, case by case."""
PAIRS = tuple(Route(client, upstream) for client in WORDS for upstream in WORDS)
"""All of them."""
UNTRANSLATED = tuple(route for route in PAIRS if route.client == route.upstream)


Key = tuple[str, Manner, str, int]
"""A case in words: route, manner, request and connections."""


class Case(NamedTuple):
    route: Route
    manner: Manner
    asked: Asked
    connections: int

    @property
    def key(self) -> Key:
        size = self.asked.name if isinstance(self.asked, Captured) else self.asked
        return self.route.name, self.manner, size, self.connections

    @property
    def name(self) -> str:
        """As `--cases` takes it: `anthropic->chat/plain/8`, with `-large` or `-` and an agent's request after the
        manner."""
        route, manner, size, connections = self.key
        return f"{route}/{manner}{'' if size == 'small' else f'-{size}'}/{connections}"

    @property
    def style(self) -> Style:
        return STYLES[self.manner]


ALL_CONNECTIONS = (1, 8, 64, 256, 1000)
_PLAIN: tuple[Manner, Size] = ("plain", "small")
_LARGE: tuple[Manner, Size] = ("plain", "large")
_BURST: tuple[Manner, Size] = ("burst", "small")
_PACED: tuple[Manner, Size] = ("paced", "small")
_BRIEF: tuple[Manner, Size] = ("brief", "small")

Chosen = tuple[tuple[tuple[Route, ...], tuple[Manner, Size], tuple[int, ...]], ...]

_OF_PAIRS: Chosen = (
    (PAIRS, _PLAIN, (64,)),
    (PAIRS, _BURST, (8,)),
    (PAIRS, _PACED, (64, 256)),
)
_CHOSEN: Chosen = (
    *_OF_PAIRS,
    ((ANTHROPIC_TO_CHAT,), _PLAIN, ALL_CONNECTIONS),
    ((ANTHROPIC_TO_CHAT,), _LARGE, (1, 8, 64)),
    ((ANTHROPIC_TO_CHAT,), _BURST, ALL_CONNECTIONS),
    ((ANTHROPIC_TO_CHAT,), _PACED, ALL_CONNECTIONS),
    ((ANTHROPIC_TO_CHAT,), _BRIEF, (8, 64)),
    (ROUTES[1:], _PLAIN, (8,)),
    (ROUTES[1:], _LARGE, (8,)),
    (ROUTES[1:], _BURST, (64,)),
    (ROUTES[1:], _BRIEF, (8,)),
)
_CHOSEN_QUICKLY: Chosen = (
    *_OF_PAIRS,
    ((ANTHROPIC_TO_CHAT,), _PLAIN, (8,)),
    ((ANTHROPIC_TO_CHAT,), _LARGE, (8,)),
    ((ANTHROPIC_TO_CHAT,), _BRIEF, (8,)),
)


def _cases(chosen: Chosen) -> tuple[Case, ...]:
    """Each once, however often it was chosen."""
    return tuple(
        dict.fromkeys(
            Case(route, manner, size, connections)
            for routes, (manner, size), counts in chosen
            for connections in counts
            for route in routes
        )
    )


FULL = _cases(_CHOSEN)
QUICK = _cases(_CHOSEN_QUICKLY)


AGENT_CONNECTIONS = 8


def agent_cases(requests: Iterable[Captured]) -> tuple[Case, ...]:
    """Every request to every upstream; those of other dialects are left out."""
    return tuple(
        Case(route, "agent", request, AGENT_CONNECTIONS)
        for request in requests
        for route in PAIRS
        if route.client == request.dialect
    )


def matching(cases: tuple[Case, ...], patterns: tuple[str, ...]) -> tuple[Case, ...]:
    """Those whose names have one of the texts in them; all, if there are no texts."""
    return tuple(case for case in cases if not patterns or any(pattern in case.name for pattern in patterns))
