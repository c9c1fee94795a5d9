"""Results of a run that never was, with round numbers."""

from __future__ import annotations

from bench.gateway.cases import FULL, Case
from bench.gateway.measured import Measured
from bench.gateway.results import About, Held, Results, Row, Standing

COSTS = {"direct": 0.0, "nginx": 1.0, "base": 1.6, "toolglot": 2.0, "litellm": 1000.0}
"""How many times nginx's figures a gateway's are."""


def measured(cost: float, **changed: object) -> Measured:
    figures: dict[str, object] = {
        "requests_per_second": 1000.0 / (cost + 1),
        "chunks_per_second": 100_000.0 / (cost + 1),
        "cpu_ms_per_request": 0.02 * cost,
        "cpu_seconds_per_100k_chunks": 0.1 * cost,
        "requests": 1000,
        "errors": 0,
        "bad": 0,
        "first_error": "",
    }
    for name in ("whole", "first_byte", "first_text", "transit", "gap"):
        figures |= {f"{name}_p50": 0.1 + 0.2 * cost, f"{name}_p99": 1.0 + cost}
    return Measured(**{**figures, **changed})  # type: ignore[arg-type]  # fields by name


def row(gateway: str, case: Case, found: Measured) -> Row:
    return Row(gateway, *case.key, 3, found)


def standing(gateway: str, cost: float) -> Standing:
    idle = int(10e6 * cost)
    held = Held(
        streams=1000, open=1000, pace=100, memory=idle + int(5e6 * cost), on_time=1 / max(cost, 1), health_ms=cost
    )
    return Standing(gateway, 0.1 * cost, idle - 1, idle, [held])


def results() -> Results:
    return Results(
        date="2026-11-15 12:00 UTC",
        machine={"processor": "a <fast> one", "cores": "2"},
        settings={"runs of each case": "3"},
        gateways=[
            *(About(name, name.upper(), "1.0", 5_000_000, "as it comes") for name in COSTS),
            About("bifrost", "Bifrost", trouble="not installed: no module"),
        ],
        rows=[row(name, case, measured(cost)) for case in FULL for name, cost in COSTS.items()],
        standings=[standing(name, cost) for name, cost in COSTS.items() if name != "direct"],
    )
