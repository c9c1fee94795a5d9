"""Gateways that run, and one measurement of one of them."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from bench.captures import Captured
from bench.gateway.answers import BRIEF_CHUNKS, TEXT_CHUNKS, Dialect
from bench.gateway.cases import Case, Route, Style
from bench.gateway.measured import Measured, measured
from bench.gateway.native import Load, Tools
from bench.gateway.peers.record import HEADERS, Peer, Place
from bench.gateway.processes import Process, free_port, read_port, uninterrupted, wait_until_ready
from bench.gateway.requests import Asked, body, model_name
from bench.gateway.usage import seconds_between, snapshot

EXPECTED: dict[tuple[Dialect, bool], tuple[str, ...]] = {
    ("anthropic", False): ("tool_use", "file_name.txt"),
    ("anthropic", True): ("partial_json", "message_stop"),
    ("openai_chat", False): ("tool_calls", "file_name.txt"),
    ("openai_chat", True): ("tool_calls", "[DONE]"),
    ("openai_responses", False): ("function_call", "file_name.txt"),
    ("openai_responses", True): ("function_call_arguments.delta", "response.completed"),
    ("gemini", False): ("functionCall", "file_name.txt"),
    ("gemini", True): ("functionCall", "finishReason"),
}
"""What an answer must have in it, by the client's dialect and whether it is streamed."""


class Gateway(NamedTuple):
    """A peer that runs; without a process it is the upstream itself."""

    peer: Peer
    place: Place
    process: Process | None
    start_seconds: float


@contextlib.contextmanager
def started(peer: Peer, upstream: int, home: Path, folder: Path, cores: Collection[int]) -> Iterator[Gateway]:
    """Starts a peer in an empty folder, and waits until it is ready."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    place = Place(free_port(), upstream, folder, home)
    if peer.launch is None:
        yield Gateway(peer, place._replace(port=upstream), None, 0.0)
        return
    launch = peer.launch(place)
    for name, content in launch.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        with uninterrupted():
            process = Process(launch.command, cores, folder / "output.log", launch.environment)
            stack.callback(process.stop)
        if peer.chooses_port:
            place = place._replace(port=read_port(process, folder / "port", peer.start_patience))
        wait_until_ready(process, place.port, peer.ready, peer.ready_status, peer.start_patience)
        yield Gateway(peer, place, process, time.monotonic() - begin)


WARMING_CONNECTIONS = 8


def warm_up(tools: Tools, gateway: Gateway, routes: Collection[Route], seconds: float) -> None:
    """Asks a new gateway a while on each of the routes that it serves: a compiler at run time has then seen them, and
    caches are filled."""
    served = [route for route in gateway.peer.routes if route in routes]
    for route, streamed in itertools.product(served, (False, True)):
        asked = load_options(gateway, route, "small", Style(streamed=streamed))
        with tools.load([*asked, f"--connections={WARMING_CONNECTIONS}", f"--seconds={seconds}"]) as load:
            load.wait_for_window()
            load.figures()


class Keeper:
    """A gateway that can be started anew, and is ended with the stack that it is kept by."""

    def __init__(self, start: Callable[[], AbstractContextManager[Gateway]], stack: contextlib.ExitStack):
        self._start = start
        self._own = stack.enter_context(contextlib.ExitStack())
        self.gateway = self._own.enter_context(start())

    def restart(self) -> None:
        self._own.close()
        self.gateway = self._own.enter_context(self._start())


QUIET_WINDOW, QUIET_SHARE, QUIET_PATIENCE = 0.05, 0.2, 3.0
"""Seconds that are looked at, the share of them in which a gateway may still work, and seconds that it has for that."""


def becomes_quiet(gateway: Gateway) -> bool:
    """Whether it is done, soon after all clients have left, with what they had asked."""
    if gateway.process is None:
        return True
    end = time.monotonic() + QUIET_PATIENCE
    before = snapshot(gateway.process.session)
    while time.monotonic() < end:
        time.sleep(QUIET_WINDOW)
        now = snapshot(gateway.process.session)
        if seconds_between(before, now) < QUIET_SHARE * QUIET_WINDOW:
            return True
        before = now
    return False


class Effort(NamedTuple):
    """How long is measured, in seconds."""

    seconds: float
    warm_up: float
    longest: float
    """For those that are so slow that there would be next to nothing to count."""
    least_requests: int = 30
    least_chunks: int = 2000


def load_options(gateway: Gateway, route: Route, asked: Asked, style: Style) -> list[str]:
    """What is asked of a gateway; the body is written into its folder."""
    peer, place = gateway.peer, gateway.place
    client, streamed = peer.client(route), style.streamed
    model = peer.model(route, model_name(route.upstream, style.pace, brief=style.is_brief))
    name = asked.name if isinstance(asked, Captured) else asked
    path = place.folder / f"{client}-{name}-{'stream' if streamed else 'plain'}-{model.replace('/', '-')}.json"
    chunks = BRIEF_CHUNKS if style.is_brief else TEXT_CHUNKS
    path.write_bytes(body(client, asked, model=model, streamed=streamed))
    headers = HEADERS[client] | peer.headers(route, place)
    return [
        *("--port", str(place.port), "--path", peer.path(client, model, streamed=streamed), "--body", str(path)),
        *(f"--header={name}: {value}" for name, value in headers.items()),
        *(f"--expect={text}" for text in EXPECTED[client, streamed]),
        *("--marks", str(chunks if streamed else 1)),
    ]


@contextlib.contextmanager
def under_load(tools: Tools, gateway: Gateway, case: Case, effort: Effort) -> Iterator[Load]:
    """From the beginning of the measured time."""
    asked = load_options(gateway, case.route, case.asked, case.style)
    by_chunks = case.style.streamed and not case.style.is_brief
    least = ("--least-marks", effort.least_chunks) if by_chunks else ("--least-requests", effort.least_requests)
    # Streams that are paced begin one after the other, so that their chunks do not all come at once.
    ramp = effort.warm_up if case.style.pace else 0.0
    timing = {
        "--connections": case.connections,
        "--seconds": effort.seconds,
        "--warm-up": effort.warm_up,
        "--ramp": ramp,
        "--longest": effort.longest,
        least[0]: least[1],
    }
    with tools.load([*asked, *(f"{name}={value}" for name, value in timing.items())]) as load:
        load.wait_for_window()
        yield load


def measure(tools: Tools, gateway: Gateway, case: Case, effort: Effort) -> Measured:
    with under_load(tools, gateway, case, effort) as load:
        session = gateway.process.session if gateway.process else None
        before = snapshot(session) if session else None
        figures = load.figures()
        used = seconds_between(before, snapshot(session)) if session and before else 0.0
    return measured(figures, used, case)
