"""What the benchmark knows of a gateway: how it is installed and started, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.captures import Captured
from bench.gateway.answers import Dialect
from bench.gateway.cases import Case, Route

KEY = "bench"
"""What clients show to gateways, and gateways to the upstream."""

PATHS: dict[Dialect, str] = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/{model}:{method}",
}
METHODS = {False: "generateContent", True: "streamGenerateContent?alt=sse"}
"""What Gemini's path ends with, by whether the answer is streamed."""
HEADERS: dict[Dialect, dict[str, str]] = {
    "anthropic": {"x-api-key": KEY, "anthropic-version": "2023-06-01"},
    "openai_chat": {"authorization": f"Bearer {KEY}"},
    "openai_responses": {"authorization": f"Bearer {KEY}"},
    "gemini": {"x-goog-api-key": KEY},
}


class Python(NamedTuple):
    """Packages in a virtual environment."""

    packages: tuple[str, ...]
    distribution: str
    """The one whose version counts."""


class Here(NamedTuple):
    """A package of the environment in which the benchmark runs."""

    distribution: str


class Revision(NamedTuple):
    """This project at a revision of its git repository, with the packages of the environment in which the benchmark
    runs. Its source is in the folder `src`, and packages that this environment lacks are in `packages`."""

    name: str


class Node(NamedTuple):
    """A package in `node_modules`."""

    package: str
    version: str
    others: Mapping[str, str] = {}
    """Versions of packages that it needs, where the newest ones do not work."""


class Go(NamedTuple):
    """A program of a module."""

    package: str
    version: str


class Program(NamedTuple):
    """Something that must be on the machine."""

    name: str
    version: tuple[str, ...]
    """The command that prints its version."""


Fetched = Python | Node | Go
"""What comes from a registry."""
Install = Fetched | Here | Program | Revision


class Place(NamedTuple):
    """Where a gateway is started."""

    port: int
    upstream: int
    """The port of the upstream."""
    folder: Path
    """Empty, for this start alone."""
    home: Path
    """Where it was installed."""

    @property
    def upstream_url(self) -> str:
        return f"http://127.0.0.1:{self.upstream}"


class Launch(NamedTuple):
    """How it is started; `files` are written into the folder, where it runs."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = {}
    files: Mapping[str, str] = {}


def same_model(route: Route, model: str) -> str:
    return model


def no_headers(route: Route, place: Place) -> dict[str, str]:
    return {}


class Peer(NamedTuple):
    name: str
    title: str
    routes: tuple[Route, ...]
    launch: Callable[[Place], Launch] | None
    """None: nothing is started, and the upstream itself is asked."""
    install: Install | None
    """None: there is nothing to install, since nothing is started."""
    ready: str
    """A path that answers once requests can be answered."""
    health: str
    ready_status: int = 200
    """What it answers to `ready`; another one where it has no path for that, and says so."""
    translates: bool = True
    """One that does not is asked in the upstream's dialect."""
    model: Callable[[Route, str], str] = same_model
    """What clients call a model of the upstream."""
    headers: Callable[[Route, Place], dict[str, str]] = no_headers
    """What clients send beside their dialect's headers."""
    paths: Mapping[Dialect, str] = PATHS
    chooses_port: bool = False
    """It takes a free port itself, and writes it into the file `port`."""
    start_patience: float = 60.0
    library: Callable[[Path], Mapping[str, str]] | None = None
    """Of a version of this project installed here, the environment in which Python imports it."""
    settings: str = ""
    """What is set for speed, or else than by default; for the report."""

    def client(self, route: Route) -> Dialect:
        return route.client if self.translates else route.upstream

    def can_ask(self, case: Case) -> bool:
        """An agent's request can only be asked in its own dialect."""
        return not isinstance(case.asked, Captured) or self.client(case.route) == case.route.client

    def path(self, client: Dialect, model: str, *, streamed: bool) -> str:
        return self.paths[client].format(model=model, method=METHODS[streamed])
