"""A run: the gateways are installed, started, checked and measured in turns.

What fails is told and left out, and whatever has been found out is given away at once: a run takes long.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from bench.gateway.cases import ANTHROPIC_TO_CHAT, Case, Route
from bench.gateway.checks import UselessError, faults
from bench.gateway.installing import Installed, InstallError, install
from bench.gateway.library import LibraryError, library_costs
from bench.gateway.machine import machine
from bench.gateway.measured import Measured, middle
from bench.gateway.native import LoadError, Tools, Upstream
from bench.gateway.peers.record import Peer
from bench.gateway.processes import NotReadyError, allow_many_files, cores, halted, listed
from bench.gateway.requests import body, model_name
from bench.gateway.results import About, Results, Row, Standing
from bench.gateway.running import Effort, Gateway, Keeper, becomes_quiet, measure, started, warm_up
from bench.gateway.standing import Plan, stand

FILES_BESIDE_STREAMS = 200
"""Files that a gateway has open for other things than streams, of which each takes two."""


class Wishes(NamedTuple):
    """What is to be measured, and how thoroughly."""

    peers: Sequence[Peer]
    cases: Sequence[Case]
    repeat: int
    effort: Effort
    plans: Sequence[Plan]
    starts: int
    """How often each gateway is started to see how long it takes; 0 leaves that out, and the slow streams."""


Tell = Callable[[str], None]
Keep = Callable[[Results], None]
"""Takes what is known so far."""

GATEWAY_TROUBLES = (NotReadyError, LoadError, OSError)
"""What may go wrong with one gateway; the others go on."""


class Session:
    def __init__(self, wishes: Wishes, cache: Path, folder: Path, tell: Tell, keep: Keep):
        self.wishes = wishes
        self.cache = cache
        self.folder = folder
        self.tell = tell
        self.keep = keep
        self.cores = cores()
        self.machine = machine()
        self.most_streams = (allow_many_files() - FILES_BESIDE_STREAMS) // 2
        self.about = {peer.name: About(peer.name, peer.title, settings=peer.settings) for peer in wishes.peers}
        self.installed: dict[str, Installed] = {}
        self.served: dict[str, list[Route]] = {}
        """By the names of gateways, the routes on which they answer."""
        self.runs: dict[tuple[str, Case], list[Measured]] = {}
        """By gateway and case."""
        self.library: dict[tuple[str, Case], float] = {}
        """By gateway and case, microseconds of CPU for the request in the library alone."""
        self.standings: list[Standing] = []

    def run(self) -> Results:
        tools = Tools(self.cache / "bin", self.cores)
        self._install()
        self._measure_libraries()
        with tools.upstream() as upstream:
            self._measure_all(tools, upstream)
            if self.wishes.starts:
                self._stand_all(tools, upstream)
        return self.results()

    def results(self) -> Results:
        """What is known so far."""
        return Results(
            date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            machine=self.machine,
            settings=self._settings(),
            gateways=list(self.about.values()),
            rows=[_row(name, case, of, self.library.get((name, case))) for (name, case), of in self.runs.items()],
            standings=list(self.standings),
        )

    def _settings(self) -> dict[str, str]:
        effort = self.wishes.effort
        seconds = f"{effort.seconds:g} after {effort.warm_up:g} of warming up, {effort.longest:g} at most of the slow"
        return {
            "core of the gateway": listed(self.cores.gateway),
            "core of the upstream": listed(self.cores.upstream),
            "core of the load": listed(self.cores.load),
            "seconds measured": seconds,
            "runs of each case": str(self.wishes.repeat),
        }

    def _fail(self, name: str, trouble: str) -> None:
        self.tell(f"{name}: {trouble}")
        self.about[name].trouble = trouble

    def _find_fault(self, name: str, fault: str) -> None:
        self.tell(f"{name}: {fault}")
        if fault not in self.about[name].faults:
            self.about[name].faults.append(fault)

    def _usable(self) -> list[Peer]:
        return [peer for peer in self.wishes.peers if self.about[peer.name].trouble is None]

    def _install(self) -> None:
        for peer in self.wishes.peers:
            about = self.about[peer.name]
            try:
                self.installed[peer.name] = installed = install(peer, self.cache)
            except InstallError as problem:
                self._fail(peer.name, f"not installed: {problem}")
                continue
            about.version, about.size = installed.version, installed.size
            if installed.version:
                self.tell(f"{peer.name} {installed.version}")

    def _measure_libraries(self) -> None:
        for peer in self._usable():
            cases = [case for case in self.wishes.cases if case.manner in ("plain", "agent")]
            if peer.library is None:
                continue
            try:
                environment = peer.library(self.installed[peer.name].home)
                costs = library_costs(cases, environment, self.cores.gateway)
                self.library |= {(peer.name, case): cost for case, cost in costs.items()}
            except LibraryError as problem:
                self._find_fault(peer.name, f"library, not measured: {problem}")

    def _start(self, peer: Peer, upstream: Upstream) -> AbstractContextManager[Gateway]:
        home = self.installed[peer.name].home
        return started(peer, upstream.port, home, self.folder / peer.name, self.cores.gateway)

    @contextlib.contextmanager
    def _start_warm(self, tools: Tools, peer: Peer, upstream: Upstream) -> Iterator[Gateway]:
        with self._start(peer, upstream) as gateway:
            routes = {case.route for case in self.wishes.cases}
            warm_up(tools, gateway, routes, self.wishes.effort.warm_up)
            yield gateway

    def _start_all(self, tools: Tools, upstream: Upstream, stack: contextlib.ExitStack) -> list[Keeper]:
        keepers: list[Keeper] = []
        for peer in self._usable():
            try:
                keepers.append(Keeper(functools.partial(self._start_warm, tools, peer, upstream), stack))
            except GATEWAY_TROUBLES as problem:
                self._fail(peer.name, f"not started: {problem}")
        return keepers

    def _check(self, gateway: Gateway) -> None:
        """Only routes on which it answers at all are measured."""
        name = gateway.peer.name
        self.served[name] = []
        for route in gateway.peer.routes:
            try:
                for fault in faults(gateway, route):
                    self._find_fault(name, f"{route.name}, {fault}")
                self.served[name].append(route)
            except UselessError as problem:
                self._find_fault(name, f"{route.name}, not measured: {problem}")

    def _measure_all(self, tools: Tools, upstream: Upstream) -> None:
        with contextlib.ExitStack() as stack:
            keepers = self._start_all(tools, upstream, stack)
            for keeper in keepers:
                self._check(keeper.gateway)
            for number in range(self.wishes.repeat):
                for case in self.wishes.cases:
                    self.tell(f"{number + 1}/{self.wishes.repeat} {case.name}")
                    for keeper in keepers:
                        self._measure_alone(tools, upstream, keeper, case, keepers)
                    self.keep(self.results())

    def _measure_alone(
        self, tools: Tools, upstream: Upstream, keeper: Keeper, case: Case, keepers: list[Keeper]
    ) -> None:
        """While the others are halted."""
        name = keeper.gateway.peer.name
        if (
            case.route not in self.served[name]
            or not keeper.gateway.peer.can_ask(case)
            or self.about[name].trouble is not None
        ):
            return
        others = [other.gateway.process for other in keepers if other is not keeper]
        with halted([process for process in others if process is not None]):
            try:
                self._measure_once(tools, upstream, keeper, case)
            except GATEWAY_TROUBLES as problem:
                self._find_fault(name, f"{case.name}, not measured: {problem}")
                self._restart(keeper, case)

    def _measure_once(self, tools: Tools, upstream: Upstream, keeper: Keeper, case: Case) -> None:
        name, process = keeper.gateway.peer.name, keeper.gateway.process
        found = measure(tools, keeper.gateway, case, self.wishes.effort)
        upstream.check()
        if process is not None and not process.running:
            raise NotReadyError(f"it ended: {process.told(300)}")
        self.runs.setdefault((name, case), []).append(found)
        self.tell(f"  {name:20}{_brief(found, case)}")
        # What is left over of one case must not be a part of the next.
        if not becomes_quiet(keeper.gateway):
            self.tell(f"  {name} is still busy with requests whose clients have left: started anew")
            self._restart(keeper, case)

    def _restart(self, keeper: Keeper, case: Case) -> None:
        try:
            keeper.restart()
        except GATEWAY_TROUBLES as problem:
            self._fail(keeper.gateway.peer.name, f"not started again after {case.name}: {problem}")

    def _stand_all(self, tools: Tools, upstream: Upstream) -> None:
        plans = [plan._replace(streams=min(plan.streams, self.most_streams)) for plan in self.wishes.plans]
        for peer in self._usable():
            routes = self.served.get(peer.name)
            if not routes:
                continue
            route = ANTHROPIC_TO_CHAT if ANTHROPIC_TO_CHAT in routes else routes[0]
            self.tell(f"{peer.name}: start, memory, slow streams")
            try:
                found = stand(tools, functools.partial(self._start, peer, upstream), route, plans, self.wishes.starts)
            except GATEWAY_TROUBLES as problem:
                self._fail(peer.name, f"slow streams: {problem}")
                continue
            upstream.check()
            self.standings.append(found)
            self.keep(self.results())
            self.tell(f"  {_brief_standing(found)}")


def _row(name: str, case: Case, runs: list[Measured], library_us: float | None) -> Row:
    return Row(name, *case.key, len(runs), middle(runs), _request_bytes(case), library_us)


@functools.cache
def _request_bytes(case: Case) -> int:
    model = model_name(case.route.upstream)
    return len(body(case.route.client, case.asked, model=model, streamed=case.style.streamed))


def _brief(found: Measured, case: Case) -> str:
    """A line for the impatient."""
    by_chunks = case.manner in ("burst", "paced")
    cpu = found.cpu_seconds_per_100k_chunks if by_chunks else found.cpu_ms_per_request
    unit = "s CPU/100k chunks" if by_chunks else "ms CPU/request"
    wrong = f"  errors {found.errors}, bad {found.bad}: {found.first_error}" if found.errors or found.bad else ""
    if case.manner == "brief":
        return f"{found.first_byte_p50 or 0:10.3f} ms to the first byte{wrong}"
    count, what = (found.chunks_per_second, "chunks") if by_chunks else (found.requests_per_second, "requests")
    speed = f"{count:,.0f} {what}/s"
    return f"{'-' if cpu is None else f'{cpu:.3f}':>10} {unit:18}{speed:>20}{wrong}"


def _brief_standing(found: Standing) -> str:
    parts = [] if found.start_seconds is None else [f"ready after {found.start_seconds:.2f} s"]
    parts += [] if found.idle_memory is None else [f"{found.idle_memory / 1e6:.0f} MB idle"]
    for held in found.held:
        parts.append(f"{held.streams} streams: {held.memory / 1e6:.0f} MB, {held.on_time:.1%} on time")
        parts.append("no answer after" if held.health_ms is None else f"health in {held.health_ms:.0f} ms after")
    return ", ".join(parts)
