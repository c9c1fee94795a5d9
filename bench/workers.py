"""`python -m bench.workers`: what a second worker adds, and that no stream is lost when workers are replaced.

Gateways with one worker and with more are measured in turns, by the same upstream and the same clients. Nothing has a
core of its own here: upstream and clients take their share of the same cores, which bounds what more workers can add.
It takes two minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import msgspec

from bench.gateway.cases import ANTHROPIC_TO_CHAT, RESPONSES_TO_CHAT, Case
from bench.gateway.machine import machine
from bench.gateway.native import LoadError, NoCompilerError, Tools, Upstream, UpstreamEndedError
from bench.gateway.peers.toolglot import TOOLGLOT, launch
from bench.gateway.processes import NotReadyError, all_cores, halted, need_taskset, obey_interruptions
from bench.gateway.results import ratio
from bench.gateway.running import Effort, Gateway, becomes_quiet, started, under_load, warm_up
from bench.gateway.tables import Table, as_text, number, times
from bench.gateway.usage import connections, members, processor_seconds, seconds_between, snapshot

HERE = Path(__file__).parent
CACHE = HERE / ".cache"

CONNECTIONS = 64
QUICK = Effort(0.6, warm_up=0.2, longest=10.0)
THOROUGH = Effort(2.0, warm_up=0.5, longest=10.0)
NOTE = """\
possible: what the upstream and the clients leave of the cores; reached: the part of it that is there
CPU ms: of the gateway for a request, with one worker and with several; others: of the upstream and the clients
cores: that all of them together had with several workers; if not all, somebody else was busy as well
spread: the most connections that one worker had"""
REPLACING = 6.0
"""Seconds in which a stream that had begun ends, and another one on its connection."""
LEAVING = 60.0
"""Seconds after which a worker that still runs is a fault."""


def cases(count: int) -> dict[str, Case]:
    """First those in which the gateway does most of the work."""
    return {
        "Responses -> Chat": Case(RESPONSES_TO_CHAT, "plain", "small", count),
        "Messages -> Chat, 55 KB": Case(ANTHROPIC_TO_CHAT, "plain", "large", count),
        "Messages -> Chat, streams": Case(ANTHROPIC_TO_CHAT, "burst", "small", count),
        "Messages -> Chat": Case(ANTHROPIC_TO_CHAT, "plain", "small", count),
    }


class Run(msgspec.Struct, frozen=True):
    """One measurement of one gateway."""

    requests_per_second: float
    gateway_ms: float
    """Milliseconds of CPU for a request: of all processes of the gateway,"""
    others_ms: float
    """and of the upstream and the clients together."""
    connections: list[int]
    """Of each worker; none, where the clients had gone before they could be counted."""
    errors: int
    bad: int


class Row(msgspec.Struct, frozen=True):
    """A case."""

    name: str
    one: list[Run]
    """With one worker,"""
    many: list[Run]
    """and with several."""


class Replaced(msgspec.Struct, frozen=True):
    """What became of streams while all workers were replaced."""

    streams: int
    """That came to their end."""
    lost: int
    """That broke off, were refused or lack something."""
    gap_p99: float
    """Milliseconds between two chunks of a stream that are sent 10 ms apart."""


class Results(msgspec.Struct, frozen=True):
    date: str
    command: str
    machine: dict[str, str]
    cores: int
    workers: int
    rows: list[Row]
    replaced: list[Replaced]


class Bench:
    """Gateways with one worker and with several."""

    def __init__(self, tools: Tools, upstream: Upstream, effort: Effort, gateways: Sequence[Gateway]):
        self.tools = tools
        self.upstream = upstream
        self.effort = effort
        self.gateways = gateways

    def measure(self, case: Case) -> Iterator[Run]:
        """With one worker, then with several."""
        for gateway in self.gateways:
            with halted([other.process for other in self.gateways if other is not gateway and other.process]):
                yield self._measure(gateway, case)

    def _measure(self, gateway: Gateway, case: Case) -> Run:
        assert gateway.process is not None
        session = gateway.process.session
        with under_load(self.tools, gateway, case, self.effort) as load:
            others = (load.pid, self.upstream.pid)
            before, before_others = snapshot(session), sum(map(processor_seconds, others))
            time.sleep(self.effort.seconds / 2)  # a worker that is busy takes connections one by one
            spread = connections(session, gateway.place.port)
            figures = load.figures()
            used = seconds_between(before, snapshot(session))
            used_by_others = sum(map(processor_seconds, others)) - before_others
        self.upstream.check()
        if not figures.requests:
            raise LoadError(f"{case.name}: nothing was answered: {figures.first_error}")
        becomes_quiet(gateway)
        return Run(
            requests_per_second=figures.requests / figures.seconds,
            gateway_ms=1e3 * used / figures.requests,
            others_ms=1e3 * used_by_others / figures.requests,
            connections=spread,
            errors=figures.errors,
            bad=figures.bad,
        )

    def replace(self, count: int, seconds: float = REPLACING) -> Replaced:
        """Replaces all workers while so many streams go on, and others begin."""
        gateway = self.gateways[-1]
        assert gateway.process is not None
        case = Case(ANTHROPIC_TO_CHAT, "paced", "small", count)
        with under_load(self.tools, gateway, case, self.effort._replace(seconds=seconds)) as load:
            before = workers_of(gateway)
            os.kill(gateway.process.session, signal.SIGUSR2)
            figures = load.figures()
        end = time.monotonic() + LEAVING
        while stayed := before & workers_of(gateway):
            if time.monotonic() > end:
                raise NotReadyError(f"{len(stayed)} of {len(before)} workers stay: {gateway.process.told()}")
            time.sleep(0.01)
        return Replaced(figures.requests, figures.errors + figures.bad, figures.gap_p99)


def workers_of(gateway: Gateway) -> set[int]:
    """The processes of a gateway but for the parent."""
    assert gateway.process is not None
    parent = gateway.process.session
    return {int(folder.name) for folder in members(parent)} - {parent}


@contextlib.contextmanager
def running(workers: int, effort: Effort, programs: Path = CACHE / "bin") -> Iterator[Bench]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)))
        tools = Tools(programs.absolute(), all_cores())
        upstream = stack.enter_context(tools.upstream())
        gateways: list[Gateway] = []
        for count in (1, workers):
            peer = TOOLGLOT._replace(launch=partial(launch, workers=count))
            place = folder / f"{count}"
            gateways.append(stack.enter_context(started(peer, upstream.port, place, place, tools.cores.gateway)))
            warm_up(tools, gateways[-1], (ANTHROPIC_TO_CHAT, RESPONSES_TO_CHAT), effort.warm_up)
        yield Bench(tools, upstream, effort, gateways)


def measured(bench: Bench, chosen: dict[str, Case], repeat: int) -> list[Row]:
    rows = [Row(name, [], []) for name in chosen]
    for _ in range(repeat):
        for row, case in zip(rows, chosen.values(), strict=True):
            for runs, run in zip((row.one, row.many), bench.measure(case), strict=True):
                runs.append(run)
            one, many = row.one[-1], row.many[-1]
            added = ratio(many.requests_per_second, one.requests_per_second)
            rates = f"{one.requests_per_second:>10,.0f} {many.requests_per_second:>10,.0f}"
            print(f"{row.name:28}{rates}  {times(added)}  {cores_had(many):.2f} cores", file=sys.stderr)
    return rows


def middle(runs: Sequence[Run], figure: Callable[[Run], float]) -> float:
    return median(map(figure, runs))


def rate(run: Run) -> float:
    return run.requests_per_second


def gateway_ms(run: Run) -> float:
    return run.gateway_ms


def others_ms(run: Run) -> float:
    return run.others_ms


def cores_had(run: Run) -> float:
    return run.requests_per_second * (run.gateway_ms + run.others_ms) / 1e3


def possible(row: Row, cores: int, workers: int) -> float:
    """How many times as much several workers could do as one, since upstream and clients need the cores as well."""
    gateway, others = middle(row.one, gateway_ms), middle(row.one, others_ms)
    return min(float(workers), cores * gateway / (gateway + others))


def table(results: Results) -> Table:
    figures = ("ratio", "possible", "reached", "CPU ms", "others", "cores", "spread")
    head = ("requests a second", "1 worker", f"{results.workers} workers", *figures)
    return Table("Workers", head, [_cells(results, row) for row in results.rows], NOTE)


def _cells(results: Results, row: Row) -> tuple[str, ...]:
    one, many = (middle(runs, rate) for runs in (row.one, row.many))
    limit = possible(row, results.cores, results.workers)
    gateway = [number(middle(runs, gateway_ms)) for runs in (row.one, row.many)]
    most = max((run.connections for run in row.many), key=lambda counts: max(counts, default=0))
    wrong = sum(run.errors + run.bad for run in (*row.one, *row.many))
    return (
        row.name + (f" ({wrong} wrong)" if wrong else ""),
        number(one),
        number(many),
        times(ratio(many, one)),
        times(limit),
        f"{many / one / limit:.0%}",
        " / ".join(gateway),
        number(middle(row.one, others_ms)),
        f"{middle(row.many, cores_had):.2f}",
        f"{max(most, default=0)} of {sum(most)}",
    )


def told_of_replacing(results: Results) -> str:
    streams, lost = sum(each.streams for each in results.replaced), sum(each.lost for each in results.replaced)
    gap = max((each.gap_p99 for each in results.replaced), default=0.0)
    return (
        f"All workers were replaced {len(results.replaced)} times while streams went on with 10 ms between chunks: "
        f"{streams} came to their end, {lost} did not; of the gaps 99 % were {number(gap)} ms at most."
    )


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.workers", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--quick", action="store_true", help="in half a minute")
    parser.add_argument("--workers", type=int, default=2, help="beside one (2)")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help=f"of the clients ({CONNECTIONS})")
    parser.add_argument("--only", metavar="TEXT", default="", help="the cases with this in their names")
    parser.add_argument("--repeat", type=int, help="how often each case is measured; the median counts")
    parser.add_argument("--output", type=Path, help="the file for the numbers")
    chosen = parser.parse_args(arguments)
    if chosen.workers < 2:
        parser.error("--workers: two at least, to compare one with")
    if not any(chosen.only in name for name in cases(chosen.connections)):
        parser.error(f"--only: there is no case with {chosen.only!r}: {', '.join(cases(chosen.connections))}")
    return chosen


def output(chosen: argparse.Namespace) -> Path:
    """What is not the whole run does not overwrite its results."""
    if chosen.output:
        return Path(chosen.output)
    whole = not chosen.quick and not chosen.only and chosen.connections == CONNECTIONS
    return (HERE if whole else CACHE / "part") / "workers.json"


def run(chosen: argparse.Namespace, command: str) -> Results:
    effort, repeat = (QUICK, 2) if chosen.quick else (THOROUGH, 5)
    repeat = chosen.repeat or repeat
    wanted = {name: case for name, case in cases(chosen.connections).items() if chosen.only in name}
    with running(chosen.workers, effort) as bench:
        return Results(
            date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            command=command,
            machine=machine(),
            cores=len(bench.tools.cores.gateway),
            workers=chosen.workers,
            rows=measured(bench, wanted, repeat),
            replaced=[bench.replace(chosen.connections) for _ in range(min(repeat, 2))],
        )


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = options(arguments)
    need_taskset()
    obey_interruptions()
    command = shlex.join(["python", "-m", "bench.workers", *(sys.argv[1:] if arguments is None else arguments)])
    try:
        results = run(chosen, command)
    except (NoCompilerError, NotReadyError, LoadError, UpstreamEndedError) as problem:
        raise SystemExit(str(problem)) from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted: everything that was started has been ended") from None
    path = output(chosen)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    print(as_text(table(results)), "", told_of_replacing(results), f"written to {path}", sep="\n")


if __name__ == "__main__":
    main()
