"""What a run has found out: the file results.json."""

from __future__ import annotations

import msgspec

from bench.gateway.cases import Case, Key, Manner
from bench.gateway.measured import Measured


class About(msgspec.Struct):
    """A gateway of the run."""

    name: str
    title: str
    version: str = ""
    size: int | None = None
    """Bytes that an installation takes, without interpreter."""
    settings: str = ""
    trouble: str | None = None
    """Why it was not measured, or not to the end."""
    faults: list[str] = []
    """What is wrong with its answers."""


class Row(msgspec.Struct, frozen=True):
    """A gateway in a case."""

    gateway: str
    route: str
    manner: Manner
    size: str
    connections: int
    runs: int
    measured: Measured
    request_bytes: int | None = None
    library_us: float | None = None
    """Microseconds of CPU that its library takes for the request alone."""

    @property
    def key(self) -> Key:
        return self.route, self.manner, self.size, self.connections


class Held(msgspec.Struct, frozen=True):
    """Many slow streams, open at the same time."""

    streams: int
    open: int
    """Of these, those that were answered."""
    pace: int
    """Milliseconds between chunks."""
    memory: int
    """Bytes, with the streams open."""
    on_time: float
    """The share of the chunks that should have come, which came before the next one was due."""
    health_ms: float | None
    """How long an answer took that says the gateway is well, right after all streams were left."""


class Standing(msgspec.Struct, frozen=True):
    """A gateway that was started anew, and left alone or given slow streams."""

    gateway: str
    start_seconds: float | None
    idle_memory: int | None
    """Bytes, right after the start."""
    warm_memory: int | None
    """Bytes, after it has answered for a while: streams are counted above this."""
    held: list[Held]


class Results(msgspec.Struct):
    date: str
    machine: dict[str, str]
    settings: dict[str, str]
    gateways: list[About]
    rows: list[Row]
    standings: list[Standing]

    def row(self, gateway: str, key: Key) -> Row | None:
        return next((row for row in self.rows if row.gateway == gateway and row.key == key), None)

    def measured(self, gateway: str, case: Case) -> Measured | None:
        row = self.row(gateway, case.key)
        return row.measured if row else None

    def standing(self, gateway: str) -> Standing | None:
        return next((each for each in self.standings if each.gateway == gateway), None)

    def held(self, gateway: str, streams: int) -> Held | None:
        standing = self.standing(gateway)
        return next((held for held in standing.held if held.streams == streams), None) if standing else None


def ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None
