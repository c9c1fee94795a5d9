"""What this gateway should reach, against what the run found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.gateway.cases import ANTHROPIC_TO_CHAT, PAIRS, Case, Manner
from bench.gateway.measured import Measured
from bench.gateway.requests import Size
from bench.gateway.results import Results, ratio
from bench.gateway.tables import MISSING, Table, number

OURS, BASE, LIMIT, SLOWEST, DIRECT = "toolglot", "base", "nginx", "litellm", "direct"
SLOW_STREAMS = 1000

Figure = Callable[[Measured], float | None]


def cpu_of_request(found: Measured) -> float | None:
    return found.cpu_ms_per_request


def cpu_of_chunks(found: Measured) -> float | None:
    return found.cpu_seconds_per_100k_chunks


class Target(NamedTuple):
    title: str
    limit: float
    unit: str
    value: Callable[[Results], float | None]
    at_least: bool = False


class Verdict(NamedTuple):
    target: Target
    value: float | None

    @property
    def met(self) -> bool | None:
        """None: it was not measured."""
        if self.value is None:
            return None
        return self.value >= self.target.limit if self.target.at_least else self.value <= self.target.limit

    @property
    def missed_by(self) -> float | None:
        """How many times too much, or too little."""
        if self.met is not False or self.value is None:
            return None
        if self.target.at_least:
            return ratio(self.target.limit, self.value) or float("inf")
        return ratio(self.value, self.target.limit)


def _figure(results: Results, gateway: str, case: Case, figure: Figure) -> float | None:
    found = results.measured(gateway, case)
    return figure(found) if found else None


def _compared(over: str, under: str, case: Case, figure: Figure) -> Callable[[Results], float | None]:
    """How many times as much one takes as the other."""
    return lambda results: ratio(_figure(results, over, case, figure), _figure(results, under, case, figure))


def _cpu_targets() -> Iterator[Target]:
    wanted: tuple[tuple[str, Manner, Size, tuple[int, ...], Figure, float, float | None], ...] = (
        ("CPU of a plain request", "plain", "small", (8, 64), cpu_of_request, 3, 200),
        ("CPU of a plain request of 55 KB", "plain", "large", (8,), cpu_of_request, 10, 80),
        ("CPU of chunks sent at once", "burst", "small", (8, 64), cpu_of_chunks, 3.5, 300),
        ("CPU of chunks 10 ms apart", "paced", "small", (64, 256), cpu_of_chunks, 1.5, None),
    )
    for title, manner, size, counts, figure, over_limit, under_slowest in wanted:
        for count in counts:
            case = Case(ANTHROPIC_TO_CHAT, manner, size, count)
            named = f"{title}, {count} connections"
            yield Target(f"{named}: of nginx's", over_limit, "x", _compared(OURS, LIMIT, case, figure))
            if under_slowest is not None:
                value = _compared(SLOWEST, OURS, case, figure)
                yield Target(f"{named}: LiteLLM takes", under_slowest, "x", value, at_least=True)


def _worst_pair(manner: Manner, connections: int, figure: Figure) -> Callable[[Results], float | None]:
    """How many times as much this gateway takes on its slowest pair as the base does from Anthropic to Chat. None
    unless every pair was measured."""

    def value(results: Results) -> float | None:
        costs = [_figure(results, OURS, Case(route, manner, "small", connections), figure) for route in PAIRS]
        known = [cost for cost in costs if cost is not None]
        base = _figure(results, BASE, Case(ANTHROPIC_TO_CHAT, manner, "small", connections), figure)
        return ratio(max(known), base) if len(known) == len(PAIRS) else None

    return value


def _base_targets() -> Iterator[Target]:
    plain = Case(ANTHROPIC_TO_CHAT, "plain", "small", 64)
    yield Target(
        "CPU of a plain request, 64 connections: of the base's", 1, "x", _compared(OURS, BASE, plain, cpu_of_request)
    )
    wanted: tuple[tuple[str, Manner, int, Figure, float], ...] = (
        ("CPU of a plain request, 64 connections", "plain", 64, cpu_of_request, 1.3),
        ("CPU of chunks sent at once, 8 connections", "burst", 8, cpu_of_chunks, 1.5),
        ("CPU of chunks 10 ms apart, 64 connections", "paced", 64, cpu_of_chunks, 1.1),
        ("CPU of chunks 10 ms apart, 256 connections", "paced", 256, cpu_of_chunks, 1.1),
    )
    for title, manner, count, figure, limit in wanted:
        yield Target(f"{title}, slowest pair: of the base's", limit, "x", _worst_pair(manner, count, figure))


def _added_to_first_byte(results: Results) -> float | None:
    case = Case(ANTHROPIC_TO_CHAT, "brief", "small", 8)
    ours, direct = (_figure(results, name, case, lambda found: found.first_byte_p50) for name in (OURS, DIRECT))
    return ours - direct if ours is not None and direct is not None else None


def _idle_memory(results: Results) -> float | None:
    standing = results.standing(OURS)
    return standing.idle_memory / 1e6 if standing and standing.idle_memory else None


def memory_per_stream(results: Results, gateway: str, streams: int) -> float | None:
    """Kilobytes above what the gateway takes without streams, once it has answered some."""
    standing, held = results.standing(gateway), results.held(gateway, streams)
    if not standing or standing.warm_memory is None or not held or not held.open:
        return None
    return (held.memory - standing.warm_memory) / held.open / 1e3


def _start(results: Results) -> float | None:
    standing = results.standing(OURS)
    return standing.start_seconds if standing else None


def _on_time(results: Results) -> float | None:
    held = results.held(OURS, SLOW_STREAMS)
    return 100 * held.on_time if held else None


def _health(results: Results) -> float | None:
    held = results.held(OURS, SLOW_STREAMS)
    return held.health_ms if held else None


TARGETS: tuple[Target, ...] = (
    *_cpu_targets(),
    *_base_targets(),
    Target("time to the first byte of a stream, over direct", 1, " ms", _added_to_first_byte),
    Target("memory, idle", 45, " MB", _idle_memory),
    Target(
        "memory of a slow stream, of 1,000",
        15,
        " KB",
        lambda results: memory_per_stream(results, OURS, SLOW_STREAMS),
    ),
    Target("ready after start", 0.5, " s", _start),
    Target("1,000 slow streams: chunks on time", 99, " %", _on_time, at_least=True),
    Target("1,000 slow streams: health after all left", 50, " ms", _health),
)


def verdicts(results: Results) -> list[Verdict]:
    return [Verdict(target, target.value(results)) for target in TARGETS]


def targets_table(results: Results) -> Table:
    rows = [(verdict.target.title, *_cells(verdict)) for verdict in verdicts(results)]
    return Table("Targets", ("Anthropic -> Chat, one core", "target", "found", ""), rows)


def _cells(verdict: Verdict) -> tuple[str, str, str]:
    target = verdict.target
    limit = f"{'>=' if target.at_least else '<='} {target.limit:g}{target.unit}"
    if verdict.value is None:
        return limit, MISSING, "not measured"
    told = "met" if verdict.met else f"missed by {number(verdict.missed_by)}x"
    return limit, f"{number(verdict.value)}{target.unit}", told
