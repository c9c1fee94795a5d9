"""How long a gateway takes to start, and what it takes to hold many slow streams."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from statistics import median
from typing import NamedTuple

from bench.gateway.cases import ROUTES, Route, Style
from bench.gateway.native import Tools
from bench.gateway.processes import status_of
from bench.gateway.results import Held, Standing
from bench.gateway.running import Gateway, load_options, warm_up
from bench.gateway.usage import memory


class Plan(NamedTuple):
    """So many streams with so many milliseconds between chunks; how long they may take to begin, and are watched."""

    streams: int
    pace: int
    ramp: float
    seconds: float


SETTLING = 0.5
"""Seconds after the start before the memory of a gateway that does nothing is read."""
WARMING = 0.3
"""Seconds for which it is then asked in each way."""
HEALTH_PATIENCE = 60.0


def stand(
    tools: Tools, start: Callable[[], AbstractContextManager[Gateway]], route: Route, plans: list[Plan], starts: int
) -> Standing:
    """Starts a gateway several times, and has the last one hold streams."""
    times: list[float] = []
    for _ in range(starts - 1):
        with start() as gateway:
            times.append(gateway.start_seconds)
    with start() as gateway:
        times.append(gateway.start_seconds)
        session = gateway.process.session if gateway.process else None
        time.sleep(SETTLING)
        idle = memory(session) if session else None
        warm_up(tools, gateway, ROUTES, WARMING)
        time.sleep(SETTLING)
        warm = memory(session) if session else None
        held = [hold(tools, gateway, route, plan) for plan in plans]
    return Standing(gateway.peer.name, median(times) if session else None, idle, warm, held)


def hold(tools: Tools, gateway: Gateway, route: Route, plan: Plan) -> Held:
    asked = load_options(gateway, route, "small", Style(pace=plan.pace))
    # A stream has 187 chunks with text, so that at a slow pace every stream is in its text all the while.
    timing = {
        "--connections": plan.streams,
        "--ramp": plan.ramp,
        "--warm-up": 1.5 * plan.ramp,
        "--seconds": plan.seconds,
        "--late": plan.pace,
    }
    with tools.load([*asked, *(f"{name}={value}" for name, value in timing.items())]) as load:
        load.wait_for_window()
        time.sleep(0.8 * plan.seconds)
        used = memory(gateway.process.session) if gateway.process else 0
        figures = load.figures()
        left = time.monotonic()
        well = status_of(gateway.place.port, gateway.peer.health, HEALTH_PATIENCE)
        took = 1e3 * (time.monotonic() - left)
    due = plan.streams * figures.seconds * 1e3 / plan.pace
    return Held(
        streams=plan.streams,
        open=figures.open,
        pace=plan.pace,
        memory=used,
        on_time=min(1.0, (figures.marks - figures.late) / due),
        health_ms=took if well is not None else None,
    )
