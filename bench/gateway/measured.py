"""The figures of one measurement, and the middle of several."""

from __future__ import annotations

from statistics import median
from typing import Any

import msgspec

from bench.gateway.cases import Case
from bench.gateway.native import Figures


class Measured(msgspec.Struct, frozen=True):
    """Of a gateway in a case. None: there was nothing to measure it by."""

    requests_per_second: float
    chunks_per_second: float
    cpu_ms_per_request: float | None
    cpu_seconds_per_100k_chunks: float | None
    whole_p50: float | None
    """Milliseconds, here and below: from the request to the end of the answer,"""
    whole_p99: float | None
    first_byte_p50: float | None
    """to the first byte of its body,"""
    first_byte_p99: float | None
    first_text_p50: float | None
    """to the first chunk with text,"""
    first_text_p99: float | None
    transit_p50: float | None
    """from the upstream's sending of a chunk to its arrival at the client,"""
    transit_p99: float | None
    gap_p50: float | None
    """and between two chunks of a stream."""
    gap_p99: float | None
    requests: int
    errors: int
    bad: int
    first_error: str


_SUMMED = ("requests", "errors", "bad")


def measured(figures: Figures, cpu_seconds: float, case: Case) -> Measured:
    def seen(value: float) -> float | None:
        return value or None

    return Measured(
        requests_per_second=figures.requests / figures.seconds,
        chunks_per_second=figures.marks / figures.seconds if case.style.streamed else 0.0,
        cpu_ms_per_request=1e3 * cpu_seconds / figures.requests if figures.requests else None,
        cpu_seconds_per_100k_chunks=1e5 * cpu_seconds / figures.marks
        if figures.marks and case.style.streamed
        else None,
        whole_p50=seen(figures.whole_p50),
        whole_p99=seen(figures.whole_p99),
        first_byte_p50=seen(figures.first_byte_p50),
        first_byte_p99=seen(figures.first_byte_p99),
        first_text_p50=seen(figures.first_mark_p50),
        first_text_p99=seen(figures.first_mark_p99),
        transit_p50=seen(figures.transit_p50),
        transit_p99=seen(figures.transit_p99),
        gap_p50=seen(figures.gap_p50),
        gap_p99=seen(figures.gap_p99),
        requests=figures.requests,
        errors=figures.errors,
        bad=figures.bad,
        first_error=figures.first_error,
    )


def middle(runs: list[Measured]) -> Measured:
    """The median of each figure; counts are summed, and of the errors the first is kept."""
    every = [msgspec.structs.asdict(run) for run in runs]
    return Measured(**{name: _middle(name, [each[name] for each in every]) for name in every[0]})


def _middle(name: str, values: list[Any]) -> Any:
    if name == "first_error":
        return next((value for value in values if value), "")
    if name in _SUMMED:
        return sum(values)
    known = [value for value in values if value is not None]
    return median(known) if known else None
