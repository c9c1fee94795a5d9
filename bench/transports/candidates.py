"""This gateway once for each way over the network."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from bench.gateway.cases import ANTHROPIC_TO_CHAT
from bench.gateway.peers.record import Here, Launch, Peer, Place, Python
from bench.gateway.peers.toolglot import TOOLGLOT, launch
from bench.transports.serve import OPENERS, TRANSPORT

ROOT = Path(__file__).parents[2]
PYREQWEST = Python(("pyreqwest==0.15.1",), "pyreqwest")

_DESCRIBED: dict[str, tuple[str, Here | Python]] = {
    "express": ("lean, express lane", Here("httptools")),
    "lean": ("lean", Here("httptools")),
    "aiohttp": ("aiohttp", Here("aiohttp")),
    "pyreqwest": ("pyreqwest", PYREQWEST),
}
"""What each is called, and what it stands on."""


def basis(name: str) -> str:
    """The distribution that a candidate stands on."""
    return _DESCRIBED[name][1].distribution


def search_path(home: Path) -> str:
    """Where Python finds this benchmark, and what was installed for it alone."""
    return os.pathsep.join(map(str, (ROOT, *(home / "lib").glob("python*/site-packages"))))


def _launch(name: str, place: Place) -> Launch:
    ours = launch(place)
    command = (sys.executable, "-m", "bench.transports.serve", *ours.command[3:])
    return ours._replace(command=command, environment={TRANSPORT: name, "PYTHONPATH": search_path(place.home)})


CANDIDATES: dict[str, Peer] = {
    name: TOOLGLOT._replace(
        name=name,
        title=_DESCRIBED[name][0],
        routes=(ANTHROPIC_TO_CHAT,),
        launch=partial(_launch, name),
        install=_DESCRIBED[name][1],
    )
    for name in OPENERS
}
